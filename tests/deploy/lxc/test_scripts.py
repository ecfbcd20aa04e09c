"""The scripts and units as they lie there, and the script for the Proxmox host with a stand-in host."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy.lxc.conftest import PROJECT
from tests.drive.processes import require

LXC = PROJECT / "deploy" / "lxc"
SCRIPTS = sorted(LXC.glob("*.sh"))

# Records its calls; knows two templates, and container 100.
PROXMOX = """#!/bin/sh
echo "$(basename "$0") $*" >>"$CALLS"
case "$(basename "$0") $*" in
  "pvesh get /cluster/nextid") echo 107 ;;
  "pveam list"*) cat "$TEMPLATES" ;;
  "pveam available"*)
    for version in 12-standard_12.7-1 13-standard_13.9-1 13-standard_13.10-1; do
      echo "system          debian-${version}_amd64.tar.zst"
    done ;;
  "pct status 100") echo running ;;
  "pct status"*) exit 2 ;;
  "pct exec"*route*) echo "default via 192.0.2.1 dev eth0" ;;
  "pct push"*) cp "$3" "$PUSHED" ;;
esac
"""


class Host:
    """A Proxmox host that does as if."""

    def __init__(self, folder: Path, templates: str = "") -> None:
        self._folder = folder
        self.pushed = folder / "pushed.tar.gz"
        for name in ("pct", "pveam", "pvesh"):
            (folder / name).write_text(PROXMOX)
            (folder / name).chmod(0o755)
        (folder / "templates").write_text(templates)
        (folder / "calls").write_text("")

    def create(self, *options: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": f"{self._folder}:/usr/bin:/bin",
            "CALLS": str(self._folder / "calls"),
            "TEMPLATES": str(self._folder / "templates"),
            "PUSHED": str(self.pushed),
        }
        return subprocess.run(
            [str(LXC / "create-ct.sh"), *options],
            env=environ, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    @property
    def calls(self) -> list[str]:
        """What changed something, in order."""
        lines = (self._folder / "calls").read_text().splitlines()
        looks = ("pvesh get", "pveam list", "pveam available", "pct status")
        return [line for line in lines if not line.startswith(looks)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_container_is_made_unprivileged_with_fuse_and_tun(host: Host) -> None:
    done = host.create()
    assert done.returncode == 0, done.stderr
    update, download, create, start, _route, push, *_ = host.calls
    assert (update, start) == ("pveam update", "pct start 107")
    newest = "debian-13-standard_13.10-1_amd64.tar.zst"
    assert download == f"pveam download local {newest}"
    assert create.startswith(f"pct create 107 local:vztmpl/{newest} --unprivileged 1 ")
    for option in (
        "--features fuse=1,nesting=1",
        "--dev0 /dev/net/tun,mode=0666",
        "--rootfs local-lvm:8",
        "--net0 name=eth0,bridge=vmbr0,ip=dhcp",
        "--onboot 1",
    ):
        assert f" {option}" in create
    assert push.startswith("pct push 107 ")
    listed = subprocess.run(
        ["tar", "-tzf", host.pushed], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "obsidian-vault-mcp/deploy/lxc/install.sh" in listed
    assert [name for name in listed if "/.git/" in name or "/.venv/" in name] == []
    assert "install.sh" in done.stdout


def test_everything_can_be_chosen_and_a_template_that_is_there_is_used(tmp_path: Path) -> None:
    key = tmp_path / "key.pub"
    key.write_text("ssh-ed25519 AAAA\n")
    host = Host(tmp_path, "local:vztmpl/debian-12-standard_12.2-1_amd64.tar.zst 120.65MB\n")
    done = host.create(
        "--id", "250", "--debian", "12", "--hostname", "notes", "--cores", "4", "--memory", "2048",
        "--swap", "0", "--disk", "20", "--storage", "tank", "--bridge", "vmbr1",
        "--ip", "192.0.2.20/24", "--gateway", "192.0.2.1", "--ssh-key", str(key), "--no-tun", "--no-copy",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert host.calls == [
        "pct create 250 local:vztmpl/debian-12-standard_12.2-1_amd64.tar.zst --unprivileged 1"
        " --features fuse=1,nesting=1 --ostype debian --hostname notes --cores 4 --memory 2048"
        " --swap 0 --rootfs tank:20"
        " --net0 name=eth0,bridge=vmbr1,ip=192.0.2.20/24,gw=192.0.2.1 --onboot 1 --timezone host"
        f" --ssh-public-keys {key}",
        "pct start 250",
        "pct exec 250 -- ip -o route show default",
    ]


def test_a_dry_run_shows_the_commands_and_runs_none(host: Host) -> None:
    done = host.create("--dry-run")
    assert done.returncode == 0, done.stderr
    assert host.calls == []
    shown = done.stdout.splitlines()
    assert shown[0].strip() == "pveam update"
    assert any(line.startswith("pct create 107 ") for line in shown)
    assert any(line.startswith("pct push 107 ") for line in shown)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--id", "100"], "exists already"),
        (["--id"], "needs a value"),
        (["--debian", "11"], "12 or 13"),
        (["--memory", "1G"], "--memory is a number"),
        (["--ip", "192.0.2.20"], "--ip is dhcp"),
        (["--ip", "192.0.2.20/24"], "needs --gateway"),
        (["--ssh-key", "/none"], "there is no /none"),
        (["--colour", "red"], "no such option: --colour"),
    ],
)
def test_wrong_options_are_told_before_anything_is_done(
    host: Host, options: list[str], problem: str
) -> None:
    done = host.create(*options)
    assert done.returncode == 1
    assert problem in done.stderr
    assert host.calls == []


@pytest.mark.parametrize("script", ["create-ct.sh", "install.sh", "upgrade.sh", "uninstall.sh"])
def test_help_needs_nothing(script: str) -> None:
    done = subprocess.run(
        [str(LXC / script), "--help"], env={"PATH": os.defpath}, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: {script} ")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_shellcheck_finds_nothing(script: Path) -> None:
    require("shellcheck")
    done = subprocess.run(
        ["shellcheck", "--external-sources", "--source-path", str(PROJECT), str(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


# Exposure times ten. The mount needs CAP_SYS_ADMIN, and a mount namespace would hide it.
@pytest.mark.parametrize(
    ("unit", "most"),
    [("vault-mcp.service", 20), ("vault-mcp-backup.service", 20), ("vault-mcp-mount.service", 45)],
)
def test_exposure_is_low(unit: str, most: int) -> None:
    require("systemd-analyze")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", str(LXC / "units" / unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("page", ["install-proxmox.md", "upgrading.md"])
def test_every_option_in_the_docs_is_one(page: str) -> None:
    text = (PROJECT / "docs" / page).read_text()
    called = re.findall(r"deploy/lxc/([a-z-]+\.sh)((?: --?[a-z-]+| [^-#`\s]\S*)*)", text)
    assert called
    for script, arguments in called:
        usage = (LXC / script).read_text()
        for option in re.findall(r" (--[a-z-]+)", arguments):
            assert f"  {option} " in usage or f"[{option}]" in usage, (script, option)


def test_rclone_is_the_one_that_the_tests_run() -> None:
    assert (LXC / "rclone.lock").read_text() in (PROJECT / "requirements-dev.lock").read_text()
