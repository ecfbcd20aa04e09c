"""Backups made beside a server that writes, brought back as a whole or not at all."""

import json
import os
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from server.access.tokens import TokenStore
from server.audit.verification import verify
from server.backup.archive import LIST
from server.databases import damage
from server.vault.journal import items_in
from server.vault.paths import parse_folder
from tests.drive.processes import missing
from tests.real.houses import House, put, small_disk
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(300)

DYING = """
import os, sys
left = int(sys.argv.pop(1))
def hook(event, args):
    global left
    if event == "os.rename" and ".restore" in str(args[:2]):
        left -= 1
        if left < 0:
            os._exit(9)
sys.addaudithook(hook)
from server.cli import main
sys.exit(main())
"""


@pytest.fixture
def house(house: House) -> House:
    """With a policy and a file of settings."""
    policy, settings = house.home / "policy.yaml", house.home / "settings.yaml"
    policy.write_text("rules: [{path: /, read_allow: true, write_allow: true}]\n")
    settings.write_text("log_format: json\n")
    house.environ = {"POLICY_FILE": str(policy), "VAULT_MCP_CONFIG": str(settings)}
    return house


def stand(folder: Path) -> dict[str, bytes]:
    """Every file with its content, but for locks and what SQLite makes anew."""
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in files
        if file.name != "lock" and not file.name.endswith(("-shm", "-wal"))
    }


def backed_up(house: House, name: str = "backup.tar.gz") -> Path:
    target = house.home / name
    done = house.run("backup", target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{target} is sound: "), done.stdout
    assert target.stat().st_mode & 0o777 == 0o600
    return target


def names_in(backup: Path) -> set[str]:
    with tarfile.open(backup) as tar:
        return set(tar.getnames())


@contextmanager
def writing(server: Server) -> Iterator[Callable[[], int]]:
    """An agent that writes all the time; tells how often it has."""
    stopping, done = threading.Event(), 0

    def work() -> None:
        nonlocal done
        while not stopping.is_set():
            answer = server.call("note_upsert", path=f"busy/{done % 5}.md", content=f"line {done}")
            assert answer["etag"], answer
            done += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield lambda: done
    finally:
        stopping.set()
        thread.join(60)


@pytest.mark.requirement("ops.backup")
def test_a_backup_beside_a_server_that_writes_comes_back_whole(house: House) -> None:
    _, text = TokenStore(house.state, parse_folder).create("laptop")
    put(house, 10)
    with (
        Server(house.vault, house.state, AUTH="none", **house.environ) as server,
        writing(server) as count,
    ):
        backups = [backed_up(house, f"backup-{number}.tar.gz") for number in range(3)]
        assert count() > 0
    vault = stand(house.vault)
    fresh = House(house.home, dict(house.environ))
    for number, backup in enumerate(backups):
        state = house.home / f"fresh-{number}"
        done = fresh.run("restore", backup, STATE_DIR=str(state))
        assert done.returncode == 0, done.stderr
        report = verify(state / "audit")
        assert report.ok, report.problems
        assert report.lines > 2
        assert damage(state / "history" / "history.db", 30) is None
        assert not list(state.glob("slot-*/index")), "what can be built anew is not in it"
        assert all(file.stat().st_mode & 0o077 == 0 for file in state.rglob("*") if file.is_file())
        assert json.loads((state / "vault.json").read_text())["populated"] is True
        kept = (state / "config" / "policy.yaml").read_text()
        assert kept == (house.home / "policy.yaml").read_text()
        assert (state / "config" / "settings.yaml").read_text() == "log_format: json\n"
    assert stand(house.vault) == vault
    last = house.home / "fresh-2"
    server = Server(house.vault, last, AUTH="token", **house.environ)
    server.bearer = {"Authorization": f"Bearer {text}"}
    with server:
        found = server.call("note_history", path="busy/0.md")
        assert found["total"] > 0, found
        assert server.call("note_read", path="a.md")["exists"] is True


def test_what_is_in_a_backup(house: House) -> None:
    put(house, 10)
    TokenStore(house.state, parse_folder).create("laptop")
    waiting = house.state / "approvals" / "waiting" / "aaaaaaaaaaaaaaaa"
    waiting.mkdir(parents=True)
    (waiting / "head.json").write_text("{}")
    (waiting / "steps").write_bytes(b"steps")
    names = names_in(backed_up(house))
    (entry,) = items_in(house.state / "slot-0" / "journal")
    assert {
        "state/tokens.json", "state/vault.json", "state/history/history.db", "state/audit/head.json",
        f"state/slot-0/journal/{entry.file.name}", "config/policy.yaml", "config/settings.yaml",
        "state/approvals/waiting/aaaaaaaaaaaaaaaa/steps", LIST,
    } <= names  # fmt: skip
    assert not [name for name in names if "/index" in name or name.endswith("lock")]


def test_restoring_what_is_there_needs_a_word(house: House) -> None:
    backup = backed_up(house)
    TokenStore(house.state, parse_folder).create("later")
    before = stand(house.state)
    done = house.run("restore", backup)
    assert (done.returncode, "holds something already" in done.stderr) == (1, True), done.stderr
    assert stand(house.state) == before
    done = house.run("restore", backup, "--force")
    assert done.returncode == 0, done.stderr
    assert TokenStore(house.state, parse_folder).listed() == []
    events = [
        json.loads(line)["event"]
        for line in (house.state / "audit").glob("*.jsonl").__next__().open()
    ]
    assert events[-1] == "state_restored"
    assert not (house.state / ".restore").exists()


@pytest.mark.requirement("ops.restore")
def test_nothing_is_restored_under_a_running_server(house: House) -> None:
    backup = backed_up(house)
    with Server(house.vault, house.state) as server:
        done = house.run("restore", backup, "--force")
        assert (done.returncode, "A server runs" in done.stderr) == (1, True), done.stderr
        assert server.call("note_read", path="a.md")["exists"] is True
    assert house.run("restore", backup, "--force").returncode == 0


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def rebuilt(change: Callable[[dict[str, bytes]], None]) -> Callable[[bytes], bytes]:
    """A backup whose members were changed by somebody who knows how it is made."""

    def damaged(data: bytes) -> bytes:
        with tarfile.open(fileobj=BytesIO(data)) as tar:
            members = {}
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                members[member.name] = file.read()
        listed = members.pop(LIST)
        members[LIST] = listed
        change(members)
        out = BytesIO()
        with tarfile.open(fileobj=out, mode="w:gz") as tar:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, BytesIO(content))
        return out.getvalue()

    return damaged


