"""attachment_read and attachment_write: the bytes as they are, and nothing by mistake."""

import asyncio
import base64
import os
import threading
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from server.catalog.attachments import AttachmentReadOutput
from server.models import etag_of
from server.service.attachments import IMAGE_BYTES
from server.service.sniffing import IMAGES, type_of
from tests.drive.processes import wait_for

from .house import CALLER, House, opened

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(40) + b"\xff\xd9"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def write(house: House, path: str, data: bytes, **more: Any) -> dict[str, Any]:
    return house.call("attachment_write", path=path, data=b64(data), **more)


def output(house: House, path: str) -> AttachmentReadOutput:
    said = asyncio.run(house.app.dispatcher.call("attachment_read", {"path": path}, CALLER))
    assert isinstance(said, AttachmentReadOutput)
    return said


def whole(house: House, path: str, **more: Any) -> bytes:
    """All pages of a file that is no image."""
    pages: list[bytes] = []
    offset: int | None = 0
    while offset is not None:
        page = house.call("attachment_read", path=path, offset=offset, **more)
        assert ("text" in page) != ("data" in page)
        pages.append(page["text"].encode() if "text" in page else base64.b64decode(page["data"]))
        offset = page.get("next_offset")
    return b"".join(pages)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("attachments")
    with opened(folder / "vault", folder / "state") as made:
        yield made


def test_an_image_comes_beside_the_answer(house: House) -> None:
    house.write("img/Pic.PNG", PNG)
    said = output(house, "img/pic.png")
    assert said.media is not None
    assert (said.media.data, said.media.type) == (PNG, "image/png")
    data = said.model_dump(exclude_none=True)
    assert data.pop("modified").endswith("Z")
    assert data == {
        "path": "img/Pic.PNG", "type": "image/png", "size": len(PNG), "etag": etag_of(PNG),
    }  # fmt: skip


def test_what_is_only_named_like_an_image_is_not_shown_as_one(house: House) -> None:
    house.write("a.png", b"\0no image")
    assert output(house, "a.png").media is None
    assert whole(house, "a.png") == b"\0no image"
    house.write("b.png", JPEG)
    media = output(house, "b.png").media
    assert media is not None
    assert media.type == "image/jpeg"


@pytest.mark.parametrize(
    ("path", "data", "kind"),
    [
        ("a.canvas", b'{"nodes":[]}', "application/json"),
        ("a.base", b"views:\r\n  - type: table\r\n", "application/yaml"),
        ("a.svg", b"<svg><g/></svg>", "image/svg+xml"),
        ("a.txt", "\ufeffHäuser 🎉".encode(), "text/plain"),
        ("a.csv", b"", "text/csv"),
        ("LICENSE", b"MIT\n", "text/plain"),
    ],
)
def test_text_comes_as_text(house: House, path: str, data: bytes, kind: str) -> None:
    house.write(path, data)
    said = house.call("attachment_read", path=path)
    assert (said["text"].encode(), said["type"], said["size"]) == (data, kind, len(data))
    assert "data" not in said
    assert "next_offset" not in said


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.pdf", b"%PDF-1.4\n%\xe2\xe3"),
        ("a.zip", b"PK\x03\x04" + bytes(70)),
        ("a.txt", b"\xff\xfe latin"),
        ("a.json", b"{}\0"),
    ],
)
def test_all_else_comes_as_base64(house: House, path: str, data: bytes) -> None:
    house.write(path, data)
    said = house.call("attachment_read", path=path)
    assert base64.b64decode(said["data"], validate=True) == data
    assert "text" not in said


def test_long_ones_come_in_pages(house: House) -> None:
    text, data = ("äöü🎉\n" * 9_000).encode(), bytes(range(256)) * 300
    house.write("long.txt", text)
    house.write("long.bin", data)
    first = house.call("attachment_read", path="long.txt")
    assert (len(first["text"]), first["next_offset"], first["size"]) == (20_000, 20_000, len(text))
    assert len(house.call("attachment_read", path="long.bin")["data"]) == 20_000
    for most in (1_001, 20_000, 400_000):
        assert whole(house, "long.txt", max_chars=most) == text
        assert whole(house, "long.bin", max_chars=most) == data
    assert house.call("attachment_read", path="long.txt", offset=99_999)["text"] == ""
    assert house.call("attachment_read", path="long.bin", offset=99_999)["data"] == ""
    assert house.call("attachment_read", path="long.bin", max_chars=1)["next_offset"] == 3


