"""The Caddyfile that ships, in a real Caddy: TLS, streams, closed pages, forged headers, logs."""

import asyncio
import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.deploy.caddy import CADDYFILE, Caddy
from tests.deploy.upstream import Upstream
from tests.drive.processes import require, wait_for, which
from tests.real.servers import Server

pytestmark = pytest.mark.timeout(300)
SECRET = "a-token-of-32-characters-exactly"
LONG = "many words " * 500
LOGIN = "keeper@example.com"

FORGED = [
    "Tailscale-User-Login", "Tailscale-User-Name", "tailscale-user-profile-pic",
    "Tailscale-App-Capabilities", "X-Principal", "X-WebAuth-User", "X-Webauth-Groups",
    "Remote-User", "REMOTE-EMAIL", "X-Remote-User", "X-Forwarded-User", "X-Forwarded-Email",
    "X-Forwarded-Groups", "X-Forwarded-Preferred-Username", "X-Auth-Request-User", "Forwarded",
    "X-Real-IP",
]  # fmt: skip

CLOSED = [
    spelling
    for page in ("metrics", "readyz")
    for spelling in (
        f"/{page}", f"/{page}/", f"//{page}", f"///{page}//", f"/{page.upper()}",
        f"/{page.title()}", f"/%{ord(page[0]):x}{page[1:]}", f"/%{ord(page[0]):X}{page[1:]}",
        f"/{page}%2f", f"/%2f{page}", f"/%2F{page}", f"/./{page}", f"/x/../{page}",
        f"/mcp/../{page}", f"/mcp/%2e%2e/{page}", f"/mcp/..%2f{page}", f"/mcp/..%252f{page}",
        f"/admin/../{page}", f"/admin/%2e%2e/{page}", f"/healthz/../{page}", f"/{page};x",
        f"/{page}?x=/mcp", f"/{page}%00", f"/{page}%20", f"/{page}.", f"\\{page}", f"/%5c{page}",
        f"/{page}/../mcp/../{page}", f"/{page}%3f", f"/mcp/..;/{page}",
        f"/%25{ord(page[0]):x}{page[1:]}", f"/.well-known/../{page}",
    )
]  # fmt: skip


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with Upstream() as running:
        yield running


