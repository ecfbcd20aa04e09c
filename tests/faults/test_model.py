"""The model must find what it is there for: here the server's part is played badly on purpose."""

import pytest

from server.models import etag_of
from tests.faults.calls import appended, upserted
from tests.faults.model import Effect, Model, Violation

START = {"a.md": b"k1. start", "note9.md": b"k2. kept"}


@pytest.fixture
def model() -> Model:
    return Model(START)


def written(model: Model, path: str, effect: Effect, before: bytes | None) -> bytes:
    after = effect(before)
    assert after is not None
    model.made(path, effect, etag_of(after))
    return after


def test_what_is_as_it_must_be_is_no_problem(model: Model) -> None:
    after = written(model, "a.md", upserted("k3. more"), b"k1. start")
    assert model.problems({**START, "a.md": after}) == []


def test_an_answered_write_that_is_not_there_is_found(model: Model) -> None:
    written(model, "a.md", upserted("k3. more"), b"k1. start")
    assert any("lost" in problem for problem in model.problems(START))


def test_a_write_on_top_of_what_nobody_wrote_is_found(model: Model) -> None:
    with pytest.raises(Violation):
        model.made("a.md", upserted("k3. more"), etag_of(b"torn\nk3. more"))


def test_a_torn_note_is_found(model: Model) -> None:
    assert model.torn({**START, "a.md": b"k1. sta"})


def test_a_file_that_nobody_made_is_found(model: Model) -> None:
    assert any("nobody made" in one for one in model.problems({**START, "b.md": b"k1. start"}))


def test_an_open_write_may_have_been_made_or_not(model: Model) -> None:
    effect = appended("k3. more")
    model.begun("a.md", effect)
    for text in (b"k1. start", b"k1. start\nk3. more"):
        assert model.problems({**START, "a.md": text}) == []
    assert model.problems({**START, "a.md": b"k3. more"}), "but not without what was there"


def test_writes_at_once_must_be_explained_by_an_order(model: Model) -> None:
    first, second = upserted("k3. one"), upserted("k4. two")
    base = b"k1. start"
    in_order = [
        (first, etag_of(base + b"\nk3. one")),
        (second, etag_of(base + b"\nk3. one\nk4. two")),
    ]
    model.made_at_once("a.md", in_order)
    assert model.known("a.md") == base + b"\nk3. one\nk4. two"
    with pytest.raises(Violation):
        # Both were built on the same content: one of them is lost.
        Model(START).made_at_once(
            "a.md", [(one, etag_of(one(base) or b"")) for one in (first, second)]
        )


def test_what_others_threw_away_is_not_the_servers_loss(model: Model) -> None:
    model.changed_elsewhere("a.md", b"k3. theirs", b"k1. start", seen=True)
    assert model.problems({**START, "a.md": b"k3. theirs"}) == []
    assert model.problems(START), "but theirs must stay"


def test_what_an_open_write_took_away_may_go_with_what_it_wrote(model: Model) -> None:
    model.begun("a.md", lambda _: b"k3. instead")
    model.changed_elsewhere("a.md", None, b"k3. instead", seen=True)
    assert model.problems({"note9.md": START["note9.md"]}) == []
    other = Model(START)
    other.begun("a.md", lambda _: b"k3. instead")
    other.changed_elsewhere("a.md", b"k4. theirs", None, seen=True)
    lost = other.problems({"a.md": b"k4. theirs", "note9.md": START["note9.md"]})
    assert any("lost" in one for one in lost), "but not when nobody saw that it was made"


def test_what_was_not_there_yet_when_others_came_must_come_to_lie_somewhere(model: Model) -> None:
    written(model, "a.md", upserted("k3. ours"), b"k1. start")
    model.changed_elsewhere("a.md", b"k4. theirs", b"k1. start", seen=True)
    alone = {**START, "a.md": b"k4. theirs"}
    assert any("lost" in problem for problem in model.problems(alone))
    beside = {**alone, "a.conflict-1.md": b"k1. start\nk3. ours"}
    assert model.problems(beside) == []


def test_what_others_took_away_may_come_back_with_a_mount_that_forgot(model: Model) -> None:
    after = written(model, "a.md", upserted("k3. ours"), b"k1. start")
    model.changed_elsewhere("a.md", None, after, seen=True, moved_to="b.md")
    moved = {"note9.md": START["note9.md"], "b.md": after}
    model.rest(moved)
    both = {**moved, "a.md": after}
    assert model.problems(both), "not while the mount is the same"
    model.may_come_back()
    assert model.problems(moved) == model.problems(both) == []
    assert model.problems({**moved, "a.md": b"k4. torn"}), "and nothing that never was there"
    written(model, "a.md", upserted("k5. new"), None)
    model.rest({**moved, "a.md": b"k5. new"})
    model.may_come_back()
    assert model.problems(both), "nor what the server wrote over"


def test_what_a_note_may_hold_does_not_grow_beyond_its_writes(model: Model) -> None:
    """Three that nobody answered are made or not, in any order, from each content it may have."""
    model.changed_elsewhere("a.md", b"k3. theirs", b"k1. start", seen=False)
    writes = [upserted(f"k{number}. more") for number in (4, 5, 6)]
    model.made_at_once("a.md", [(write, None) for write in writes])
    contents, orders = {b"k3. theirs", b"k1. start", None}, 1 + 3 + 6 + 6
    assert len(model.place("a.md").may) == len(contents) * orders


def test_a_move_that_is_open_takes_along_what_comes_to_its_old_place(model: Model) -> None:
    model.move_begun("a.md", "b.md")
    model.changed_elsewhere("a.md", b"k3. theirs", b"k1. start", seen=True)
    kept = {"note9.md": START["note9.md"]}
    for truth in ({"a.md": b"k3. theirs"}, {"b.md": b"k3. theirs"}):
        assert model.problems({**kept, **truth}) == []
    after = written(model, "a.md", upserted("k4. ours"), b"k3. theirs")
    assert model.problems({**kept, "b.md": after}) == []
    assert model.problems({**kept, "b.md": b"k3. theirs"}), "but not without what was answered"
    assert model.problems(kept), "nor may it be at neither place"
    model.rest({**kept, "a.md": after})
    written(model, "a.md", upserted("k5. more"), after)
    assert model.problems({**kept, "b.md": after + b"\nk5. more"}), "and not when all came to rest"
