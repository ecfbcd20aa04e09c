"""The mount guard: knows at any moment whether VAULT_PATH is the real thing, and pins it.

A pinned descriptor is the only way to the notes, so nothing is ever written beside or beneath a
lost mount. The guard re-pins by itself when the mount returns; every new pin is a new generation,
which tells the journal that rclone may have restarted in between.
"""

import errno
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from server.errors import Unavailable, VaultError
from server.telemetry import LOG, Telemetry, log
from server.vault import files
from server.vault.hands import OWN, ExpendableHands, Hands
from server.vault.identity import IdentityFile
from server.vault.marker import has_marker, looks_empty, make_marker, read_marker, share_device
from server.vault.mounts import MountPoint, MountWatch, hangs_below, mount_id_of, mount_of
from server.vault.obsidian import find_obsidian
from server.workers import Deadline, Workers

State = Literal[
    "starting", "ok", "missing", "not_mounted", "dead", "no_marker", "wrong_vault", "empty", "hung", "error"
]  # fmt: skip
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]

_REASONS: dict[State, tuple[str, str]] = {
    "starting": ("The vault is being opened.", "Try again in a second."),
    "missing": ("The vault folder does not exist.", "Create or mount it; VAULT_PATH names it."),
    "not_mounted": (
        "The vault folder is not mounted.",
        "Start the mount; the server notices by itself. REQUIRE_MOUNT=false serves a plain folder.",
    ),
    "dead": ("The mount has died.", "Restart rclone; the server notices by itself."),
    "no_marker": (
        "The vault's marker file is missing, so this may not be the vault.",
        "Check the mount. If this really is the vault, run `vault-mcp adopt`.",
    ),
    "wrong_vault": (
        "The folder holds another vault than the one this server knows.",
        "Check VAULT_PATH and the mount, or use another STATE_DIR. `vault-mcp adopt` accepts it.",
    ),
    "empty": (
        "The vault is suddenly empty.",
        "Check the mount and the remote. If it was emptied on purpose, run `vault-mcp adopt`.",
    ),
    "hung": (
        "The mount does not answer.",
        "Check the network and rclone; restart rclone if it hangs.",
    ),
    "error": ("The vault can't be read.", "Check its permissions and the mount."),
}


_MOST_STUCK = 4
"""Processes that the kernel can't end: beyond these, nothing new is sent into a mount that hangs."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A root known to be the vault, and how it is mounted."""

    root: files.Root
    mount: MountPoint | None
    generation: int

    @property
    def is_rclone(self) -> bool:
        return self.mount is not None and self.mount.is_rclone

    @property
    def may_hang(self) -> bool:
        """Whether something else than this machine's kernel answers for it, or nobody knows."""
        return self.on_foreign or self.root.holds_foreign

    @property
    def on_foreign(self) -> bool:
        """The same of the root itself, whatever is mounted in one of its folders."""
        return self.mount is None or self.mount.may_hang


@dataclass(frozen=True, slots=True)
class Health:
    """The cached answer: never touches the mount to be read."""

    state: State
    since: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.state == "ok"

    @property
    def reason(self) -> str:
        return _REASONS[self.state][0] if self.state != "ok" else ""

    @property
    def hint(self) -> str:
        return _REASONS[self.state][1] if self.state != "ok" else ""


class _NotTheVault(Exception):
    def __init__(self, state: State, detail: str = "") -> None:
        super().__init__(state)
        self.state: State = state
        self.detail = detail


