"""Hostile paths touch nothing outside the vault: the filesystem says so, not the answers.

HOSTILE_PATHS sets how many are tried, HOSTILE_SEED which; a failure names both.
"""

import asyncio
import json
import multiprocessing
import os
import random
import re
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from server.app import App, open_app
from server.catalog.table import OPERATIONS
from server.doors.errors import payload
from server.errors import CODES, InvalidPath, NotFound, PathNotAllowed, VaultError
from server.models import Caller
from server.settings import TOOLSETS, load
from server.vault import files, folders
from server.vault.paths import parse_path
from tests.drive.processes import wait_for
from tests.real.agents import Agent
from tests.real.ground import Ground, swap
from tests.real.hostile import Paths
from tests.real.servers import Server
from tests.real.slots import Slot, slots
from tests.real.watch import State, Watch, age, contents, known, snapshot

COUNT = int(os.environ.get("HOSTILE_PATHS", "3000"))
SEED = int(os.environ.get("HOSTILE_SEED", "5"))
_CHUNK = max(500, COUNT // 40)
_BATCH = 16
_OVER_HTTP = 25
"""One path of so many goes through a real server's HTTP door."""
PATHLESS = {
    "health_check", "devlog_append", "devlog_tail", "adr_create", "adr_list", "adr_read",
    "adr_set_status", "adr_publish",
}  # fmt: skip
"""Operations that take no path. A new one has to be named here, or it is tried."""
_SLOTS = slots()
_KEPT = {"heading_rename.to", "link_add.to"}
"""Arguments that become a part of a note, from which they come back in other answers."""
_WAYS = [slot for slot in _SLOTS if slot.is_path]
_OTHERS = [slot for slot in _SLOTS if not slot.is_path]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path / "home", f"MARKED{SEED:04}UNSEEN")
    ground.build()
    return ground


@dataclass(slots=True)
class Guarded:
    """Everything that must stay as it is, and who looks after it."""

    ground: Ground
    beyond: Watch = field(default_factory=Watch)
    hidden: Watch = field(default_factory=Watch)
    closed: list[Path] = field(default_factory=list)
    before: dict[str, State] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)

    def begin(self) -> None:
        kept = (*self.ground.beyond, *self.ground.closed)
        self.held = contents(*kept)
        paths = known(*kept)
        self.beyond.add(self.ground.home)
        for path in known(*self.ground.beyond):
            self.beyond.add(path)
        self.closed = known(*self.ground.closed)
        self.look_after_hidden()
        age(paths)
        self.before = snapshot(paths)
        self.touches()

    def look_after_hidden(self) -> None:
        """Anew, because who moves a folder takes along what is hidden in it."""
        self.hidden.close()
        self.hidden = Watch()
        alone = (".trash/old.md", ".hidden.md", "notes/.secret.md")
        for path in (*self.closed, *(self.ground.vault / name for name in alone)):
            self.hidden.add(path)

    def touches(self) -> list[str]:
        """What was touched since the last look; the vault's own folder may be opened."""
        vault = str(self.ground.vault)
        return self.beyond.touches(lambda path: path == vault) + self.hidden.touches()

    def marks(self) -> list[str]:
        """What has another state than it had, access times included."""
        after = snapshot(map(Path, self.before))
        return [str(one) for one in sorted({*self.before.items()} ^ {*after.items()})]

    def changes(self) -> list[str]:
        """What holds something else. Looking leaves marks."""
        after = contents(*self.ground.beyond, *self.ground.closed)
        return [str(one) for one in sorted({*self.held.items()} ^ {*after.items()})]

    def close(self) -> None:
        self.beyond.close()
        self.hidden.close()


@pytest.fixture
def guarded(ground: Ground) -> Iterator[Guarded]:
    guarded = Guarded(ground)
    guarded.begin()
    yield guarded
    guarded.close()