@pytest.fixture(scope="module")
def caddy(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caddy]:
    with Caddy(tmp_path_factory.mktemp("caddy"), upstream.address) as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("vault")
    (folder / "vault").mkdir()
    with Server(
        folder / "vault",
        folder / "state",
        AUTH="token",
        AUTH_TOKEN=SECRET,
        TRUSTED_PROXY="127.0.0.1",
        ADMINS=LOGIN,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def front(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caddy]:
    """Caddy in front of a real server."""
    folder = tmp_path_factory.mktemp("front")
    with Caddy(folder, f"127.0.0.1:{server.port}") as running:
        yield running


def ask(
    caddy: Caddy, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, bytes]:
    """One request with the path exactly as it is written."""
    wire = http.client.HTTPSConnection("localhost", caddy.port, timeout=60, context=caddy.trust())
    try:
        wire.putrequest(method, path, skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            wire.putheader(name, value)
        wire.endheaders()
        answer = wire.getresponse()
        return answer.status, answer.read()
    finally:
        wire.close()


def test_it_is_well_formed() -> None:
    require("caddy")
    done = subprocess.run(
        [str(which("caddy")), "fmt", "--diff", str(CADDYFILE)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_tailnet_name_gets_its_certificate_from_tailscale() -> None:
    require("caddy")
    done = subprocess.run(
        [str(which("caddy")), "adapt", "--adapter", "caddyfile", "--config", str(CADDYFILE)],
        capture_output=True, text=True, check=True,
        env={"TAILNET_NAME": "v.tail1.ts.net", "LAN_NAME": "v.lan, 192.0.2.7"},
    )  # fmt: skip
    policies = json.loads(done.stdout)["apps"]["tls"]["automation"]["policies"]
    found = {tuple(policy["subjects"]): policy for policy in policies}
    tailnet = found["v.tail1.ts.net",]
    assert tailnet["get_certificate"] == [{"via": "tailscale"}]
    assert "issuers" not in tailnet
    (lan,) = (policy for names, policy in found.items() if "v.lan" in names)
    assert set(lan["subjects"]) == {"v.lan", "192.0.2.7"}
    assert lan["issuers"] == [{"module": "internal"}]


def test_the_certificate_is_of_the_ca_that_clients_were_given(front: Caddy) -> None:
    assert httpx2.get(f"{front.url}/healthz", verify=front.trust()).json()["status"] == "ok"
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{front.url}/healthz")


def test_plain_http_leads_to_https(front: Caddy) -> None:
    answer = httpx2.get(f"http://localhost:{front.http_port}/mcp")
    assert (answer.status_code, answer.headers["location"][:17]) == (308, "https://localhost")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_works_through_it_and_progress_arrives_live(
    front: Caddy, server: Server, mode: str
) -> None:
    last = Path(server.env["VAULT_PATH"]) / mode / "99.md"
    was_done: list[bool] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        was_done.append(last.exists())

    async def work() -> str:
        edits = [{"path": f"{mode}/{n}.md", "content": LONG, "mode": "create"} for n in range(100)]
        bearer = {"Authorization": f"Bearer {SECRET}"}
        transport = f"{front.url}/mcp"
        async with (
            httpx2.AsyncClient(verify=front.trust(), headers=bearer, timeout=60) as http,
            Client(streamable_http_client(transport, http_client=http), mode=mode) as client,
        ):
            result = await client.call_tool("notes_edit", {"edits": edits}, progress_callback=hear)
            assert not result.is_error, result
            read = await client.call_tool("note_read", {"path": f"{mode}/99.md"})
        assert read.structured_content is not None
        return str(read.structured_content["content"])[:20]

    assert asyncio.run(work()) == LONG[:20]
    assert was_done[0] is False, "it heard of the work while that went on"


def test_every_event_of_a_stream_arrives_before_the_next_is_sent(
    caddy: Caddy, upstream: Upstream
) -> None:
    headers = {"Accept-Encoding": "gzip, br, zstd"}
    with httpx2.stream(
        "GET", f"{caddy.url}/mcp", verify=caddy.trust(), headers=headers, timeout=30
    ) as answer:
        assert "content-encoding" not in answer.headers
        lines = answer.iter_lines()
        for number in range(5):
            upstream.proceed.release()
            assert next(lines) == f"data: {number}"
            assert next(lines) == ""


def test_a_client_that_goes_away_is_gone_for_the_server_too(
    caddy: Caddy, upstream: Upstream
) -> None:
    upstream.left.clear()
    with (
        httpx2.Client(verify=caddy.trust(), timeout=30) as http,
        http.stream("GET", f"{caddy.url}/mcp") as answer,
    ):
        lines = answer.iter_lines()
        upstream.proceed.release()
        assert next(lines) == "data: 0"
        assert not upstream.left.is_set()
    assert upstream.left.wait(30)


def test_it_stops_in_time_with_a_stream_open(upstream: Upstream, tmp_path: Path) -> None:
    with (
        Caddy(tmp_path, upstream.address) as caddy,
        httpx2.Client(verify=caddy.trust(), timeout=30) as http,
        http.stream("GET", f"{caddy.url}/mcp") as answer,
    ):
        lines = answer.iter_lines()  # the stream is closed when nobody holds this any more
        upstream.proceed.release()
        assert next(lines) == "data: 0"
        assert caddy.stop(15) == 0


def test_a_call_under_way_is_answered_before_it_stops(upstream: Upstream, tmp_path: Path) -> None:
    with Caddy(tmp_path, upstream.address) as caddy, ThreadPoolExecutor(1) as pool:
        before = len(upstream.paths)
        upstream.answer.clear()
        try:
            call = pool.submit(
                httpx2.post, f"{caddy.url}/mcp", content=b"{}", verify=caddy.trust(), timeout=60
            )
            wait_for(lambda: len(upstream.paths) > before, 30, "the call")
            caddy.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "shutting down apps" in caddy.log_text(), 30, "the signal")
        finally:
            upstream.answer.set()
        assert call.result(60).status_code == 200
        assert caddy.process.wait(15) == 0


@pytest.mark.parametrize("path", CLOSED)
def test_a_closed_page_is_not_there(front: Caddy, path: str) -> None:
    status, body = ask(front, path, {"Authorization": f"Bearer {SECRET}"})
    # A path that is no path at all is refused before it is looked for.
    assert status == 404 if path.startswith("/") else status in (400, 404)
    assert b"vault_" not in body
    assert b'"ready"' not in body


def test_closed_pages_are_open_behind_it(server: Server) -> None:
    assert server.get("/metrics")[0] == 200
    assert server.get("/readyz")[0] == 200


def test_closed_pages_never_reach_the_server(caddy: Caddy, upstream: Upstream) -> None:
    before = len(upstream.paths)
    for path in CLOSED:
        if "/mcp/..;" in path or "%252f" in path:
            continue  # names of pages below /mcp that nobody has
        ask(caddy, path, None, "POST" if "?" in path else "GET")
    assert upstream.paths[before:] == []


def test_what_clients_claim_to_be_does_not_arrive(caddy: Caddy, upstream: Upstream) -> None:
    upstream.headers.clear()
    sent = dict.fromkeys(FORGED, "forged")
    sent |= {"X-Forwarded-For": "198.51.100.66", "X-Forwarded-Host": "forged", "X-Kept": "kept"}
    for path in ("/mcp", "/admin/api/approvals"):
        ask(caddy, path, {"Content-Length": "0", **sent}, "POST")
    assert upstream.headers.count(("x-kept", "kept")) == 2
    assert [header for header in upstream.headers if "forged" in header[1]] == []
    assert ("x-forwarded-for", "127.0.0.1") in upstream.headers
    assert not any("198.51.100.66" in value for _, value in upstream.headers)


def test_a_forged_login_opens_no_admin_page(front: Caddy, server: Server) -> None:
    forged = {"Tailscale-User-Login": LOGIN}
    page = "/admin/api/approvals"
    direct = httpx2.get(f"http://127.0.0.1:{server.port}{page}", headers=forged)
    assert direct.status_code == 200, "the server believes its proxy"
    assert ask(front, page, {**forged})[0] == 401
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert ask(front, page, bearer)[0] == 200


def test_admin_pages_are_for_chosen_addresses(upstream: Upstream, tmp_path: Path) -> None:
    with Caddy(tmp_path, upstream.address, ADMIN_FROM="192.0.2.0/24 2001:db8::/32") as caddy:
        before = len(upstream.paths)
        for path in ("/admin", "/admin/", "/admin/api/approvals", "/ADMIN", "//admin"):
            assert ask(caddy, path)[0] == 404
        assert upstream.paths[before:] == []


@pytest.mark.parametrize(("path", "limit"), [("/mcp", 22 << 20), ("/admin/api/x", 1 << 20)])
def test_a_request_has_a_greatest_size(
    caddy: Caddy, upstream: Upstream, path: str, limit: int
) -> None:
    with httpx2.Client(verify=caddy.trust(), timeout=60) as http:
        assert http.post(f"{caddy.url}{path}", content=bytes(limit)).status_code == 200
        upstream.bytes = 0
        assert http.post(f"{caddy.url}{path}", content=bytes(limit + 1)).status_code == 413
    assert upstream.bytes <= limit


def test_a_head_has_a_greatest_size(caddy: Caddy) -> None:
    status, _ = ask(caddy, "/mcp", {"X-Long": "x" * 60_000})
    assert status == 431


def test_the_log_tells_what_was_asked_and_no_secrets(upstream: Upstream, tmp_path: Path) -> None:
    hidden = {
        "Authorization": f"Bearer {SECRET}",
        "Cookie": f"session={SECRET}",
        "Mcp-Session-Id": SECRET,
        "X-Api-Key": SECRET,
        "Proxy-Authorization": SECRET,
        "Content-Length": "0",
    }
    with Caddy(tmp_path, upstream.address) as caddy:
        for path in ("/mcp", "/nowhere", "/admin/x"):
            ask(caddy, f"{path}?token={SECRET}", {**hidden}, "POST")

        def asked() -> list[str]:
            lines = [one for one in caddy.logged() if one.get("logger") == "http.log.access"]
            paths = [line["request"]["uri"] for line in lines]
            return paths if len(paths) >= 3 + paths.count("/nothing") else []

        paths = wait_for(asked, 30, "the access log")
        assert paths[-3:] == [f"{path}?REDACTED" for path in ("/mcp", "/nowhere", "/admin/x")]
        caddy.stop(20)
        assert SECRET not in caddy.log_text()


def test_the_log_of_a_failure_has_no_secrets_either(tmp_path: Path) -> None:
    with Caddy(tmp_path, "127.0.0.1:9") as caddy:
        bearer = {"Authorization": f"Bearer {SECRET}"}
        assert ask(caddy, f"/healthz?token={SECRET}", bearer)[0] == 502
        wait_for(lambda: "dial tcp" in caddy.log_text(), 30, "the error in the log")
        caddy.stop(20)
        assert SECRET not in caddy.log_text()
