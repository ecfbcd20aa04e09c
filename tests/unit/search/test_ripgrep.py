import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from server.errors import InvalidRequest, RateLimited, Timeout, Unavailable
from server.search.ripgrep import Case, Hit, Ripgrep, find_rg

from .build import hits_of, ripgrep


def script(folder: Path, body: str) -> str:
    """An executable that stands in for rg, to be as slow as a test needs."""
    file = folder / "rg-stand-in"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def test_hits_carry_file_line_offset_and_spans(tmp_path: Path) -> None:
    one, two = tmp_path / "1.seg", tmp_path / "2.seg"
    one.write_bytes(b"x\nfoo bar foo\r\nend")
    two.write_bytes("é foo\n".encode())
    assert hits_of("foo", [one, two]) == [
        Hit(0, 2, b"foo bar foo", ((0, 3), (8, 11))),
        Hit(1, 0, "é foo".encode(), ((3, 6),)),
    ]
    assert hits_of("nowhere", [one, two]) == []


@pytest.mark.parametrize(
    ("pattern", "case", "count"),
    [
        ("word", "smart", 2),
        ("Word", "smart", 1),
        ("word", "sensitive", 1),
        ("WORD", "insensitive", 2),
        ("WORD", "sensitive", 0),
    ],
)
def test_case(tmp_path: Path, pattern: str, case: Case, count: int) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\nWord\n")
    assert len(hits_of(pattern, [file], case)) == count


def test_bytes_are_searched_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"\xff\xfea\0\n\xef\xbb\xbfbom\nbad \xff here\nnul \0 here\n")
    assert [hit.text for hit in hits_of("here", [file])] == [b"bad \xff here", b"nul \0 here"]
    assert [hit.offset for hit in hits_of("bom", [file])] == [5]


def test_line_ends_of_both_kinds_end_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one\r\ntwo\nthree")
    assert [hit.text for hit in hits_of("(one|two|three)$", [file])] == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    "pattern",
    ["-f/etc/passwd", "--pre=x", "-e", "--", "--files", "-V", "--help", "-", "a --files b"],
)
def test_a_pattern_is_never_an_option(tmp_path: Path, pattern: str) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"root\nsee " + pattern.encode() + b" here\n")
    found = hits_of(pattern, [file])
    assert [(hit.offset, hit.spans) for hit in found] == [(5, ((4, 4 + len(pattern)),))]


def test_a_file_name_is_never_an_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "--files"
    file.write_bytes(b"word\n")
    assert len(hits_of("word", [file])) == 1


def test_the_environment_of_the_server_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    file = tmp_path / "a"
    file.write_bytes(b"word\nother\n")
    assert [hit.text for hit in hits_of("word", [file])] == [b"word"]


def test_an_empty_pattern_matches_every_line(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"a\n\nb\n")
    assert [hit.offset for hit in hits_of("", [file])] == [0, 2, 3]


@pytest.mark.parametrize("pattern", ["a\0b", "a" * 10_001, "(a|" * 350_000, "\ud800"])
def test_patterns_that_cannot_be_are_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        hits_of(pattern, [])
    assert caught.value.hint
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("pattern", "said", "hint"),
    [
        ("foo(", "unclosed group", "Escape"),
        ("(?=x)y", "look-around", "Lookaround"),
        (r"(a)\1", "backreferences", "Backreferences"),
        (r"a\nb", r"\n", "line by line"),
        ("a\nb", r"\n", "line by line"),
        (r"(?:\pL{200}){500}", "size limit", "repetition"),
        ("(" * 9_000, "unclosed group", "Escape"),
    ],
)
@pytest.mark.parametrize("files", [True, False])
def test_a_bad_regex_is_explained(
    tmp_path: Path, pattern: str, said: str, hint: str, files: bool
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"text\n")
    with pytest.raises(InvalidRequest) as caught:
        hits_of(pattern, [file] if files else [])
    assert said in caught.value.message
    assert hint in caught.value.hint
    for secret in ("rg:", "--pcre2", "--multiline", str(tmp_path), "/dev/null"):
        assert secret not in caught.value.message
    assert len(caught.value.message) < 1000


def test_missing_files_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\n")
    missing = tmp_path / "gone"
    assert [hit.file for hit in hits_of("word", [missing, file, missing])] == [1]
    assert hits_of("word", [missing]) == []
    assert hits_of("word", []) == []


