"""Runs ripgrep and streams its hits. Owns the child process: its arguments, its time, its end.

It knows nothing of notes: files in, byte offsets out. The pattern only ever travels as the value
of `--regexp=`, so nothing in it can become an option.
"""

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from server.errors import InvalidRequest, RateLimited, Timeout, Unavailable
from server.search.complaint import complaint
from server.search.executable import find_rg
from server.search.hits import Hit, read_hits
from server.workers import Deadline

__all__ = ["Case", "Hit", "Ripgrep", "find_rg"]

Case = Literal["smart", "sensitive", "insensitive"]

MAX_PATTERN = 10_000
_BIT = 0.2

_CASE = {"smart": "--smart-case", "sensitive": "--case-sensitive", "insensitive": "--ignore-case"}
# -j1 streams hits as they are found; with more threads rg buffers each file's whole output, which
# for a frequent pattern is many times the size of the vault.
_OPTIONS = (
    "--no-config",
    "--json",
    "--no-line-number",
    "--text",
    "--encoding=none",
    "--crlf",
    "--no-ignore",
    "--no-messages",
    "--threads=1",
    "--regex-size-limit=32M",
    "--dfa-size-limit=128M",
)

_LISTING = (
    "--no-config",
    "--files-with-matches",
    "--null",
    "--fixed-strings",
    "--ignore-case",
    "--text",
    "--encoding=none",
    "--no-ignore",
    "--no-messages",
)


@dataclass(slots=True)
class _Run:
    """One child process, and whether its time ran out."""

    process: "subprocess.Popen[bytes]"
    complaints: IO[bytes]
    expired: bool = field(default=False)

    def expire(self) -> None:
        self.expired = True
        self.process.kill()


class Ripgrep:
    """At most `max_concurrent` children at once; each is dead and reaped when its call returns."""

    def __init__(self, executable: str, max_concurrent: int = 2) -> None:
        self._executable = executable
        self._slots = threading.BoundedSemaphore(max_concurrent)

    def search(
        self,
        pattern: str,
        files: Sequence[Path],
        *,
        case: Case,
        timeout: float,
        on_hit: Callable[[Hit], bool],
        deadline: Deadline | None = None,
    ) -> None:
        """Call `on_hit` for every matching line, in order within each file, until it says False.

        Missing files are passed over. When whoever set the `deadline` goes, rg goes. Raises
        `InvalidRequest` for a pattern that is no regex, `Timeout`, and `RateLimited` when too many
        searches run already.
        """
        names = [str(file) for file in files] or ["/dev/null"]
        positions = {name: position for position, name in reversed(list(enumerate(names)))}
        self._search(pattern, names, positions, None, case, timeout, on_hit, deadline)

    def files_with(
        self, words: Sequence[str], folder: str, *, glob: str, limit: int, timeout: float
    ) -> list[str]:
        """The files below a folder that have one of the words, whatever their case, as paths in it.

        At most `limit`; hidden ones and what symbolic links lead to don't count. Raises like `search`.
        """
        for word in words:
            _check(word)
        found: list[str] = []
        command = [
            self._executable, *_LISTING, f"--glob={glob}", *(f"--regexp={word}" for word in words),
            "--", folder,
        ]  # fmt: skip
        deadline = Deadline.after(timeout)
        with self._slot(timeout, deadline), _running(command, None, timeout) as run:
            assert run.process.stdout is not None  # noqa: S101 - a pipe was asked for
            for name in _ended_by_nul(run.process.stdout):
                found.append(os.path.relpath(os.fsdecode(name), folder))
                if len(found) == limit:
                    break
            if run.expired:
                raise _too_slow(timeout)
        return found

    def search_bytes(
        self,
        pattern: str,
        data: bytes | bytearray,
        *,
        case: Case,
        timeout: float,
        on_hit: Callable[[Hit], bool],
        deadline: Deadline | None = None,
    ) -> None:
        """`search` over one text in memory; every hit is of file 0."""
        self._search(pattern, ["-"], {"<stdin>": 0}, data, case, timeout, on_hit, deadline)

    def _search(
        self,
        pattern: str,
        names: Sequence[str],
        positions: dict[str, int],
        data: bytes | bytearray | None,
        case: Case,
        timeout: float,
        on_hit: Callable[[Hit], bool],
        deadline: Deadline | None,
    ) -> None:
        _check(pattern)
        deadline = deadline or Deadline.after(timeout)
        command = [self._executable, *_OPTIONS, _CASE[case], f"--regexp={pattern}", "--", *names]
        with (
            self._slot(timeout, deadline),
            _running(command, data, timeout) as run,
            deadline.ending(run.expire),
        ):
            assert run.process.stdout is not None  # noqa: S101 - a pipe was asked for
            for hit in read_hits(run.process.stdout, positions):
                if run.expired or not on_hit(hit):
                    break
            else:
                _judge(run)
            if run.expired:
                raise _too_slow(timeout)

    @contextlib.contextmanager
    def _slot(self, timeout: float, deadline: Deadline) -> Iterator[None]:
        waited = 0.0
        # Bit by bit: who has gone must not keep a thread waiting.
        while not self._slots.acquire(timeout=_BIT):
            waited += _BIT
            if waited >= timeout or deadline.cancelled:
                raise RateLimited(
                    "Too many searches are running at once.",
                    "Try again in a moment, one at a time.",
                )
        try:
            yield
        finally:
            self._slots.release()


