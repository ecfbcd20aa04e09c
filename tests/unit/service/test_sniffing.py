"""What a file is, by its bytes and by its name."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.service.sniffing import mismatch, sniff, text_of, type_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF"
ZIP = b"PK\x03\x04\x14\0"
MP4 = b"\0\0\0\x18ftypisom\0\0\2\0"
HTML = b"<!DOCTYPE html><html><body>404</body></html>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'

KNOWN = {
    "image/png": [PNG],
    "image/jpeg": [JPEG],
    "image/gif": [b"GIF87a\1\0", b"GIF89a\1\0"],
    "image/webp": [b"RIFF\x10\0\0\0WEBPVP8 "],
    "image/bmp": [b"BM\x36\0\0\0\0\0\0\0\x36\0"],
    "image/tiff": [b"II*\0\x08", b"MM\0*\0"],
    "image/heic": [b"\0\0\0\x18ftypheic", b"\0\0\0\x18ftypmif1"],
    "image/avif": [b"\0\0\0\x18ftypavif"],
    "image/svg+xml": [
        SVG,
        b"\xef\xbb\xbf \n<?xml version='1.0'?>\n<!-- made > by hand -->\n<svg>",
        b'<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "x.dtd" [<!ENTITY a "b">]>\n<svg\n>',
    ],
    "application/pdf": [b"%PDF-1.7\n"],
    "application/zip": [ZIP, b"PK\x05\x06" + bytes(18)],
    "audio/mpeg": [b"ID3\x04\0\0", b"\xff\xfb\x90\x64", b"\xff\xf3\x40\xc0"],
    "audio/mp4": [b"\0\0\0\x1cftypM4A "],
    "audio/wav": [b"RIFF\x24\0\0\0WAVEfmt "],
    "audio/ogg": [b"OggS\0\2"],
    "audio/flac": [b"fLaC\0\0\0\x22"],
    "video/mp4": [MP4],
    "video/quicktime": [b"\0\0\0\x14ftypqt  "],
    "video/webm": [b"\x1aE\xdf\xa3\x9fB\x86\x81\1B\x82\x84webm"],
    "video/x-matroska": [b"\x1aE\xdf\xa3\xa3B\x82\x88matroska"],
    "text/html": [HTML, b"<html lang=de>"],
}
CASES = [(kind, data) for kind, many in KNOWN.items() for data in many]


@pytest.mark.parametrize(("kind", "data"), CASES)
def test_the_first_bytes_tell(kind: str, data: bytes) -> None:
    assert sniff(data) == kind
    assert sniff(b"x" + data) != kind, "only at the beginning"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"P", b"plain", b"BMW is a car maker", b"ID3 tags are old", b"OggS is a magic",
        b"fLaC, so to say", b"the ftyp box", b"RIFF\0\0\0\0AVI LIST", b"\xff\xfb", b"\xff\xfb\xf0",
        b"\xff\xfe\x90", b"<svgs>", b"<!-- never closed <svg>", b"<!", b"<?xml <svg>", b"{}", b"<p>",
    ],
)  # fmt: skip
def test_what_tells_nothing(data: bytes) -> None:
    assert sniff(data) is None


def test_many_comments_take_no_time() -> None:
    assert sniff(b"<!---->" * 100_000) is None


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.png", PNG, "image/png"),
        ("a.PNG", JPEG, "image/jpeg"),
        ("a.png", b"", "image/png"),
        ("a.m4a", MP4, "audio/mp4"),
        ("a.mov", MP4, "video/quicktime"),
        ("a.epub", ZIP, "application/epub+zip"),
        ("a.bin", ZIP, "application/zip"),
        ("a.bin", b"\0", "application/octet-stream"),
        ("folder.png/a", b"text", "text/plain"),
        ("a", b"\xff\0", "application/octet-stream"),
        ("a.canvas", b"{}", "application/json"),
        ("a.base", b"views: []", "application/yaml"),
        ("a.svg", SVG, "image/svg+xml"),
        ("a.svg", b"<g/>", "image/svg+xml"),
        ("a.txt", SVG, "text/plain"),
        ("a.txt", PNG, "image/png"),
        ("a.html", SVG, "text/html"),
        ("a.unknown-thing", b"words", "text/plain"),
    ],
)
def test_the_type_of_a_file(name: str, data: bytes, kind: str) -> None:
    assert type_of(name, data) == kind


@pytest.mark.parametrize(
    ("name", "data", "differ"),
    [
        ("a.png", JPEG, ("image/png", "image/jpeg")),
        ("a.jpg", PNG, ("image/jpeg", "image/png")),
        ("a.png", HTML, ("image/png", "text/html")),
        ("a.svg", HTML, ("image/svg+xml", "text/html")),
        ("a.pdf", ZIP, ("application/pdf", "application/zip")),
        ("a.json", PNG, ("application/json", "image/png")),
        ("a.mp3", MP4, ("audio/mpeg", "video/mp4")),
        ("folder.d/a.PDF", HTML, ("application/pdf", "text/html")),
        ("a.docx", ZIP, None),
        ("a.mov", MP4, None),
        ("a.txt", HTML, None),
        ("a.csv", b"GIF89a,1\n", None),
        ("a.xml", SVG, None),
        ("a.png", b"who knows", None),
        ("a.png", b"", None),
        ("a.bin", PNG, None),
        ("png", JPEG, None),
    ],
)
def test_a_name_that_says_something_else(
    name: str, data: bytes, differ: tuple[str, str] | None
) -> None:
    assert mismatch(name, data) == differ


@pytest.mark.parametrize(("kind", "data"), CASES)
def test_a_file_named_as_it_is_never_differs(kind: str, data: bytes) -> None:
    ending = {
        "image/jpeg": "jpeg", "image/tiff": "tif", "image/svg+xml": "svg", "audio/mpeg": "mp3",
        "audio/mp4": "m4a", "video/quicktime": "mov", "video/x-matroska": "mkv",
    }.get(kind, kind.rpartition("/")[2])  # fmt: skip
    assert mismatch(f"a.{ending}", data) is None
    assert type_of(f"a.{ending}", data) == kind


@settings(max_examples=200)
@given(st.binary(max_size=64), st.sampled_from(["a.txt", "a.json", "a.png", "a.bin", "a", "a.svg"]))
def test_text_is_exact_or_nothing(data: bytes, name: str) -> None:
    text = text_of(type_of(name, data), data)
    assert text is None or text.encode() == data


@settings(max_examples=200)
@given(st.text(max_size=64))
def test_a_text_may_say_what_it_likes(text: str) -> None:
    assert mismatch("a.txt", text.encode()) is None
    if "\0" not in text:
        assert text_of(type_of("a.txt", text.encode()), text.encode()) == text
