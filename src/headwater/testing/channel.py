"""One suite for every kind of source: the channel contract, on real databases.

    class TestMine(ChannelConformance):
        @pytest.fixture
        def harness(self) -> Iterator[Harness]:
            with tables_in(MyHarness()) as made:
                yield made

An oracle replays what is delivered and compares every answer. Run with `-s` to see the counts; the
environment's `HEADWATER_STRESS=1` asks for more of them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from queue import Queue
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, bind_delta, query_of
from headwater.algebra.values import INT, TEXT
from headwater.errors import HeadwaterError
from headwater.protocol.effects import Ask
from headwater.sources.channel import Channel
from headwater.sources.contract import Position, Source
from headwater.sources.subscription import Subscription
from headwater.testing.following import follow
from headwater.testing.harness import Harness, Writer
from headwater.testing.oracle import Oracle
from headwater.testing.workload import (
    ITEMS,
    LINES,
    BusyWriter,
    UndoneError,
    create_tables,
    fill,
    insert_item,
    insert_line,
    stop_all,
)

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
ANSWERS = 3000 if STRESS else 150
ASKERS = 6
ROUNDS = 300 if STRESS else 15


@contextmanager
def tables_in(harness: Harness) -> Iterator[Harness]:
    """A database with the tables that the suite writes to, closed at the end."""
    try:
        create_tables(harness)
        yield harness
    finally:
        harness.close()


def contents(harness: Harness, source: Source) -> dict[str, Rows]:
    """What the database holds, by the relations' own names."""
    schemas = {"items": ITEMS, "lines": LINES}
    return {
        f"{source.name}.{name}": Rows(schema, harness.contents(name))
        for name, schema in schemas.items()
    }


@contextmanager
def listening(
    source: Source,
    state: Mapping[str, Rows],
    after: Position | None = None,
) -> Iterator[tuple[Oracle, Subscription]]:
    channel = Channel(source, after)
    oracle = Oracle(dict(state))
    subscription = follow(channel, oracle.deliver, oracle.fail)
    channel.start()
    try:
        yield oracle, subscription
    finally:
        channel.close()


def merges(harness: Harness) -> bool:
    """Whether transactions that nobody looks for meanwhile come as one."""
    return bool(getattr(harness, "merges", False))


def questions(source: Source) -> list[Query]:
    """A join at the source, a selection, a whole relation, and probes with bound rows."""
    items, lines = source.relations()["items"], source.relations()["lines"]
    tags = Relation("tags", "elsewhere", Schema.of([("grp", INT), ("tag", TEXT)]))
    known = [items, lines, tags]
    joined = (
        'SELECT i.id, i."Name", l.qty FROM items i JOIN lines l ON l.item = i.id WHERE l.qty > 1'
    )
    tagged = "SELECT t.tag, i.id, i.note FROM tags t JOIN items i ON i.grp = t.grp"
    (probe,) = query_of(parse_view(tagged, known))
    (by_name,) = query_of(
        parse_view('SELECT t.tag, i.id FROM tags t JOIN items i ON i."Name" = t.tag', known)
    )
    rows = Rows(tags.schema, {(1, "a"): 1, (2, "A"): -1, (None, "a "): 2})
    return [
        query_of(parse_view(joined, known)),
        query_of(parse_view("SELECT id, grp FROM items WHERE \"Name\" = 'a'", known)),
        query_of(parse_view("SELECT item, qty, price FROM lines", known)),
        (bind_delta(probe, 0, rows),),
        (bind_delta(by_name, 0, rows),),
    ]


def renamed_questions(source: Source) -> list[Query]:
    """Some of the questions above, as others would write them."""
    known = [source.relations()["items"], source.relations()["lines"]]
    return [
        query_of(parse_view(select, known))
        for select in (
            'SELECT b.qty AS n, a.id, a."Name" FROM lines b, items a WHERE b.qty > 1 '
            "AND a.id = b.item",
            "SELECT x.price, x.item, x.qty FROM lines x",
        )
    ]


def is_waiting(subscription: Subscription) -> bool:
    """Whether its question is put, and has no answer yet."""
    return not subscription.place.has_work