def test_saying_false_ends_the_search(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\n" * 100_000)
    seen: list[Hit] = []

    def three(hit: Hit) -> bool:
        seen.append(hit)
        return len(seen) < 3

    ripgrep().search("word", [file], case="smart", timeout=30, on_hit=three)
    assert [hit.offset for hit in seen] == [0, 5, 10]


def test_what_on_hit_raises_comes_out_and_frees_the_slot(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\n")
    tool = ripgrep(1)

    def fail(_: Hit) -> bool:
        raise KeyError("mine")

    for _ in range(3):
        with pytest.raises(KeyError):
            tool.search("word", [file], case="smart", timeout=30, on_hit=fail)


def test_at_the_deadline_the_process_is_dead(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    slow = script(tmp_path, f"echo $$ > {pid}; exec sleep 600")
    for seconds in (0.3, 3, 30):
        with pytest.raises(Timeout):
            Ripgrep(slow).search("x", [], case="smart", timeout=seconds, on_hit=lambda _: True)
        if pid.exists() and pid.read_text():
            break  # on a busy machine it may not have come that far before
    assert not alive(int(pid.read_text()))


def test_a_real_search_is_cut_off_at_the_deadline(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\n" * 10_000)
    started = threading.Event()

    def dawdle(_: Hit) -> bool:
        started.wait(0.01)
        return True

    with pytest.raises(Timeout):
        ripgrep().search("word", [file], case="smart", timeout=0.3, on_hit=dawdle)


def test_no_more_than_so_many_run_at_once(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    slow = Ripgrep(script(tmp_path, f"echo >> {begun}; exec sleep 600"), max_concurrent=1)
    outcome: list[type[Exception]] = []

    def search() -> None:
        try:
            slow.search("x", [], case="smart", timeout=6, on_hit=lambda _: True)
        except Timeout as error:
            outcome.append(type(error))

    thread = threading.Thread(target=search)
    thread.start()
    until(begun.exists)
    with pytest.raises(RateLimited) as caught:
        slow.search("x", [], case="smart", timeout=0.1, on_hit=lambda _: True)
    assert caught.value.hint
    thread.join(30)
    assert outcome == [Timeout]
    assert begun.read_text() == "\n"


def test_a_program_that_cannot_start_or_crashes_is_unavailable(tmp_path: Path) -> None:
    for program in (str(tmp_path / "none"), script(tmp_path, "kill -SEGV $$")):
        with pytest.raises(Unavailable) as caught:
            Ripgrep(program).search("x", [], case="smart", timeout=30, on_hit=lambda _: True)
        assert str(tmp_path) not in caught.value.message


def test_bytes_in_memory_are_searched_like_a_file(tmp_path: Path) -> None:
    data = "\n".join(f"line {number} ünï" for number in range(50_000)).encode() + b"\xff\nlast"
    file = tmp_path / "a"
    file.write_bytes(data)
    found: list[Hit] = []

    def keep(hit: Hit) -> bool:
        found.append(hit)
        return True

    tool = ripgrep()
    tool.search_bytes("7 ünï|last", data, case="smart", timeout=30, on_hit=keep)
    assert found == hits_of("7 ünï|last", [file], "smart")
    assert len(found) == 5_001
    with pytest.raises(InvalidRequest):
        tool.search_bytes("(", data, case="smart", timeout=30, on_hit=keep)
    tool.search_bytes("line", data, case="smart", timeout=30, on_hit=lambda _: False)


def test_no_process_or_file_is_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"word\n" * 1000)
    tool = ripgrep()
    tool.search("word", [file], case="smart", timeout=30, on_hit=lambda _: False)
    before, children = len(os.listdir("/proc/self/fd")), offspring()
    for _ in range(10):
        tool.search("word", [file], case="smart", timeout=30, on_hit=lambda _: False)
        tool.search_bytes("x", b"word" * 100_000, case="smart", timeout=30, on_hit=lambda _: True)
    assert len(os.listdir("/proc/self/fd")) == before
    assert offspring() == children


def offspring() -> set[str]:
    """The children of this process, those that ended unnoticed included."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        # Threads end while they are looked at.
        with contextlib.suppress(FileNotFoundError):
            found.update((task / "children").read_text().split())
    return found


def test_find_rg_prefers_its_own_and_takes_a_newer_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    own = find_rg()
    (tmp_path / "rg").write_text("#!/bin/sh\necho 'ripgrep 1.2.3'\n")
    (tmp_path / "rg").chmod(0o755)
    assert find_rg() == own
    (tmp_path / "rg").write_text("#!/bin/sh\necho 'ripgrep 999.0.0 (rev x)'\n")
    assert find_rg() == str(tmp_path / "rg")
    monkeypatch.setattr("sys.executable", str(tmp_path / "elsewhere" / "python"))
    (tmp_path / "rg").unlink()
    with pytest.raises(FileNotFoundError, match="ripgrep"):
        find_rg()


def test_files_with_a_word_are_listed_whatever_its_case(tmp_path: Path) -> None:
    for name, text in {
        "a.md": "Tea.*", "b/c d.md": "x\nTEA.* y", "tea.md": "pot", "d.txt": "tea.*", ".e/f.md": "tea.*",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.md").symlink_to("a.md")

    def found(*words: str, limit: int = 9) -> list[str]:
        folder = str(tmp_path)
        return ripgrep().files_with(words, folder, glob="*.md", limit=limit, timeout=30)

    # No word is a pattern, and none is an option.
    assert sorted(found("tea.*")) == ["a.md", "b/c d.md"]
    assert sorted(found("pot", "tea.*")) == ["a.md", "b/c d.md", "tea.md"]
    assert found("--files") == []
    assert len(found("tea.*", limit=1)) == 1


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "x" * 10_001])
def test_a_word_that_no_command_line_takes_is_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(InvalidRequest):
        ripgrep().files_with(["tea", word], str(tmp_path), glob="*", limit=1, timeout=30)


def test_a_listing_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    slow = Ripgrep(script(tmp_path, "exec sleep 60"))
    with pytest.raises(Timeout):
        slow.files_with(["x"], str(tmp_path), glob="*", limit=1, timeout=0.1)
