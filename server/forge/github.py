"""GitHub through git and the gh CLI: one file proposed on a branch of its own, as a pull request.

A copy of the repository lives in a temporary folder for the length of a call. Who may push is up to
`gh auth` on the server.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server.errors import Unavailable
from server.forge.processes import FailedError, run
from server.workers import Deadline

FOLDER = "docs/adr"

_CONFIG = (
    "-c", "credential.https://github.com.helper=!gh auth git-credential",
    "-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false", "-c", "core.autocrlf=false",
)  # fmt: skip
_AUTHOR = (
    "-c", "user.name=vault-mcp", "-c", "user.email=vault-mcp@users.noreply.github.com",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Proposal:
    """A file for a repository, and the words of its pull request."""

    path: str
    text: str
    branch: str
    title: str
    body: str


class GitHub:
    """Makes copies of repositories."""

    @contextmanager
    def checkout(self, repository: str, deadline: Deadline) -> Iterator["Checkout"]:
        """A copy of a repository's default branch, gone after the block."""
        with tempfile.TemporaryDirectory(prefix="vault-mcp-", ignore_cleanup_errors=True) as name:
            folder = Path(name) / "copy"
            clone = ["gh", "repo", "clone", repository, str(folder), "--", "--depth=1", "--quiet"]
            try:
                run(clone, Path(name), deadline)
                copy = Checkout(repository, folder, deadline)
                copy.base = copy.git("rev-parse", "--abbrev-ref", "HEAD").strip()
            except FailedError as error:
                raise _refused("can't be copied", repository, error) from None
            yield copy


class Checkout:
    """A copy of a repository."""

    def __init__(self, repository: str, folder: Path, deadline: Deadline) -> None:
        self.base = ""
        self._repository = repository
        self._folder = folder
        self._deadline = deadline

    def names(self) -> list[str]:
        """The names of the records that are published already."""
        folder = self._inside(FOLDER)
        return sorted(file.name for file in folder.glob("*.md")) if folder.is_dir() else []

    def read(self, path: str) -> str | None:
        """What a file says on the branch that is checked out."""
        file = self._inside(path)
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None

    def propose(self, what: Proposal) -> str | None:
        """The pull request's address; None when the default branch says the same already.

        A branch that is there is added to, and so is its pull request.
        """
        try:
            return self._propose(what)
        except FailedError as error:
            raise _refused("refused the change", self._repository, error) from None

    def git(self, *arguments: str) -> str:
        """Run git in the copy. Raises `FailedError`."""
        return run(["git", *_CONFIG, *arguments], self._folder, self._deadline)

    def _propose(self, what: Proposal) -> str | None:
        state, url = self._pull_request(what.branch)
        if self.read(what.path) == what.text:
            return url if state == "MERGED" else None
        ref = f"refs/heads/{what.branch}"
        if self.git("ls-remote", "--heads", "origin", ref).strip():
            self.git("fetch", "--quiet", "--depth=1", "origin", ref)
            self.git("checkout", "--quiet", "-B", what.branch, "FETCH_HEAD")
        else:
            self.git("checkout", "--quiet", "-b", what.branch)
        if self.read(what.path) != what.text:
            self._commit(what)
            self.git("push", "--quiet", "origin", f"HEAD:{ref}")
        words = ("--title", what.title, "--body", what.body)
        if state == "OPEN" and url is not None:
            self._gh("pr", "edit", what.branch, *words)
            return url
        made = self._gh("pr", "create", "--head", what.branch, "--base", self.base, *words)
        return made.split()[-1] if made.split() else None

    def _commit(self, what: Proposal) -> None:
        file = self._inside(what.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(what.text.encode("utf-8", "replace"))
        self.git("add", "--", what.path)
        try:
            known: tuple[str, ...] = () if self.git("config", "user.email").strip() else _AUTHOR
        except FailedError:
            known = _AUTHOR
        self.git(*known, "commit", "--quiet", "--message", what.title)

    def _pull_request(self, branch: str) -> tuple[str | None, str | None]:
        try:
            said = json.loads(self._gh("pr", "view", branch, "--json", "url,state"))
            return str(said["state"]), str(said["url"])
        except (FailedError, ValueError, KeyError, TypeError):
            return None, None

    def _gh(self, *arguments: str) -> str:
        command = ["gh", *arguments, "--repo", self._repository]
        return run(command, self._folder, self._deadline)

    def _inside(self, path: str) -> Path:
        """A place in the copy. A repository's links must not lead out of it."""
        place = self._folder / path
        if not place.resolve().is_relative_to(self._folder.resolve()):
            raise Unavailable(
                f"{path!r} leads out of the repository.", "Its owner must replace that link."
            )
        return place


def _refused(what: str, repository: str, error: FailedError) -> Unavailable:
    return Unavailable(
        f"The repository {repository} {what}: {error.words}",
        "The server's owner can see with `gh auth status` what the server may do.",
    )
