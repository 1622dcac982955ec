"""The log of a SQLite source: transactions whole, once, in order, with exact borders."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random

import pytest

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.algebra.values import INT, TEXT
from headwater.errors import BrokenLogError, HeadwaterError, LostConnectionError
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.sources.channel import Channel
from headwater.sources.contract import Committed, Marked, Position
from headwater.sources.sqlite.monitor import SqliteMonitor
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.subscription import Delivery
from headwater.testing.following import follow
from headwater.testing.harness import local
from tests.sources.sqlite_harness import SqliteHarness, SqliteWriter
from tests.sources.sqlite_reading import committed, drain

KV = Schema.of([("k", INT), ("v", TEXT)])


class UndoError(Exception):
    """Rolls back what it is raised in."""


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


@pytest.fixture
def source(harness: SqliteHarness) -> SqliteSource:
    harness.create_table("t", KV, ["k"])
    source = harness.source(["t"])
    source.setup()
    return source


def replay(items: Sequence[Committed], relation: str = "t") -> Counter[tuple[object, ...]]:
    rows: Counter[tuple[object, ...]] = Counter()
    for item in items:
        delta = local(item.transaction).get(relation)
        for row, count in delta.items() if delta else ():
            rows[row] += count
            assert rows[row] >= 0
    return +rows


def sizes(items: Sequence[Committed]) -> list[int]:
    return [len(item.transaction.updates) for item in items]


# Borders


def test_each_transaction_is_a_unit_although_all_are_read_at_once(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    one, two = harness.writer(), harness.writer()
    for size, writer in ((3, one), (1, one), (2, two), (5, one), (1, two), (1, two)):
        with writer.transaction():
            for n in range(size):
                writer.execute("INSERT INTO t (v) VALUES (?)", (str(n),))
    assert sizes(drain(monitor)) == [3, 1, 2, 5, 1, 1]
    monitor.close()


def test_what_is_rolled_back_is_not_there(harness: SqliteHarness, source: SqliteSource) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer()
    with suppress(UndoError), writer.transaction():
        writer.execute("INSERT INTO t VALUES (1, 'never')")
        raise UndoError
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (2, 'a')")
        with suppress(UndoError), writer.savepoint():
            writer.execute("INSERT INTO t VALUES (3, 'never')")
            raise UndoError
        with writer.savepoint():
            writer.execute("UPDATE t SET v = 'b' WHERE k = 2")
    writer.execute("UPDATE t SET v = v")
    items = drain(monitor)
    monitor.close()
    assert sizes(items) == [2]
    assert replay(items) == {(2, "b"): 1}


def test_a_transaction_larger_than_the_cache_is_one_unit(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer("cache_size = 5")
    with suppress(UndoError), writer.transaction():
        for n in range(3000):
            writer.execute("INSERT INTO t VALUES (?, ?)", (n, "never" * 20))
        raise UndoError
    writer.execute("INSERT INTO t VALUES (-1, 'x')")
    with writer.transaction():
        for n in range(3000):
            writer.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 100))
    writer.execute("DELETE FROM t WHERE k = -1")
    assert sizes(drain(monitor)) == [1, 3000, 1]
    monitor.close()


def test_a_number_that_leaves_the_cache_within_a_transaction_is_no_border(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer("cache_size = 5")
    writer.execute("CREATE TABLE other (a)")
    with writer.transaction():
        for n in range(3):
            writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
            for _ in range(300):
                writer.execute("INSERT INTO other VALUES (?)", ("x" * 1000,))
    assert sizes(drain(monitor)) == [3]
    monitor.close()


KILLED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 5")
connection.execute("BEGIN IMMEDIATE")
for n in range(3000):
    connection.execute("INSERT INTO t VALUES (?, ?)", (n, "never" * 20))
print("written", flush=True)
sys.stdin.read()
"""


def test_a_killed_writer_leaves_nothing(harness: SqliteHarness, source: SqliteSource) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (-1, 'x')")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(harness.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"written"
        found = drain(monitor)
        process.kill()
    for n in range(20):
        writer.execute("INSERT INTO t VALUES (?, 'x'), (?, 'y')", (n, n + 100))
    found += drain(monitor)
    monitor.close()
    assert sizes(found) == [1, *[2] * 20]


