"""What somebody who comes back should know: changes, open problems, decisions that wait."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from server.access.decision import Access, Sight
from server.errors import InvalidRequest
from server.index.changes import Changed
from server.index.rows import Row
from server.index.store import Index
from server.markdown.devlogs import Entry, read_entries
from server.models import Caller
from server.query.tree import Node, PropertyTest, TagIs, both
from server.service.freshness import iso_ns
from server.service.visits import Visits
from server.service.vocabulary import moment
from server.workers import Deadline, Workers

MOST_CHANGES, MOST_PROBLEMS, MOST_PROPOSED = 40, 30, 10
_TIMEOUT = 10.0
_FIRST_VISIT = "1w"
_DEVLOGS, _DEVLOG_BYTES = 500, 8 << 20
_CHOSEN = 5_000
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """An entry of a devlog that nobody has written a resolution to."""

    path: str
    date: str
    text: str


@dataclass(frozen=True, slots=True)
class Catchup:
    """All of it, each list cut; the totals say how much there is."""

    since: str
    is_first: bool
    changes: Sequence[tuple[Changed, str | None]]
    total_changes: int
    problems: Sequence[Problem]
    total_problems: int
    proposed: Sequence[Row]
    total_proposed: int


class CatchingUp:
    """The use case behind `catchup` and `weekly-review`. The caller comes first."""

    def __init__(
        self,
        index: Index,
        access: Access,
        visits: Visits,
        local: Workers,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._index = index
        self._access = access
        self._visits = visits
        self._local = local
        self._now = now

    async def since(
        self,
        caller: Caller,
        since: str | None,
        *,
        project: str | None = None,
        tag: str | None = None,
        visit: bool = False,
    ) -> Catchup:
        """What happened since a moment, or since the caller's last visit; `visit` records this one.

        `project` and `tag` leave out the notes of others. Raises `InvalidRequest` for no moment.
        """
        now, sees = self._now(), self._access.sees(caller)
        given = None if since is None else moment(since, now)
        only = _only(project, tag)

        def run() -> Catchup:
            last = self._visits.last(caller.name)
            begin = given if given is not None else last or moment(_FIRST_VISIT, now)
            told = self._told(begin, only, sees, is_first=given is None and last is None)
            if visit:
                self._visits.record(caller.name, now)
            return told

        return await self._local.run_async(Deadline.after(_TIMEOUT), run)

    def _told(self, begin: int, only: list[Node], sees: Sight, *, is_first: bool) -> Catchup:
        changes, _ = self._index.changes(begin, sees)
        if only:
            chosen = self._chosen(only, sees)
            changes = [one for one in changes if one.path in chosen]
        titles = self._index.titles(one.path for one in changes[:MOST_CHANGES])
        problems = self._problems(only, sees)
        proposal = both([TagIs("adr"), PropertyTest("status", "eq", "proposed"), *only])
        found = self._index.find(proposal, sight=sees, sort="modified_desc", limit=MOST_PROPOSED)
        return Catchup(
            iso_ns(begin),
            is_first,
            [(one, titles.get(one.path)) for one in changes[:MOST_CHANGES]],
            len(changes),
            problems[:MOST_PROBLEMS],
            len(problems),
            [hit.row for hit in found.hits],
            found.total,
        )

    def _chosen(self, only: list[Node], sees: Sight) -> Collection[str]:
        found = self._index.find(both(only), sight=sees, sort="modified_desc", limit=_CHOSEN)
        return {hit.row.path for hit in found.hits}

    def _problems(self, only: list[Node], sees: Sight) -> list[Problem]:
        """The latest first. Long ones are cut: a devlog may hold anything."""
        devlogs = both([TagIs("devlog"), *only])
        found = self._index.find(devlogs, sight=sees, sort="modified_desc", limit=_DEVLOGS)
        problems: list[Problem] = []
        room = _DEVLOG_BYTES
        for hit in found.hits:
            data = self._index.text(hit.row) or b""
            room -= len(data)
            if room < 0:
                break
            entries = read_entries(data.decode("utf-8", "replace"))
            problems += [_problem(hit.row, entry) for entry in entries if _is_open(entry)]
        return sorted(problems, key=lambda problem: problem.date, reverse=True)


def _only(project: str | None, tag: str | None) -> list[Node]:
    nodes: list[Node] = []
    if project:
        nodes.append(PropertyTest("project", "eq", project.strip()))
    if tag:
        name = tag.strip().lstrip("#").strip("/")
        if not name:
            raise InvalidRequest("The tag is empty.", "Give a tag like 'project/alpha'.")
        nodes.append(TagIs(name))
    return nodes


def _is_open(entry: Entry) -> bool:
    return entry.type == "problem" and entry.resolution is None


def _problem(row: Row, entry: Entry) -> Problem:
    return Problem(row.path, entry.date, entry.text[:_LONGEST])
