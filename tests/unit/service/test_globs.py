"""Globs: where what they match can lie."""

import pytest

from server.service.globs import fixed_folder, matcher

FOLDERS = {
    "a/b/*.md": "a/b",
    "a/b/**": "a/b",
    "a/b/": "a/b",
    "a/b": "a",
    "a/*/c/d.md": "a",
    "./a/*.md": "a",
    "/a/*.md": "a",
    "a/": "",
    "*.md": "",
    "a": "",
    "**/a/*.md": "",
    "!a/*.md": "",
    "a[b]/c/*.md": "",
    "": "",
}
PATHS = [
    "a.md",
    "a/x.md",
    "a/b/x.md",
    "a/b/c/x.md",
    "a/b/c/d.md",
    "x/a/b/x.md",
    "x/a.md",
    "ab/c/x.md",
]


@pytest.mark.parametrize("glob", FOLDERS)
def test_the_folder_that_a_glob_is_tied_to(glob: str) -> None:
    assert fixed_folder(glob) == FOLDERS[glob]


@pytest.mark.parametrize("glob", FOLDERS)
def test_nothing_outside_of_it_is_matched(glob: str) -> None:
    folder, matches = fixed_folder(glob), matcher(glob)
    found = [path for path in PATHS if matches is None or matches(path)]
    assert all(path.startswith(f"{folder}/") for path in found if folder)


def test_no_glob_is_tied_to_nothing() -> None:
    assert fixed_folder(None) == ""
