"""Every requirement is shown by a test, and no test shows one that there isn't."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.requirements import REQUIREMENTS, SHOWN_BY

TESTS = Path(__file__).parent


def functions_of(file: Path) -> Iterator[tuple[str, list[ast.expr]]]:
    """The tests in a file by their names, each with its decorators."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield f"{file.relative_to(TESTS)}::{node.name}", node.decorator_list


def marked() -> Iterator[tuple[str, str]]:
    """Every (test, requirement) that a marker names."""
    for file in sorted(TESTS.rglob("test_*.py")):
        for test, decorators in functions_of(file):
            for decorator in decorators:
                if isinstance(decorator, ast.Call) and _is_marker(decorator.func):
                    (argument,) = decorator.args
                    assert isinstance(argument, ast.Constant), f"{test}: the id must be written out"
                    yield test, str(argument.value)


def _is_marker(function: ast.expr) -> bool:
    return ast.unparse(function) == "pytest.mark.requirement"


def test_every_requirement_is_shown() -> None:
    shown = {requirement for _, requirement in marked()} | set(SHOWN_BY)
    assert set(REQUIREMENTS) - shown == set()


def test_every_marker_names_a_requirement() -> None:
    unknown = [(test, name) for test, name in marked() if name not in REQUIREMENTS]
    assert unknown == []
    assert set(SHOWN_BY) - set(REQUIREMENTS) == set()


def test_every_test_that_is_named_exists() -> None:
    existing = {name for file in TESTS.rglob("test_*.py") for name, _ in functions_of(file)}
    named = {test for tests in SHOWN_BY.values() for test in tests}
    assert named - existing == set()
    assert all(SHOWN_BY.values())


def test_a_requirement_is_a_sentence() -> None:
    assert [name for name, text in REQUIREMENTS.items() if not text.endswith(".")] == []
