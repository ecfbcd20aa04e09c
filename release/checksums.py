"""SHA256SUMS, in the form that `sha256sum --check` reads."""

import hashlib
from pathlib import Path

FILE = "SHA256SUMS"


def write_checksums(dist: Path) -> None:
    """Write the checksums of every file below `dist`."""
    files = sorted(file for file in dist.rglob("*") if file.is_file() and file.name != FILE)
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(dist).as_posix()}\n"
        for file in files
    ]
    (dist / FILE).write_text("".join(lines), encoding="utf-8")