TOUCHES: dict[str, Callable[[Path], object]] = {
    "read": lambda away: (away / "secret.md").read_bytes(),
    "list": os.listdir,
    "list below": lambda away: os.listdir(away / "inner"),
    "open": lambda away: os.close(os.open(away / "secret.md", os.O_RDONLY)),
    "open a pipe": lambda away: os.close(os.open(away / "pipe", os.O_RDONLY | os.O_NONBLOCK)),
    "write": lambda away: (away / "secret.md").write_text("x"),
    "create": lambda away: (away / "inner/made.md").touch(),
    "make a folder": lambda away: (away / "made").mkdir(),
    "remove": lambda away: (away / "secret.md").unlink(),
    "rename": lambda away: (away / "secret.md").rename(away / "other.md"),
    "take away": lambda away: (away / "secret.md").rename(away.parent / "vault/taken.md"),
    "link": lambda away: (away.parent / "vault/linked.md").hardlink_to(away / "secret.md"),
    "mode": lambda away: (away / "secret.md").chmod(0o600),
    "times": lambda away: os.utime(away / "secret.md"),
    "beside": lambda away: (away.parent / "secret.md").read_bytes(),
    "twin": lambda away: os.listdir(away.parent / "vault-evil"),
    "look through a link": lambda away: (away.parent / "vault/links/gate.md").stat(),
    "pass a link": lambda away: (away.parent / "vault/links/gate/absent").exists(),
    "hidden": lambda away: (away.parent / "vault/.git/config").read_bytes(),
    "trash": lambda away: (away.parent / "vault/.trash/old.md").read_bytes(),
}


@pytest.mark.parametrize("touch", TOUCHES)
def test_the_watch_sees_every_touch(guarded: Guarded, touch: str) -> None:
    assert not guarded.touches()
    TOUCHES[touch](guarded.ground.outside)
    assert guarded.touches() or guarded.marks()


def test_the_snapshot_sees_what_was_read_and_what_was_changed(guarded: Guarded) -> None:
    assert not guarded.marks()
    assert not guarded.changes()
    # To compare what files hold it has read them, and that shows where access times are kept.
    kept = not os.statvfs(guarded.ground.outside).f_flag & os.ST_NOATIME
    assert bool(guarded.marks()) is kept
    (guarded.ground.outside / "inner/note.md").write_text("changed")
    assert guarded.changes()


@pytest.mark.parametrize("slot", _SLOTS, ids=str)
def test_every_argument_is_reached(slot: Slot) -> None:
    """Or a hostile path would be refused for what stands beside it."""
    draw = random.Random(SEED)
    for arguments in (
        slot.arguments("a/b.md"),
        *(slot.arguments("a/b.md", draw) for _ in range(9)),
    ):
        assert slot.operation.input.model_validate(arguments)
        assert "a/b.md" in json.dumps(arguments)


def test_every_operation_with_a_path_is_tried() -> None:
    assert {op.name for op in OPERATIONS} - {slot.operation.name for slot in _WAYS} == PATHLESS


@dataclass(slots=True)
class Tried:
    """What was asked and answered."""

    leaks: Sequence[bytes]
    home: str
    codes: Counter[str] = field(default_factory=Counter)
    by_slot: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def note(self, slot: Slot, path: str, code: str, said: bytes) -> None:
        self.codes[code] += 1
        self.by_slot[str(slot)] += 1
        if code not in ("ok", *CODES) or code == "internal_error":
            self._blame(slot, path, f"answered {code}: {said[:300]!r}")
        if any(leak in said for leak in self.leaks):
            self._blame(slot, path, "told a secret")
        # A caller may hear again what it said itself, and folders may be named after it.
        named = re.search(rb"[\"'\s(]" + re.escape(self.home.encode()), said)
        if named and self.home not in unicodedata.normalize("NFC", path):
            self._blame(slot, path, f"named a folder of the host: {said[:300]!r}")
        if b"Traceback" in said or b"pydantic" in said:
            self._blame(slot, path, f"told of its inside: {said[:300]!r}")

    def _blame(self, slot: Slot, path: str, what: str) -> None:
        self.wrong.append(f"{slot} with {path[:200]!r} {what}")


