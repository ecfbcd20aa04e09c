"""The table of errors is complete."""

import json

from server import errors
from server.doors.errors import OUTWARD, payload


def test_every_code_has_a_place_at_every_door() -> None:
    assert set(OUTWARD) == set(errors.CODES)
    for code, outward in OUTWARD.items():
        assert 400 <= outward.status < 600, code
        assert -32800 < outward.rpc <= -32000, code
        assert 0 < outward.exit < 126, code


def test_a_payload_leaves_out_what_is_empty() -> None:
    assert payload(errors.NotFound("No note.")) == {"code": "not_found", "message": "No note."}
    full = payload(errors.Conflict("Changed.", "Read again.", etag="a"))
    assert json.loads(json.dumps(full)) == {
        "code": "conflict",
        "message": "Changed.",
        "hint": "Read again.",
        "details": {"etag": "a"},
    }
