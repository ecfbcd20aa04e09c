"""What the server says about itself: one line per call, no secret, metrics that Prometheus can read."""

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from server import __version__
from server.errors import CODES, Conflict, PermissionDenied, VaultError
from server.telemetry import LOG, Telemetry, configure_logging, log, redact


@pytest.fixture
def restored() -> Iterator[None]:
    """Logging is configured for the whole process: put it back."""
    root = logging.getLogger()
    names = ("uvicorn.error", "mcp", "vault_mcp")
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)


@pytest.fixture(params=["text", "json"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def out(restored: None, kind: str) -> io.StringIO:
    stream = io.StringIO()
    configure_logging("info", kind, stream)
    return stream


def call(
    telemetry: Telemetry, error: BaseException | None = None, subject: str | None = "a.md"
) -> None:
    try:
        with telemetry.call("note_read", "mcp") as end:
            if error is not None:
                raise error
    finally:
        telemetry.tell(end, "alice", subject)


def value(telemetry: Telemetry, name: str, **labels: str) -> float:
    return telemetry.registry.get_sample_value(name, labels) or 0.0


def lines(out: io.StringIO) -> list[str]:
    assert out.getvalue().endswith("\n")
    return out.getvalue()[:-1].split("\n")


def test_one_line_per_call_says_who_what_and_how(out: io.StringIO, kind: str) -> None:
    telemetry = Telemetry()
    call(telemetry, subject="sub folder/a.md")
    (line,) = lines(out)
    if kind == "json":
        said = json.loads(line)
        assert said["message"] == "call"
        assert (said["tool"], said["caller"], said["door"]) == ("note_read", "alice", "mcp")
        assert (said["subject"], said["outcome"], said["decision"]) == (
            "sub folder/a.md",
            "ok",
            "allow",
        )
        assert said["level"] == "info"
        assert said["time"].endswith("Z")
        assert said["ms"] >= 0
        return
    for part in (
        "info",
        " call ",
        "tool=note_read",
        "caller=alice",
        "door=mcp",
        'subject="sub folder/a.md"',
        "outcome=ok",
        "ms=",
    ):
        assert part in line


def test_no_subject_no_field(out: io.StringIO) -> None:
    call(Telemetry(), subject=None)
    assert "subject" not in out.getvalue()


@pytest.mark.parametrize(
    ("error", "outcome", "decision"),
    [
        (Conflict("x"), "conflict", "allow"),
        (PermissionDenied("x"), "permission_denied", "deny"),
        (VaultError("x"), "internal_error", "allow"),
        (ValueError("x"), "internal_error", "allow"),
        (asyncio.CancelledError(), "cancelled", "allow"),
    ],
)
def test_outcomes(out: io.StringIO, error: BaseException, outcome: str, decision: str) -> None:
    telemetry = Telemetry()
    with pytest.raises(type(error)):
        call(telemetry, error)
    assert outcome in lines(out)[0]
    assert decision in lines(out)[0]
    assert value(telemetry, "vault_calls_total", tool="note_read", outcome=outcome, door="mcp") == 1
    assert value(telemetry, "vault_call_seconds_count", tool="note_read") == 1
    assert value(telemetry, "vault_write_conflicts_total") == (outcome == "conflict")
    assert value(telemetry, "vault_calls_in_flight") == 0


def test_a_call_that_is_cancelled_while_it_waits() -> None:
    telemetry = Telemetry()

    async def wait() -> None:
        try:
            with telemetry.call("note_read", "mcp") as end:
                await asyncio.Event().wait()
        finally:
            telemetry.tell(end, "alice", None)

    async def scenario() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert value(telemetry, "vault_calls_in_flight") == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert (
        value(telemetry, "vault_calls_total", tool="note_read", outcome="cancelled", door="mcp")
        == 1
    )
    assert value(telemetry, "vault_calls_in_flight") == 0


def test_cancelled_is_no_code_of_an_error() -> None:
    assert "cancelled" not in CODES


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t.to-ken", "bearer s3cr3t", "BEARER  s3cr3t", "token=s3cr3t",
        "AUTH_TOKEN=s3cr3t", "?access_token=s3cr3t&x=1", '{"token": "s3cr3t"}', "password: s3cr3t",
        "client_secret='s3cr3t'", "api_key=s3cr3t", "api-key: s3cr3t", "apikey=s3cr3t",
    ],
)  # fmt: skip
def test_what_looks_like_a_credential_is_never_logged(out: io.StringIO, text: str) -> None:
    assert "s3cr3t" not in redact(text)
    log(logging.WARNING, text)
    log(logging.WARNING, "field", subject=text)
    LOG.error("failed", exc_info=RuntimeError(text))
    assert "s3cr3t" not in out.getvalue()
    assert out.getvalue().count("***") >= 3


@pytest.mark.parametrize("text", ["a token of love", "bearers of news", "tokens", "x=1"])
def test_plain_words_stay(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "subject",
    [
        "a\nfake line",
        "a\r\nb",
        "esc\x1b[2Jape",
        "\x9b31m",
        "a\u2028b",
        "a\x85b",
        'q"uote',
        "",
        "back\\slash",
        "a=b",
        "日本",
        "\x07",
        "\x7f",
    ],
)
def test_nobody_can_write_a_log_line_of_their_own(
    out: io.StringIO, kind: str, subject: str
) -> None:
    call(Telemetry(), subject=subject)
    (line,) = lines(out)
    assert line.isprintable() or kind == "json"
    assert line.splitlines() == [line]
    if kind == "json":
        assert json.loads(line)["subject"] == subject


def test_levels(restored: None) -> None:
    stream = io.StringIO()
    configure_logging("warning", "text", stream)
    log(logging.INFO, "quiet")
    log(logging.WARNING, "loud")
    logging.getLogger("some.library").info("quiet, too")
    assert [line.split()[2] for line in lines(stream)] == ["loud"]


def test_a_traceback_belongs_to_its_record(out: io.StringIO, kind: str) -> None:
    LOG.error("failed", exc_info=ValueError("boom"))
    if kind == "json":
        assert "ValueError: boom" in json.loads(lines(out)[0])["traceback"]
        assert len(lines(out)) == 1
    else:
        assert lines(out)[-1] == "ValueError: boom"


def test_the_metrics_can_be_read_by_prometheus() -> None:
    telemetry = Telemetry()
    call(telemetry)
    telemetry.writes.labels("local", "ok").inc()
    telemetry.mount_state.labels('odd "name"\n').set(1)
    text = generate_latest(telemetry.registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {
        "vault_calls", "vault_call_seconds", "vault_calls_in_flight", "vault_scan_seconds",
        "vault_scan_progress_ratio", "vault_scan_last_success_timestamp_seconds", "vault_notes",
        "vault_mount_up", "vault_mcp_sessions", "vault_rg_seconds", "vault_writes",
        "vault_write_conflicts", "vault_journal_entries", "process_start_time_seconds",
    } <= families.keys()  # fmt: skip
    assert all(
        family.documentation for name, family in families.items() if name.startswith("vault_")
    )
    sample = next(s for s in families["vault_calls"].samples if s.name == "vault_calls_total")
    assert (sample.labels["outcome"], sample.value) == ("ok", 1)


def test_the_metrics_tell_the_version() -> None:
    assert value(Telemetry(), "vault_server_info", version=__version__) == 1


def test_two_telemetries_never_collide() -> None:
    one, two = Telemetry(), Telemetry()
    call(one)
    assert value(two, "vault_calls_total", tool="note_read", outcome="ok", door="mcp") == 0
