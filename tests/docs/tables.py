"""The tables of docs/tools.md, made from the catalog. `make docs` writes them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic.fields import FieldInfo

from server.catalog.operation import Operation
from server.catalog.prompts import PROMPTS, Prompt
from server.catalog.table import OPERATIONS
from server.settings import TOOLSETS

PAGE = Path(__file__).parents[2] / "docs/tools.md"
_PLACE = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(page: str) -> str:
    """The page with every table between its marks as it should be."""
    return _PLACE.sub(lambda place: f"{place[1]}{tables()[place[2]]}{place[3]}", page)


def tables() -> dict[str, str]:
    """Every table by its name."""
    made = {name: _tools([op for op in OPERATIONS if op.toolset == name]) for name in TOOLSETS}
    return made | {"prompts": _prompts()}


def _tools(operations: Sequence[Operation]) -> str:
    rows = [
        f"| `{op.name}`{' ✎' if op.access == 'write' else ''} | {op.description} | {_arguments(op)} |"
        for op in operations
    ]
    return "\n".join(["| tool | what it does | arguments |", "|---|---|---|", *rows, ""])


def _arguments(op: Operation) -> str:
    return ", ".join(_argument(name, field) for name, field in op.input.model_fields.items())


def _argument(name: str, field: FieldInfo) -> str:
    told = field.alias or name
    if field.is_required():
        return f"**`{told}`**"
    if field.default in (None, "", 0, False, [], {}):
        return f"`{told}`"
    return f"`{told}` = {json.dumps(field.default)}"


def _prompts() -> str:
    rows = [f"| `{one.name}` | {one.description} | {_asked(one)} |" for one in PROMPTS]
    return "\n".join(["| prompt | what it does | arguments |", "|---|---|---|", *rows, ""])


def _asked(prompt: Prompt) -> str:
    return ", ".join(
        f"**`{one.name}`**" if one.required else f"`{one.name}`" for one in prompt.arguments
    )


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