@pytest.mark.parametrize("mode", ["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
def test_checkpoints_take_no_border_from_a_running_monitor(
    harness: SqliteHarness, source: SqliteSource, mode: str
) -> None:
    monitor = source.open_monitor(None)
    writer, other = harness.writer(), harness.writer("busy_timeout = 1")
    found: list[Committed] = []
    for step in range(60):
        for _ in range(step % 4):
            writer.execute("INSERT INTO t (v) VALUES ('x')")
            other.execute(f"PRAGMA wal_checkpoint({mode})")
        if step % 3 == 0:
            found += drain(monitor)
        other.execute(f"PRAGMA wal_checkpoint({mode})")
    found += drain(monitor)
    monitor.close()
    assert sizes(found) == [1] * sum(step % 4 for step in range(60))


def test_borders_that_nobody_saw_are_merged_but_nothing_is_lost(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    for n in range(5):
        writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for n in range(5, 8):
        writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
    items = committed(source)
    assert sizes(items) == [6, 1, 1]  # the first border after the truncation is the first known
    assert replay(items) == harness.contents("t")


def test_a_writer_can_keep_borders_for_a_monitor_that_is_away(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    for n in range(5):
        with writer.transaction():
            writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
            writer.execute(
                "INSERT OR IGNORE INTO _headwater_border SELECT seq FROM _headwater_head"
            )
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert sizes(committed(source)) == [1] * 5


def test_borders_that_were_seen_are_the_same_when_read_again(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    for n in range(5):
        writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
    first = committed(source)
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert committed(source) == first
    assert sizes(first) == [1] * 5


def test_a_vacuum_loses_nothing(harness: SqliteHarness, source: SqliteSource) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("CREATE TABLE filler (a)")
    found: list[Committed] = []
    for n in range(4):
        writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
        writer.execute("DROP TABLE IF EXISTS filler")
        writer.execute("VACUUM")
        writer.execute("INSERT INTO t VALUES (?, 'y')", (n + 10,))
        found += drain(monitor)
    writer.execute("INSERT INTO t VALUES (98, 'z')")
    writer.execute("INSERT INTO t VALUES (99, 'z')")
    last = drain(monitor)
    monitor.close()
    assert replay([*found, *last]) == harness.contents("t")
    assert sizes(last) == [1, 1]


@pytest.mark.parametrize("seed", range(6))
def test_random_writers_are_followed_exactly(
    harness: SqliteHarness, source: SqliteSource, seed: int
) -> None:
    """Every unit is what one transaction did, whatever statements it used."""
    random = Random(seed)
    setup = harness.writer()
    setup.execute("CREATE UNIQUE INDEX unique_v ON t (v COLLATE NOCASE)")
    source.teardown()
    source.setup()
    writers = [harness.writer(f"recursive_triggers = {n}") for n in (0, 1)]
    monitor = source.open_monitor(None)
    states = [harness.contents("t")]
    found: list[Committed] = []
    for _ in range(150):
        writer = random.choice(writers)
        with suppress(UndoError), writer.transaction():
            for _ in range(random.randint(1, 4)):
                with suppress(UndoError, sqlite3.IntegrityError), writer.savepoint():
                    random_statement(random, writer)
                    if random.random() < 0.1:
                        raise UndoError
            if random.random() < 0.1:
                raise UndoError
        if harness.contents("t") != states[-1]:
            states.append(harness.contents("t"))
        if random.random() < 0.2:
            found += drain(monitor)
        if random.random() < 0.05:
            setup.execute("PRAGMA wal_checkpoint")
    found += drain(monitor)
    monitor.close()
    effective = [n for n, item in enumerate(found, 1) if local(item.transaction)]
    assert [replay(found[:n]) for n in effective] == states[1:]


def random_statement(random: Random, writer: SqliteWriter) -> None:
    k, other, v = random.randint(1, 6), random.randint(1, 6), random.choice("abcdABCD")
    statement = random.choice(
        [
            f"INSERT INTO t VALUES ({k}, '{v}')",
            f"INSERT OR IGNORE INTO t VALUES ({k}, '{v}')",
            f"INSERT OR REPLACE INTO t VALUES ({k}, '{v}'), ({other}, '{v}{other}')",
            f"REPLACE INTO t (v) VALUES ('{v}')",
            f"INSERT INTO t VALUES ({k}, '{v}') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
            f"INSERT INTO t VALUES ({k}, '{v}') ON CONFLICT DO NOTHING",
            f"UPDATE OR REPLACE t SET k = {k}, v = '{v}' WHERE k = {other}",
            f"UPDATE OR REPLACE t SET k = k + 1 WHERE k >= {other}",
            f"UPDATE OR IGNORE t SET k = {k} WHERE k = {other}",
            f"UPDATE t SET v = v || '{other}' WHERE k = {k}",
            f"DELETE FROM t WHERE k = {k}",
            "DELETE FROM t" if random.random() < 0.1 else f"DELETE FROM t WHERE v = '{v}'",
        ]
    )
    writer.execute(statement)


def test_units_of_concurrent_writers_are_never_split_or_merged(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    """Each transaction names itself in every row; checkpoints happen all the while."""

    def write(number: int) -> None:
        random = Random(number)
        writer = SqliteWriter(harness.path, ["synchronous = OFF", "wal_autocheckpoint = 20"])
        for n in range(300):
            size = random.randint(1, 5)
            with writer.transaction():
                for _ in range(size):
                    writer.execute("INSERT INTO t (v) VALUES (?)", (f"{number}.{n}.{size}",))
        writer.close()

    monitor = source.open_monitor(None)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    found: list[Committed] = []
    while any(thread.is_alive() for thread in threads):
        found += drain(monitor)
    found += drain(monitor)
    monitor.close()
    assert len(found) == 900
    for item in found:
        (name,) = {row[1] for row in local(item.transaction)["t"]}
        assert len(item.transaction.updates) == int(str(name).rsplit(".", 1)[1])


# Positions


def test_reading_goes_on_exactly_once_from_any_position(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    for n in range(10):
        with writer.transaction():
            writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
            writer.execute("UPDATE t SET v = 'y' WHERE k = ?", (n,))
    items = committed(source)
    assert len({item.transaction.id for item in items}) == 10
    positions: list[Position | None] = [None, *(item.position for item in items)]
    for at, position in enumerate(positions):
        assert committed(source, position) == items[at:]


def test_a_long_log_is_read_in_pieces(
    harness: SqliteHarness, source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.monitor._ROWS_PER_READ", 7)
    writer = harness.writer()
    for n in range(30):
        writer.execute("INSERT INTO t VALUES (?, 'x'), (?, 'y')", (n, n + 100))
    monitor = source.open_monitor(None)
    monitor.read(0)  # says where it begins
    assert len(monitor.read(0)) == 4
    writer.execute("INSERT INTO t VALUES (99, 'x')")
    assert sizes(drain(monitor)) == [2] * 26 + [1]
    monitor.close()


def test_acknowledged_changes_are_pruned_and_others_stay(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    with writer.transaction():
        for n in range(12_000):
            writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
    writer.execute("DELETE FROM t WHERE k = 1")
    writer.execute("DELETE FROM t WHERE k = 2")
    monitor = source.open_monitor(None)
    items = drain(monitor)
    monitor.acknowledge(items[0].position)
    count = "SELECT count(*), min(seq) FROM _headwater_log"
    while writer.connection.execute(count).fetchone() != (3, 12_000):  # the last one shows history
        assert drain(monitor) == []
    monitor.close()
    assert committed(source, items[0].position) == items[1:]
    with pytest.raises(BrokenLogError, match="no longer has what came after 0"):
        source.open_monitor(None)
    writer.execute("DELETE FROM t WHERE k = 3")
    assert committed(source, items[-1].position)[0].stamp == items[-1].stamp + 1


def test_pruning_gives_way_to_a_writer_and_is_made_up_for(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    monitor = source.open_monitor(None)
    (item,) = drain(monitor)
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (2, 'x')")
        monitor.acknowledge(item.position)
    monitor.close()
    assert writer.connection.execute("SELECT min(seq) FROM _headwater_log").fetchone() == (1,)


def test_an_acknowledgement_waits_for_nobody(harness: SqliteHarness, source: SqliteSource) -> None:
    writer = harness.writer()
    with writer.transaction():
        for n in range(5_000):
            writer.execute("INSERT INTO t VALUES (?, 'x')", (n,))
    monitor = source.open_monitor(None)
    (item,) = drain(monitor)
    count = "SELECT count(*) FROM _headwater_log"
    monitor.acknowledge(item.position)
    assert writer.connection.execute(count).fetchone() == (5_001,)
    while writer.connection.execute(count).fetchone() != (1,):
        assert monitor.read(0) == []
    monitor.close()


def test_positions_of_another_log_are_refused(harness: SqliteHarness, source: SqliteSource) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    (item,) = committed(source)
    with pytest.raises(BrokenLogError, match="ahead of the log"):
        source.open_monitor({**item.position, "seq": 99})
    source.teardown()
    with pytest.raises(BrokenLogError, match="no log of changes any more"):
        source.open_monitor(item.position)
    source.setup()
    writer.execute("INSERT INTO t VALUES (2, 'x')")
    with pytest.raises(BrokenLogError, match="another log"):
        source.open_monitor(item.position)


# What may happen to the file


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE _headwater_head", "log .* is gone"),
        ("DROP TABLE _headwater_relation", "has no log of changes"),
    ],
)
def test_what_breaks_the_log_stops_the_monitor(
    harness: SqliteHarness, source: SqliteSource, statement: str, says: str
) -> None:
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute(statement)
    with pytest.raises(BrokenLogError, match=says):
        drain(monitor)
    monitor.close()


def test_a_new_unique_index_is_followed_after_another_setup(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    (item,) = committed(source)
    writer.execute("CREATE UNIQUE INDEX i ON t (v)")
    source.setup()
    writer.execute("INSERT OR REPLACE INTO t VALUES (2, 'x')")
    (later,) = committed(source, item.position)
    assert replay([item, later]) == {(2, "x"): 1}


def test_a_teardown_stops_the_monitor(harness: SqliteHarness, source: SqliteSource) -> None:
    monitor = source.open_monitor(None)
    source.teardown()
    source.setup()
    with pytest.raises(BrokenLogError, match="made anew"):
        drain(monitor)
    monitor.close()


def test_a_file_that_is_moved_or_replaced_stops_the_monitor(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor, wrapper = source.open_monitor(None), source.open_wrapper()
    drain(monitor)
    moved = harness.path.rename(harness.path.with_suffix(".old"))
    with pytest.raises(LostConnectionError, match="is gone"):
        drain(monitor)
    with pytest.raises(LostConnectionError, match="is gone"):
        wrapper.ask([])
    other = sqlite3.connect(harness.path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)")
    with pytest.raises(LostConnectionError, match="was replaced"):
        drain(monitor)
    other.close()
    monitor.close()
    wrapper.close()
    moved.rename(harness.path)


def test_the_write_ahead_log_does_not_grow_without_end(
    harness: SqliteHarness, source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = "headwater.sources.sqlite.keeper."
    monkeypatch.setattr(keeper + "_CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(keeper + "_WAL_PAGES", 100)
    writer = harness.writer("synchronous = OFF")
    monitor = source.open_monitor(None)
    count = 0
    for n in range(2000):
        writer.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 100))
        count += len(drain(monitor)) if n % 10 == 0 else 0
    count += len(drain(monitor))
    monitor.close()
    assert count == 2000
    assert os.path.getsize(f"{harness.path}-wal") < 400 * 4120  # noqa: PTH202


def test_a_writer_that_is_always_first_cannot_keep_the_write_ahead_log_from_ending(
    harness: SqliteHarness, source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = "headwater.sources.sqlite.keeper."
    monkeypatch.setattr(keeper + "_WAL_PAGES", 100)
    monkeypatch.setattr(keeper + "_WAL_PAGES_TOO_MANY", 200)
    monitor = source.open_monitor(None)
    monitor.read(0)  # says where it begins
    writer = harness.writer("synchronous = OFF", "busy_timeout = 0")
    roll = SqliteMonitor._roll

    def roll_after_a_write(self: SqliteMonitor) -> None:
        with suppress(sqlite3.OperationalError):
            writer.execute("INSERT INTO t (v) VALUES ('first')")
        roll(self)

    monkeypatch.setattr(SqliteMonitor, "_roll", roll_after_a_write)
    for _ in range(300):
        writer.execute("INSERT INTO t (v) VALUES ('x')")
    found = [item for item in monitor.read(0) if isinstance(item, Committed)]
    monkeypatch.setattr(SqliteMonitor, "_roll", roll)
    writer.execute("INSERT INTO t (v) VALUES ('anew')")
    frames = writer.connection.execute("PRAGMA wal_checkpoint").fetchone()[1]
    found += drain(monitor)
    monitor.close()
    assert frames < 20
    assert sizes(found) == [1] * harness.contents("t").total()


def test_writers_that_never_pause_are_held_back_when_the_log_is_too_long(
    harness: SqliteHarness, source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = "headwater.sources.sqlite.keeper."
    monkeypatch.setattr(keeper + "_CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(keeper + "_WAL_PAGES", 100)
    monkeypatch.setattr(keeper + "_WAL_PAGES_TOO_MANY", 200)
    done = threading.Event()

    def write() -> None:
        writer = SqliteWriter(harness.path, ["synchronous = OFF"])
        for n in range(3000):
            writer.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 100))
        writer.close()
        done.set()

    monitor = source.open_monitor(None)
    thread = threading.Thread(target=write)
    thread.start()
    found: list[Committed] = []
    while not done.is_set():
        found += drain(monitor)
    thread.join()
    found += drain(monitor)
    monitor.close()
    assert sizes(found) == [1] * 3000


# With wrappers


def test_a_marker_comes_after_what_its_answer_reflects(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor, wrapper = source.open_monitor(None), source.open_wrapper()
    monitor.read(0)  # says where it begins
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    reply = wrapper.ask([])
    writer.execute("INSERT INTO t VALUES (2, 'x')")
    logged = [item for item in monitor.read(0) if isinstance(item, Committed | Marked)]
    assert [type(item) for item in logged] == [Committed, Committed, Marked]
    inside = [reply.snapshot.includes(item.stamp) for item in logged if isinstance(item, Committed)]
    assert inside == [True, False]
    again = wrapper.ask([])  # of a state that has been read already
    assert again.marker is not None
    assert monitor.read(0) == [Marked(again.marker)]
    monitor.close()
    wrapper.close()


def test_a_marker_waits_until_the_log_is_read_that_far(
    harness: SqliteHarness, source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.sqlite.monitor._ROWS_PER_READ", 1)
    monitor, wrapper = source.open_monitor(None), source.open_wrapper()
    monitor.read(0)  # says where it begins
    for n in range(3):
        harness.writer().execute("INSERT INTO t VALUES (?, 'x')", (n,))
    wrapper.ask([])
    read = [[type(item) for item in monitor.read(0)] for _ in range(3)]
    assert read == [[Committed], [Committed], [Committed, Marked]]
    monitor.close()
    wrapper.close()


def test_answers_reflect_exactly_what_was_delivered_before_them(harness: SqliteHarness) -> None:
    """Three writers against a subscriber that never stops asking; an oracle replays."""
    for name in ("r", "s"):
        harness.create_table(name, KV, ["k"] if name == "r" else [])
    source = harness.source(["r", "s"])
    source.setup()
    relations = source.relations()
    views = [
        parse_view("SELECT r.k, s.k AS l, r.v FROM r, s WHERE r.v = s.v", relations),
        parse_view("SELECT k, v FROM s WHERE k > 3", relations),
    ]
    queries = tuple(query_of(view) for view in views)
    state = {relation.name: Rows.empty(KV) for relation in relations.values()}
    answers, transactions, errors = 0, 0, list[object]()
    finished = threading.Event()
    channel = Channel(source)

    def deliver(delivery: Delivery) -> None:
        nonlocal answers, transactions
        match delivery.event:
            case TransactionArrived(transaction):
                transactions += 1
                for name, delta in transaction.deltas.items():
                    state[name] = state[name] + delta
            case AnswerArrived(results=results):
                answers += 1
                expected = tuple(evaluate(query, state) for query in queries)
                if results != expected:
                    errors.append((answers, results, expected))
                if answers < 400:
                    subscription.ask(Ask("s", str(answers), queries))
                else:
                    finished.set()
        if answers and transactions % 50 == 0 and delivery.position:
            channel.acknowledge(delivery.position)

    def fail(error: HeadwaterError) -> None:
        errors.append(error)
        finished.set()

    subscription = follow(channel, deliver, fail)
    channel.start()
    subscription.ask(Ask("s", "0", queries))
    counts = [0, 0, 0]

    def write(number: int) -> None:
        random = Random(number)
        writer = SqliteWriter(harness.path, ["synchronous = OFF"])
        while not finished.is_set():
            with writer.transaction():
                for _ in range(random.randint(1, 3)):
                    row = (random.randint(1, 8), random.choice("abc"))
                    writer.execute("INSERT OR REPLACE INTO r VALUES (?, ?)", row)
                    writer.execute("INSERT INTO s VALUES (?, ?)", row)
                    writer.execute("DELETE FROM s WHERE k = ?", (random.randint(1, 8),))
            counts[number] += 1
            finished.wait(0.001)
        writer.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    assert finished.wait(300)
    for thread in threads:
        thread.join()
    channel.close()
    assert errors == []
    assert answers == 400
    assert 100 < transactions <= sum(counts)