@contextmanager
def all_connections_busy(channel: Channel) -> Iterator[None]:
    """Whoever asks meanwhile waits."""
    go_on = threading.Event()

    def wait() -> None:
        go_on.wait(60)

    for _ in range(8):
        channel.connections.do(wait)
    try:
        yield
    finally:
        go_on.set()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class ChannelConformance:
    """What the channel promises of a kind of source; a class of tests is made of it by a fixture.

    `harness` yields a database of the kind, with `tables_in`.
    """

    @pytest.fixture
    def writer(self, harness: Harness) -> Iterator[Writer]:
        made = harness.writer()
        fill(made)
        yield made
        made.close()

    @pytest.fixture
    def source(self, harness: Harness, writer: Writer) -> Iterator[Source]:
        made = harness.source(["items", "lines"])
        made.setup()
        yield made
        made.teardown()

    # What is delivered

    def test_transaction_over_two_tables_is_one_unit(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        with listening(source, contents(harness, source)) as (oracle, _):
            with writer.transaction():
                insert_item(writer, 50, 1, "n", None)
                insert_line(writer, 50, 3)
                insert_line(writer, 50, 3)
            oracle.wait_for_state(contents(harness, source))
            assert len(oracle.transactions) == 1

    def test_what_is_rolled_back_is_not_delivered(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        with listening(source, contents(harness, source)) as (oracle, _):
            with suppress(UndoneError), writer.transaction():
                insert_item(writer, 50, 1, "n", None)
                raise UndoneError
            with writer.transaction():
                insert_item(writer, 51, 1, "kept", None)
                with suppress(UndoneError), writer.savepoint():
                    insert_item(writer, 52, 1, "undone", None)
                    raise UndoneError
            oracle.wait_for_state(contents(harness, source))
            assert (51, 1, "kept", None) in set(oracle.state[f"{source.name}.items"])
            assert len(oracle.transactions) == 1

    def test_change_of_a_key_a_null_and_a_large_value_arrive(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        with listening(source, contents(harness, source)) as (oracle, _):
            insert_item(writer, 60, None, None, "y" * 100_000)
            writer.execute("UPDATE items SET id = 61, grp = 2 WHERE id = 60")
            writer.execute("DELETE FROM items WHERE id = 0")
            oracle.wait_for_state(contents(harness, source))
            assert (61, 2, None, "y" * 100_000) in set(oracle.state[f"{source.name}.items"])

    def test_going_on_from_a_stored_position_loses_and_repeats_nothing(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        state, after = contents(harness, source), None
        seen: list[str] = []
        for number in range(4):
            with listening(source, state, after) as (oracle, _):
                for step in range(3):
                    insert_item(writer, 100 + 10 * number + step, 0, "n", None)
                oracle.wait_for_state(contents(harness, source))
                state, after = oracle.state, dict(oracle.positions[-1])
                seen += oracle.transactions
            insert_line(writer, number, 9)  # while nobody listens
        assert len(set(seen)) == len(seen)
        with listening(source, state, after) as (oracle, _):
            oracle.wait_for_state(contents(harness, source))

    def test_stopping_in_the_middle_repeats_what_was_not_stored(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        start = contents(harness, source)
        if not merges(harness):
            for number in range(6):
                insert_item(writer, 100 + number, 0, "n", None)
        with listening(source, start) as (oracle, _):
            for number in range(6 if merges(harness) else 0):
                insert_item(writer, 100 + number, 0, "n", None)
                oracle.wait_for_state(contents(harness, source))
            oracle.wait_for_state(contents(harness, source))
            third = dict(oracle.positions[2])
            expected = oracle.transactions[3:]
        with listening(source, contents(harness, source), third) as (oracle, _):
            oracle.wait_for_transactions(3)
            assert oracle.transactions == expected

    # Answers in their place

    def test_answers_reflect_exactly_what_was_delivered_before(
        self, harness: Harness, source: Source
    ) -> None:
        """The stress test: several writers, questions all the time, an oracle for every answer."""
        asked = questions(source)
        random = Random(1)
        with listening(source, contents(harness, source)) as (oracle, subscription):
            writers = [BusyWriter(harness, number) for number in range(3)]
            for busy in writers:
                busy.start()
            try:
                for number in range(ANSWERS):
                    ask = Ask(source.name, f"Q{number}", tuple(random.sample(asked, 2)))
                    oracle.asked[ask.label] = ask
                    subscription.ask(ask)
                    if number % 5 == 4:
                        oracle.wait_for_answers(number - 3)
                        oracle.wait_for_transactions(number // 8)  # writers may be slow
                oracle.wait_for_answers(ANSWERS)
            finally:
                stop_all(writers)
            oracle.wait_for_state(contents(harness, source))
            retries = subscription.retries
        sys.stdout.write(
            f"\n{harness.kind}: {oracle.answers} answers checked, "
            f"{len(oracle.mismatches)} mismatches, {len(oracle.transactions)} transactions, "
            f"{retries} snapshots taken again\n"
        )
        assert oracle.mismatches == []
        assert len(set(oracle.transactions)) == len(oracle.transactions)
        assert len(oracle.transactions) > ANSWERS / 10

    def test_answers_that_subscribers_share_reflect_exactly_what_each_was_delivered_before(
        self, harness: Harness, source: Source
    ) -> None:
        """Several writers, and several who ask nearly the same at once; an oracle for each."""
        channel, random = Channel(source), Random(2)
        oracles = [Oracle(contents(harness, source)) for _ in range(ASKERS)]
        everybody = [(oracle, follow(channel, oracle.deliver, oracle.fail)) for oracle in oracles]
        asked = [*questions(source), *renamed_questions(source)]
        writers = [BusyWriter(harness, number) for number in range(3)]
        channel.start()
        try:
            for busy in writers:
                busy.start()
            for number in range(ROUNDS):
                with all_connections_busy(channel):
                    for oracle, subscription in everybody:
                        ask = Ask(source.name, f"Q{number}", tuple(random.sample(asked, 2)))
                        oracle.asked[ask.label] = ask
                        subscription.ask(ask)
                        wait_until(partial(is_waiting, subscription))
                for oracle in oracles:
                    oracle.wait_for_answers(number + 1)
            stop_all(writers)
            for oracle in oracles:
                oracle.wait_for_state(contents(harness, source))
        finally:
            stop_all(writers)
            channel.close()
        counted = channel.connections.counted
        sys.stdout.write(
            f"\n{harness.kind}: {counted}, {len(oracles[0].transactions)} transactions\n"
        )
        assert [oracle.mismatches for oracle in oracles] == [[]] * ASKERS
        assert counted["questions"] >= ROUNDS * ASKERS
        assert counted["rounds"] < counted["questions"]
        assert counted["shared"] > 0

    def test_subscribers_get_the_same_order_and_do_not_wait_for_each_other(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        state = contents(harness, source)
        channel = Channel(source)
        fast, slow = Oracle(dict(state)), Oracle(dict(state))
        follow(channel, fast.deliver, fast.fail)
        slow.changed.acquire()  # holds the second subscriber up inside its first delivery
        follow(channel, slow.deliver, slow.fail)
        channel.start()
        try:
            for number in range(5):
                insert_item(writer, 200 + number, 0, "n", None)
            fast.wait_for_state(contents(harness, source))
            assert slow.transactions == []
            slow.changed.release()
            slow.wait_for_state(contents(harness, source))
            assert slow.transactions == fast.transactions
        finally:
            channel.close()

    def test_a_subscriber_is_told_why_a_log_ended_also_when_its_channel_is_closed_by_then(
        self,
        source: Source,
    ) -> None:
        source.teardown()
        channel = Channel(source)
        channel.start()
        wait_until(lambda: channel.is_over)
        channel.close()
        told: Queue[HeadwaterError] = Queue()
        follow(channel, lambda delivery: None, told.put, 0)
        assert told.get(timeout=60) is channel.trouble

    def test_oracle_catches_an_answer_that_is_out_of_place(
        self, harness: Harness, writer: Writer, source: Source
    ) -> None:
        with listening(source, contents(harness, source)) as (oracle, subscription):
            whole = questions(source)[2]
            oracle.asked["Q1"] = Ask(source.name, "Q1", (whole,))
            lines = f"{source.name}.lines"
            oracle.state[lines] = oracle.state[lines] - Rows.of(
                LINES, [next(iter(oracle.state[lines]))]
            )
            subscription.ask(oracle.asked["Q1"])
            oracle.wait_for_answers(1)
            assert len(oracle.mismatches) == 1

    # Setting up and taking down

    def test_setup_twice_and_teardown_twice_do_no_harm(
        self, harness: Harness, writer: Writer
    ) -> None:
        source = harness.source(["items", "lines"])
        source.setup()
        source.setup()
        with listening(source, contents(harness, source)) as (oracle, _):
            insert_item(writer, 300, 0, "n", None)
            oracle.wait_for_state(contents(harness, source))
        source.teardown()
        source.teardown()
        insert_item(writer, 301, 0, "still works", None)

    def test_setup_can_be_shown_before_it_is_run(self, harness: Harness) -> None:
        source = harness.source(["items", "lines"])
        assert source.setup_statements()
        source.setup()
        assert source.setup_statements() == []
