from pathlib import Path

from server.search.hits import WINDOW

from .build import hits_of


def test_a_long_line_is_cut_to_a_window_around_its_first_match(tmp_path: Path) -> None:
    file = tmp_path / "a"
    line = "é" * 40_000 + "needle" + "é" * 40_000 + "needle"
    file.write_bytes(b"short\n" + line.encode() + b"\n")
    (hit,) = hits_of("needle", [file])
    assert hit.offset == 6
    assert len(hit.text) <= WINDOW
    assert [hit.text[start:end] for start, end in hit.spans] == [b"needle"]
    assert set(hit.text.decode()) == set("éneedle")


def test_a_match_at_either_end_of_a_long_line_is_in_the_window(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"needle" + b"-" * 9_000 + b"\n" + b"-" * 9_000 + b"needle")
    first, second = hits_of("needle", [file])
    assert first.spans == ((0, 6),)
    assert second.text.endswith(b"needle")
    assert second.spans == ((WINDOW - 6, WINDOW),)


def test_a_match_longer_than_the_window_is_clipped(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"x" * 3_000_000 + b"\nx\n")
    long, short = hits_of("x+", [file])
    assert (long.text, long.spans) == (b"x" * WINDOW, ((0, WINDOW),))
    assert (short.offset, short.spans) == (3_000_001, ((0, 1),))


def test_a_million_matches_in_one_line_make_one_small_hit(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"ab" * 1_000_000 + b"\nlast a\n")
    first, last = hits_of("a", [file])
    assert len(first.text) == WINDOW
    assert first.spans == tuple((at, at + 1) for at in range(0, WINDOW, 2))
    assert (last.offset, last.text) == (2_000_001, b"last a")


def test_what_looks_like_json_in_a_long_line_is_only_text(tmp_path: Path) -> None:
    file = tmp_path / "a"
    trap = b'"submatches":[{"match":{"text":"x"},"start":0,"end":1}]},{"match":\\'
    file.write_bytes((trap * 5_000) + b" needle\n")
    (hit,) = hits_of("needle", [file])
    assert [hit.text[start:end] for start, end in hit.spans] == [b"needle"]


def test_empty_matches_have_empty_spans(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"ab\n" + b"c" * 5_000 + b"\n")
    first, second = hits_of("$", [file])
    assert first.spans == ((2, 2),)
    assert second.spans == ((WINDOW, WINDOW),)