class Guard:
    """Probes, pins and remembers. `probe` may be called from any thread, one runs at a time."""

    def __init__(
        self,
        path: Path,
        *,
        marker: str,
        require_mount: Literal["auto", "true", "false", "rclone"],
        identity: IdentityFile,
        telemetry: Telemetry,
        timeout: float = 5.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._marker = marker
        self._require = require_mount
        self._identity = identity
        self._telemetry = telemetry
        self._timeout = timeout
        self._now = now
        self._pin: Pin | None = None
        self._generation = 0
        self._mounts = MountWatch()
        self._verified: tuple[int, int] | None = None
        """At which state of the mount table which pin was found to be in its place."""
        self._spare: ExpendableHands | None = None
        self._stuck: list[ExpendableHands] = []
        self._probing = threading.Lock()
        self._wake = threading.Event()
        self.looked = threading.Event()
        """Set once the first probe has answered, whatever it saw."""
        self.on_return: Callable[[], object] = lambda: None
        """Called when the vault is there, at first or again; set by who builds the rooms."""
        # Probes have threads of their own: a hung mount must not take the ones that serve callers.
        self._workers = Workers("probe", size=4)
        self.health = Health("starting", now())
        self._publish(self.health)

    def pin(self) -> Pin:
        """The pinned vault, checked against the kernel's mount table. Raises `Unavailable`."""
        pin, health = self._pin, self.health
        if pin is None or not health.ok:
            raise Unavailable(
                health.reason or _REASONS["starting"][0], health.hint, state=health.state
            )
        if not self._still_mounted(pin):
            self._lost("not_mounted")
            self._wake.set()
            raise files.VaultGone(*_REASONS["not_mounted"], state="not_mounted")
        return pin

    @property
    def last(self) -> Pin | None:
        """The pinned vault as it was last seen; nothing is checked."""
        return self._pin

    def suspect(self, error: VaultError) -> None:
        """A call failed as if the mount were gone: don't trust the pin until a probe says otherwise."""
        if isinstance(error, files.VaultGone) and self.health.ok:
            pin = self._pin
            if pin is None or pin.on_foreign or not pin.root.holds_foreign:
                self._lost("dead")
            # Else it may be what is mounted in one of its folders: the probe will say.
            self._wake.set()

    def watch(self, stopping: threading.Event, *, calm: float = 5.0, alarmed: float = 1.0) -> None:
        """Probe until told to stop: now and then while all is well, often while it isn't."""
        while not stopping.is_set():
            try:
                self.probe()
            except Exception:  # noqa: BLE001 - were the watch to die, nothing would ever recover
                LOG.exception("the vault could not be looked at")
                self._lost("error")
            self._wake.wait(calm if self.health.ok else alarmed)
            self._wake.clear()

    def wake(self) -> None:
        """Make `watch` look now."""
        self._wake.set()

    def close(self) -> None:
        """Let the probing threads end, and let go of the vault."""
        self._workers.close()
        self._mounts.close()
        pin, self._pin = self._pin, None
        for hands in (pin.root.hands if pin else None, self._spare):
            if hands is not None:
                hands.abandon()

    def probe(self) -> Health:
        """Look at the vault now, within the deadline, and publish what was seen."""
        with self._probing:
            try:
                pin = self._workers.run(Deadline.after(self._timeout), self._look)
            except _NotTheVault as seen:
                self._lost(seen.state, seen.detail)
            except VaultError:
                self._lost("hung")
            except OSError as error:
                dead = error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
                self._lost("dead" if dead else "error", errno.errorcode.get(error.errno or 0, ""))
            else:
                self._pin = pin
                self._become("ok")
            self._telemetry.workers_stuck.labels("probe").set(self._workers.stuck)
            self.looked.set()
            return self.health

    def adopt(self) -> str:
        """Accept whatever is at VAULT_PATH as the vault: forget the old identity, probe anew."""
        self._identity.update(id=None, mounted=False, populated=False, emptied=False)
        self._pin = None
        health = self.probe()
        if not health.ok:
            raise Unavailable(health.reason, health.hint, state=health.state)
        return self._identity.current.id or ""

    def remember(self, *, populated: bool) -> None:
        """A complete scan has seen notes (or none): from then on the identity binds."""
        if populated:
            self._identity.update(populated=True, emptied=False)

    def expect_less(self, pin: Pin) -> None:
        """Something was removed through here: if that was the last, an empty folder is no impostor."""
        if pin.root.hands.run(looks_empty, pin.root.fd):
            self._identity.update(emptied=True)

    # -- looking: runs in a worker, may hang ------------------------------------------------

    def _look(self) -> Pin:
        pin = self._pin
        if pin is not None and self._still_mounted(pin) and self._still_there(pin):
            try:
                self._check_pinned(pin)
            except OSError as error:
                if error.errno != errno.ENOTCONN:
                    raise
            else:
                return pin
        return self._open()

    def _check_pinned(self, pin: Pin) -> None:
        root = pin.root
        if pin.mount is None or not pin.mount.may_hang:
            self._check_still_ours(root.hands, root.fd)
            return
        # rclone may forget its folders (SIGHUP, vfs/forget, a change of the folder above): whoever
        # holds one open is left with a view that nobody refreshes. So the pin gets a new one.
        fd = self._open_root(root.path, root.hands)
        try:
            self._check_same_mount(pin.mount, root.hands, fd)
            self._check_still_ours(root.hands, fd)
            root.hands.run(os.dup2, fd, root.fd, False)
        finally:
            root.hands.close(fd)

    def _check_still_ours(self, hands: Hands, fd: int) -> None:
        known = self._identity.current.id is not None
        if known and not hands.run(has_marker, fd, self._marker):
            raise _NotTheVault("no_marker")
        self._check_not_empty(hands, fd)

    def _open(self) -> Pin:
        hands = self._hands()
        real = hands.run(os.path.realpath, self._path)
        mount = mount_of(real)
        if hands is OWN and mount is not None and mount.may_hang:
            hands = self._child()
        self._check_mounted(real, mount, hands)
        fd = self._open_root(real, hands)
        try:
            self._check_same_mount(mount, hands, fd)
            self._check_marker(hands, fd)
            self._check_not_empty(hands, fd)
        except BaseException:
            hands.close(fd)
            raise
        self._identity.update(mounted=mount is not None and mount.is_rclone)
        self._find_obsidian(real, mount, hands)
        self._generation += 1
        self._spare = None
        return Pin(files.Root(fd, real, hands), mount, self._generation)

    def _open_root(self, real: str, hands: Hands) -> int:
        try:
            return hands.run(os.open, real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise _NotTheVault("missing") from None

    def _hands(self) -> Hands:
        """Our own for a plain folder; nothing on a mount is touched by this process."""
        mount = mount_of(os.path.abspath(self._path))
        return self._child() if mount is not None and mount.may_hang else OWN

    def _child(self) -> ExpendableHands:
        if self._spare is None or self._spare.is_gone:
            self._stuck = [left for left in self._stuck if left.lingers]
            if len(self._stuck) >= _MOST_STUCK:
                raise _NotTheVault("hung", f"{len(self._stuck)} processes are stuck in the mount")
            self._spare = ExpendableHands()
        return self._spare

    def _find_obsidian(self, real: str, mount: MountPoint | None, hands: Hands) -> None:
        try:
            found = hands.run(find_obsidian, real, mount)
        except OSError:
            return
        if found is not None:
            self._identity.update(obsidian_vault=found[0], obsidian_prefix=found[1])

    def _check_mounted(self, real: str, mount: MountPoint | None, hands: Hands) -> None:
        known = self._identity.current
        must = self._require in ("true", "rclone") or (
            self._require == "auto" and known.mounted and known.populated
        )
        if not must:
            return
        # The root file system is a mount too; what counts is one of the vault's own. In a container
        # the folder that a mount will appear in is one as well, of the disk of its host.
        if mount is None or mount.path == "/" or not (mount.is_rclone or self._require == "true"):
            raise _NotTheVault("not_mounted")
        if known.mounted and known.populated and not mount.is_rclone:
            raise _NotTheVault("not_mounted", f"{mount.fstype} where rclone was")
        above = os.path.dirname(mount.path)
        if not mount.is_rclone and hands.run(share_device, real, above):
            raise _NotTheVault("not_mounted", "same device as the folder above it")

    def _check_same_mount(self, mount: MountPoint | None, hands: Hands, fd: int) -> None:
        if mount is not None and hands.run(mount_id_of, fd) not in (None, mount.id):
            raise _NotTheVault("not_mounted", "the mount changed while it was opened")

    def _check_marker(self, hands: Hands, fd: int) -> None:
        known = self._identity.current
        found = hands.run(read_marker, fd, self._marker)
        if found is None and known.id is not None and known.populated:
            raise _NotTheVault("no_marker")
        if found is None:
            found = self._make_marker(hands, fd, known.id or uuid.uuid4().hex)
        if found and known.id not in (None, found) and known.populated:
            raise _NotTheVault("wrong_vault")
        # A marker that reads empty (rclone shows new files so for a while) is still a marker.
        self._identity.update(id=found or known.id)

    def _make_marker(self, hands: Hands, fd: int, marker_id: str) -> str | None:
        try:
            return hands.run(make_marker, fd, self._marker, marker_id)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            log(
                logging.WARNING,
                "the vault is read-only: no marker, so an impostor is harder to tell",
            )
            return None

    def _check_not_empty(self, hands: Hands, fd: int) -> None:
        known = self._identity.current
        if known.populated and not known.emptied and hands.run(looks_empty, fd):
            raise _NotTheVault("empty")

    def _still_mounted(self, pin: Pin) -> bool:
        if pin.mount is None:
            return True
        # Asked before the look: a change during it is seen by the next call.
        changes = self._mounts.changes()
        if changes is not None and self._verified == (changes, pin.generation):
            return True
        now = mount_of(pin.root.path)
        if now is None or now.id != pin.mount.id:
            return False
        # A child's descriptor was compared when it was opened.
        if pin.root.hands is OWN and mount_id_of(pin.root.fd) not in (None, now.id):
            return False
        pin.root.holds_foreign = hangs_below(pin.root.path)
        self._verified = None if changes is None else (changes, pin.generation)
        return True

    def _still_there(self, pin: Pin) -> bool:
        """Whether VAULT_PATH still leads to the pinned folder: a descriptor follows one that is moved."""
        if pin.mount is not None and pin.mount.may_hang:
            return True  # inodes mean nothing there
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(now, os.fstat(pin.root.fd))

    # -- publishing ---------------------------------------------------------------------------

    def _lost(self, state: State, detail: str = "") -> None:
        pin, self._pin = self._pin, None
        if state in ("hung", "dead"):
            # Whoever waits for them must not wait any longer.
            for hands in (pin.root.hands if pin else None, self._spare):
                if isinstance(hands, ExpendableHands):
                    hands.abandon()
                    self._stuck.append(hands)
            self._spare = None
        self._become(state, detail)

    def _become(self, state: State, detail: str = "") -> None:
        if self.health.state == state:
            return
        before, self.health = self.health, Health(state, self._now(), detail)
        self._publish(self.health)
        self._telemetry.mount_changes.labels(state).inc()
        level = logging.INFO if state == "ok" else logging.WARNING
        log(
            level,
            "vault state",
            state=state,
            was=before.state,
            reason=self.health.reason or None,
            detail=detail or None,
        )
        if self.health.ok:
            self.on_return()

    def _publish(self, health: Health) -> None:
        self._telemetry.mount_up.set(1 if health.ok else 0)
        for state in STATES:
            self._telemetry.mount_state.labels(state).set(1 if state == health.state else 0)
