"""What `vault-mcp completion` prints: completion for a shell, made from the parser itself.

Every script does the same: it follows the words to the command that they name, then offers what that
command takes. A command is written as its words, each after a space; the empty text is the beginning.
"""

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from server.commands import Commands

Kind = Literal["flag", "file", "value"]
_PATHS = ("FILE", "FOLDER", "PATH")


@dataclass(frozen=True, slots=True)
class Option:
    """An option; after a `file` come paths, after a `value` something that nobody can guess."""

    names: tuple[str, ...]
    help: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Node:
    """What can follow a command: words with their meaning, options, and whether files can."""

    at: str
    words: dict[str, str]
    options: tuple[Option, ...]
    files: bool


def add(commands: Commands, parser: argparse.ArgumentParser) -> None:
    """Declare the command; `parser` is what it completes."""
    completion = commands.add_parser(
        "completion", help="print completion for a shell: source <(vault-mcp completion bash)"
    )
    completion.add_argument("shell", choices=sorted(_SCRIPTS), help="the shell")

    def run(arguments: argparse.Namespace) -> int:
        print(_SCRIPTS[arguments.shell](list(nodes(parser))), end="")
        return 0

    completion.set_defaults(run=run)


def nodes(parser: argparse.ArgumentParser, at: str = "") -> Iterator[Node]:
    """Every command below a parser, itself first."""
    words: dict[str, str] = {}
    options, files, below = [], False, []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words |= {one.dest: one.help or "" for one in action._choices_actions}
            below += [(f"{at} {name}", child) for name, child in action.choices.items()]
        elif action.option_strings:
            options.append(Option(tuple(action.option_strings), _told(action), _kind(action)))
        elif action.choices is not None:
            words |= {str(choice): "" for choice in action.choices}
        else:
            files |= action.metavar == "FILE"
    yield Node(at, words, tuple(options), files)
    for name, child in below:
        yield from nodes(child, name)


def _kind(action: argparse.Action) -> Kind:
    if action.nargs == 0:
        return "flag"
    return "file" if action.metavar in _PATHS else "value"


def _told(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%")


def _bash(found: list[Node]) -> str:
    return f"""# Completion of vault-mcp for bash: source <(vault-mcp completion bash)
_vault_mcp() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} at="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in
      {_patterns(node.at for node in found if node.at)}) at="$at ${{COMP_WORDS[i]}}" ;;
    esac
  done
  COMPREPLY=()
  case "$at:$prev" in
    {_patterns(_after(found, "file"))})
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return ;;
    {_patterns(_after(found, "value"))}) return ;;
  esac
  case "$at:$cur" in
{_cases(found, _options, ":-*")}
{_cases(found, lambda node: list(node.words), ":*")}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  case "$at" in
    {_patterns(node.at for node in found if node.files)})
      compopt -o filenames 2>/dev/null
      mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- "$cur") ;;
  esac
}}
complete -F _vault_mcp vault-mcp
"""


def _zsh(found: list[Node]) -> str:
    return f"""#compdef vault-mcp
# Completion of vault-mcp for zsh: source <(vault-mcp completion zsh)
_vault_mcp() {{
  local at="" i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    case "$at ${{words[i]}}" in
      {_patterns(node.at for node in found if node.at)}) at="$at ${{words[i]}}" ;;
    esac
  done
  case "$at:${{words[CURRENT - 1]}}" in
    {_patterns(_after(found, "file"))}) _files; return ;;
    {_patterns(_after(found, "value"))}) return ;;
  esac
  case "$at:${{words[CURRENT]}}" in
{_described(found, lambda node: [(n, o.help) for o in node.options for n in o.names], ":-*")}
{_described(found, lambda node: list(node.words.items()), ":*")}
  esac
  _describe vault-mcp found
  case "$at" in
    {_patterns(node.at for node in found if node.files)}) _files ;;
  esac
}}
compdef _vault_mcp vault-mcp
"""


def _fish(found: list[Node]) -> str:
    known = " ".join(_quoted(node.at) for node in found if node.at)
    lines = [
        "# Completion of vault-mcp for fish: vault-mcp completion fish | source",
        "function __vault_mcp_at",
        '    set -l at ""',
        "    for word in (commandline -opc)[2..-1]",
        f'        contains -- "$at $word" {known}; and set at "$at $word"',
        "    end",
        '    test "$at" = "$argv[1]"',
        "end",
        "complete -c vault-mcp -f",
    ]
    for node in found:
        here = f"complete -c vault-mcp -n {_quoted(f'__vault_mcp_at {_quoted(node.at)}')}"
        for word, told in node.words.items():
            lines.append(f"{here} -a {_quoted(word)} -d {_quoted(told)}")
        for option in node.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            )
            taken = {"flag": "", "file": " -r -F", "value": " -x"}[option.kind]
            lines.append(f"{here} {names}{taken} -d {_quoted(option.help)}")
        if node.files:
            lines.append(f"{here} -F")
    return "\n".join(lines) + "\n"


_SCRIPTS: dict[str, Callable[[list[Node]], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}


def _patterns(texts: Iterator[str]) -> str:
    return "|".join(f'"{text}"' for text in texts)


def _after(found: list[Node], kind: Kind) -> Iterator[str]:
    for node in found:
        for option in node.options:
            if option.kind == kind:
                yield from (f"{node.at}:{name}" for name in option.names)


def _options(node: Node) -> list[str]:
    return [name for option in node.options for name in option.names]


def _cases(found: list[Node], words: Callable[[Node], list[str]], end: str) -> str:
    return "\n".join(
        f'    "{node.at}"{end}) words={shlex.quote(" ".join(words(node)))} ;;' for node in found
    )


def _described(found: list[Node], words: Callable[[Node], list[tuple[str, str]]], end: str) -> str:
    def listed(node: Node) -> str:
        # A colon parts a word from what it means.
        return " ".join(shlex.quote(f"{word}:{told}") for word, told in words(node))

    return "\n".join(f'    "{node.at}"{end}) found=({listed(node)}) ;;' for node in found)


def _quoted(text: str) -> str:
    """As fish takes it: within single quotes only these two mean something else."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
