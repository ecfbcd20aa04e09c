"""Lines over descriptors: whole, in order, and never in the way of the loop."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from server.doors.pipes import LineReader, LineWriter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pipe() -> tuple[int, int]:
    """Both ends stay open unless a test closes them: a thread may still be at one."""
    return os.pipe()


async def lines(reader: LineReader) -> list[bytes]:
    async with asyncio.timeout(30):
        return [line async for line in reader]


@pytest.mark.parametrize("source", ["pipe", "file"])
async def test_lines_come_whole_and_in_order(
    pipe: tuple[int, int], tmp_path: Path, source: str
) -> None:
    # More of them than are read ahead, and more bytes than one read takes.
    said = [b"%d " % number + b"x" * (number % 700) for number in range(500)]
    data = b"\n".join(said) + b"\nthe rest"
    if source == "file":
        (tmp_path / "in").write_bytes(data)
        reader = LineReader(os.open(tmp_path / "in", os.O_RDONLY), 1000)
    else:

        def write() -> None:
            with os.fdopen(pipe[1], "wb") as sink:
                sink.write(data)

        threading.Thread(target=write, daemon=True).start()
        reader = LineReader(pipe[0], 1000)
    assert await lines(reader) == [*said, b"the rest"]


async def test_a_line_that_comes_bit_by_bit_is_one_line(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], 1000)
    for bit in (b"o", b"ne\nt", b"wo", b"\n"):
        os.write(pipe[1], bit)
        await asyncio.sleep(0.01)
    os.close(pipe[1])
    assert await lines(reader) == [b"one", b"two"]


async def test_a_line_too_long_is_cut(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], 10)
    os.write(pipe[1], b"x" * 5000 + b"\nshort\n")
    os.close(pipe[1])
    assert await lines(reader) == [b"x" * 11, b"short"]


async def test_who_sends_much_waits_in_the_pipe(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], 1000)
    os.set_blocking(pipe[1], False)
    sent = 0
    async with asyncio.timeout(30):
        while True:
            try:
                sent += os.write(pipe[1], b"x" * 99 + b"\n")
            except BlockingIOError:
                break
            await asyncio.sleep(0)
    # One read beyond what is kept ahead, and what the pipe itself holds.
    assert sent < 5 * (1 << 16)
    os.close(pipe[1])
    assert len(await lines(reader)) == sent // 100


async def test_a_closed_reader_has_no_more(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], 1000)
    os.write(pipe[1], b"one\ntwo\nth")
    assert await anext(reader) == b"one"
    reader.close()
    assert await lines(reader) == []


async def test_a_line_that_fits_is_written_at_once(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    assert writer.write(b"one") is None
    assert os.read(pipe[0], 100) == b"one\n"


async def test_lines_that_dont_fit_wait_and_stay_in_order(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    said = [b"%d" % number * 40_000 for number in range(8)]
    left = [written for line in said if (written := writer.write(line)) is not None]
    assert len(left) == 7
    assert not left[-1].done()
    heard = bytearray()
    while len(heard) < sum(len(line) + 1 for line in said):
        heard += os.read(pipe[0], 1 << 16)
        await asyncio.sleep(0)
    assert bytes(heard).split(b"\n")[:-1] == said
    async with asyncio.timeout(30):
        await asyncio.gather(*left)
    assert writer.write(b"last") is None


async def test_who_has_gone_is_an_error(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    written = writer.write(b"x" * 100_000)
    assert written is not None
    os.close(pipe[0])
    with pytest.raises(BrokenPipeError):
        await written
    # Now or then: what nobody took out of the pipe may still lie in it.
    with pytest.raises(BrokenPipeError):
        if (late := writer.write(b"short")) is not None:
            await late


async def test_what_is_no_pipe_is_written_by_a_thread(tmp_path: Path) -> None:
    file = tmp_path / "out"
    writer = LineWriter(os.open(file, os.O_WRONLY | os.O_CREAT))
    async with asyncio.timeout(30):
        for line in (b"one", b"two"):
            written = writer.write(line)
            assert written is not None
            await written
    assert file.read_bytes() == b"one\ntwo\n"
