"""Where devlogs and decisions lie: in one place for all, or in a folder for each project."""

from dataclasses import dataclass
from typing import Literal

from server.index.conditions import Scope
from server.models import NotePath, path_key
from server.service.globs import matcher
from server.vault.paths import parse_note_path, parse_path

Kind = Literal["devlog", "adr"]
INDEX = "_index.md"


@dataclass(frozen=True, slots=True)
class Layout:
    """`per_project` puts what belongs to a project below a folder of its name."""

    per_project: bool = False

    def folder(self, kind: Kind, project: str | None) -> NotePath:
        """The folder that new ones go to. Raises `InvalidPath`."""
        return parse_path(f"{self._root(project)}{kind}")

    def index_of(self, path: str) -> NotePath:
        """The index note that a decision's file is named in."""
        parts = path.split("/")
        names = [path_key(part) for part in parts[:-1]]
        above = len(names) - 1 - names[::-1].index("adr") if "adr" in names else 0
        return parse_note_path("/".join([*parts[:above], INDEX]))

    def scope(self, kind: Kind, project: str | None) -> Scope:
        """Where to look for what is there already."""
        if not self.per_project:
            return Scope(kind)
        if project:
            return Scope(self.folder(kind, project))
        glob = f"**/{kind}/**/*.md"
        return Scope("", glob, matcher(glob))

    def _root(self, project: str | None) -> str:
        return f"{project.strip('/')}/" if self.per_project and project else ""
