"""What `vault-mcp token` says and does. It changes STATE_DIR alone; running servers notice."""

import argparse
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from server.access.tokens import Token, TokenStore
from server.commands import Commands, print_json, tell_audit
from server.errors import InvalidRequest
from server.settings import Settings, load
from server.vault.paths import parse_folder

_UNITS: Mapping[str, float] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,6})([smhdw])")
_LONGEST = 100 * 366 * 86400.0


def add(commands: Commands) -> None:
    """Declare the command."""
    token = commands.add_parser("token", help="make, list, rotate and revoke the tokens of agents")
    actions = token.add_subparsers(metavar="COMMAND", required=True)
    create = actions.add_parser("create", help="make a token; its text is shown once")
    create.add_argument("name", metavar="NAME", help="what the caller is called in rules and logs")
    for verb in ("read", "write"):
        create.add_argument(
            f"--{verb}", metavar="FOLDER", nargs="+", action="extend",
            help=f"folders that it may {verb}; with neither option all that the policy allows",
        )  # fmt: skip
    create.add_argument("--admin", action="store_true", help="it may administer the server")
    create.add_argument("--expires", metavar="WHEN", help="90d, 12h or 2027-01-31 (UTC)")
    create.set_defaults(run=_create)
    listing = actions.add_parser("list", help="show all tokens, never their texts")
    listing.set_defaults(run=_list)
    rotate = actions.add_parser("rotate", help="give a token a new text; it is shown once")
    rotate.add_argument("name", metavar="NAME")
    rotate.add_argument(
        "--grace", metavar="TIME", default="24h", help="how long older texts go on (default: 24h)"
    )
    rotate.set_defaults(run=_rotate)
    for action in (create, listing, rotate):
        action.add_argument("--json", action="store_true")
    revoke = actions.add_parser("revoke", help="end a token at once")
    revoke.add_argument("name", metavar="NAME")
    revoke.set_defaults(run=_revoke)


def connection(settings: Settings, port: int, credential: str | None) -> tuple[str, str]:
    """Where `/mcp` is, and the line that connects Claude Code to it."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    base = settings.public_base or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    header = f' --header "Authorization: Bearer {credential}"' if credential else ""
    return f"{base}/mcp", f"claude mcp add --transport http obsidian-vault {base}/mcp{header}"


def parse_end(text: str, now: float) -> float:
    """The moment that `90d`, `12h` or a date (to its end, UTC) names. Raises `InvalidRequest`."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return now + parse_duration(text)
    return day.timestamp() + 86399


def parse_duration(text: str) -> float:
    """Seconds in `30m`, `12h`, `90d` or `2w`. Raises `InvalidRequest`."""
    found = _DURATION.fullmatch(text)
    if text == "0":
        return 0.0
    if found is None or (seconds := int(found[1]) * _UNITS[found[2]]) > _LONGEST:
        raise InvalidRequest(
            f"{text[:40]!r} is no time.", "Say 90d, 12h, 30m or, for an end, a date: 2027-01-31."
        )
    return seconds


def _create(arguments: argparse.Namespace) -> int:
    settings = load()
    token, text = _store(settings).create(
        arguments.name,
        read=arguments.read,
        write=arguments.write,
        admin=arguments.admin,
        expires=parse_end(arguments.expires, time.time()) if arguments.expires else None,
    )
    _record(settings, "token_created", token)
    _show(settings, token, text, arguments.json)
    return 0


def _rotate(arguments: argparse.Namespace) -> int:
    settings = load()
    token, text = _store(settings).rotate(arguments.name, parse_duration(arguments.grace))
    _record(settings, "token_rotated", token)
    _show(settings, token, text, arguments.json)
    return 0


def _revoke(arguments: argparse.Namespace) -> int:
    settings = load()
    token = _store(settings).revoke(arguments.name)
    _record(settings, "token_revoked", token)
    print(f"The token {token.name} is revoked; running servers refuse it from now on.")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    store = _store(load())
    uses, now = store.last_uses(), time.time()
    rows = [_row(token, uses.get(token.id), now) for token in store.listed()]
    if arguments.json:
        print_json(rows)
    elif not rows:
        print("There are no tokens. `vault-mcp token create NAME` makes one.")
    for row in rows if not arguments.json else ():
        told = {name: "-" if value is None else value for name, value in row.items()}
        print(
            "{name:<20}  {state:<8}  expires {expires:<20}  used {last_used:<20}  ".format(**told)
            + _scope(row)
        )
    return 0


def _store(settings: Settings) -> TokenStore:
    return TokenStore(settings.state_dir, parse_folder)


def _record(settings: Settings, event: str, token: Token) -> None:
    row = _row(token, None, time.time())
    told = ("name", "id", "expires", "old_until", "admin", "read", "write")
    tell_audit(settings, event, **{name: row[name] for name in told})


def _show(settings: Settings, token: Token, text: str, as_json: bool) -> None:
    if settings.auth == "none":
        print(
            "vault-mcp: AUTH is `none` here, which lets everyone in: set AUTH=token.",
            file=sys.stderr,
        )
    row = _row(token, None, time.time())
    if as_json:
        del row["state"], row["last_used"]
        print_json({"name": token.name, "token": text, **row})
        return
    print(f"{text}\n\nThis is the token of {token.name}, shown only now: {_scope(row)}.")
    if token.expires is not None:
        print(f"It ends at {row['expires']}.")
    if len(token.secrets) > 1:
        print(f"The text that it had before goes on until {row['old_until']}.")
    print(f"Connect Claude Code with\n  {connection(settings, settings.port, text)[1]}")


def _row(token: Token, used: float | None, now: float) -> dict[str, Any]:
    ends = [secret.until for secret in token.secrets if secret.until and secret.until > now]
    return {
        "name": token.name,
        "id": token.id,
        "state": "live" if token.is_live(now) else "expired",
        "created": _moment(token.created),
        "expires": _moment(token.expires),
        "last_used": _moment(used),
        "old_until": _moment(max(ends, default=None)),
        "admin": token.admin,
        "read": None if token.grant is None else list(token.read or ()),
        "write": None if token.grant is None else list(token.write or ()),
    }


def _scope(row: Mapping[str, Any]) -> str:
    def folders(verb: str) -> str:
        return f"{verb}s " + (", ".join(f"{name or '/'}" for name in row[verb]) or "nothing")

    told = "all that the policy allows" if row["read"] is None else ""
    told = told or f"{folders('read')}; {folders('write')}"
    return f"admin; {told}" if row["admin"] else told


def _moment(at: float | None) -> str | None:
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
