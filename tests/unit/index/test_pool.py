"""Connections that read: lent to one at a time, and not waited for by those who may not wait."""

import threading
from contextlib import ExitStack

import pytest

from server.errors import Unavailable
from server.index import backlog
from server.index.store import Index

from .build import doc

_SIZE = 4


def test_who_may_not_wait_gets_nothing_while_all_are_lent(index: Index) -> None:
    index.put([doc("a.md", "x")])
    assert index.get_at_once("a.md") == index.get("a.md")
    with ExitStack() as loans:
        for _ in range(_SIZE):
            loans.enter_context(index._pool.connection())
        assert index.get_at_once("a.md") is None
        waiting = threading.Thread(target=index.get, args=("a.md",))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive(), "whoever may wait does"
    waiting.join(10)
    assert not waiting.is_alive()
    assert index.get_at_once("a.md") is not None


def test_who_may_not_wait_takes_nothing_in(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "_PAUSE_SECONDS", 3600)
    index.put([doc("a.md", "old")])
    index.put_own(doc("a.md", "new"))
    assert index.get_at_once("a.md") is None
    assert index.get("a.md") == index.get_at_once("a.md")


def test_a_closed_pool_lends_nothing_and_closes_what_comes_back(index: Index) -> None:
    index.put([doc("a.md", "x")])
    pool = index._pool
    with pool.connection() as db:
        pool.close()
        assert db.execute("SELECT count(*) FROM notes").get == 1, "who has one may go on"
        with pytest.raises(Unavailable), pool.connection():
            pass
    assert pool._idle == []
