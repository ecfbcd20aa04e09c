"""Named bearer tokens in STATE_DIR: their hashes, what they are for, when they end.

The text of a token is shown once and stored nowhere. Every process looks at the file on each use, so
that what one of them changes holds for all at once. A file that makes no sense changes nothing.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import StringConstraints, TypeAdapter, ValidationError

from server.access.files import SharedFile, Stamp
from server.access.uses import Uses
from server.errors import Conflict, InvalidRequest, NotFound, Unavailable
from server.models import Grant, path_key
from server.telemetry import log

RESERVED = frozenset({"anyone", "local", "token", "owner"})
"""Callers that are not made by a token of the store."""
GRACE = 24 * 3600.0
"""Seconds for which a rotated token goes on, unless somebody says otherwise."""

_COMPLAIN_SECONDS = 60.0
_PREFIX = "vmt"
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LIST = "`vault-mcp token list` shows them."


@dataclass(frozen=True, slots=True)
class Secret:
    """One text that a token may have; `until` is the end of one that was rotated away."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is stored. Without folders it is for all that the policy allows its name."""

    id: str
    name: str
    created: float
    secrets: tuple[Secret, ...]
    expires: float | None = None
    admin: bool = False
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None

    @property
    def grant(self) -> Grant | None:
        """What the token opens; with folders for one verb only, nothing for the other."""
        if self.read is None and self.write is None:
            return None
        return Grant(tuple(map(path_key, self.read or ())), tuple(map(path_key, self.write or ())))

    def is_live(self, now: float) -> bool:
        """Whether its time has not run out."""
        return self.expires is None or now < self.expires


@dataclass(frozen=True, slots=True)
class _Book:
    tokens: tuple[Token, ...] = ()
    version: int = 1


_BOOK: Final = TypeAdapter(_Book)
_NOBODY: Final = (Secret("0" * 64),)
"""What an unknown id is compared with, to take the same way as a known one."""


