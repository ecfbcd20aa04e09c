"""Every link between pages leads to a file that is there, and every anchor to a heading."""

from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Page


@pytest.mark.requirement("docs.links")
@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Page) -> None:
    broken = []
    for link in page.links():
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and anchor not in Page(target).anchors()):
            broken.append(link)
    assert broken == []


@pytest.mark.requirement("docs.links")
def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        links = (link.partition("#")[0] for link in Page(path).links())
        ahead += [found for link in links if (found := (path.parent / link).resolve()).is_file()]
    pages = {page.path for page in PAGES if page.path.parent == ROOT / "docs"}
    assert {str(path.relative_to(ROOT)) for path in pages - seen} == set()


def test_an_anchor_is_what_github_makes_of_a_heading(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text(
        "# Who may do what?\n## `core`, find\n## Again\n## Again\n```sh\n# no heading\n```\n"
    )
    assert Page(file).anchors() == {"who-may-do-what", "core-find", "again", "again-1"}
