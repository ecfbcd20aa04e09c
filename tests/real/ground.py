"""A vault between things that nobody may touch, and who swaps its folders for ways out of it."""

import base64
import os
import shutil
import stat as st
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.real.watch import below, exchange

PNG = b"\x89PNG\r\n\x1a\n"
NOTES = (
    "notes/Alpha.md", "notes/Beta.md", "notes/Case.md", "notes/case.md", "notes/Straße.md",
    "notes/ſoft Kelvin.md", "folder.md/inner.md", "swap/dir/note.md", "swap/dir/inner/note.md",
    "swap/file.md", "swap/deep/mid/inner/note.md", "swap/new/mid/note.md",
)  # fmt: skip
NFD = unicodedata.normalize("NFD", "notes/Ängste.md")
SWAPPED = ("swap/dir", "swap/file.md", "swap/deep/mid", "swap/new")
HIDDEN = (
    ".obsidian/app.json", ".obsidian/app.md", ".obsidian/deep/inner.md", ".git/config", ".git/HEAD",
    ".git/note.md", ".trash/old.md", ".hidden.md", "notes/.secret.md",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ground:
    """Where it happens: `home` holds the vault, its false twin and all that is outside."""

    home: Path
    marker: str

    @property
    def vault(self) -> Path:
        return self.home / "vault"

    @property
    def outside(self) -> Path:
        return self.home / "outside"

    @property
    def beyond(self) -> tuple[Path, ...]:
        """The folders that are no business of the server."""
        return self.outside, self.home / "vault-evil", self.gates

    @property
    def gates(self) -> Path:
        """Links to the outside by which one sees that somebody went: even a bare look marks them."""
        return self.home / "gates"

    @property
    def closed(self) -> tuple[Path, ...]:
        """The folders in the vault that are no business of an agent."""
        return self.vault / ".obsidian", self.vault / ".git"

    @property
    def links(self) -> dict[str, str]:
        """Symbolic links in the vault, by what they say."""
        vault, outside = self.vault, self.outside
        return {
            "links/inside.md": "../notes/Alpha.md", "links/inside": "../notes",
            "links/inside-abs.md": f"{vault}/notes/Alpha.md", "links/root": f"{vault}",
            "links/out": f"{outside}", "links/out-rel": "../../outside",
            "links/out.md": f"{outside}/secret.md", "links/out-rel.md": "../../outside/secret.md",
            "links/out.png": "../../outside/secret.png", "links/chain": "chained",
            "links/chained": "../links/out", "links/chain.md": "inside/../out-rel/secret.md",
            "links/evil": "../../vault-evil", "links/evil-abs": f"{vault}-evil",
            "links/sneaky": f"{vault}/../outside", "links/slashes": f"//{outside}//",
            "links/dangling.md": "nowhere.md", "links/dangling-out.md": f"{outside}/made.md",
            "links/dangling-rel.md": "../../outside/made-too.md", "links/loop-a": "loop-b",
            "links/loop-b": "loop-a", "links/self.md": "self.md", "links/up": "..",
            "links/upup": "../..", "links/dot": ".", "links/git": "../.git",
            "links/obsidian.md": "../.obsidian/app.md", "links/trash": "../.trash",
            "links/through": "up/.git",
            "links/gate": "../../gates/out", "links/gate.md": f"{self.gates}/secret.md",
            "links/file.md": "../notes/Alpha.md/../Beta.md", "links/long.md": "x" * 300,
            "links/latin.md": os.fsdecode(b"../files/caf\xe9.md"), "links/here": "../links",
            "links/back.md": "../notes/../links/..", "links/proc": "/proc/self", "links/fd": "/proc/self/fd",
            "links/cwd": "/proc/self/cwd", "links/slash": "/", "links/pipe.md": f"{outside}/pipe",
            "links/far.md": f"{outside}/to-proc", "away": "../outside", "away.md": "../secret.md",
        }  # fmt: skip

    def build(self) -> None:
        """Everything that is outside, and the vault."""
        for folder in (self.outside, self.home / "vault-evil", self.outside / "vault"):
            for name in ("secret.md", "note.md", "inner/note.md", "mid/inner/note.md", "passwd",
                         f"{self.marker}.md", f"inner/{self.marker}.md", ".obsidian/app.json",
                         "notes/Alpha.md", "mid/note.md", "deep/secret.md"):  # fmt: skip
                self._mark(folder / name)
        self._mark(self.home / "secret.md")
        (self.outside / "secret.png").write_bytes(PNG + self.marker.encode())
        (self.outside / "to-proc").symlink_to("/proc/self/environ")
        (self.outside / "to-fd").symlink_to("/proc/self/fd")
        os.mkfifo(self.outside / "pipe")
        self.gates.mkdir()
        (self.gates / "out").symlink_to("../outside")
        (self.gates / "secret.md").symlink_to("../outside/secret.md")
        self.plant()

    def plant(self) -> None:
        """Put into the vault what is missing of it."""
        for name in HIDDEN:
            if not os.path.lexists(self.vault / name):
                self._mark(self.vault / name)
        for name in (*NOTES, NFD):
            self._write(
                name, f"# {name}\n\n## Part\n\nwords of it, see [[Alpha]] ^block\n".encode()
            )
        self._write("files/picture.png", PNG)
        self._write("files/data.txt", b"plain words\n")
        self._write(os.fsdecode(b"files/caf\xe9.md"), b"no name in UTF-8\n")
        for name, target in self.links.items():
            if not os.path.lexists(self.vault / name):
                self._folder(self.vault / name)
                (self.vault / name).symlink_to(target)
        if not os.path.lexists(self.vault / "notes/pipe.md"):
            os.mkfifo(self.vault / "notes/pipe.md")

    def sweep(self) -> list[str]:
        """Bring the vault back to what was planted; what had a name that nobody may give."""
        planted = self._planted()
        names = {os.path.basename(name) for name in planted}
        bad: list[str] = []
        for path in reversed(below(self.vault, but=self.closed)):
            name, at = path.name, str(path.relative_to(self.vault))
            known = at in planted or (name in names and not name.startswith("."))
            if not known and name != ".secret.md" and not _is_fair(name):
                bad.append(at)
            if planted.get(at) != st.S_IFMT(path.lstat().st_mode):
                _remove(path)
        self.plant()
        return bad

    def _planted(self) -> dict[str, int]:
        files = {
            *NOTES,
            NFD,
            *HIDDEN,
            "files/picture.png",
            "files/data.txt",
            ".vault-mcp",
            os.fsdecode(b"files/caf\xe9.md"),
        }
        planted = dict.fromkeys(files, st.S_IFREG) | dict.fromkeys(self.links, st.S_IFLNK)
        planted["notes/pipe.md"] = st.S_IFIFO
        for name in list(planted):
            while name := os.path.dirname(name):
                planted[name] = st.S_IFDIR
        return planted

    def _mark(self, path: Path) -> None:
        self._folder(path)
        path.write_text(f"{self.marker} in {path.name}\n")

    def _write(self, name: str, data: bytes) -> None:
        path = self.vault / name
        if not os.path.lexists(path):
            self._folder(path)
            path.write_bytes(data)

    def _folder(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)

    def leaks(self) -> tuple[bytes, ...]:
        """What no answer may hold: the marker as it is, and as it looks within base64."""
        mark = self.marker.encode()
        shifted = (base64.b64encode(b"\0" * lead + mark)[4 if lead else 0 :] for lead in range(3))
        return mark, *(text[: len(text) // 4 * 4 - 4] for text in shifted)


def _is_fair(name: str) -> bool:
    """What Obsidian, Windows and a drive can live with, said without the server's own rules."""
    stem = name.split(".", maxsplit=1)[0].rstrip().upper()
    return (
        name == unicodedata.normalize("NFC", name)
        and not set(name) & set('*"\\/<>:|?#^[]')
        and not any(unicodedata.category(char) in ("Cc", "Zl", "Zp", "Cs") for char in name)
        and name == name.strip()
        and not name.startswith(".")
        and not name.endswith(".")
        and len(name.encode()) <= 250
        and stem not in {"CON", "PRN", "AUX", "NUL"}
        and not (stem[:3] in ("COM", "LPT") and stem[3:] in set("123456789¹²³"))
    )


def _remove(path: Path) -> None:
    if st.S_ISDIR(path.lstat().st_mode):
        shutil.rmtree(path)
    else:
        path.unlink()


def swap(home: str, marker: str, stop: Event) -> None:
    """Until told to stop: what is a folder or a file is a way out of the vault in the next moment."""
    ground = Ground(Path(home), marker)
    spare = ground.vault / "swap"
    ways = [(ground.vault / name, spare / f"way-{n}") for n, name in enumerate(SWAPPED)]
    targets = {"swap/file.md": ground.gates / "secret.md"}
    n = 0
    while not stop.is_set():
        n += 1
        path, way = ways[n % len(ways)]
        target = targets.get(str(path.relative_to(ground.vault)), ground.gates / "out")
        with suppress(OSError):
            if not os.path.lexists(way):
                os.symlink(target, way)
            exchange(path, way)
            if n % 3 == 0:
                stop.wait(0.001)
            exchange(path, way)
        if n % 50 == 0:
            with suppress(OSError):
                _rename_around(spare)
        if n % 200 == 0:
            with suppress(OSError):
                ground.plant()


def _rename_around(spare: Path) -> None:
    """The slow way, with a moment in which there is nothing."""
    os.rename(spare / "dir", spare / "dir-kept")
    os.symlink("../../gates/out", spare / "dir")
    os.unlink(spare / "dir")
    os.rename(spare / "dir-kept", spare / "dir")
