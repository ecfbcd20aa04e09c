"""Completion in the shells themselves: every command and option of the parser is offered."""

import subprocess
from pathlib import Path

import pytest

from server.cli import _parser, main
from server.commands.completion import Node, nodes
from tests.drive.processes import require

NODES = list(nodes(_parser()))


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


class Bash:
    """A bash that has loaded the script."""

    def __init__(self, text: str) -> None:
        require("bash")
        self._text = text

    def offers(self, *lines: list[str], cwd: Path | None = None) -> list[list[str]]:
        """What is offered for the last word of each line."""
        ask = "".join(
            f"COMP_WORDS=(vault-mcp {' '.join(map(repr, words))}); "
            f"COMP_CWORD={len(words)}; _vault_mcp; "
            "printf '%s\\n' \"${COMPREPLY[@]}\"; echo ---\n"
            for words in lines
        )
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", f"{self._text}\n{ask}"],
            capture_output=True, text=True, check=True, timeout=60, cwd=cwd,
        )  # fmt: skip
        assert not done.stderr
        return [
            [word for word in part.split("\n") if word] for part in done.stdout.split("---\n")[:-1]
        ]


@pytest.mark.requirement("ops.completion")
def test_bash_knows_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    bash = Bash(script("bash", capsys))
    words = bash.offers(*([*node.at.split(), ""] for node in NODES))
    options = bash.offers(*([*node.at.split(), "-"] for node in NODES))
    for node, offered, with_dash in zip(NODES, words, options, strict=True):
        assert set(node.words) <= set(offered), node.at
        assert set(with_dash) == {name for option in node.options for name in option.names}
    assert len(NODES) > 20


def test_bash_narrows_by_what_was_typed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "my backup.tar").touch()
    bash = Bash(script("bash", capsys))
    found = bash.offers(
        ["do"], ["token", "re"], ["token", "create", "--ex"], ["completion", ""],
        ["restore", "my"], ["serve", "--sample", ""], ["token", "create", "x", "--expires", ""],
        ["--json", "token", "l"],
        cwd=tmp_path,
    )  # fmt: skip
    assert found == [
        ["doctor"], ["revoke"], ["--expires"],
        ["bash", "fish", "zsh"], ["my backup.tar"], ["my backup.tar"], [], ["list"],
    ]  # fmt: skip


def test_the_line_that_loads_it_in_bash(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("bash", capsys)
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"source <(cat <<'END'\n{text}END\n); complete -p vault-mcp"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "complete -F _vault_mcp vault-mcp\n"


@pytest.mark.requirement("ops.completion")
def test_fish(capsys: pytest.CaptureFixture[str]) -> None:
    require("fish")
    text = script("fish", capsys)

    def offers(line: str) -> set[str]:
        command = f"{text}\ncomplete -C {line!r}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", command],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert not done.stderr
        return {found.split("\t")[0] for found in done.stdout.splitlines()}

    for node in NODES:
        if node.words and not node.files:
            assert offers(f"vault-mcp{node.at} ") == set(node.words), node.at
        named = {name for option in node.options for name in option.names}
        assert named <= offers(f"vault-mcp{node.at} -") | offers(f"vault-mcp{node.at} --"), node.at


@pytest.mark.requirement("ops.completion")
def test_zsh(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Its parts are stood in for by functions that say what they were given."""
    require("zsh")
    text = script("zsh", capsys)
    stand_in = (
        "compdef() { : }; _files() { print FILES }; "
        "_describe() { local -a all; all=(${(P)2}); print -l -- ${all%%:*} }\n"
    )

    def offers(node: Node, last: str) -> set[str]:
        words = " ".join(f"'{word}'" for word in ["vault-mcp", *node.at.split(), last])
        count = len(node.at.split()) + 2
        ask = f"words=({words}); CURRENT={count}; _vault_mcp"
        done = subprocess.run(
            ["zsh", "-f", "-c", f"{stand_in}{text}\n{ask}"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert not done.stderr
        return set(done.stdout.split())

    for node in NODES:
        files = {"FILES"} if node.files else set()
        assert offers(node, "") == set(node.words) | files, node.at
        named = {name for option in node.options for name in option.names}
        assert offers(node, "-") == named | files, node.at


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["completion", "tcsh"])
    assert caught.value.code == 2
    assert "bash" in capsys.readouterr().err
