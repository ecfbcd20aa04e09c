"""A stand-in for the gh CLI over a real bare repository: what it is told it does with git."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRIPT = """#!{python}
import json, pathlib, subprocess, sys
root = pathlib.Path({root!r})
state = root / "pulls.json"
log = root / "calls.jsonl"
arguments = sys.argv[1:]
with log.open("a") as out:
    out.write(json.dumps(arguments) + "\\n")
pulls = json.loads(state.read_text()) if state.exists() else {{}}

def option(name):
    return arguments[arguments.index(name) + 1]

match arguments:
    case ["repo", "clone", repository, folder, "--", *flags]:
        source = root / (repository + ".git")
        sys.exit(subprocess.run(["git", "clone", *flags, source.as_uri(), folder]).returncode)
    case ["pr", "view", branch, *_]:
        if branch not in pulls:
            sys.exit("no pull requests found for branch " + branch)
        print(json.dumps(pulls[branch]))
    case ["pr", "create", *_]:
        number = len(pulls) + 1
        url = "https://github.com/" + option("--repo") + "/pull/" + str(number)
        pulls[option("--head")] = {{
            "url": url, "state": "OPEN", "title": option("--title"), "base": option("--base"),
        }}
        print(url)
    case ["pr", "edit", branch, *_]:
        pulls[branch]["title"] = option("--title")
        print(pulls[branch]["url"])
    case _:
        sys.exit("unknown: " + " ".join(arguments))
state.write_text(json.dumps(pulls))
"""


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


@dataclass(frozen=True)
class Forge:
    """A repository `me/code` with one commit, and the programs to reach it."""

    root: Path

    @classmethod
    def make(cls, root: Path, bin_folder: Path) -> "Forge":
        bare = root / "me/code.git"
        bare.mkdir(parents=True)
        git(bare, "init", "--quiet", "--bare", "--initial-branch=trunk")
        work = root / "work"
        git(root, "clone", "--quiet", str(bare), str(work))
        (work / "README.md").write_text("code\n")
        git(work, "checkout", "--quiet", "-b", "trunk")
        git(work, "add", ".")
        git(work, "commit", "--quiet", "-m", "start")
        git(work, "push", "--quiet", "origin", "trunk")
        bin_folder.mkdir(parents=True, exist_ok=True)
        script = bin_folder / "gh"
        script.write_text(SCRIPT.format(python=sys.executable, root=str(root)))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return cls(root)

    @property
    def bare(self) -> Path:
        return self.root / "me/code.git"

    def branches(self) -> list[str]:
        return git(self.bare, "branch", "--format=%(refname:short)").split()

    def show(self, branch: str, path: str) -> str:
        return git(self.bare, "show", f"{branch}:{path}")

    def commits(self, branch: str) -> int:
        return int(git(self.bare, "rev-list", "--count", branch))

    def pulls(self) -> dict[str, Any]:
        file = self.root / "pulls.json"
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def merge(self, branch: str) -> None:
        """Somebody merges a pull request."""
        work = self.root / "work"
        git(work, "fetch", "--quiet", "origin")
        git(work, "merge", "--quiet", "--no-edit", f"origin/{branch}")
        git(work, "push", "--quiet", "origin", "trunk")
        pulls = self.pulls()
        pulls[branch]["state"] = "MERGED"
        (self.root / "pulls.json").write_text(json.dumps(pulls))


def on_path(folder: Path) -> str:
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