def test_an_absent_one_is_an_error_that_helps(house: House) -> None:
    house.write("img/diagram-one.png", PNG)
    house.scan()
    error = house.refused("attachment_read", path="diagram-one.png")
    assert error.code == "not_found"
    assert error.details["did_you_mean"] == ["img/diagram-one.png"]
    assert "img/diagram-one.png" in error.hint
    assert house.refused("attachment_read", path="no/such/thing.gif").code == "not_found"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("a.md", "invalid_request"),
        ("absent.MD", "invalid_request"),
        ("img", "invalid_request"),
        ("link.png", "invalid_request"),
        ("out.png", "path_not_allowed"),
        (".obsidian/app.json", "path_not_allowed"),
        ("img/.hidden.png", "path_not_allowed"),
        ("../a.png", "invalid_path"),
        ("a.png/", "invalid_path"),
    ],
)
def test_what_is_no_attachment(house: House, path: str, code: str) -> None:
    house.fill(a="a note")
    house.write(".obsidian/app.json", "{}")
    (house.folder / "img").mkdir()
    (house.folder / "link.png").symlink_to("a.md")
    (house.folder / "out.png").symlink_to("/etc/hostname")
    error = house.refused("attachment_read", path=path)
    assert (error.code, bool(error.hint)) == (code, True)
    more: dict[str, Any] = {"path": path, "data": b64(b"x"), "overwrite": True}
    error = house.refused("attachment_write", **more)
    expected = "invalid_path" if path == "img" else code
    assert (error.code, bool(error.hint)) == (expected, True)
    assert house.bytes("a.md") == b"a note"
    assert house.bytes(".obsidian/app.json") == b"{}"


def test_notes_are_sent_to_their_own_tools(house: House) -> None:
    assert "note_read" in house.refused("attachment_read", path="a.md").hint
    assert "note_write" in house.refused("attachment_write", path="a.md", data="").hint


def test_an_image_that_no_client_takes(house: House) -> None:
    house.write("fits.png", PNG + bytes(IMAGE_BYTES - len(PNG)))
    house.write("big.png", PNG + bytes(IMAGE_BYTES))
    assert output(house, "fits.png").media is not None
    error = house.refused("attachment_read", path="big.png")
    assert (error.code, error.details["size"]) == ("too_large", IMAGE_BYTES + len(PNG))
    assert "Obsidian" in error.hint


def test_attachments_have_a_limit_of_their_own(tmp_path: Path) -> None:
    """Larger or smaller than that of notes, and that of notes stays as it is."""
    for number, (note, attachment) in enumerate([("0.01", "0.1"), ("0.1", "0.01")]):
        folder, state = tmp_path / f"vault{number}", tmp_path / f"state{number}"
        limits = {"MAX_NOTE_MB": note, "MAX_ATTACHMENT_MB": attachment}
        most = {name: int(float(value) * (1 << 20)) for name, value in limits.items()}
        with opened(folder, state, **limits) as house:
            full = os.urandom(most["MAX_ATTACHMENT_MB"])
            assert write(house, "full.bin", full)["created"] is True
            assert whole(house, "full.bin", max_chars=400_000) == full
            assert write(house, "full.bin", full[::-1], overwrite=True)["changed"] is True
            assert house.refused("attachment_write", path="b.bin", data=b64(full + b"x")).code == (
                "too_large"
            )
            error = house.refused("attachment_write", path="b.bin", data="A" * 9_000_000)
            assert (error.code, "MAX_ATTACHMENT_MB" in error.hint) == ("too_large", True)
            house.write("b.bin", full + b"x")
            error = house.refused("attachment_read", path="b.bin")
            assert (error.code, error.details["size"]) == ("too_large", len(full) + 1)
            # Who can't read a file here may still throw it away.
            assert house.call("note_delete", path="b.bin")["trashed_to"] == ".trash/b.bin"
            long = "x" * most["MAX_NOTE_MB"]
            assert house.call("note_upsert", path="a.md", content=long)["created"] is True
            assert house.refused("note_upsert", path="a.md", content="").code == "too_large"
            assert house.refused("note_upsert", path="b.md", content=long + "x").code == "too_large"
            house.write("c.md", long + "x")
            assert house.refused("note_read", path="c.md").code == "too_large"


def test_a_new_attachment(house: House) -> None:
    said = write(house, "new/folder/Grüße.png", PNG)
    assert said == {
        "path": "new/folder/Grüße.png", "type": "image/png", "changed": True, "created": True,
        "etag": etag_of(PNG), "bytes": len(PNG), "uploaded": True,
    }  # fmt: skip
    assert house.bytes("new/folder/Grüße.png") == PNG
    assert output(house, said["path"]).etag == said["etag"]
    assert house.app.journal.items() == []
    assert sorted(os.listdir(house.folder / "new/folder")) == ["Grüße.png"]


