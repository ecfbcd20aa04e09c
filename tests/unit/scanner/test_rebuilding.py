"""A scan that fills a new index while the old one answers."""

from pathlib import Path

from server.index.generations import request_mark
from server.service.freshness import Clock

from .scene import Scene


def ask(scene: Scene, tmp_path: Path) -> None:
    for number in range(20):
        scene.write(f"{number}.md", f"text {number}")
    scene.scanner.scan()
    request_mark(tmp_path / "state" / "index").touch()


def test_the_old_one_answers_and_says_so(scene: Scene, tmp_path: Path) -> None:
    ask(scene, tmp_path)
    clock = Clock(scene.vault.guard, scene.scanner)
    seen: list[tuple[int, str | None]] = []
    scene.vault.on_read = lambda _path: seen.append(
        (len(scene.index.paths()), clock.now().incomplete)
    )
    scene.scanner.scan()
    assert len(seen) == 20, "everything is read again"
    assert {count for count, _ in seen} == {20}
    assert {said for _, said in seen} == {"the index is being built anew (0 %)"}
    assert clock.now().incomplete is None
    assert scene.texts() == scene.disk()
    assert not scene.index.needs_rebuild


def test_a_scan_that_fails_leaves_the_old_one_and_is_tried_again(
    scene: Scene, tmp_path: Path
) -> None:
    ask(scene, tmp_path)

    def fail(_path: str) -> None:
        raise RuntimeError("a bug")

    scene.vault.on_read = fail
    assert scene.scanner.scan_safely() is None
    assert len(scene.index.paths()) == 20
    failed = scene.scanner.progress
    assert failed.rebuilding
    scene.vault.on_read = lambda _path: None
    scene.scanner.scan()
    assert not scene.scanner.progress.rebuilding
    assert scene.texts() == scene.disk()
    assert not scene.index.needs_rebuild
