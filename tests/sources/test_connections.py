"""The connections over which a source is asked are few, and one that waits holds up no other."""

import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.sources.connections import Connections
from headwater.sources.contract import Reply, Wrapper, as_it_is
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.sqlite_harness import SqliteHarness

LIMIT_S = 60.0


@pytest.fixture
def source() -> Iterator[SqliteSource]:
    harness = SqliteHarness()
    harness.create_table("t", Schema.of([("id", INT)]), ["id"])
    source = harness.source(["t"])
    source.setup()
    yield source
    harness.close()


def asked(connections: Connections) -> Reply:
    answers: Queue[Reply] = Queue()
    connections.do(lambda: answers.put(connections.ask(())))
    return answers.get(timeout=LIMIT_S)


def test_who_waits_at_the_source_holds_up_nobody_else(source: SqliteSource) -> None:
    connections, let_go = Connections("s", lambda: source, as_it_is), threading.Event()

    def wait() -> None:
        let_go.wait(LIMIT_S)

    connections.do(wait)
    assert asked(connections).marker
    let_go.set()
    connections.stop()
    connections.join(LIMIT_S)


def test_a_connection_serves_many_questions_and_is_opened_anew_for_more_columns(
    source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SqliteSource] = []
    open_wrapper = SqliteSource.open_wrapper

    def counted(self: SqliteSource) -> Wrapper:
        opened.append(self)
        return open_wrapper(self)

    monkeypatch.setattr(SqliteSource, "open_wrapper", lambda self, lift: counted(self))
    now = [source]
    connections = Connections("s", lambda: now[0], as_it_is)
    for _ in range(20):
        asked(connections)
    few = len(opened)
    assert few < 10
    now[0] = source.narrowed({"t": ["id"]})
    asked(connections)
    assert opened[few:] == now
    connections.stop()
    connections.join(LIMIT_S)
