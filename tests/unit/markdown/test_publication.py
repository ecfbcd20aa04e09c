"""Records for a repository: links that lead somewhere there, and nothing that only a vault knows."""

import pytest

from server.markdown.note import parse
from server.markdown.publication import published


def publish(text: str) -> str:
    known = {"ADR-001-x": "0001-x.md", "adr/ADR-002-y.md": "0002-y.md"}
    return published(text, parse(text, "ADR-003-z.md"), known.get)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("see [[ADR-001-x]].", "see [ADR-001-x](0001-x.md)."),
        ("see [[ADR-001-x|the first]].", "see [the first](0001-x.md)."),
        ("see [[Welcome#Try it]] and [[Welcome|w]]", "see Welcome > Try it and w"),
        ("![[picture.png]]", "picture.png"),
        (
            "[y](adr/ADR-002-y.md), [w](notes/w.md), [e](https://e.org)",
            "[y](0002-y.md), w, [e](https://e.org)",
        ),
        ("`[[ADR-001-x]]` %%secret [[ADR-001-x]]%% kept", "`[[ADR-001-x]]` kept"),
        ("```\n%%code%%\n```", "```\n%%code%%\n```"),
        ("a %%never closed\n\nb", "a"),
        ("a line ^block-1", "a line"),
    ],
)
def test_what_a_vault_knows_becomes_plain(source: str, result: str) -> None:
    assert publish(f"# T\n\n{source}\n") == f"# T\n\n{result}\n"


def test_of_the_properties_only_what_a_repository_wants_stays() -> None:
    related = 'related: ["[[ADR-001-x]]"]'
    text = f"---\ntags: [adr]\nstatus: accepted\ndate: 2026-02-20\n{related}\n---\n# T\n"
    text = text.replace("\n", "\r\n")
    assert publish(text) == "---\nstatus: accepted\ndate: 2026-02-20\n---\n# T\n"
