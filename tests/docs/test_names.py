"""Tools, arguments, prompts, metrics, codes and files on the pages are those of the server."""

import re

import pytest

from server.catalog.prompts import PROMPTS
from server.catalog.table import OPERATIONS
from server.doors.errors import OUTWARD
from server.query.language import parse_query
from server.settings import Settings
from server.telemetry import Telemetry
from tests.docs.pages import PAGES, ROOT, Page, page
from tests.docs.tables import PAGE, filled

TOOLS = page("docs/tools.md")


@pytest.mark.requirement("docs.names")
def test_the_tables_of_tools_are_those_of_the_catalog() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == filled(page), "make docs writes them"
    for name in [op.name for op in OPERATIONS] + [prompt.name for prompt in PROMPTS]:
        assert TOOLS.text.count(f"| `{name}`") == 1, name


def test_the_readme_names_every_tool_once() -> None:
    table = page("README.md").text.partition("## What agents can do")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_]+)`", table.partition("\n\nNotes")[0])
    assert sorted(named) == sorted(op.name for op in OPERATIONS)


def test_every_code_of_an_error_is_explained() -> None:
    table = TOOLS.text.partition("## Error codes")[2]
    assert re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE) == list(OUTWARD)


def test_the_queries_can_be_asked() -> None:
    table = TOOLS.text.partition("## Searching")[2].partition("\n\n`context_pack`")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    queries = [query for cell in cells for query in re.findall(r"`([^`]+)`", cell)]
    assert len(queries) > 12
    assert all(parse_query(query) for query in queries)


def metrics() -> set[str]:
    """The names that a scrape may have, with the endings of their kinds."""
    found: set[str] = set()
    for family in Telemetry().registry.collect():
        # A table of metrics may name a histogram as a whole.
        endings = {
            "counter": ["_total"],
            "histogram": ["", "_bucket", "_sum", "_count"],
            "info": ["_info"],
        }
        found |= {family.name + ending for ending in endings.get(family.type, [""])}
    return found


@pytest.mark.requirement("docs.names")
@pytest.mark.parametrize("of", PAGES, ids=str)
def test_every_metric_exists(of: Page) -> None:
    code = "\n".join(block.code for block in of.blocks())
    said = set(re.findall(r"(?<![\w-])vault_[a-z_]+\b", "\n".join([*of.words(), code])))
    known = metrics() | {op.name for op in OPERATIONS} | set(Settings.model_fields)
    assert said - known == set()


@pytest.mark.parametrize("of", PAGES, ids=str)
def test_files_that_are_named_exist(of: Page) -> None:
    named = {
        word for word in of.words() if re.fullmatch(r"(?:deploy|docs|server|tests)/[\w./-]+", word)
    }
    assert {name for name in named if not (ROOT / name).exists()} - {
        "docs/adr/NNNN-title.md"
    } == set()


def test_the_files_for_clients_are_in_their_table() -> None:
    table = page("docs/clients.md").text.partition("\n\n**HTTP")[0]
    named = set(re.findall(r"`([a-z-]+/(?:http|stdio)/[\w.]+)`", table))
    files = (ROOT / "deploy/clients").rglob("*.json")
    assert named == {str(file.relative_to(ROOT / "deploy/clients")) for file in files}
