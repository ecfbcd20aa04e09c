"""What a file is: by its first bytes where they tell, else by its name. Pure."""

import mimetypes

IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""What a model can look at."""
UNKNOWN = "application/octet-stream"
_SVG = "image/svg+xml"
_HTML = "text/html"
_MARKUP_BYTES = 16_384

_OFFICE = "application/vnd.openxmlformats-officedocument."
_OPEN = "application/vnd.oasis.opendocument."
_NAMED = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "webp": "image/webp", "bmp": "image/bmp", "tif": "image/tiff", "tiff": "image/tiff",
    "heic": "image/heic", "heif": "image/heif", "avif": "image/avif", "svg": _SVG,
    "pdf": "application/pdf", "zip": "application/zip", "epub": "application/epub+zip",
    "docx": f"{_OFFICE}wordprocessingml.document", "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "odt": f"{_OPEN}text", "ods": f"{_OPEN}spreadsheet", "odp": f"{_OPEN}presentation",
    "mp3": "audio/mpeg", "wav": "audio/wav", "flac": "audio/flac", "m4a": "audio/mp4",
    "ogg": "audio/ogg", "oga": "audio/ogg", "opus": "audio/ogg", "ogv": "video/ogg",
    "mp4": "video/mp4", "m4v": "video/mp4", "mov": "video/quicktime",
    "webm": "video/webm", "mkv": "video/x-matroska",
    "canvas": "application/json", "json": "application/json", "base": "application/yaml",
    "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml",
    "txt": "text/plain", "csv": "text/csv", "css": "text/css", "html": _HTML, "htm": _HTML,
    "js": "text/javascript", "xml": "application/xml",
}  # fmt: skip
_FAMILY = {
    **{kind: "application/zip" for kind in _NAMED.values() if kind.startswith((_OFFICE, _OPEN))},
    "application/epub+zip": "application/zip",
    "audio/mp4": "video/mp4",
    "video/quicktime": "video/mp4",
    "video/x-matroska": "video/webm",
    "video/ogg": "audio/ogg",
    "image/heif": "image/heic",
    "image/avif": "image/heic",
}
"""Types that share a container: their first bytes don't tell one from the other for certain."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"OggS\0", "audio/ogg"),
    (b"fLaC\0", "audio/flac"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
)
_BRANDS = {
    b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic",
    b"hevc": "image/heic", b"heim": "image/heic", b"heis": "image/heic", b"mif1": "image/heic",
    b"msf1": "image/heic", b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"qt  ": "video/quicktime",
}  # fmt: skip


def sniff(data: bytes) -> str | None:
    """The type that the first bytes tell; None when they tell nothing."""
    for start, kind in _SIGNATURES:
        if data.startswith(start):
            return kind
    return _riff(data) or _boxed(data) or _other(data) or _markup(data)


def type_of(name: str, data: bytes) -> str:
    """The MIME type of a file: its content's, unless its name says the same more precisely."""
    named, found = _named(name) or mimetypes.guess_type(name, strict=False)[0], sniff(data)
    if found is None:
        return named or ("text/plain" if _is_text(data) else UNKNOWN)
    if named and (_same(named, found) or (_may_be_text(named) and _is_text(data))):
        return named
    return found


def mismatch(name: str, data: bytes) -> tuple[str, str] | None:
    """What the name says and what the content is, when the two are clearly not the same."""
    named, found = _named(name), sniff(data)
    if named is None or found is None or _same(named, found):
        return None
    if named != _SVG and _may_be_text(named) and _is_text(data):
        # A text may begin like anything.
        return None
    return named, found


def text_of(kind: str, data: bytes) -> str | None:
    """The content as text, exactly; None when the type or the bytes say that it is none."""
    if not _may_be_text(kind) or b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _named(name: str) -> str | None:
    return _NAMED.get(name.rpartition("/")[2].rpartition(".")[2].lower()) if "." in name else None


def _same(one: str, other: str) -> bool:
    return _FAMILY.get(one, one) == _FAMILY.get(other, other)


def _may_be_text(kind: str) -> bool:
    if kind == _SVG:
        return True
    opaque = (UNKNOWN, "application/pdf", "application/zip")
    return not kind.startswith(("image/", "audio/", "video/", "font/")) and kind not in opaque


def _is_text(data: bytes) -> bool:
    return text_of("text/plain", data) is not None


def _riff(data: bytes) -> str | None:
    if data[:4] != b"RIFF":
        return None
    return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12])


def _boxed(data: bytes) -> str | None:
    """MP4 and its kin: a small first box that names its brand."""
    if data[4:8] != b"ftyp" or data[:2] != b"\0\0":
        return None
    return _BRANDS.get(data[8:12], "video/mp4")


def _other(data: bytes) -> str | None:
    if data[:4] == b"\x1aE\xdf\xa3":
        return "video/webm" if b"webm" in data[:64] else "video/x-matroska"
    if data[:2] == b"BM" and data[6:10] == b"\0\0\0\0":
        return "image/bmp"
    tagged = data[:3] == b"ID3" and data[3:4] in (b"\2", b"\3", b"\4")
    # A frame without a tag before it: MPEG 1 or 2, layer III, a bitrate and a rate that exist.
    framed = data[:2] in (b"\xff\xfb", b"\xff\xfa", b"\xff\xf3", b"\xff\xf2") and (
        len(data) > 2 and data[2] >> 4 not in (0, 15) and data[2] >> 2 & 3 != 3
    )
    return "audio/mpeg" if tagged or framed else None


def _markup(data: bytes) -> str | None:
    """SVG or HTML, whatever declarations and comments stand before its first tag."""
    rest = data[:_MARKUP_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    while rest.startswith((b"<?", b"<!")):
        if rest.startswith(b"<!doctype html"):
            return _HTML
        if rest.startswith(b"<!--"):
            end = b"-->"
        elif rest.startswith(b"<?"):
            end = b"?>"
        else:
            end = b"]>" if b"[" in rest.partition(b">")[0] else b">"
        _, found, rest = rest.partition(end)
        if not found:
            return None
        rest = rest.lstrip()
    if rest.startswith((b"<svg ", b"<svg>", b"<svg\n", b"<svg\r", b"<svg\t")):
        return _SVG
    return _HTML if rest.startswith((b"<html ", b"<html>")) else None
