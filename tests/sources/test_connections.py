"""The connections over which a source is asked are few, and one that waits holds up no other."""

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Queue

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.algebra.values import INT
from headwater.frames import naming
from headwater.protocol.effects import Ask
from headwater.sources.connections import Connections, Inquirer, Replies
from headwater.sources.contract import Reply, Wrapper, as_it_is
from headwater.sources.rounds import Question
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


class Asker:
    """Asks, and keeps what it is answered, or what went wrong."""

    def __init__(self, name: str = "somebody") -> None:
        self.name = name
        self.answers: Queue[Reply | Exception] = Queue()
        self.jobs = ""
        """The name of jobs that answering starts."""

    def inquire(self, ask: Callable[[], Reply]) -> None:
        self.jobs = naming._here.name or ""
        try:
            self.answers.put(ask())
        except Exception as error:
            self.answers.put(error)

    def replied(self, reply: Reply) -> None:
        self.answers.put(reply)

    def wake(self, at: float) -> None:
        pass

    def took(self, seconds: float) -> None:
        pass


def test_what_answering_has_spark_do_is_named_by_who_asked(source: SqliteSource) -> None:
    connections, asker = Connections("shop", lambda: source, as_it_is), Asker("order_lines")
    connections.put(Question(Ask("shop", "q", ()), asker))
    assert isinstance(asker.answers.get(timeout=LIMIT_S), Reply)
    assert asker.jobs == "order_lines: question to shop"
    connections.stop()
    connections.join(LIMIT_S)


def told(replies: Replies) -> None:
    for asker, reply in replies:
        asker.replied(reply)


def put_together(connections: Connections, questions: Sequence[Question[Inquirer]]) -> None:
    """Ask while every connection is busy, so that all of them wait."""
    go_on = threading.Event()

    def wait() -> None:
        go_on.wait(LIMIT_S)

    for _ in range(8):
        connections.do(wait)
    for question in questions:
        connections.put(question)
    go_on.set()


def question(asker: Asker, column: str) -> Question[Inquirer]:
    relation = Relation("s.t", "s", Schema.of([(column, INT)]), (column,))
    query = query_of(parse_view(f"SELECT {column} FROM t", [relation]))
    return Question(Ask("s", "q", (query,)), asker, expected_s=0.0)


def test_questions_that_wait_are_answered_in_one_snapshot(source: SqliteSource) -> None:
    connections = Connections("s", lambda: source, as_it_is, told)
    askers = [Asker() for _ in range(3)]
    put_together(connections, [question(asker, "id") for asker in askers])
    found = [asker.answers.get(timeout=LIMIT_S) for asker in askers]
    replies = [reply for reply in found if isinstance(reply, Reply)]
    assert [len(reply.results) for reply in replies] == [1, 1, 1]
    assert len({reply.marker for reply in replies}) == 1
    connections.stop()
    connections.join(LIMIT_S)
    assert connections.counted == {"questions": 3, "rounds": 1, "shared": 2}


def test_what_fails_together_is_asked_one_by_one(source: SqliteSource) -> None:
    connections = Connections("s", lambda: source, as_it_is, told)
    askers = [Asker() for _ in range(3)]
    columns = ("id", "there_is_none", "id")
    put_together(connections, [question(*each) for each in zip(askers, columns, strict=True)])
    found = [asker.answers.get(timeout=LIMIT_S) for asker in askers]
    assert [isinstance(each, Reply) for each in found] == [True, False, True]
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
