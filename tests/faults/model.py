"""What may be in the vault, by what was asked, what was answered and what others did.

Every line that anybody writes is unique, so that a content tells who had a hand in it. For each path the
model knows the contents that it may have now: one, while all is answered; several, while the outcome of
a write is open; any that was ever there, where somebody else changed it unseen.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

from server.models import etag_of

Text = bytes | None
"""The content of a file, or that there is none."""
Effect = Callable[[Text], Text]
"""What a write makes of a content; raises `Impossible` where it would be refused."""
Truth = Mapping[str, bytes]
"""Every file where it finally lives, hidden ones too."""
Excuse = Callable[[Truth], bool]


class Impossible(Exception):
    """A write that can't be made from this content."""


class Violation(Exception):
    """The server broke a promise."""


@dataclass(slots=True)
class Place:
    """One path. `open` are writes that may have been made, or may still be."""

    may: set[Text]
    open: list[Effect] = field(default_factory=list)
    ever: set[Text] = field(default_factory=set)
    unseen: bool = False
    """Somebody else changed it where the server may not see it yet."""

    def contents(self) -> set[Text]:
        """What may be there now: open writes were made or not, in any order."""
        found = set(self.ever if self.unseen else self.may)
        for count in range(1, len(self.open) + 1):
            for some in permutations(self.open, count):
                found |= {made for text in self.may for made in _applied(text, some)}
        return found


def _applied(text: Text, effects: Iterable[Effect]) -> Iterator[Text]:
    for effect in effects:
        try:
            text = effect(text)
        except Impossible:
            return
    yield text


def _explained(text: Text, order: Iterable[tuple[Effect, str | None]]) -> list[Text]:
    """What a note held one after the other; nothing when an answer says otherwise."""
    steps = [text]
    for effect, etag in order:
        try:
            steps.append(effect(steps[-1]))
        except Impossible:
            return []
        if etag is not None and etag_of(steps[-1] or b"") != etag:
            return []
    return steps


def lines_of(text: Text) -> set[bytes]:
    """The lines that tell who wrote them."""
    return {line for line in (text or b"").split(b"\n") if line.strip()}