def without_list(members: dict[str, bytes]) -> None:
    del members[LIST]


def with_another_token_file(members: dict[str, bytes]) -> None:
    members["state/vault.json"] = b'{"id": "somebody else\'s"}'


def without_a_file(members: dict[str, bytes]) -> None:
    del members["state/vault.json"]


def with_a_way_out(members: dict[str, bytes]) -> None:
    last = members.pop(LIST)
    members["state/../../evil"] = b"x"
    members[LIST] = last


def with_an_absolute_name(members: dict[str, bytes]) -> None:
    last = members.pop(LIST)
    members["/tmp/evil-vault-mcp"] = b"x"
    members[LIST] = last


def of_a_newer_version(members: dict[str, bytes]) -> None:
    members[LIST] = json.dumps({**json.loads(members[LIST]), "format": 99}).encode()


DAMAGES: list[Callable[[bytes], bytes]] = [
    flipped,
    lambda data: data[: len(data) // 2],
    lambda _data: b"no archive",
    lambda _data: b"",
    *(
        rebuilt(change)
        for change in (
            without_list, with_another_token_file, without_a_file, with_a_way_out,
            with_an_absolute_name, of_a_newer_version,
        )
    ),
]  # fmt: skip


@pytest.mark.requirement("ops.restore")
@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_damaged_backup_changes_nothing(house: House, number: int) -> None:
    backup = backed_up(house)
    backup.write_bytes(DAMAGES[number](backup.read_bytes()))
    before = stand(house.home)
    for arguments in (("backup", "--verify"), ("restore", "--force")):
        done = house.run(*arguments, backup)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "no backup, or is damaged" in done.stderr or "newer version" in done.stderr, (
            done.stderr
        )
    assert stand(house.home) == before


def test_a_link_in_a_backup_leads_nowhere(house: House) -> None:
    backup = backed_up(house)
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        link = tarfile.TarInfo("state/slot-0")
        link.type, link.linkname = tarfile.SYMTYPE, str(house.vault)
        tar.addfile(link)
    backup.write_bytes(out.getvalue())
    before = stand(house.home)
    assert house.run("restore", backup, "--force").returncode == 1
    assert stand(house.home) == before


@pytest.mark.requirement("ops.restore")
def test_a_restore_that_dies_at_any_step_is_all_or_nothing(house: House) -> None:
    backup = backed_up(house)
    TokenStore(house.state, parse_folder).create("later")
    old, seen, steps = stand(house.state), set(), 0
    for steps in range(60):
        done = house.run_program(["-c", DYING, str(steps)], "restore", backup, "--force")
        if done.returncode == 0:
            break
        assert done.returncode == 9, done.stderr
        cut_short = (house.state / ".restore" / "swapping").exists()
        if cut_short and True not in seen:
            started = house.run("stdio", STATE_DIR=str(house.state))
            assert started.returncode == 1
            assert "restore FILE --force" in started.stderr
        seen.add(cut_short)
        # One that fails takes back what the one that died had done.
        nowhere = house.run("restore", house.home / "nowhere", "--force")
        assert nowhere.returncode == 1, nowhere.stderr
        assert stand(house.state) == old
    assert steps > 8, "each rename was one to die at"
    assert True in seen
    assert TokenStore(house.state, parse_folder).listed() == []
    with Server(house.vault, house.state) as server:
        assert server.call("note_read", path="a.md")["exists"] is True


@pytest.mark.requirement("ops.restore")
def test_a_restore_that_fails_in_the_middle_is_taken_back(house: House) -> None:
    """One of the folders is a mount, which can't be moved."""
    if os.geteuid() != 0:
        missing("needs root, for a folder that can't be moved")
    backup = backed_up(house)
    stuck = house.state / "history"
    command = ["mount", "--bind", str(stuck), str(stuck)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        missing("needs the right to mount")
    try:
        before = stand(house.state)
        done = house.run("restore", backup, "--force")
        assert done.returncode == 1
        assert "busy" in done.stderr
        assert stand(house.state) == before
        assert not (house.state / ".restore").exists()
    finally:
        subprocess.run(["umount", "-l", str(stuck)], check=True)


def test_where_a_backup_may_lie(house: House) -> None:
    (house.home / "way-in").symlink_to(house.vault)
    for place in (house.vault / "b.tar.gz", house.home / "way-in" / "b.tar.gz"):
        done = house.run("backup", place)
        assert (done.returncode, "must not lie in the vault" in done.stderr) == (1, True)
    target = backed_up(house)
    content = target.read_bytes()
    done = house.run("backup", target)
    assert (done.returncode, "exists already" in done.stderr) == (1, True)
    assert target.read_bytes() == content
    assert house.run("backup", target, "--force").returncode == 0
    done = house.run("backup", "--verify", target, "--json")
    said: dict[str, Any] = json.loads(done.stdout)
    assert (said["file"], said["files"] > 3) == (str(target), True)


@pytest.mark.requirement("ops.backup")
def test_a_full_disk_leaves_no_backup(house: House) -> None:
    (house.state / "slot-0" / "plans").mkdir(exist_ok=True)
    (house.state / "slot-0" / "plans" / "big.plan").write_bytes(os.urandom(1 << 20))
    with small_disk(house.home / "disk", "256k") as disk:
        done = house.run("backup", disk / "b.tar.gz")
        assert (done.returncode, "No space left" in done.stderr) == (1, True), done.stderr
        assert list(disk.iterdir()) == []


def test_there_is_nothing_to_back_up_before_the_first_start(house: House) -> None:
    done = house.run("backup", house.home / "b.tar.gz", STATE_DIR=str(house.home / "none"))
    assert (done.returncode, "no STATE_DIR yet" in done.stderr) == (1, True)
    assert not (house.home / "none").exists()


def test_a_damaged_history_is_not_backed_up_in_silence(house: House) -> None:
    with (house.state / "history" / "history.db").open("r+b") as data:
        data.seek(8192)
        data.write(b"\xff" * 4096)
    done = house.run("backup", house.home / "b.tar.gz")
    assert (done.returncode, "history is damaged" in done.stderr) == (1, True)
    assert not list(house.home.glob("*.tar.gz"))


def test_what_root_restores_belongs_to_the_owner_of_the_folder(house: House) -> None:
    if os.geteuid() != 0:
        missing("needs root")
    backup = backed_up(house)
    state = house.home / "theirs"
    state.mkdir(mode=0o700)
    os.chown(state, 65534, 65534)
    assert house.run("restore", backup, STATE_DIR=str(state)).returncode == 0
    assert {file.stat().st_uid for file in state.rglob("*")} == {65534}
    assert (state / "history" / "history.db").exists()
