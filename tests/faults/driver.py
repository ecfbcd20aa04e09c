"""One seed: steps by chance, a model beside them, and a look at the truth after every one."""

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.drive.lab import FakeDrive
from tests.faults.beds import Bed, DriveBed, LocalMountBed, MountBed, PlainBed
from tests.faults.calls import KEPT, Answer, Author, Call
from tests.faults.disk import Disk
from tests.faults.looking import index_problems
from tests.faults.model import Model, Truth, Violation, is_visible
from tests.faults.servers import Forked, Nursery

BEDS = ("plain", "rclone", "rclone+rc", "drive", "drive+rc")
WITHOUT_EFFECT = frozenset(
    {
        "not_found", "conflict", "invalid_request", "invalid_path", "path_not_allowed", "too_large",
        "ambiguous", "permission_denied", "rate_limited",
    }
)  # fmt: skip
"""Codes that say for certain that nothing was written."""
_JUMPS = (-86_400.0, -130.0, -3.0, 3.0, 130.0, 86_400.0)
_MOST_OPEN = 2
"""Writes of one note that may be open at once: what it may hold grows with every order of them."""
_MOST_EVER = 40
"""Contents that a note may have had, any of which may be what the next write was made from."""
_CALM_EVERY = 25
_PATIENCE = 60.0
_LAG = 40.0
"""Seconds that the server gives a remote to list what was just written; nobody waits for them here."""