def test_a_written_attachment_is_listed_at_once_and_never_as_a_note(house: House) -> None:
    for data, more in ((b"needle", {}), (b"needle needle", {"overwrite": True})):
        write(house, "new/list.txt", data, **more)
        (folder, file) = house.call("vault_list", depth=5)["entries"]
        assert (folder["path"], folder["kind"]) == ("new", "folder")
        assert (file["path"], file["kind"], file["size"]) == (
            "new/list.txt",
            "attachment",
            len(data),
        )
        assert house.call("vault_search", query="needle")["total"] == 0
    listed = house.call("vault_list", depth=5)["entries"]
    house.scan()
    assert house.call("vault_list", depth=5)["entries"] == listed


def test_one_that_is_there_is_not_replaced_by_mistake(house: House) -> None:
    house.write("a.png", PNG)
    for more in ({}, {"overwrite": False}):
        error = house.refused("attachment_write", path="A.png", data=b64(PNG + b"1"), **more)
        assert (error.code, error.details["etag"]) == ("conflict", etag_of(PNG))
    error = house.refused(
        "attachment_write", path="a.png", data=b64(PNG + b"1"), overwrite=True, if_match="0" * 32
    )
    assert (error.code, error.details["etag"], error.details["if_match"]) == (
        "conflict",
        etag_of(PNG),
        "0" * 32,
    )
    error = house.refused("attachment_write", path="b.png", data=b64(PNG), if_match="0" * 32)
    assert (error.code, error.details["etag"]) == ("conflict", None)
    assert house.bytes("a.png") == PNG
    assert not (house.folder / "b.png").exists()


@pytest.mark.parametrize("more", [{"overwrite": True}, {"if_match": etag_of(PNG)}])
def test_one_that_is_there_is_replaced_on_purpose(house: House, more: dict[str, Any]) -> None:
    house.write("a.png", PNG)
    said = write(house, "a.png", PNG + b"1", **more)
    assert (said["created"], said["changed"]) == (False, True)
    assert house.bytes("a.png") == PNG + b"1"
    entry = house.app.history.entry(said["version"])
    assert entry is not None
    assert (entry.kind, entry.tool, entry.path) == ("attachment", "attachment_write", "a.png")
    assert house.app.history.content(etag_of(PNG)) == PNG


def test_the_same_bytes_again_change_nothing(house: House) -> None:
    write(house, "a.png", PNG)
    before = (house.folder / "a.png").stat()
    for more in ({}, {"overwrite": True}, {"if_match": "0" * 32}):
        said = write(house, "a.png", PNG, **more)
        assert (said["changed"], said["created"], said["etag"]) == (False, False, etag_of(PNG))
    after = (house.folder / "a.png").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert house.app.history.of("a.png", limit=9)[1] == 1


@pytest.mark.parametrize("char", list('*"<>:|?#^[]'))
def test_a_new_name_must_be_linkable(house: House, char: str) -> None:
    error = house.refused("attachment_write", path=f"a/x{char}y.png", data=b64(PNG))
    assert error.code == "invalid_path"
    assert os.listdir(house.folder) == [".vault-mcp"]


def test_a_name_that_is_there_already_may_be_odd(house: House) -> None:
    house.write("C# [old]/What?.png", PNG)
    write(house, "C# [old]/What?.png", PNG + b"1", overwrite=True)
    assert house.bytes("C# [old]/What?.png") == PNG + b"1"


def test_a_new_name_has_an_ending(house: House) -> None:
    error = house.refused("attachment_write", path="folder.d/picture", data=b64(PNG))
    assert (error.code, "image/png" in error.hint) == ("invalid_path", True)
    assert os.listdir(house.folder) == [".vault-mcp"]


@pytest.mark.parametrize(
    ("path", "data", "named", "found"),
    [
        ("a.png", JPEG, "image/png", "image/jpeg"),
        ("a.jpg", b"<!doctype html><p>Not found", "image/jpeg", "text/html"),
        ("a.json", PNG, "application/json", "image/png"),
    ],
)
def test_a_name_that_lies_is_refused(
    house: House, path: str, data: bytes, named: str, found: str
) -> None:
    error = house.refused("attachment_write", path=path, data=b64(data))
    assert error.code == "invalid_request"
    assert named in error.message
    assert found in error.message
    assert os.listdir(house.folder) == [".vault-mcp"]


@pytest.mark.parametrize(
    "text",
    [
        b64(PNG),
        f"data:image/png;base64,{b64(PNG)}",
        f"DATA:;charset=x;BASE64,{b64(PNG)}",
        "\n".join(b64(PNG)[at : at + 20] for at in range(0, 200, 20)),
        f"  {b64(PNG)}\r\n",
    ],
)
def test_base_64_in_the_forms_that_tools_print(house: House, text: str) -> None:
    assert house.call("attachment_write", path="a.png", data=text)["bytes"] == len(PNG)
    assert house.bytes("a.png") == PNG


