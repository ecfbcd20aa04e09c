"""Attachments through every door: an image is shown beside the data, whatever carries it."""

import base64
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client
from mcp.types import CallToolResult, ImageContent, TextContent

from server.models import etag_of
from server.service.attachments import IMAGE_BYTES
from server.service.room import MESSAGE

from .connect import Door, Target, connected
from .vaults import answer, fill, served, until_ready
from .wire import call, message, wired

pytestmark = pytest.mark.anyio

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LONG = "/".join(["日本" * 40] * 4)
IMAGES = {
    "images/a.png": (PNG, "image/png"),
    "images/b.jpg": (b"\xff\xd8\xff\xe0" + bytes(50), "image/jpeg"),
    "images/c.gif": (b"GIF89a\1\0\1\0", "image/gif"),
    "images/d.webp": (b"RIFF\x0a\0\0\0WEBPVP8 ", "image/webp"),
    "images/e.PNG": (b"\xff\xd8\xff\xe0 a name that lies", "image/jpeg"),
    f"{LONG}/largest.png": (PNG + bytes(range(256)) * 4096, "image/png"),
}
IMAGES[f"{LONG}/largest.png"] = (IMAGES[f"{LONG}/largest.png"][0][:IMAGE_BYTES], "image/png")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "vault"
    fill(folder)
    for path, (data, _) in IMAGES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    (folder / "images/large.png").write_bytes(PNG + bytes(IMAGE_BYTES))
    (folder / "images/drawing.svg").write_text("<svg>ü</svg>")
    (folder / "images/sound.mp3").write_bytes(b"ID3\4" + bytes(range(256)) * 2_000)
    return folder


@pytest.fixture(scope="module")
def target(vault: Path) -> Iterator[Target]:
    with served(vault, vault.with_name("state")) as target:
        yield target


@pytest.fixture(scope="module")
async def client(anyio_backend: str, door: Door, target: Target) -> AsyncIterator[Client]:
    async with connected(door, target) as client:
        await until_ready(client)
        yield client


def data_of(result: CallToolResult) -> dict[str, Any]:
    """What a result says as data, having checked that its first block says the same as text."""
    block, data = result.content[0], result.structured_content
    assert isinstance(block, TextContent)
    assert data is not None
    assert json.loads(block.text) == data
    said: dict[str, Any] = data
    return said


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.rpartition("/")[2])
async def test_an_image_is_shown(client: Client, path: str) -> None:
    data, kind = IMAGES[path]
    result = await client.call_tool("attachment_read", {"path": path})
    assert not result.is_error
    _, image = result.content
    assert isinstance(image, ImageContent)
    assert (base64.b64decode(image.data, validate=True), image.mime_type) == (data, kind)
    said = data_of(result)
    assert (said["path"], said["type"], said["size"]) == (path, kind, len(data))
    assert said["etag"] == etag_of(data)
    assert set(said) == {"path", "type", "size", "etag", "modified", "obsidian_url"}
    assert len(json.dumps(said)) < 6_000, "the data is not said twice"


async def test_what_is_said_is_what_the_schema_says(client: Client) -> None:
    schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
    for path in ("picture.png", "images/drawing.svg", "images/sound.mp3"):
        said = await answer(client, "attachment_read", path=path)
        jsonschema.validate(said, schemas["attachment_read"])


async def test_an_image_that_is_too_large_is_an_error(client: Client) -> None:
    result = await client.call_tool("attachment_read", {"path": "images/large.png"})
    assert result.is_error
    assert len(result.content) == 1
    said = data_of(result)
    assert (said["code"], said["details"]["size"]) == ("too_large", IMAGE_BYTES + len(PNG))
    assert said["hint"]


async def test_what_is_no_image_comes_in_the_data_alone(client: Client) -> None:
    result = await client.call_tool("attachment_read", {"path": "images/drawing.svg"})
    assert len(result.content) == 1
    assert data_of(result)["text"] == "<svg>ü</svg>"
    sound = b""
    offset: int | None = 0
    while offset is not None:
        result = await client.call_tool(
            "attachment_read", {"path": "images/sound.mp3", "offset": offset, "max_chars": 400_000}
        )
        assert len(result.content) == 1
        sound += base64.b64decode(data_of(result)["data"])
        offset = data_of(result).get("next_offset")
    assert sound == b"ID3\4" + bytes(range(256)) * 2_000


async def test_what_one_stores_is_shown_and_listed(client: Client, door: Door, vault: Path) -> None:
    path = f"made/{door}.png"
    made = await answer(client, "attachment_write", path=path, data=base64.b64encode(PNG).decode())
    assert (made["created"], made["bytes"]) == (True, len(PNG))
    assert (vault / path).read_bytes() == PNG
    result = await client.call_tool("attachment_read", {"path": path})
    assert isinstance(result.content[1], ImageContent)
    assert data_of(result)["etag"] == made["etag"]
    listed = await answer(client, "vault_list", path="made", kind="attachment")
    assert path in [entry["path"] for entry in listed["entries"]]
    again = await answer(
        client, "attachment_write", path=path, data=base64.b64encode(PNG + b"1").decode()
    )
    assert (again["code"], again["details"]["etag"]) == ("conflict", made["etag"])


async def test_the_largest_attachment_has_room_in_a_request(
    client: Client, door: Door, vault: Path
) -> None:
    data = bytes(10 << 20)
    text = base64.encodebytes(data).decode()
    made = await answer(client, "attachment_write", path=f"made/{door}.bin", data=text)
    assert made.get("bytes") == len(data), made
    assert (vault / f"made/{door}.bin").read_bytes() == data


async def test_the_largest_image_is_a_message_that_clients_take(target: Target) -> None:
    path = f"{LONG}/largest.png"
    async with wired(target.url) as wire:
        session = await wire.open()
        old = await wire.post(call("attachment_read", path=path), session)
        new = await wire.modern(call("attachment_read", path=path))
    for response in (old, new):
        assert len(response.content) < MESSAGE
        block = message(response)["result"]["content"][1]
        assert (block["type"], block["mimeType"]) == ("image", "image/png")
