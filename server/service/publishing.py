"""Publishing a decision: from the vault into a repository of code, as a pull request."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from server.access.decision import Access
from server.errors import InvalidRequest, NotFound, PermissionDenied, Unavailable
from server.forge.github import FOLDER, GitHub, Proposal
from server.markdown.decisions import label, number_of, with_related
from server.markdown.note import parse
from server.markdown.publication import published
from server.markdown.slugs import slugify
from server.models import Caller, Content, NotePath
from server.service.decisions import Decisions
from server.service.editing import Editing
from server.service.loading import Loader
from server.service.records import Record
from server.service.texts import decoded, diff_of
from server.workers import Deadline, Workers

_SECONDS = 300.0
_MOST_RECORDS = 10_000
_SHOWN = 20_000


@dataclass(frozen=True, slots=True)
class Published:
    """A record in a repository, or what it would be there."""

    path: str
    repository: str
    file: str
    branch: str
    changed: bool
    diff: str
    content: str | None = None
    url: str | None = None
    dry_run: bool | None = None


class Publishing:
    """The use case behind `adr_publish`. The caller comes first."""

    def __init__(
        self,
        decisions: Decisions,
        editing: Editing,
        loader: Loader,
        access: Access,
        forge: Workers,
        github: GitHub,
        repositories: Sequence[str],
    ) -> None:
        self._decisions = decisions
        self._editing = editing
        self._loader = loader
        self._access = access
        self._forge = forge
        self._github = github
        self._repositories = repositories

    async def publish(
        self,
        caller: Caller,
        number: int,
        repository: str | None,
        project: str | None,
        *,
        dry_run: bool,
    ) -> Published:
        """Propose an accepted record as a file; its pull request becomes related to it."""
        target = self._chosen(repository)
        record = await self._decisions.find(caller, number, project)
        path = NotePath(record.path)
        dry_run = self._judge(caller, path) or dry_run
        text = await self._text(caller, path)
        note = parse(text, path.rpartition("/")[2])
        said = {key.lower(): value for key, value in note.frontmatter.properties.items()}
        if str(said.get("status")).strip().lower() != "accepted":
            raise InvalidRequest(
                f"{label(number)} is not accepted.", "adr_set_status accepts it; then publish it."
            )
        others = await self._decisions.overview(caller, None, None, _MOST_RECORDS, 0)
        deadline = Deadline.after(_SECONDS)

        def run() -> Published:
            with self._github.checkout(target, deadline) as copy:
                places = _places(others.records, record, copy.names())
                name = places[record.path]
                what = Proposal(
                    f"{FOLDER}/{name}",
                    published(text, note, lambda link: _address(link, others.records, places)),
                    f"adr/{name.removesuffix('.md')}",
                    f"{label(number)}: {record.title}",
                    f"Decision record {label(number)}, published from its vault.",
                )
                before = copy.read(what.path)
                old, new = (None if one is None else one.encode() for one in (before, what.text))
                diff = diff_of([(what.path, old, new)]) if old != new else ""
                url = None if dry_run else copy.propose(what)
                return Published(
                    path, target, what.path, what.branch, old != new, diff,
                    what.text[:_SHOWN] if dry_run else None, url, dry_run or None,
                )  # fmt: skip

        done = await self._forge.run_async(deadline, run)
        if done.url is not None:
            await self._relate(caller, path, done.url)
        return done

    def _chosen(self, repository: str | None) -> str:
        known = {name.lower(): name for name in self._repositories}
        if not known:
            raise PermissionDenied(
                "Nothing may be published from here.",
                "The owner of the server names repositories in PUBLISH_REPOS, like owner/name.",
            )
        if repository is None and len(known) > 1:
            raise InvalidRequest("Which repository?", f"One of {', '.join(known.values())}.")
        wanted = repository.lower() if repository is not None else next(iter(known))
        if wanted not in known:
            raise PermissionDenied(
                "Nothing may be published to that repository.",
                f"PUBLISH_REPOS allows {', '.join(known.values())}.",
            )
        return known[wanted]

    def _judge(self, caller: Caller, path: NotePath) -> bool:
        """Whether it may only be shown: who may not write the record must not publish it."""
        for action in ("read", "write"):
            self._access.require(caller, action, path)
        mode = self._access.write_mode(caller, [path])
        if mode in ("off", "confirm"):
            raise PermissionDenied(
                "Nothing is published from there without a person.",
                "WRITE_MODE or the policy decides; ask the owner of the vault to publish it.",
            )
        return mode == "dry-run"

    async def _text(self, caller: Caller, path: NotePath) -> str:
        loaded = await self._loader.load(path, self._access.permit(caller, path, "read", "write"))
        if loaded is None:
            raise NotFound(f"{path!r} is not there any more.", "Ask adr_list what is.")
        if loaded.stale:
            raise Unavailable("The vault can't be reached.", "Publish when it is back.")
        return loaded.text()

    async def _relate(self, caller: Caller, path: NotePath, url: str) -> None:
        def change(current: Content | None) -> bytes:
            if current is None:
                raise NotFound(f"{path!r} is not there any more.", f"It is published: {url}")
            return with_related(decoded(current.data), url).encode("utf-8", "surrogateescape")

        await self._editing.edit(caller, "adr_publish", path, change, kind="patch")


def _places(records: Sequence[Record], record: Record, names: Sequence[str]) -> dict[str, str]:
    """What files are called in the repository: as they are there, or as they would be."""
    there = {int(found[0]): name for name in names if (found := re.match("[0-9]+", name))}
    return {
        one.path: there.get(one.number, f"{one.number:04d}-{_slug(one)}.md")
        for one in {other.path: other for other in (*records, record)}.values()
    }


def _slug(record: Record) -> str:
    stem = record.path.rpartition("/")[2].removesuffix(".md")
    named = re.sub(r"^(?:adr[-_ ]?)?[0-9]+[-_ ]*", "", stem, flags=re.IGNORECASE)
    return slugify(named or record.title)


def _address(target: str, records: Sequence[Record], places: dict[str, str]) -> str | None:
    """The file of the record that a link in the vault leads to."""
    name = target.rpartition("/")[2].removesuffix(".md").casefold()
    number = number_of(name)
    stems = {one.path.rpartition("/")[2].removesuffix(".md").casefold(): one for one in records}
    found = stems.get(name) or next(
        (one for one in records if number is not None and name == label(number).casefold()
         and one.number == number), None,
    )  # fmt: skip
    return places[found.path] if found else None
