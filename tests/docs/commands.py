"""The `vault-mcp` commands in a text, and whether the real parser takes them."""

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence

from server.cli import _parser

_END = {"|", "||", "&&", ";", "&", ")", ">", ">>", "<", "2>"}
_BEFORE = {"sudo", "exec", "env", "time", "nice", "do", "then", "else", "(", "$("}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def commands_in(code: str) -> Iterator[list[str]]:
    """The arguments of every `vault-mcp` in a block of shell: behind a prompt, `sudo`, a `|` or `exec … --`."""
    for line in code.replace("\\\n", " ").splitlines():
        if "vault-mcp" in line:
            yield from _of_line(_tokens(re.sub(r"^\s*[$#] ", "", line)))


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    tokens = []
    for token in lexer:
        if token.startswith("#"):
            break
        tokens.append(token)
    return tokens


def _of_line(tokens: Sequence[str]) -> Iterator[list[str]]:
    for at, token in enumerate(tokens):
        if _is_program(token) and _is_command(tokens[:at]):
            rest = list(tokens[at + 1 :])
            end = next((n for n, word in enumerate(rest) if word in _END), len(rest))
            yield rest[:end]


def _is_program(token: str) -> bool:
    return token == "vault-mcp" or token.endswith("/bin/vault-mcp")


def _is_command(before: Sequence[str]) -> bool:
    """Whether a program's name stands where the shell, or a program before it, would start it."""
    start = max((n + 1 for n, word in enumerate(before) if word in _END), default=0)
    words = [word for word in before[start:] if not _ASSIGNMENT.match(word)]
    if not words or words[-1] in _BEFORE or words[-1] == "--":
        return True
    # `sudo -u somebody`, `docker compose exec server`, `podman run --rm image`
    return words[0] == "sudo" or any(word in ("exec", "run") for word in words[1:])


def problem(arguments: Sequence[str], *, named: bool = False) -> str | None:
    """What the parser has against a command; `named` is enough where a text only speaks of it."""
    parser, rest = _parser(), list(arguments)
    if rest in (["--version"], ["--help"]):
        return None
    while rest and (below := _below(parser)):
        if rest[0] not in below:
            return f"there is no command {rest[0]!r} in {parser.prog}"
        parser = below[rest.pop(0)]
    if named and not rest:
        return None
    try:
        _parser().parse_args([*arguments])
    except SystemExit as end:
        return f"the parser ends with {end.code}"
    return None


def _below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}
