"""What `vault-mcp backup` and `vault-mcp restore` say and do. Neither touches the vault."""

import argparse
from pathlib import Path

from server.commands import Commands, print_json, tell_audit
from server.commands.progress import Bar
from server.settings import Settings, config_file, load

_QUIET_SECONDS = 1.0


def add(commands: Commands) -> None:
    """Declare the commands."""
    backup = commands.add_parser(
        "backup", help="write journal, history, tokens, audit and rules to one file, and check it"
    )
    backup.add_argument("file", metavar="FILE", type=Path)
    backup.add_argument("--force", action="store_true", help="replace a file that is there")
    backup.add_argument("--verify", action="store_true", help="only check a backup that is there")
    backup.set_defaults(run=_backup)
    restore = commands.add_parser(
        "restore", help="bring a backup back into STATE_DIR; no server may run"
    )
    restore.add_argument("file", metavar="FILE", type=Path)
    restore.add_argument("--force", action="store_true", help="replace what STATE_DIR holds")
    restore.set_defaults(run=_restore)
    for command in (backup, restore):
        command.add_argument("--json", action="store_true")


def _backup(arguments: argparse.Namespace) -> int:
    # The other commands do without these.
    from server.backup.making import check_backup, make_backup  # noqa: PLC0415

    file: Path = arguments.file.expanduser().absolute()
    if arguments.verify:
        contents = check_backup(file)
    else:
        settings = load()
        bar = Bar("backing up", after=_QUIET_SECONDS)
        contents = make_backup(
            settings, _config(settings), file, force=arguments.force, progress=bar.show
        )
        bar.complete()
        tell_audit(settings, "state_backed_up", files=len(contents.files))
    size = file.stat().st_size
    told = {"file": str(file), "bytes": size, "files": len(contents.files), **contents.facts}
    if arguments.json:
        print_json(told)
    else:
        print(
            f"{file} is sound: {len(contents.files)} files, {size / 1e6:.1f} MB, made {told['made']}."
        )
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    from server.backup.contents import CONFIG  # noqa: PLC0415 - see above
    from server.backup.restoring import restore_backup  # noqa: PLC0415

    settings, file = load(), arguments.file.expanduser().absolute()
    bar = Bar("restoring", after=_QUIET_SECONDS)
    contents = restore_backup(file, settings.state_dir, force=arguments.force, progress=bar.show)
    bar.complete()
    tell_audit(settings, "state_restored", made=contents.facts.get("made"))
    kept = settings.state_dir / CONFIG
    if arguments.json:
        config = sorted(str(one) for one in kept.glob("*"))
        print_json({"state_dir": str(settings.state_dir), "config": config, **contents.facts})
        return 0
    print(f"{settings.state_dir} is what it was at {contents.facts.get('made')}.")
    for name, now in _config(settings).items():
        if (kept / name).exists() and not _same(kept / name, now):
            print(f"{now} is not the file of then; that one is {kept / name}.")
    print("The next start builds the index anew.")
    return 0


def _config(settings: Settings) -> dict[str, Path]:
    """The files outside of STATE_DIR that belong to the set-up."""
    files = {"settings.yaml": config_file(), "policy.yaml": settings.policy_file}
    return {name: file for name, file in files.items() if file is not None}


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