@pytest.mark.parametrize(
    "text",
    [
        "a", "abc", "ab=c", "YQ==YQ==", "YQ", "-_-_", "data:image/png,raw", "data:", "ü" * 4,
        "data:image/png;base64", "!!!!", "=", "YQ==, YQ==",
    ],
)  # fmt: skip
def test_what_is_not_base64(house: House, text: str) -> None:
    error = house.refused("attachment_write", path="a.bin", data=text)
    assert (error.code, bool(error.hint)) == ("invalid_request", True)
    assert os.listdir(house.folder) == [".vault-mcp"]


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)),
    st.integers(1, 200),
)
def test_any_bytes_come_back_as_they_were(lasting: House, data: bytes, most: int) -> None:
    # Hypothesis knows how images begin, and those come beside the answer.
    assume(type_of("thing.bin", data) not in IMAGES)
    said = write(lasting, "any/thing.bin", data, overwrite=True)
    assert said["bytes"] == len(data)
    assert lasting.bytes("any/thing.bin") == data
    read = lasting.call("attachment_read", path="any/thing.bin")
    assert (read["etag"], read["size"]) == (said["etag"], len(data))
    assert whole(lasting, "any/thing.bin", max_chars=most) == data


def test_a_dry_run_tells_sizes(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="dry-run") as house:
        house.write("a.png", PNG)
        new = write(house, "b/c.png", PNG)
        assert (new["dry_run"], new["created"], new["changed"]) == (True, True, True)
        assert new["diff"] == f"b/c.png: no file -> {len(PNG)} bytes"
        over = write(house, "a.png", PNG + b"1", overwrite=True)
        assert over["diff"] == f"a.png: {len(PNG)} bytes -> {len(PNG) + 1} bytes"
        assert house.refused("attachment_write", path="a.png", data=b64(b"x")).code == "conflict"
        assert "diff" not in write(house, "a.png", PNG)
        assert house.bytes("a.png") == PNG
        assert not (house.folder / "b").exists()
        assert house.app.history.of("a.png", limit=9)[1] == 0


def test_a_server_that_does_not_write_refuses(tmp_path: Path) -> None:
    with opened(tmp_path / "vault", tmp_path / "state", WRITE_MODE="off") as house:
        house.write("a.png", PNG)
        error = house.refused("attachment_write", path="b.png", data=b64(PNG))
        assert error.code == "permission_denied"
        assert output(house, "a.png").media is not None
        assert not (house.folder / "b.png").exists()


def test_of_many_who_create_one_wins(house: House) -> None:
    async def storm() -> list[Any]:
        calls = (
            house.app.dispatcher.call(
                "attachment_write", {"path": "a.bin", "data": b64(bytes([n]))}, CALLER
            )
            for n in range(12)
        )
        return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = asyncio.run(storm())
    won = [one for one in outcomes if not isinstance(one, BaseException)]
    assert len(won) == 1
    assert {one.code for one in outcomes if one not in won} == {"conflict"}
    assert etag_of(house.bytes("a.bin")) == won[0].etag


def test_found_whatever_the_unicode_form(house: House) -> None:
    nfd = unicodedata.normalize("NFD", "Café.png")
    house.write(nfd, PNG)
    assert output(house, "café.png").path == "Café.png"
    assert write(house, "CAFÉ.png", PNG + b"1", overwrite=True)["path"] == "Café.png"
    assert house.bytes(nfd) == PNG + b"1"


def test_while_the_vault_is_away_there_is_neither(house: House) -> None:
    house.write("a.png", PNG)
    house.fill(a="note")
    away = house.folder.with_name("away")
    house.folder.rename(away)
    house.app.guard.wake()
    wait_for(lambda: not house.app.guard.health.ok)
    for tool, more in (("attachment_read", {}), ("attachment_write", {"data": b64(PNG)})):
        error = house.refused(tool, path="a.png", **more)
        assert (error.code, bool(error.hint)) == ("unavailable", True)
    away.rename(house.folder)
    wait_for(lambda: house.app.guard.health.ok)
    assert output(house, "a.png").media is not None


def test_a_file_that_never_answers_ends_at_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "vault", tmp_path / "state", MOUNT_TIMEOUT="1") as house:
        house.write("a.png", PNG)
        hang = threading.Event()
        monkeypatch.setattr("server.vault.files._pread", lambda *_: hang.wait(100) and b"")
        try:
            assert house.refused("attachment_read", path="a.png").code == "timeout"
            assert not hang.is_set()
        finally:
            hang.set()


def test_links_to_obsidian(tmp_path: Path) -> None:
    (tmp_path / "My Vault" / ".obsidian").mkdir(parents=True)
    with opened(tmp_path / "My Vault" / "claude", tmp_path / "state") as house:
        url = "obsidian://open?vault=My%20Vault&file=claude%2Fa.png"
        assert write(house, "a.png", PNG)["obsidian_url"] == url
        assert output(house, "a.png").obsidian_url == url
