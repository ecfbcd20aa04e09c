"""The table of decisions: rows are added and a cell changes; what people wrote stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.markdown.index_table import Row, new_index, numbers_in, with_rows, with_status

ROW = Row(3, "ADR-003-a-b", "a | b", "accepted", "2026-02-20", "vault")
SPELLED = r"| [[ADR-003-a-b\|ADR-003]] | a \| b | accepted | 2026-02-20 |"
TABLE = """# Mine

Text | with a bar

| ADR | Title | Status | Date |
|---|---|---|---|
| [[ADR-001-x\\|ADR-001]] | X | accepted | 2026-02-18 |
| [[ADR-002-y\\|ADR-002]] | Y \\| status | proposed | 2026-02-19 |

Below.
"""
OTHERS = {
    "other columns": (
        "| Status | Owner | ADR | Decision |\n|:--|---|:-:|--:|\n| done | me | ADR-1 | x |\n",
        r"| accepted |  | [[ADR-003-a-b\|ADR-003]] | a \| b |",
    ),
    "no outer bars": ("ADR | Title\n--- | ---\n1 | x\n", r"| [[ADR-003-a-b\|ADR-003]] | a \| b |"),
    "in a callout": (
        "> [!info] Table\n> | ADR | Date |\n> |---|---|\n> | 0001 | x |\n\nz\n",
        r"> | [[ADR-003-a-b\|ADR-003]] | 2026-02-20 |",
    ),
    "bold heads": (
        "| **ADR** | *Project* |\n|---|---|\n| [[ADR-001-x]] | |\n",
        r"| [[ADR-003-a-b\|ADR-003]] | vault |",
    ),
    "behind another table": (
        "| a | b |\n|---|---|\n| adr | 9 |\n\n| ADR |\n|---|\n| [[ADR-001-x|ADR-001]] |\nend\n",
        r"| [[ADR-003-a-b\|ADR-003]] |",
    ),
}


def test_a_row_is_added_below_the_last() -> None:
    after = with_rows(TABLE, [ROW])
    assert after == TABLE.replace("\n\nBelow", f"\n{SPELLED}\n\nBelow")
    assert numbers_in(TABLE) == {1, 2}
    assert numbers_in(after) == {1, 2, 3}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_table_that_people_changed_is_kept_as_it_is(kind: str) -> None:
    text, row = OTHERS[kind]
    after = with_rows(text, [ROW])
    assert after.count(row + "\n") == 1
    assert after.replace(row + "\n", "") == text
    assert numbers_in(after) == {1, 3}


def test_line_breaks_and_a_missing_last_one_are_kept() -> None:
    text = TABLE.partition("\n\nBelow")[0].replace("\n", "\r\n")
    assert with_rows(text, [ROW]) == f"{text}\r\n{SPELLED}"
    assert with_rows(text + "\r\n", [ROW]) == f"{text}\r\n{SPELLED}\r\n"


@pytest.mark.parametrize(
    "text", ["", "# Mine\n", "# Mine", "```\n| ADR |\n|---|\n```\n", "| ADR |\n"]
)
def test_without_a_table_one_is_put_at_the_end(text: str) -> None:
    after = with_rows(text, [ROW])
    assert after.startswith(text)
    assert after.endswith(
        f"## Decisions\n\n| ADR | Title | Status | Date |\n|---|---|---|---|\n{SPELLED}\n"
    )
    assert numbers_in(after) == {3}


@pytest.mark.parametrize(
    ("text", "rest"),
    [("# A\n\n## Decisions\n\nwords\n", "\n\nwords\n"), ("## decisions\nwords", "\n\nwords")],
)
def test_a_heading_for_decisions_is_used_again(text: str, rest: str) -> None:
    after = with_rows(text, [ROW])
    assert after.lower().count("## decisions") == 1
    assert after.endswith(SPELLED + rest)


def test_the_new_index_takes_rows() -> None:
    assert numbers_in(with_rows(new_index(), [ROW, ROW])) == {3}


def test_a_status_cell_changes_and_nothing_else() -> None:
    after = with_status(TABLE, 2, "superseded")
    assert after == TABLE.replace("| proposed |", "| superseded |")
    assert with_status(TABLE, 9, "superseded") == TABLE
    assert with_status("no table\n", 2, "x") == "no table\n"


@pytest.mark.parametrize(
    ("row", "after"),
    [
        ("| ADR-1 |   old   | 9 |", "| ADR-1 |   new   | 9 |"),
        ("| ADR-1 || 9 |", "| ADR-1 | new | 9 |"),
        ("| ADR-1 |", "| ADR-1 | new |"),
        ("| [[ADR-001-x|ADR-001]] | old |", "| [[ADR-001-x|ADR-001]] | new |"),
        ("ADR-1 | old", "ADR-1 | new"),
    ],
)
def test_cells_are_found_in_rows_of_any_shape(row: str, after: str) -> None:
    text = f"| ADR | Status | Date |\n|---|---|---|\n{row}\n"
    assert with_status(text, 1, "new") == text.replace(row, after)


@given(st.text(max_size=60), st.text(max_size=120))
@settings(max_examples=200)
def test_any_title_is_one_cell_and_any_text_stays(title: str, text: str) -> None:
    row = Row(41, "ADR-041-x", title, "accepted", "2026-02-20")
    after = with_rows(text, [row])
    assert 41 in numbers_in(after)
    changed = with_status(after, 41, "rejected")
    lines = [line for line in changed.split("\n") if "ADR-041-x" in line]
    assert len(lines) == 1
    assert lines[0].rstrip("\r").endswith(("| rejected | 2026-02-20 |", "|"))
    assert changed.replace("rejected", "accepted") == after.replace("rejected", "accepted")
