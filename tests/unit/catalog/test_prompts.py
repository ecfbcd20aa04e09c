"""What prompts, completions, instructions and URIs are made of."""

import re
from types import CodeType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.catalog import completions
from server.catalog.instructions import MOST_CHARS, instructions
from server.catalog.prompts import PROMPTS, Prompt, checked
from server.catalog.resources import TEMPLATES, parse_uri, uri_of
from server.catalog.table import OPERATIONS
from server.errors import InvalidPath, InvalidRequest, PathNotAllowed, VaultError
from server.vault.paths import parse_path

TOOLS = {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_a_prompt_names_the_tools_that_it_needs_and_no_others(prompt: Prompt) -> None:
    code: CodeType = getattr(prompt.make, "__code__")  # noqa: B009 - any callable may be one
    words = " ".join(text for text in code.co_consts if isinstance(text, str))
    named = set(re.findall(r"\b(?:note|notes|adr|devlog|search|context|vault)_\w+", words))
    assert set(prompt.needs) <= named <= TOOLS


def test_every_argument_that_says_so_is_completed() -> None:
    for prompt in PROMPTS:
        for argument in prompt.arguments:
            assert completions.of_prompt(prompt.name, argument.name) == argument.completes
    for template in TEMPLATES:
        assert completions.of_template(template.uri, "path") == template.kind
    assert completions.of_template("vault://other/{+path}", "path") is None
    assert completions.of_template(TEMPLATES[0].uri, "other") is None
    assert completions.of_prompt("devlog", "other") is None


def test_empty_arguments_are_no_arguments() -> None:
    prompt = next(one for one in PROMPTS if one.name == "catchup")
    assert checked(prompt, {"since": "  ", "tag": " a "}) == {"tag": "a"}
    assert checked(prompt, None) == {}
    with pytest.raises(InvalidRequest):
        checked(prompt, {"sinse": ""})


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_a_uri_leads_back_to_its_path(raw: str) -> None:
    try:
        path = parse_path(raw)
    except VaultError:
        return
    uri = uri_of("note", path)
    assert uri.isascii() and " " not in uri
    assert parse_uri(uri) == ("note", path)


@settings(max_examples=200)
@given(st.text(max_size=60) | st.text("%0123456789abcdef./", max_size=20))
def test_no_uri_gets_past_the_path_validator(rest: str) -> None:
    for kind in ("note", "folder"):
        try:
            named, path = parse_uri(f"vault://{kind}/{rest}")
        except (InvalidPath, PathNotAllowed):
            continue
        assert named == kind
        assert path == "" or parse_path(path) == path


def test_instructions_stay_short_whatever_the_folders_are_called() -> None:
    folders = [(f"{number} " + "ü" * 25, 100_000 - number) for number in range(50)]
    for mode in ("on", "confirm", "dry-run", "off"):
        assert len(instructions(folders, mode)) <= MOST_CHARS
    said = instructions([("devlog", 7), ("line\nbreak", 5), ('say "hi"', 3), ("x" * 99, 2)], "off")
    assert '"devlog" 7, "say \\"hi\\"" 3.' in said
    assert "break" not in said
    assert "Nothing can be written." in said


@given(st.lists(st.tuples(st.text(max_size=40), st.integers(0, 10**6)), max_size=12))
def test_no_folder_can_add_a_line_to_the_instructions(folders: list[tuple[str, int]]) -> None:
    said = instructions(folders, "on")
    assert len(said) <= MOST_CHARS
    assert "\n" not in said and "\u2028" not in said