class Run:
    """A vault on a bed, a server, and what happens to both."""

    def __init__(
        self,
        seed: int,
        bed: str,
        work: Path,
        nursery: Nursery,
        drive: Callable[[], FakeDrive],
        keep: Path | None = None,
    ) -> None:
        self.seed, self.bed_name, self.work = seed, bed, work
        self._keep = keep
        self.nursery = nursery
        self._drive = drive
        self.chance = random.Random(seed)
        self._eye = random.Random(seed)
        """Apart from the steps: how often one has to look is not the seed's."""
        self.steps: list[str] = []
        self.faults: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._stack = ExitStack()
        self._ahead = 0.0
        self._ours: set[str] = set()
        """Paths whose last change was the server's: it knows them, whatever it can't see."""
        self._broken = False

    def go(self, steps: int) -> None:
        """Make the steps. Raises `Violation`."""
        with self._stack:
            self._open()
            self._stack.push(self._preserve)
            for number in range(1, steps + 1):
                self._step()
                self._look()
                if number % _CALM_EVERY == 0:
                    self._calm()
            self._calm()

    def _preserve(self, failed: type[BaseException] | None, *_: object) -> None:
        """Keep logs and state of a seed that failed, for people to look at."""
        if failed is None or self._keep is None:
            return
        kept = self._keep / f"seed{self.seed}"
        kept.mkdir(parents=True, exist_ok=True)
        # Not through the mount, which may be what is broken.
        for log in (*self.work.glob("*.log"), *self.work.glob("rclone/*.log")):
            shutil.copy(log, kept)
        shutil.copytree(self.disk.folder / "state", kept / "state", dirs_exist_ok=True)

    # -- the scene -----------------------------------------------------------------------------

    def _open(self) -> None:
        self.nursery.set_clock(0)
        self.bed = self._make_bed()
        self._stack.callback(self.bed.close)
        self.disk = Disk(self.work / "disk", lambda: self.server.pid)
        self._stack.callback(self.disk.close)
        # A vault that loses its last note is taken for one that was emptied by mistake.
        for number in (*range(3), KEPT):
            self.bed.put(f"note{number}.md", f"k{number}s. here from the start".encode())
        self.bed.look_again()
        choices = self._settings()
        self.steps.append(f"{self.bed_name} {choices}")
        self._is_seen = "WRITE_ACK" not in choices and "WRITE_WHEN_DOWN" not in choices
        self.server = Forked(
            self.nursery, self.bed.vault, self.disk.folder / "state", MOUNT_TIMEOUT="2",
            LOG_LEVEL="info", **self.bed.environ, **choices,
        )  # fmt: skip
        self.server.log = self.work / "server.log"
        self._stack.callback(self.server.stop)
        self.server.start(ready=True)
        self.model = Model({p: t for p, t in self.bed.truth().items() if is_visible(p)})
        self.author = Author(self.chance, self.model)

    def _make_bed(self) -> Bed:
        rc = self.bed_name.endswith("+rc")
        if self.bed_name == "plain":
            return PlainBed(self.work)
        if self.bed_name.startswith("rclone"):
            return LocalMountBed(self.work, rc=rc)
        return DriveBed(self.work, self._drive(), rc=rc)

    def _settings(self) -> dict[str, str]:
        chosen = {}
        if self.chance.random() < 0.4:
            chosen["WRITE_WHEN_DOWN"] = "queue"
        if self.bed_name != "plain" and self.chance.random() < 0.4:
            chosen["WRITE_ACK"] = self.chance.choice(("mount", "journal"))
        return chosen

    # -- steps ---------------------------------------------------------------------------------

    def _step(self) -> None:
        what = self.chance.random()
        if not self.server.runs and what < 0.5:
            self._start_server()
        elif self._broken and what < 0.25:
            self._heal()
        elif what < 0.66:
            self._call(self.author.call())
        elif what < 0.72:
            self._burst()
        elif what < 0.84:
            self._elsewhere()
        elif what < 0.90:
            self._kill_amid()
        else:
            self._fault()

    def _told(self, what: str) -> None:
        self.steps.append(f"{time.strftime('%H:%M:%S')} {what}")

    def _start_server(self) -> None:
        self._told("server started")
        try:
            self.server.start()
        except RuntimeError:
            # A full disk may keep it from starting; it must start when there is room.
            self.disk.free()
            self.server.start()

    def _call(self, call: Call) -> None:
        self._clear_up(*call.paths)
        answer = self._ask(call)
        self._told(f"{call} -> {_shown(answer)}")
        self._heard(call, answer)

    def _ask(self, call: Call) -> Answer | None:
        """The answer; None when there is none, `{"unsent": …}` when nobody can have heard the call."""
        self.calls[call.tool] += 1
        try:
            return self.server.call(call.tool, timeout=40, **call.arguments)
        except (OSError, HTTPException) as error:
            return {"unsent": True} if "refused" in str(error).lower() else None

    def _heard(self, call: Call, answer: Answer | None) -> None:
        if answer is None or answer.get("code") in ("unavailable", "timeout", "internal_error"):
            call.begun()
            self._ours -= set(call.paths)
        elif _is_without_effect(answer):
            return
        elif "code" in answer:
            raise Violation(f"an answer that no agent knows: {answer}")
        else:
            call.made(answer)
            self._ours |= set(call.paths)
            self._check_answer(call, answer)

    def _check_answer(self, call: Call, answer: Answer) -> None:
        """What was read is somebody's, and what was said to be on the remote is there."""
        if call.tool == "note_read":
            self._check_read(call.arguments["path"], answer)
        if answer.get("ack") in ("drive", "disk"):
            (path,) = call.paths
            if self.bed.truth().get(path) not in self.model.place(path).contents():
                raise Violation(f"{path}: answered, and not there")

    def _check_read(self, path: str, answer: Answer) -> None:
        text = answer["content"].encode() if answer["exists"] else None
        whole = "next_offset" not in answer
        if text is not None and not any(
            one == text if whole else one.startswith(text) for one in self.model.legit
        ):
            raise Violation(f"{path}: nobody wrote what was read: {text[:80]!r}")
        certain = path in self._ours and self.model.is_certain(path) and whole
        if certain and "stale" not in answer and text != self.model.known(path):
            raise Violation(f"{path}: read {_cut(text)}, but it is {_cut(self.model.known(path))}")

    def _burst(self) -> None:
        """Some agents at once."""
        path = self.author.note()
        calls = [self.author.upsert(path if self.chance.random() < 0.6 else None) for _ in range(3)]
        self._clear_up(*(call.paths[0] for call in calls), most=0)
        with ThreadPoolExecutor(3) as agents:
            answers = list(agents.map(self._ask, calls))
        for call, answer in zip(calls, answers, strict=True):
            self._told(f"at once: {call} -> {_shown(answer)}")
        for path in {call.paths[0] for call in calls}:
            told = [
                (call.effect, (answer or {}).get("etag"))
                for call, answer in zip(calls, answers, strict=True)
                if call.effect and call.paths == (path,) and not _is_without_effect(answer)
            ]
            acks = {(answer or {}).get("ack") for answer in answers}
            if "journal" in acks and (len(acks - {None}) > 1 or self.model.place(path).unseen):
                # The vault came or went meanwhile, or holds what the index doesn't know of yet: one may
                # have been made aside of the others.
                self.model.made_apart(path, told)
            else:
                self.model.made_at_once(path, told)
            self._ours.discard(path)

    def _kill_amid(self) -> None:
        """Something dies while a call is under way."""
        if not self.server.runs:
            self._start_server()
        dies = "server"
        if isinstance(self.bed, MountBed) and self.chance.random() < 0.5:
            dies = "rclone"
        call = self.author.call()
        self._clear_up(*call.paths)
        delay = self.chance.choice((0.0, 0.002, 0.01, 0.03, 0.1, 0.3))
        answers: list[Answer | None] = []
        agent = threading.Thread(target=lambda: answers.append(self._ask(call)))
        agent.start()
        time.sleep(delay)
        if dies == "server":
            self.server.kill9()
        else:
            assert isinstance(self.bed, MountBed)
            self.bed.kill()
            self._broken = True
        self.faults[f"{dies} killed amid a call"] += 1
        agent.join()
        self._told(f"{dies} killed {delay * 1000:.0f} ms into {call} -> {_shown(answers[0])}")
        # A refused connection may be one that was cut before its answer.
        self._heard(call, None if answers[0] and "unsent" in answers[0] else answers[0])

    # -- faults --------------------------------------------------------------------------------

    def _fault(self) -> None:
        faults: dict[str, Callable[[], Any]] = {
            **self.bed.faults(),
            "server killed": self.server.kill9,
            "disk full": self.disk.fill,
            "clock jumped": self._jump,
        }
        passing = ("server killed", "clock jumped")
        name = self.chance.choice(sorted(faults))
        if self._broken and name not in passing:
            return
        self._told(name)
        self.faults[name] += 1
        faults[name]()
        self._broken |= name not in (*passing, "rclone restarted")

    def _jump(self) -> None:
        self._ahead += self.chance.choice(_JUMPS)
        self.nursery.set_clock(self._ahead)
        self._told(f"the clock is {self._ahead:+.0f} s")

    def _heal(self) -> None:
        self._told("healed")
        self.disk.free()
        self.bed.heal()
        self._broken = False

    def _elsewhere(self) -> None:
        """Somebody else changes, makes, renames or deletes a note."""
        if self.bed.is_away:
            return
        truth = self.bed.truth()
        notes = sorted(path for path in truth if is_visible(path) and path != f"note{KEPT}.md")
        kind = self.chance.choice(("edit", "edit", "make", "rename", "delete"))
        path = self.chance.choice(notes) if notes else None
        if path is None or self.bed.is_entangled(path):
            return
        seen = self._is_seen and not self.bed.is_lagging
        there, to = truth[path], ""
        self._ours.discard(path)
        if kind == "edit":
            text = there + b"\n" + self.author.line().encode()
            self.bed.put(path, text)
            self.model.changed_elsewhere(path, text, there, seen=seen)
        elif kind == "make":
            path, text = self.author.fresh(), self.author.content().encode()
            self.bed.put(path, text)
            self.model.changed_elsewhere(path, text, None, seen=seen)
        elif kind == "rename":
            to = self.author.fresh()
            self.bed.move(path, to)
            self.model.changed_elsewhere(path, None, there, seen=seen, moved_to=to)
            if self.bed.is_lagging:
                # Who makes a note there before the move is seen overwrites it, as is documented.
                self.model.disclaim(there)
        else:
            self.bed.remove(path)
            self.model.changed_elsewhere(path, None, there, seen=seen)
        self.faults[f"elsewhere: {kind}"] += 1
        self._told(f"elsewhere: {kind} {path}{f' to {to}' if kind == 'rename' else ''}")

    # -- looking -------------------------------------------------------------------------------

    def _look(self) -> None:
        """What must hold at any moment."""
        self._mind()
        if found := self.bed.trespasses():
            raise Violation(f"touched outside the vault: {found}")
        truth = self.bed.truth()
        if self.bed.has_forgotten:
            # rclone may fill up with zeros what it had not uploaded: mended before all is calm.
            truth = {path: text.rstrip(b"\0") for path, text in truth.items()}
        if found := self.model.torn(truth):
            raise Violation("; ".join(found[:3]))
        if self.bed_name == "plain" and self._is_seen:
            for path, place in self.model.places.items():
                if truth.get(path) not in place.contents() | (
                    place.ever if place.unseen else set()
                ):
                    raise Violation(f"{path}: {_cut(truth.get(path))} is none of what it may be")

    def _mind(self) -> None:
        """What was deleted or renamed elsewhere comes back where a write may have been lost with rclone."""
        if self.bed.has_forgotten:
            self.model.may_come_back()

    def _clear_up(self, *paths: str, most: int = _MOST_OPEN) -> None:
        """Have a note come to rest before there is too much that it may hold."""
        places = [self.model.place(path) for path in paths]
        if any(len(one.open) > most or len(one.ever) > _MOST_EVER for one in places):
            self._calm()

    def _calm(self) -> None:
        """Everything works again: in the end all must be as the model says."""
        self._heal()
        if not self.server.runs:
            self._start_server()
        self.bed.look_again()
        end = time.monotonic() + _PATIENCE
        hurry = time.monotonic() + 6
        since = time.monotonic()
        seen: Truth | None = None
        problems: list[str] = []
        # What the server still has to clear up, it clears up in its next round.
        while seen is None or time.monotonic() - since < self.bed.round_seconds:
            problems = self._problems()
            truth = None if problems else self.bed.truth()
            if truth is None or truth != seen:
                since, seen = time.monotonic(), truth
            if problems and time.monotonic() > hurry:
                self._told(f"still: {problems[0]}")
                self._ahead += _LAG
                self.nursery.set_clock(self._ahead)
                self.bed.hurry()
                self._mind()
                self.bed.look_again()
                hurry = time.monotonic() + 15
            if problems and time.monotonic() > end:
                raise Violation("after " + f"{_PATIENCE:.0f} s of calm: " + "; ".join(problems[:6]))
            time.sleep(0.3 if problems else 0.1)
        self.model.rest(seen)
        self._ours.clear()
        self.bed.caught_up()
        self._told("calm")

    def _problems(self) -> list[str]:
        if not self.bed.is_idle():
            return ["uploads are pending"]
        truth = self.bed.truth()
        found = self.model.problems(truth)
        try:
            return found or index_problems(self.server, truth, self._eye)
        except (OSError, HTTPException) as error:
            return [f"no answer: {error!r}"]


def _is_without_effect(answer: Answer | None) -> bool:
    """Whether it is certain that a call changed nothing."""
    return answer is not None and (answer.get("code") in WITHOUT_EFFECT or "unsent" in answer)


def _shown(answer: Answer | None) -> str:
    if answer is None:
        return "no answer"
    keys = (
        "code",
        "message",
        "ack",
        "etag",
        "created",
        "exists",
        "stale",
        "total",
        "trashed_to",
        "unsent",
    )
    return str({key: answer[key] for key in keys if key in answer})


def _cut(text: bytes | None) -> str:
    return "nothing" if text is None else f"…{text[-70:]!r}"
