"""Who wants to know of changes, and what they have not been told yet.

The index says what each commit changed; a thread of its own works out whom that concerns, so that no
writer waits for it. What is told is only that something changed: a hundred changes of a note that
nobody has fetched yet are one. Whether a caller may know is decided when the change happens, by the
rules that hold then.
"""

import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from server.access.decision import Access, Sight
from server.errors import RateLimited, VaultError
from server.models import Caller, path_key
from server.telemetry import log

MOST_OF_ONE_WATCH = 1_000
MOST_OF_ONE_CALLER = 20_000
"""Things that one caller may watch at once, over all of its connections."""

Subject = tuple[Literal["note", "folder"], str]
"""What is watched: a file or a folder, by its key."""
Change = tuple[str, str, str | None]
"""What the index tells: created, modified, moved or deleted; the path, and the one before a move."""


def subject(kind: Literal["note", "folder"], path: str) -> Subject:
    """The subject for a path, however it is spelled."""
    return kind, path_key(path)


@dataclass(frozen=True, slots=True)
class News:
    """What a watcher has to be told: the names under which it watches, and whether lists changed."""

    names: Sequence[str]
    listed: bool


@dataclass(eq=False, slots=True)
class Watch:
    """One connection's wishes. `wake` is called from another thread when there is news."""

    caller: Callable[[], Caller]
    wake: Callable[[], None]
    owner: str
    lists: bool = False
    names: dict[Subject, dict[str, None]] = field(default_factory=dict)
    """The names (as the client wrote them) under which each subject is watched."""
    _fresh: dict[str, None] = field(default_factory=dict)
    _listed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> News:
        """What happened since the last time; each thing once."""
        with self._lock:
            news = News(tuple(self._fresh), self._listed)
            self._fresh, self._listed = {}, False
        return news

    def add(self, subjects: Sequence[Subject], listed: bool) -> None:
        """Remember that these changed, and wake whoever tells of it."""
        with self._lock:
            for one in subjects:
                self._fresh.update(self.names.get(one, {}))
            self._listed = self._listed or (listed and self.lists)
            is_news = bool(self._fresh) or self._listed
        if is_news:
            self.wake()

    def forget(self, name: str) -> None:
        with self._lock:
            self._fresh.pop(name, None)


class Watching:
    """All watches. `changed` may be called by any thread, and returns at once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._watches: set[Watch] = set()
        self._by_subject: dict[Subject, set[Watch]] = {}
        self._callers: Counter[str] = Counter()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def open(self, caller: Callable[[], Caller], wake: Callable[[], None], *, lists: bool) -> Watch:
        """Begin to watch, at first nothing; with `lists` also which notes there are.

        `caller` is asked anew at every change: who it is may be over by then.
        """
        watch = Watch(caller, wake, caller().name, lists)
        with self._lock:
            self._watches.add(watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="watching", daemon=True)
                self._thread.start()
        return watch

    def close(self, watch: Watch) -> None:
        """End a watch; it is told nothing more."""
        with self._lock:
            self._watches.discard(watch)
            for one in list(watch.names):
                self._leave(watch, one)

    def add(self, watch: Watch, what: Subject, name: str) -> None:
        """Watch one thing more. Raises `RateLimited` beyond what one caller may watch.

        What isn't there, or may not be read, can be watched like anything else: nothing tells them
        apart, and only what may be read when it changes is ever told of.
        """
        with self._lock:
            if watch not in self._watches or name in watch.names.get(what, {}):
                return
            mine = sum(map(len, watch.names.values()))
            if mine >= MOST_OF_ONE_WATCH or self._callers[watch.owner] >= MOST_OF_ONE_CALLER:
                raise RateLimited("You watch too many resources.", "Unsubscribe from some first.")
            watch.names.setdefault(what, {})[name] = None
            self._by_subject.setdefault(what, set()).add(watch)
            self._callers[watch.owner] += 1

    def remove(self, watch: Watch, what: Subject, name: str) -> None:
        """Watch it no longer under this name."""
        with self._lock:
            names = watch.names.get(what, {})
            if name in names:
                del names[name]
                self._release(watch.owner, 1)
            if not names:
                self._leave(watch, what)
        watch.forget(name)

    def changed(self, changes: Sequence[Change] | None) -> None:
        """Something happened; None is anything. Costs nothing while nobody watches."""
        if self._watches:
            self._jobs.put(self._tell_all if changes is None else partial(self._tell, changes))

    def end(self) -> None:
        """Stop telling."""
        self._jobs.put(None)

    @property
    def count(self) -> int:
        """How many watch."""
        return len(self._watches)

    def is_asked(self) -> bool:
        """Whether anybody waits for a certain note or folder to change."""
        return bool(self._by_subject)

    def _leave(self, watch: Watch, what: Subject) -> None:
        self._release(watch.owner, len(watch.names.pop(what, {})))
        watchers = self._by_subject.get(what)
        if watchers is not None:
            watchers.discard(watch)
            if not watchers:
                del self._by_subject[what]

    def _release(self, owner: str, number: int) -> None:
        self._callers[owner] -= number
        if self._callers[owner] <= 0:
            del self._callers[owner]

    def _run(self) -> None:
        while (tell := self._jobs.get()) is not None:
            tell()

    def _tell_all(self) -> None:
        with self._lock:
            watched = {watch: list(watch.names) for watch in self._watches}

        def news_of(watch: Watch, sight: Sight) -> tuple[Sequence[Subject], bool]:
            return [one for one in watched[watch] if _may_know(sight, one)], True

        self._deliver(watched, news_of)

    def _tell(self, changes: Sequence[Change]) -> None:
        concerned: dict[Watch, list[tuple[str, Subject]]] = {}
        moved = [path for kind, *paths in changes if kind != "modified" for path in paths if path]
        with self._lock:
            for change in changes:
                for path, what in _subjects(change):
                    for watch in self._by_subject.get(what, ()):
                        concerned.setdefault(watch, []).append((path, what))
            listing = {watch for watch in self._watches if watch.lists and moved}
        # Callers that see the same share one sight: it is asked once for all of them.
        listed: dict[Sight, bool] = {}

        def news_of(watch: Watch, sight: Sight) -> tuple[Sequence[Subject], bool]:
            if watch in listing and sight not in listed:
                listed[sight] = any(map(sight, moved))
            seen = [what for path, what in concerned.get(watch, ()) if sight(path)]
            return seen, watch in listing and listed[sight]

        self._deliver(listing | set(concerned), news_of)

    def _deliver(
        self,
        watches: Iterable[Watch],
        news_of: Callable[[Watch, Sight], tuple[Sequence[Subject], bool]],
    ) -> None:
        for watch in watches:
            try:
                watch.add(*news_of(watch, self._access.sees(watch.caller())))
            except VaultError:
                continue  # its token has ended
            except Exception as error:  # noqa: BLE001 - the others must still be told
                log(logging.ERROR, "a change could not be told", why=repr(error))


def _may_know(sight: Sight, what: Subject) -> bool:
    kind, key = what
    return sight.reaches(key) if kind == "folder" else sight(key)


def _subjects(change: Change) -> Iterator[tuple[str, Subject]]:
    """What a change concerns, each with the path that one must be allowed to read to know of it."""
    kind, *paths = change
    for path in paths:
        if path is None:
            continue
        key = path_key(path)
        yield path, ("note", key)
        # What a folder's listing shows is names: it is another when something comes or goes.
        while key and kind != "modified":
            key = key.rpartition("/")[0]
            yield path, ("folder", key)
