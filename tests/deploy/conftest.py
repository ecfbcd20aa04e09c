"""What the tests of deployment share."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.deploy.traffic import POLICY
from tests.real.servers import Server


def create_token(server: Server, name: str) -> str:
    """Make a token as an owner does."""
    done = subprocess.run(
        [sys.executable, "-m", "server", "token", "create", name, "--json"],
        env=server.env,
        capture_output=True,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout)["token"])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a policy, spoken to by who keeps it."""
    folder = tmp_path_factory.mktemp("watched")
    (folder / "vault").mkdir()
    (folder / "policy.yaml").write_text(json.dumps(POLICY))
    server = Server(
        folder / "vault",
        folder / "state",
        AUTH="token",
        POLICY_FILE=str(folder / "policy.yaml"),
        CONFIRM_BY="queue",
    )
    server.bearer = {"Authorization": f"Bearer {create_token(server, 'keeper')}"}
    with server:
        yield server