class Hunt:
    """Sends paths through the doors and looks after each few of them."""

    def __init__(self, app: App, agent: Agent, guarded: Guarded) -> None:
        self._app = app
        self._agent = agent
        self._guarded = guarded
        self._draw = random.Random(SEED)
        ground = guarded.ground
        self.tried = Tried(ground.leaks(), str(ground.home.parent))
        self._turn = 0

    async def chunk(self, paths: Sequence[str], number: int) -> None:
        caller = Caller(f"hostile-{number}", session=f"s-{number}")
        for at in range(0, len(paths), _BATCH):
            batch = paths[at : at + _BATCH]
            await asyncio.gather(*(self._try(caller, path) for path in batch))
            if number % 2 or at % (4 * _BATCH) == 0:
                self._app.scanner.wake()
            touched = self._guarded.touches()
            assert not touched, (SEED, touched[:10], batch)

    async def _try(self, caller: Caller, path: str) -> None:
        self._turn += 1
        slot = _WAYS[self._turn % len(_WAYS)]
        if self._turn % _OVER_HTTP == 0:
            await asyncio.to_thread(self._post, slot, path)
        else:
            await self._call(caller, slot, path)
        if self._turn % 20 == 0:
            # Both doors refuse arguments with half a surrogate pair; only paths are asked for more.
            text = path.encode("utf-8", "replace").decode()
            await self._call(caller, self._draw.choice(_OTHERS), text)

    async def _call(self, caller: Caller, slot: Slot, path: str) -> None:
        if str(slot) in _KEPT or not slot.is_path:
            path = path.replace(self.tried.home, "/host")
        arguments = slot.arguments(path, self._draw)
        try:
            output = await self._app.dispatcher.call(slot.operation.name, arguments, caller)
        except VaultError as error:
            self.tried.note(slot, path, error.code, json.dumps(payload(error)).encode())
        else:
            shown = output.media.data if output.media else b""
            self.tried.note(slot, path, "ok", output.model_dump_json().encode() + shown)

    def _post(self, slot: Slot, path: str) -> None:
        if str(slot) in _KEPT:
            path = path.replace(self.tried.home, "/host")
        said = self._agent.ask(slot.operation.name, slot.arguments(path))
        code = said.get("code", "ok")
        # The protocol has a number of its own for arguments that are no text at all.
        code = "invalid_request" if code == -32602 else str(code)
        self.tried.note(slot, path, code, self._agent.heard[-1].encode())
        self._agent.heard.clear()
        self.tried.by_slot["http"] += 1


@contextmanager
def swapping(ground: Ground) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=swap, args=(str(ground.home), ground.marker, stop))
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(20)
        assert process.exitcode == 0


@contextmanager
def hunting(guarded: Guarded, state: Path) -> Iterator[Hunt]:
    ground = guarded.ground
    environ = {"VAULT_PATH": str(ground.vault), "STATE_DIR": str(state), "SCAN_INTERVAL": "1"}
    environ |= {"TOOLSETS": ",".join(TOOLSETS), "LOG_LEVEL": "error"}
    environ |= {"CALLS_PER_SECOND": "0", "CONCURRENT_CALLS": "0", "WRITE_MB_PER_HOUR": "0"}
    with (
        Server(ground.vault, state, LOG_LEVEL="error") as server,
        open_app(load(environ)) as app,
    ):
        wait_for(lambda: app.service.status.ready()[0], 30, "ready")
        agent = Agent(f"http://127.0.0.1:{server.port}/mcp", "modern")
        yield Hunt(app, agent, guarded)
        agent.http.close()
        assert "Traceback" not in server.log.read_text()


