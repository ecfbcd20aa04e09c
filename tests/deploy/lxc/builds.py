"""Other builds of the project: newer ones, and ones that don't work."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[3]


def wheelhouse_with(folder: Path, version: str, changes: Mapping[str, str]) -> Path:
    """A wheel of this tree with another version, and with lines added to some of its files."""
    tree = folder / version
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tree)
    shutil.copytree(PROJECT / "server", tree / "server", ignore=shutil.ignore_patterns("*.pyc"))
    front = tree / "server" / "__init__.py"
    front.write_text(
        front.read_text().replace('__version__ = "', f'__version__ = "{version}" or "')
    )
    for name, line in changes.items():
        with (tree / name).open("a") as file:
            file.write(f"\n{line}")
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder), str(tree)],
        check=True, timeout=120,
    )  # fmt: skip
    (wheel,) = folder.glob(f"*-{version}-*.whl")
    return wheel
