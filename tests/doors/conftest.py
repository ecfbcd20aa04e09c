from collections.abc import AsyncIterator, Iterator

import pytest
from mcp import Client

from server.telemetry import Telemetry

from .connect import DOORS, SAMPLE, Door, Running, Target, connected, running
from .sample import sample_server


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def http() -> Iterator[Running]:
    with running("http") as server:
        assert server.port
        yield server


@pytest.fixture(scope="session")
def url(http: Running) -> str:
    return f"http://127.0.0.1:{http.port}/mcp"


@pytest.fixture(scope="module")
def target(url: str) -> Target:
    return Target(url, [*SAMPLE, "stdio"], sample_server(Telemetry()))


@pytest.fixture(scope="module", params=DOORS, ids=str)
def door(request: pytest.FixtureRequest) -> Door:
    chosen: Door = request.param
    return chosen


@pytest.fixture(scope="module")
async def client(anyio_backend: str, door: Door, target: Target) -> AsyncIterator[Client]:
    """One client per door; a body that takes it runs through every one of them."""
    async with connected(door, target) as client:
        yield client
