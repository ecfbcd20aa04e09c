"""compose.yaml as Compose understands it, and what podman has to be told to run a service of it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.drive.processes import require, which

PROJECT = Path(__file__).parents[2]


def composition(**environ: str) -> dict[str, Any]:
    """The whole of it, all profiles, with the variables of .env.example and these."""
    require("docker-compose")
    done = subprocess.run(
        [
            str(which("docker-compose")), "--project-directory", str(PROJECT),
            "--file", str(PROJECT / "compose.yaml"), "--env-file", str(PROJECT / ".env.example"),
            "--profile", "*", "config", "--format", "json",
        ],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def podman_arguments(service: dict[str, Any], prefix: str, secrets: Path) -> list[str]:
    """A service's options; named volumes get `prefix`, secrets are files of a folder."""
    options: list[str] = (
        ["--read-only", "--read-only-tmpfs=false"] if service.get("read_only") else []
    )
    options += [f"--user={service['user']}"] if "user" in service else []
    options += (
        [f"--entrypoint={json.dumps(service['entrypoint'])}"] if service.get("entrypoint") else []
    )
    options += [f"--cap-drop={name}" for name in service.get("cap_drop", ())]
    options += [f"--cap-add={name}" for name in service.get("cap_add", ())]
    # A name for a profile that this machine may not have.
    options += [
        f"--security-opt={one}" for one in service.get("security_opt", ()) if "apparmor" not in one
    ]
    options += [f"--device={one['source']}:{one['target']}" for one in service.get("devices", ())]
    options += [f"--tmpfs={one}" for one in service.get("tmpfs", ())]
    options += [
        f"--env={k}={v}" for k, v in service.get("environment", {}).items() if v is not None
    ]
    options += [_volume(one, prefix) for one in service["volumes"]]
    for secret in service.get("secrets", ()):
        name = secret["source"]
        options.append(f"--volume={secrets / name}:/run/secrets/{name}:ro")
    return options


def _volume(volume: dict[str, Any], prefix: str) -> str:
    words = ["ro"] if volume.get("read_only") else []
    words += ["nocopy"] if volume.get("volume", {}).get("nocopy") else []
    words += [volume["bind"]["propagation"]] if volume.get("bind", {}).get("propagation") else []
    source = volume["source"] if volume["type"] == "bind" else f"{prefix}-{volume['source']}"
    return f"--volume={source}:{volume['target']}" + (f":{','.join(words)}" if words else "")