@contextlib.contextmanager
def _running(
    command: Sequence[str], data: bytes | bytearray | None, timeout: float
) -> Iterator[_Run]:
    # A file, because nobody reads a pipe of complaints while hits are streaming.
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                env={},
                cwd="/",
                bufsize=1 << 16,
            )
        except OSError as error:
            raise Unavailable(
                "The search program could not be started.", "Tell whoever runs this server."
            ) from error
        run = _Run(process, complaints)
        clock = threading.Timer(timeout, run.expire)
        clock.daemon = True
        clock.start()
        feeder = None if data is None else _feed(process, data)
        try:
            yield run
        finally:
            clock.cancel()
            process.kill()
            process.wait()
            if feeder is not None:
                feeder.join()
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            process.stdout.close()


def _feed(process: "subprocess.Popen[bytes]", data: bytes | bytearray) -> threading.Thread:
    """Write in a thread of its own: rg answers before it has read everything."""

    def write() -> None:
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(data)

    thread = threading.Thread(target=write, name="rg-feed", daemon=True)
    thread.start()
    return thread


def _ended_by_nul(stream: IO[bytes]) -> Iterator[bytes]:
    held = b""
    while chunk := stream.read1(1 << 16):  # type: ignore[attr-defined]
        *whole, held = (held + chunk).split(b"\0")
        yield from whole


def _check(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise InvalidRequest(
            f"The pattern has {len(pattern)} characters; at most {MAX_PATTERN} are allowed.",
            "Search for a shorter part of it.",
        )
    if "\0" in pattern or any("\ud800" <= char <= "\udfff" for char in pattern):
        raise InvalidRequest(
            "The pattern holds a character that no text can have (NUL or half a surrogate pair).",
            r"Leave it out, or write it as an escape such as \x00.",
        )


def _judge(run: _Run) -> None:
    """Raise for what rg itself refused; unreadable files alone are no refusal."""
    code = run.process.wait()
    if run.expired or code in (0, 1):
        return
    run.complaints.seek(0)
    words = run.complaints.read(1 << 18).decode(errors="replace").strip()
    if words:
        raise complaint(words)
    if code < 0:
        raise Unavailable("The search program stopped unexpectedly.", "Try again.")


def _too_slow(timeout: float) -> Timeout:
    return Timeout(
        f"The search took longer than {timeout:g} seconds.",
        "Use a more specific pattern, or narrow the search with a path filter.",
    )
