"""All checks, one after the other. None of them changes anything or waits without an end."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from server.doctor.access import check_access
from server.doctor.findings import Finding, fail, ok
from server.doctor.machine import check_machine
from server.doctor.remote import check_remote
from server.doctor.state import check_state
from server.doctor.vault import check_vault
from server.errors import VaultError
from server.settings import Settings

_LONGEST_LOOK = 5.0
_SOUND_SECONDS = 30.0
_FIXES = {
    "VAULT_PATH": "Set VAULT_PATH to the folder that holds the notes.",
    "STATE_DIR": "Set STATE_DIR to a folder on a local disk, outside the vault.",
    "AUTH_TOKEN": "Set AUTH_TOKEN to 16 random characters or more, or use `vault-mcp token create NAME`.",
    "VAULT_MCP_CONFIG": "Set VAULT_MCP_CONFIG to a YAML file that this user can read.",
    "TIME_ZONE": "Set TIME_ZONE to a name like Europe/Berlin.",
}


def examine_problems(problems: Iterable[str]) -> Iterator[Finding]:
    """What is wrong with settings that can't be used at all."""
    for problem in problems:
        name = problem.partition(":")[0]
        fix = _FIXES.get(name, f"Correct {name} in the environment or in the settings file.")
        yield fail("settings", problem.rstrip(".") + ".", fix)


def examine(settings: Settings, secrets: list[Path]) -> Iterator[Finding]:
    """Look at everything; `secrets` are the files that secrets were read from."""
    seconds = min(_LONGEST_LOOK, settings.mount_timeout)
    yield ok("settings", "All settings can be used; `vault-mcp config check` lists them.")
    checked = check_vault(settings, seconds)
    yield from checked.findings
    parts: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("rc", lambda: check_remote(settings, checked.seen, seconds)),
        (
            "state",
            lambda: check_state(settings, checked.seen, seconds=seconds, patience=_SOUND_SECONDS),
        ),
        ("access", lambda: check_access(settings, secrets)),
        ("machine", lambda: check_machine(settings, seconds)),
    ]
    for name, part in parts:
        yield from _going_on(name, part())


def _going_on(name: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """What can't be looked at is a finding as well, and keeps nobody from the next part."""
    try:
        yield from findings
    except (OSError, VaultError) as error:
        yield fail(
            name,
            f"It could not be looked at to the end: {error}.",
            "Run `vault-mcp doctor` as the user that the server runs as.",
        )
