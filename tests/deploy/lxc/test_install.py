"""The whole life of an installation, on a booted Debian: each test goes on where the last one ended."""

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.lxc.builds import wheelhouse_with
from tests.deploy.lxc.machine import Machine
from tests.drive.processes import wait_for

pytestmark = pytest.mark.timeout(600)

SCRIPTS = "/project/deploy/lxc"
SERVICES = ("vault-mcp-mount.service", "vault-mcp.service", "caddy.service")
AUTHORITY = "/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt"
INSTALL = (
    f"{SCRIPTS}/install.sh", "--wheelhouse", "/wheelhouse", "--rclone-config", "/root/rclone.conf",
    "--remote", "test:", "--lan-name", "vault.lan",
)  # fmt: skip
TOKEN_FILE = "/root/token"
AS_SERVER = ("setpriv", "--reuid=vault-mcp", "--regid=vault-mcp", "--init-groups")


class Client:
    """An agent on another machine: it knows the name, the token and whom to trust."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self._authority = folder / "root.crt"
        self._authority.write_text(machine.read("cat", AUTHORITY))
        self._token = machine.read("cat", TOKEN_FILE)

    def call(self, tool: str, **arguments: Any) -> Any:
        program = str(Path(__file__).with_name("agent.py"))
        return self._machine.client(
            sys.executable, program, "https://vault.lan/mcp", str(self._authority), tool,
            json.dumps(arguments), hosts="127.0.0.1 localhost vault.lan\n", input=self._token,
        )  # fmt: skip

    def create(self, path: str, content: str) -> None:
        """Create a note, patiently: while the vault is away the answer is `unavailable`."""

        def created() -> bool:
            answer = self.call("note_upsert", path=path, content=content)
            assert answer.get("code", "unavailable") == "unavailable", answer
            return "created" in answer

        wait_for(created, 90, f"{path} to be written")


@pytest.fixture
def agent(machine: Machine, tmp_path: Path) -> Client:
    return Client(machine, tmp_path)


def backend(machine: Machine, path: str) -> str:
    """What the remote holds, seen without rclone."""
    return machine.run("cat", f"/backend/{path}", check=False).stdout


def is_ready(machine: Machine) -> bool:
    """As the server sees it: its mount is there and its index made."""
    token = machine.read("cat", TOKEN_FILE)
    page = "http://127.0.0.1:1065/readyz"
    done = machine.run(
        "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-m", "10",
        "-H", f"Authorization: Bearer {token}", page, check=False,
    )  # fmt: skip
    return done.stdout == "200"


def pids(machine: Machine) -> dict[str, str]:
    return {unit: machine.show(unit, "MainPID") for unit in SERVICES}


def restarts(machine: Machine, unit: str) -> int:
    """How often systemd has restarted it by itself."""
    return int(machine.show(unit, "NRestarts"))


def everything(machine: Machine) -> str:
    """All files that an installation makes, with their owners, times and sizes."""
    folders = "/etc /opt /usr/local /var/lib/vault-mcp/tokens.json /var/lib/vault-rclone"
    found = machine.read(
        "sh", "-c", f"find {folders} -printf '%p %m %u %g %T@ %s %l\\n' | sort; cat /etc/passwd /etc/group"
    )  # fmt: skip
    assert "/etc/vault-mcp/config.yaml" in found
    return found


def test_without_a_remote_it_prepares_and_says_what_is_next(machine: Machine) -> None:
    machine.run("install", "-d", "-m", "0777", "/backend")
    machine.write("/backend/Welcome.md", "# Welcome\n")
    said = machine.read(f"{SCRIPTS}/install.sh", "--wheelhouse", "/wheelhouse")
    assert "vault-rclone config" in said
    assert machine.show("vault-mcp.service", "ActiveState") == "inactive"
    assert machine.read("vault-rclone", "version").startswith("rclone v1.")


def test_it_installs_and_shows_a_token_once(machine: Machine) -> None:
    machine.write("/root/rclone.conf", "[test]\ntype = alias\nremote = /backend\n")
    machine.run("chown", "-R", "vault-rclone", "/backend")
    said = machine.read(*INSTALL)
    found = re.search(r"^  (\S{20,})$", said, re.MULTILINE)
    assert found is not None, said
    machine.write(TOKEN_FILE, found[1])
    assert f'"Authorization: Bearer {found[1]}"' in said
    for unit in (*SERVICES, "vault-mcp-backup.timer"):
        assert machine.show(unit, "ActiveState") == "active", machine.journal(unit)
        assert machine.read("systemctl", "is-enabled", unit) == "enabled"
    assert machine.read("findmnt", "-n", "-o", "FSTYPE", "/srv/vault-mcp/vault") == "fuse.rclone"
    assert machine.show("vault-mcp.service", "StatusText") == "Serving /srv/vault-mcp/vault."


def test_a_second_run_changes_and_restarts_nothing(machine: Machine) -> None:
    before, running = everything(machine), pids(machine)
    said = machine.read(*INSTALL)
    assert "nothing was changed" in said
    assert "Bearer" not in said
    assert pids(machine) == running
    assert everything(machine) == before


def test_what_the_owner_changed_stays(machine: Machine) -> None:
    running = pids(machine)
    for name in ("config.yaml", "mount.env", "caddy.env", "Caddyfile"):
        machine.run("sh", "-c", f"echo '# mine' >>/etc/vault-mcp/{name}")
    assert "nothing was changed" in machine.read(*INSTALL, "--lan-name", "other.lan")
    mine = machine.read("sh", "-c", "tail -qn1 /etc/vault-mcp/*.* /etc/vault-mcp/Caddyfile")
    assert set(mine.split("\n")) == {"# mine"}
    assert pids(machine) == running


def test_units_are_sound_and_closed(machine: Machine) -> None:
    machine.run("install", "-m", "755", "/bin/true", "/usr/bin/tailscale")
    machine.write("/etc/systemd/system/tailscaled.service", "[Service]\nExecStart=/bin/true\n")
    units = machine.read("sh", "-c", "ls /etc/systemd/system/vault-mcp*").split()
    assert len(units) == 5
    done = machine.run("systemd-analyze", "verify", *units)
    assert (done.stdout, done.stderr) == ("", "")


def test_nobody_else_reaches_notes_or_remote_control(machine: Machine) -> None:
    def allowed(user: str, *command: str) -> bool:
        switch = ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups")
        return machine.run(*switch, *command, check=False).returncode == 0

    reach = (
        "curl",
        "-sf",
        "-X",
        "POST",
        "--unix-socket",
        "/run/vault-rclone/rc.sock",
        "http://x/rc/noop",
    )
    for command, user in (
        (("cat", "/srv/vault-mcp/vault/Welcome.md"), "vault-mcp"),
        (reach, "vault-mcp"),
        (("cat", "/etc/vault-mcp/config.yaml"), "vault-mcp"),
    ):
        assert allowed(user, *command), command
        assert not allowed("nobody", *command), command
    assert not allowed("vault-mcp", "cat", "/var/lib/vault-rclone/rclone.conf")
    assert not allowed("vault-rclone", "cat", "/var/lib/vault-mcp/tokens.json")


def test_an_agent_creates_and_reads_a_note_over_https(machine: Machine, agent: Client) -> None:
    assert agent.call("note_upsert", path="devlog/first.md", content="from an agent")["created"]
    read = agent.call("note_read", path="devlog/first.md")
    assert (read["exists"], "from an agent" in read["content"]) == (True, True)
    assert "from an agent" in backend(machine, "devlog/first.md")


def test_killed_rclone_comes_back_and_writes_go_on(machine: Machine, agent: Client) -> None:
    before = pids(machine)
    machine.signal("vault-mcp-mount.service", signal.SIGKILL)
    wait_for(lambda: restarts(machine, "vault-mcp-mount.service"), 60, "a restart")
    agent.create("devlog/second.md", "after the kill")
    assert pids(machine)["vault-mcp.service"] == before["vault-mcp.service"]
    assert "after the kill" in backend(machine, "devlog/second.md")


def test_a_server_that_stands_still_is_restarted(machine: Machine, agent: Client) -> None:
    before = machine.show("vault-mcp.service", "MainPID")
    machine.signal("vault-mcp.service", signal.SIGSTOP)
    wait_for(lambda: restarts(machine, "vault-mcp.service"), 120, "the watchdog")
    assert "atchdog" in machine.journal("vault-mcp.service")
    wait_for(lambda: is_ready(machine), 90, "the new server")
    assert machine.show("vault-mcp.service", "MainPID") != before
    assert agent.call("note_read", path="devlog/second.md")["exists"]


def test_what_waits_for_its_upload_is_flushed_when_the_mount_stops(machine: Machine) -> None:
    """By hand and not through the server, whose writes are on the remote when it answers."""
    machine.run(*AS_SERVER, "sh", "-c", "echo late >/srv/vault-mcp/vault/late.md")
    machine.run("systemctl", "stop", "vault-mcp-mount.service")
    assert backend(machine, "late.md") == "late\n"
    assert machine.run("findmnt", "-n", "/srv/vault-mcp/vault", check=False).returncode == 1


def test_nothing_can_be_written_beneath_a_missing_mount(machine: Machine, agent: Client) -> None:
    done = machine.run(*AS_SERVER, "touch", "/srv/vault-mcp/vault/shadow.md", check=False)
    assert "Permission denied" in done.stderr
    answer = agent.call("note_upsert", path="shadow.md", content="x")
    assert answer["code"] == "unavailable"
    machine.run("systemctl", "start", "vault-mcp-mount.service")
    wait_for(lambda: is_ready(machine), 90, "the server with its mount back")


def test_after_a_reboot_everything_is_back(machine: Machine, tmp_path: Path) -> None:
    machine.reboot()
    wait_for(lambda: is_ready(machine), 120, "the server after a reboot")
    assert machine.read("systemctl", "--failed", "--quiet", "--no-legend") == ""
    agent = Client(machine, tmp_path)
    agent.create("devlog/third.md", "after the reboot")
    assert "after the reboot" in backend(machine, "devlog/third.md")


def test_a_release_that_lost_its_python_is_installed_anew(machine: Machine) -> None:
    machine.run("sh", "-c", "rm -r /opt/vault-mcp/current/lib/python3*")
    machine.run("systemctl", "stop", "vault-mcp.service")
    said = machine.read(*INSTALL)
    assert "Installing vault-mcp" in said
    assert "shown only now" not in said
    assert is_ready(machine)


def test_backups_are_made_and_the_oldest_go(machine: Machine) -> None:
    old = " ".join(f"state-200101{day}T000000Z.tar.gz" for day in range(10, 30))
    machine.run("sh", "-c", f"cd /var/backups/vault-mcp && touch {old}")
    machine.run("systemctl", "start", "vault-mcp-backup.service")
    kept = sorted(machine.read("ls", "/var/backups/vault-mcp").split())
    assert len(kept) == 14
    newest = f"/var/backups/vault-mcp/{kept[-1]}"
    assert "is sound" in machine.read("vault-mcp", "backup", "--verify", newest)
    assert machine.read("stat", "-c", "%a %U", newest) == "600 vault-mcp"


def test_a_backup_brings_back_tokens_and_history(machine: Machine, agent: Client) -> None:
    machine.run("vault-mcp", "backup", "/var/backups/vault-mcp/mine.tar.gz")
    machine.run("systemctl", "stop", "vault-mcp.service")
    machine.run("sh", "-c", "rm -r /var/lib/vault-mcp/*")
    machine.run("vault-mcp", "restore", "/var/backups/vault-mcp/mine.tar.gz")
    machine.run("systemctl", "start", "vault-mcp.service")
    wait_for(lambda: is_ready(machine), 90, "the server with its old tokens")
    assert agent.call("note_history", path="devlog/first.md")["total"]


def release_of(machine: Machine) -> str:
    return machine.read("readlink", "/opt/vault-mcp/current")


@pytest.fixture
def arrive(machine: Machine, wheelhouse: Path, tmp_path: Path) -> Any:
    """Puts a wheelhouse with another build into the machine; says where."""

    def arrive(version: str, **changes: str) -> str:
        wheel = wheelhouse_with(tmp_path, version, changes)
        place = f"/root/{version}"
        machine.run("cp", "-r", "--no-preserve=mode", "/wheelhouse", place)
        machine.run("sh", "-c", f"rm {place}/obsidian_vault_mcp-*")
        machine.put(wheel, f"{place}/{wheel.name}")
        return place

    return arrive


def test_a_server_that_is_not_well_is_not_upgraded(machine: Machine, arrive: Any) -> None:
    before = release_of(machine)
    machine.run("systemctl", "stop", "vault-mcp-mount.service")
    wait_for(lambda: not is_ready(machine), 60, "a server without its mount")
    done = machine.run(f"{SCRIPTS}/upgrade.sh", "--wheelhouse", arrive("9.0.0"), check=False)
    assert done.returncode == 1
    assert "isn't ready now" in done.stderr
    assert release_of(machine) == before
    assert "before-upgrade" not in machine.read("ls", "/var/backups/vault-mcp")
    machine.run("systemctl", "start", "vault-mcp-mount.service")
    wait_for(lambda: is_ready(machine), 90, "the server with its mount back")


def test_a_good_build_takes_over(machine: Machine, arrive: Any, agent: Client) -> None:
    before = release_of(machine)
    mount = pids(machine)["vault-mcp-mount.service"]
    said = machine.read(f"{SCRIPTS}/upgrade.sh", "--wheelhouse", arrive("9.1.0"))
    assert "9.1.0" in release_of(machine), said
    assert machine.read("vault-mcp", "--version") == "vault-mcp 9.1.0"
    assert machine.read("ls", "/opt/vault-mcp/" + before)
    archive = re.search(r"/var/backups/\S+/before-upgrade-\S+\.tar\.gz", said)
    assert archive is not None, said
    assert "is sound" in machine.read("vault-mcp", "backup", "--verify", archive[0])
    assert pids(machine)["vault-mcp-mount.service"] == mount
    assert agent.call("note_read", path="devlog/third.md")["exists"]
    assert "deploy-check" not in machine.read("vault-mcp", "token", "list")


BROKEN = {
    "ends": {"server/doors/serve.py": "raise SystemExit(7)\n"},
    "never-ready": {"server/service/status.py": "Status.ready = lambda self: (False, {})\n"},
    "no-program": {"server/cli.py": "raise ImportError\n"},
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_build_is_taken_back(
    machine: Machine, arrive: Any, agent: Client, how: str
) -> None:
    before = release_of(machine)
    place = arrive(f"9.2.{list(BROKEN).index(how)}", **BROKEN[how])
    done = machine.run(
        f"{SCRIPTS}/upgrade.sh", "--wheelhouse", place, "--wait", "20", check=False, timeout=300
    )
    assert done.returncode == 1, done.stdout + done.stderr
    expected = "Nothing was changed" if how == "no-program" else "ROLLED BACK"
    assert expected in done.stderr, done.stdout + done.stderr
    assert release_of(machine) == before
    assert "9.2." not in machine.read("ls", "/opt/vault-mcp/releases")
    assert is_ready(machine)
    assert agent.call("note_read", path="devlog/third.md")["exists"]


def test_the_vault_outlives_an_uninstallation(machine: Machine) -> None:
    notes = machine.read("sh", "-c", "cd /backend && find . -type f | sort | xargs sha256sum")
    assert "./devlog/first.md" in notes
    machine.run(f"{SCRIPTS}/uninstall.sh")
    assert (
        machine.read("sh", "-c", "cd /backend && find . -type f | sort | xargs sha256sum") == notes
    )
    assert machine.run("test", "-e", "/opt/vault-mcp", check=False).returncode == 1
    assert machine.read("ls", "/etc/vault-mcp", "/var/lib/vault-mcp/tokens.json")


def test_it_can_be_installed_again_from_an_index(machine: Machine, agent: Client) -> None:
    """An index as the machine's own pip configuration names it: here a folder."""
    machine.write("/etc/pip.conf", "[global]\nno-index = true\nfind-links = /wheelhouse\n")
    said = machine.read(f"{SCRIPTS}/install.sh")
    assert "shown only now" not in said
    assert agent.call("note_read", path="devlog/third.md")["exists"]


def test_purge_refuses_while_something_waits_for_its_upload(machine: Machine) -> None:
    machine.run("chmod", "a-w", "/backend")
    machine.run(*AS_SERVER, "sh", "-c", "echo unsent >/srv/vault-mcp/vault/unsent.md")
    done = machine.run(f"{SCRIPTS}/uninstall.sh", "--purge", check=False)
    assert done.returncode == 1
    assert "uploads to make" in done.stderr
    assert machine.show("vault-mcp.service", "ActiveState") == "active"
    machine.run("chmod", "u+w", "/backend")


def test_purge_leaves_nothing_but_the_vault(machine: Machine) -> None:
    machine.run(f"{SCRIPTS}/uninstall.sh", "--purge")
    found = machine.read("find", "/", "-xdev", "-name", "*vault-mcp*", "-o", "-name", "*vault-rc*")
    elsewhere = ("/root/", "/run/", "/backend/", "/var/log/")  # not of the installation
    assert [path for path in found.split() if not path.startswith(elsewhere)] == []
    assert "vault-" not in machine.read("cat", "/etc/passwd", "/etc/group")
    assert backend(machine, "unsent.md") == "unsent\n"
    assert "from an agent" in backend(machine, "devlog/first.md")