@pytest.mark.requirement("vault.paths")
@pytest.mark.requirement("vault.links")
@pytest.mark.timeout(max(120, COUNT // 20))
@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_hostile_paths_touch_nothing_outside(guarded: Guarded, tmp_path: Path) -> None:
    ground = guarded.ground
    paths = Paths(ground, SEED)
    began = time.monotonic()
    # One loop for all of them, like a server's: what waits for a turn belongs to it.
    with hunting(guarded, tmp_path / "state") as hunt, asyncio.Runner() as loop:
        for number, start in enumerate(range(0, COUNT, _CHUNK)):
            wild = number % 2 == 1
            some = list(paths.take(min(_CHUNK, COUNT - start), swapping=wild))
            if wild:
                with swapping(ground):
                    loop.run(hunt.chunk(some, number))
            else:
                loop.run(hunt.chunk(some, number))
            assert not (marks := guarded.marks()), (SEED, marks[:10], some)
            assert not (bad := ground.sweep()), (SEED, bad[:10])
            guarded.look_after_hidden()
        codes = hunt.tried.codes
        told = f"seed {SEED}: {COUNT} paths, {sum(codes.values())} calls in {time.monotonic() - began:.0f} s: "
        print(told + json.dumps(codes), json.dumps(hunt.tried.by_slot))
    assert not guarded.touches()
    assert not guarded.marks()
    assert not guarded.changes()
    assert not hunt.tried.wrong, (SEED, len(hunt.tried.wrong), hunt.tried.wrong[:10])
    assert {str(slot) for slot in _WAYS} <= set(hunt.tried.by_slot)
    assert (
        min(codes["ok"], codes["invalid_path"], codes["path_not_allowed"], codes["not_found"])
        > COUNT // 50
    )


@pytest.fixture
def root(ground: Ground) -> files.Root:
    return files.Root(os.open(ground.vault, os.O_RDONLY | os.O_DIRECTORY), str(ground.vault))


@pytest.mark.parametrize(
    "disk", ["links/out", "links/gate/inner", "away/mid/inner", "links/up/notes"]
)
def test_a_folder_is_not_listed_through_a_link(
    root: files.Root, guarded: Guarded, disk: str
) -> None:
    with pytest.raises(NotFound):
        folders.list_folder(root, disk)
    assert not guarded.touches()
    assert not guarded.marks()


def test_no_link_keeps_a_folder_from_being_listed(root: files.Root, guarded: Guarded) -> None:
    listed = {entry.path for entry in folders.list_folder(root, "links")}
    assert listed == {f"links/{name}.md" for name in ("inside", "inside-abs")}
    assert not guarded.touches()
    assert not guarded.marks()


def test_a_link_to_a_folder_above_leads_there_unless_it_is_the_vault(root: files.Root) -> None:
    with files.spot(root, "links/here") as at:
        assert (at.disk, at.exists) == ("links", True)
    for path in ("links/up", "links/back.md", "links/dot", "links/root"):
        with pytest.raises(PathNotAllowed), files.spot(root, path):
            pass
    os.symlink("..", Path(root.path, "swap/deep/mid/up"))
    with files.spot(root, "swap/deep/mid/up") as at:
        assert (at.disk, at.exists) == ("swap/deep", True)


def test_a_link_to_bytes_that_are_no_text_is_refused(root: files.Root) -> None:
    with pytest.raises(PathNotAllowed), files.spot(root, "links/latin.md"):
        pass


@pytest.mark.parametrize("name", ["CON", "nul.md", "a/Aux.txt", "com1.md", "LPT9/a.md", "com².md"])
def test_a_device_of_windows_is_no_name_for_a_new_note(name: str) -> None:
    assert parse_path(name) == name
    with pytest.raises(InvalidPath, match="device"):
        parse_path(name, creating=True)
    for fair in ("console.md", "com.md", "com10.md", "null.md", "a con.md"):
        assert parse_path(fair, creating=True) == fair