class TokenStore:
    """The tokens of one STATE_DIR, for servers and for the command line."""

    def __init__(
        self,
        state_dir: Path,
        parse_folder: Callable[[str], str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`parse_folder` checks the folders that a token is for."""
        self._file = SharedFile(state_dir / "tokens.json")
        self._uses = Uses(SharedFile(state_dir / "tokens-used.json"))
        self._parse_folder = parse_folder
        self._clock = clock
        self._seen: tuple[Stamp | None, Mapping[str, Token]] = None, {}
        self._complained = -_COMPLAIN_SECONDS

    def find(self, text: str) -> Token | None:
        """The live token with this text."""
        tokens = self._current()
        prefix, _, rest = text.partition("_")
        token = tokens.get(rest.partition("_")[0]) if prefix == _PREFIX else None
        given, now = _hash(text), self._clock()
        fits = False
        for secret in token.secrets if token is not None else _NOBODY:
            fits |= hmac.compare_digest(given, secret.sha256) and (
                secret.until is None or now < secret.until
            )
        if token is None or not fits or not token.is_live(now):
            return None
        self._uses.saw(token.id, now)
        return token

    def listed(self) -> list[Token]:
        """All tokens by name, those among them whose time has run out. Raises `Unavailable`."""
        return sorted(self._read(), key=lambda token: token.name)

    @property
    def is_empty(self) -> bool:
        """Whether nobody could come in with a token."""
        now = self._clock()
        return not any(token.is_live(now) for token in self._current().values())

    def last_uses(self) -> Mapping[str, float]:
        """When each token was used last, by id: to the minute, and only as far as it is known."""
        return self._uses.read()

    def save_uses(self) -> None:
        """Write down what was used; cheap when there is nothing new. Raises `OSError`."""
        self._uses.save(self._current())

    def create(
        self,
        name: str,
        *,
        read: Iterable[str] | None = None,
        write: Iterable[str] | None = None,
        admin: bool = False,
        expires: float | None = None,
    ) -> tuple[Token, str]:
        """A new token and its text. Raises `InvalidRequest`, `Conflict` or what folders raise."""
        _check_name(name)
        now = self._clock()
        if expires is not None and expires <= now:
            raise InvalidRequest("That time is over already.", "Name one that is to come.")
        token, text = _made(
            name,
            created=now,
            expires=expires,
            admin=admin,
            read=self._folders(read),
            write=self._folders(write),
        )
        with self._changing() as tokens:
            same = [one for one in tokens if one.name.lower() == name.lower()]
            if any(one.is_live(now) for one in same):
                raise Conflict(
                    f"There is a token named {same[0].name!r} already.",
                    "Rotate it to get a new text, revoke it, or take another name.",
                )
            tokens[:] = [*(one for one in tokens if one not in same), token]
        return token, text

    def rotate(self, name: str, grace: float = GRACE) -> tuple[Token, str]:
        """The token with a new text; no older one holds longer than `grace` seconds from now.

        Raises `NotFound`.
        """
        now = self._clock()
        with self._changing() as tokens:
            at = _place(tokens, name, now)
            secret, text = _secret(tokens[at].id)
            end = now + grace
            old = (replace(one, until=min(end, one.until or end)) for one in tokens[at].secrets)
            kept = (one for one in old if one.until is not None and one.until > now)
            tokens[at] = replace(tokens[at], secrets=(secret, *kept))
            return tokens[at], text

    def revoke(self, name: str) -> Token:
        """End a token with all its texts. Raises `NotFound`."""
        with self._changing() as tokens:
            return tokens.pop(_place(tokens, name, None))

    def _folders(self, given: Iterable[str] | None) -> tuple[str, ...] | None:
        return None if given is None else tuple(self._parse_folder(folder) for folder in given)

    @contextmanager
    def _changing(self) -> Iterator[list[Token]]:
        with self._file.locked():
            tokens = self._read()
            yield tokens
            self._file.replace(_BOOK.dump_json(_Book(tuple(tokens)), indent=1))

    def _current(self) -> Mapping[str, Token]:
        try:
            stamp = self._file.stamp
            if stamp == self._seen[0]:
                return self._seen[1]
            # A change between the two is noticed next time: the stamp is the older one.
            self._seen = stamp, {token.id: token for token in self._read()}
        except Unavailable as error:
            self._seen = stamp, self._seen[1]
            log(logging.ERROR, "the tokens make no sense; the old ones stay", why=error.message)
        except OSError as error:
            # Not for good: what can't be read now is tried again on the next use.
            self._complain(error)
        return self._seen[1]

    def _complain(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._complained > _COMPLAIN_SECONDS:
            self._complained = now
            log(logging.ERROR, "the tokens can't be read; the old ones stay", why=error.strerror)

    def _read(self) -> list[Token]:
        data = self._file.read()
        try:
            return [] if data is None else list(_BOOK.validate_json(data, strict=True).tokens)
        except ValidationError:
            raise Unavailable(
                "tokens.json in STATE_DIR is damaged.",
                "Bring it back from a backup, or remove it and make new tokens.",
            ) from None


def _made(
    name: str,
    *,
    created: float,
    expires: float | None,
    admin: bool,
    read: tuple[str, ...] | None,
    write: tuple[str, ...] | None,
) -> tuple[Token, str]:
    token_id = secrets.token_hex(6)
    secret, text = _secret(token_id)
    return Token(token_id, name, created, (secret,), expires, admin, read, write), text


def _secret(token_id: str) -> tuple[Secret, str]:
    text = f"{_PREFIX}_{token_id}_{secrets.token_urlsafe(32)}"
    return Secret(_hash(text)), text


def _hash(text: str) -> str:
    # The text has 256 random bits: nothing that could be guessed, so that a plain hash will do.
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[:80]!r} is no name for a token.",
            "Use letters, digits, '.', '_' and '-', 64 at most.",
        )
    if name.lower() in RESERVED:
        raise InvalidRequest(f"The name {name!r} has a meaning of its own.", "Take another one.")


def _place(tokens: list[Token], name: str, now: float | None) -> int:
    for at, token in enumerate(tokens):
        if token.name == name and (now is None or token.is_live(now)):
            return at
    raise NotFound(f"There is no live token named {name[:80]!r}.", _LIST)