class Model:
    """The vault as it must be. Raises `Violation` when it hears of what can't be."""

    def __init__(self, start: Truth) -> None:
        self.places: dict[str, Place] = {}
        self.legit: set[bytes] = set()
        self.claims: dict[bytes, list[Excuse]] = {}
        """Lines that must not be lost, each with what would excuse its absence."""
        self._thrown: set[bytes] = set()
        """Lines that others saw and threw away: whoever wrote them did write them."""
        self._moves: list[tuple[str, str | None]] = []
        """Moves that may still be made, with whatever is at the old place by then; None: to the trash."""
        self._taken: dict[str, set[Text]] = {}
        """What paths held before others deleted or renamed it, and the server wrote nothing there since."""
        for path, text in start.items():
            self.appeared(path, text)

    def place(self, path: str) -> Place:
        return self.places.setdefault(path, Place({None}, ever={None}))

    def known(self, path: str) -> Text:
        """The content of a path while there is no doubt about it. Raises `KeyError`."""
        place = self.place(path)
        if place.open or place.unseen or len(place.may) != 1:
            raise KeyError(path)
        return next(iter(place.may))

    def is_certain(self, path: str) -> bool:
        place = self.place(path)
        return not place.open and not place.unseen and len(place.may) == 1

    @property
    def notes(self) -> list[str]:
        """The paths where there may be a note."""
        return sorted(path for path, place in self.places.items() if place.may != {None})

    # -- what agents do ----------------------------------------------------------------------------

    def made(self, path: str, effect: Effect, etag: str | None) -> Text:
        """A write was answered. `etag` is that of the content, None where the answer names none."""
        place = self.place(path)
        after: dict[Text, set[Text]] = {}
        for before in place.contents():
            for result in _applied(before, [effect]):
                if etag is None or (result is not None and etag_of(result) == etag):
                    after.setdefault(result, set()).add(before)
        if not after:
            raise Violation(f"{path}: the answer tells of a content that nobody can have written")
        for result, befores in after.items():
            self._add(path, result)
            gone = [lines_of(before) - lines_of(result) for before in befores]
            for line in set.union(*gone):
                self.claims.pop(line, None)
        # The answer tells which of the open writes were made; what they took away is gone.
        doubtful = set().union(*map(lines_of, place.contents()))
        for line in doubtful - set().union(*map(lines_of, after)):
            if self.claims.get(line):
                del self.claims[line]
        for line in set.intersection(*(lines_of(result) for result in after)):
            self.claims.setdefault(line, [])
        place.may = set(after)
        self._taken.pop(path, None)
        self._follow(path)
        return next(iter(after)) if len(after) == 1 else None

    def made_at_once(self, path: str, told: Sequence[tuple[Effect, str | None]]) -> None:
        """Writes of one note were sent at once; an etag tells that one was answered.

        They were made in an order that explains every answer; the others may have been made among
        them.
        """
        place = self.place(path)
        before = place.contents()
        answered = sum(etag is not None for _, etag in told)
        results: set[Text] = set()
        for count in range(answered, len(told) + 1):
            for order in permutations(told, count):
                if sum(etag is not None for _, etag in order) == answered:
                    for text in before:
                        if steps := _explained(text, order):
                            # What the note held in between may still be on its way.
                            for step in steps:
                                self._add(path, step)
                            results.add(steps[-1])
        if not results:
            raise Violation(f"{path}: no order of these writes explains their answers")
        for line in set.intersection(*(lines_of(result) for result in results)):
            self.claims.setdefault(line, [])
        place.may = results
        for effect, etag in told:
            if etag is None:
                self.begun(path, effect)
        self._follow(path)

    def made_apart(self, path: str, told: Sequence[tuple[Effect, str | None]]) -> None:
        """Like `made_at_once`, but what was answered may have come to lie beside the note."""
        place = self.place(path)
        known = set().union(*(lines_of(text) for text in place.contents()))
        for effect, _ in told:
            self.begun(path, effect)
        for effect, etag in told:
            for text in list(place.ever) if etag is not None else ():
                for result in _applied(text, [effect]):
                    if result is not None and etag_of(result) == etag:
                        self._add(path, result)
                        for line in lines_of(result) - known:
                            self.claims.setdefault(line, [])
        place.unseen = True
        self._follow(path)

    def begun(self, path: str, effect: Effect) -> None:
        """A write was sent, and nobody knows what became of it."""
        place = self.place(path)
        for before in place.contents():
            for result in _applied(before, [effect]):
                self._add(path, result)
                fresh = lines_of(result) - lines_of(before)
                for line in lines_of(before) - lines_of(result):
                    self._excuse(line, path, fresh)
        place.open.append(effect)
        self._follow(path)

    def _excuse(self, line: bytes, path: str, fresh: set[bytes]) -> None:
        """What an open write would take away may be gone, if that write was made."""
        if line in self.claims:
            self.claims[line].append(
                lambda truth: (
                    not fresh.isdisjoint(all_lines(truth) | self._thrown)
                    if fresh
                    else path not in truth
                )
            )

    def moved(self, old: str, new: str) -> None:
        """A move was answered."""
        source, target = self.place(old), self.place(new)
        # Whatever may still happen to it at its old place may now happen at the new one.
        target.may, target.open, target.unseen = set(source.may), list(source.open), source.unseen
        target.may -= {None} if len(target.may) > 1 else set()
        target.ever |= source.ever
        source.may, source.open = {None}, []
        source.ever.add(None)
        self._follow(new)

    def move_begun(self, old: str, new: str | None) -> None:
        """A move, or without `new` one to the trash, was sent, and nobody knows what became of it."""
        self._moves.append((old, new))
        self._follow(old)

    def _follow(self, path: str) -> None:
        """What is at a path now may be where open moves lead from there."""
        source = self.place(path)
        for old, new in self._moves:
            if old != path:
                continue
            target = self.place(new) if new else None
            # Never onto something that is there.
            if new and target and (target.unseen or None in target.may):
                target.may = target.may | source.contents()
                target.ever |= source.ever
                self._follow(new)
            source.may = source.may | {None}
            source.ever.add(None)

    # -- what others do ----------------------------------------------------------------------------

    def appeared(self, path: str, text: bytes) -> None:
        """A note is there from the start, or was found with a content that is somebody's."""
        self.place(path).may = {text}
        self._add(path, text)
        for line in lines_of(text):
            self.claims.setdefault(line, [])

    def changed_elsewhere(
        self, path: str, text: Text, there: Text, *, seen: bool, moved_to: str | None = None
    ) -> None:
        """Somebody replaced `there`, which is what the path held where it finally lives.

        `seen`: the server can't overlook it. What it had answered for and was not there yet must
        still come true somewhere.
        """
        place = self.place(path)
        at_rest = place.may == {there} and not place.open and not place.unseen
        if moved_to is None:
            # They threw away what they saw, and nothing else.
            for line in lines_of(there) - lines_of(text):
                self.claims.pop(line, None)
                self._thrown.add(line)
        else:
            target = self.place(moved_to)
            self._add(moved_to, there)
            target.may = {there} if seen and at_rest else target.may | {there}
            target.unseen = not (seen and at_rest)
            if target.unseen:
                # What was on its way to the note finds it by its id, wherever it is now.
                target.ever |= place.ever
        if text is None:
            self._taken.setdefault(path, set()).update(place.ever)
        self._add(path, text)
        place.may = {text}
        place.unseen = not (seen and at_rest)
        if seen and at_rest:
            for line in lines_of(text):
                self.claims.setdefault(line, [])
        self._follow(path)

    def may_come_back(self) -> None:
        """The server makes its last writes once more, unable to know what others did to them."""
        for path, texts in self._taken.items():
            place = self.place(path)
            place.ever |= texts
            place.unseen = True

    def disclaim(self, text: bytes) -> None:
        """Nobody is to be blamed for the loss of this until it was seen at rest."""
        for line in lines_of(text):
            self.claims.pop(line, None)

    def _add(self, path: str, text: Text) -> None:
        self.place(path).ever.add(text)
        if text is not None:
            self.legit.add(text)

    # -- what must hold ----------------------------------------------------------------------------

    def torn(self, truth: Truth) -> list[str]:
        """Files whose content nobody wrote. Holds at any moment, whatever is broken."""
        return [
            f"{path}: nobody wrote what it holds ({text[:60]!r}, {len(text)} bytes)"
            for path, text in truth.items()
            if is_visible(path) and text not in self.legit
        ]

    def problems(self, truth: Truth) -> list[str]:
        """What is wrong with a vault that has come to rest."""
        found = self.torn(truth)
        for path, place in self.places.items():
            text = truth.get(path)
            may = place.ever | place.contents() if place.unseen else place.contents()
            if text not in may:
                held = "is not there" if text is None else f"holds {text[-60:]!r}"
                wanted = [None if one is None else one[-60:] for one in list(may)[:3]]
                found.append(f"{path}: {held}, not one of {wanted}")
        for path in truth:
            if is_visible(path) and path not in self.places and ".conflict-" not in path:
                found.append(f"{path}: nobody made it")
        written = all_lines(truth)
        for line, excuses in self.claims.items():
            if line not in written and not any(excuse(truth) for excuse in excuses):
                found.append(f"lost: {line[:60]!r}")
        return found

    def rest(self, truth: Truth) -> None:
        """All is as it must be: from now on what is there is what is known."""
        for path in {*self.places, *filter(is_visible, truth)}:
            text = truth.get(path)
            self.places[path] = Place({text}, ever={text})
            for line in lines_of(text):
                self.claims.setdefault(line, [])
        self._moves.clear()
        written = all_lines(truth)
        self.claims = {line: [] for line in self.claims if line in written}


def all_lines(truth: Truth) -> set[bytes]:
    """Every line of every file."""
    return set().union(*(lines_of(text) for text in truth.values()))


def is_visible(path: str) -> bool:
    """Whether agents can see a file: no part of its path begins with a dot."""
    return not any(part.startswith(".") for part in path.split("/"))
