from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.algebra.values import (
    BOOL,
    BYTES,
    DATE,
    FLOAT,
    INT,
    NAN,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Row,
    decimal_type,
)
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Broken, Committed, Monitor, Position, Progressed, Source
from headwater.sources.postgres import monitor as monitor_module
from headwater.sources.postgres.pgoutput import parse_lsn
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import (
    LINES,
    answered,
    committed,
    loaded,
    read_at_least,
    read_log,
    read_to_end,
    replay,
    whole,
)

ALL = Schema.of(
    [
        ("id", INT),
        ("b", BOOL),
        ("d", decimal_type(38, 10)),
        ("f", FLOAT),
        ("t", TEXT),
        ("y", BYTES),
        ("day", DATE),
        ("ts", TIMESTAMP),
        ("tz", TIMESTAMP_TZ),
    ]
)
EDGES = [
    (1, True, Decimal("0"), 0.0, "", b"", date(1, 1, 1), datetime(1, 1, 1), None),
    (
        2**63 - 1,
        False,
        Decimal("9999999999999999999999999999.9999999999"),
        float("inf"),
        "a\"b,\n\r\\N\tü€🙂'\\",
        bytes(range(256)),
        date(9999, 12, 31),
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    (
        -(2**63),
        None,
        Decimal("-0.0000000001"),
        5e-324,
        "\\N",
        b"\\x00",
        date(1970, 1, 1),
        datetime(2024, 2, 29, 1, 2, 3, 120000),
        datetime(1, 1, 1, tzinfo=UTC),
    ),
    (4, None, None, None, None, None, None, None, None),
    (5, True, Decimal("1.5"), -0.0, "x", b"x", None, None, datetime(2024, 7, 1, 12, tzinfo=UTC)),
    (6, True, Decimal("1.5"), NAN, "\u00a0 x ", b"x", None, None, None),
]


@pytest.fixture(params=["replication", "triggers"])
def harness(request: pytest.FixtureRequest) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes=request.param)
    yield harness
    harness.close()


@pytest.fixture
def slot_harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    yield harness
    harness.close()


def test_values_are_the_same_in_the_log_in_answers_and_in_loads(harness: PostgresHarness) -> None:
    harness.create_table("edges", ALL, ["id"])
    source = harness.source(["edges"])
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    for row in EDGES:
        writer.execute("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    expected = Counter(ALL.row(row) for row in EDGES)
    assert harness.contents("edges") == expected
    assert replay(Counter(), "edges", read_log(monitor, len(EDGES))) == expected
    relations = source.relations()
    assert relations["edges"].schema == ALL
    assert answered(source, whole(relations, "edges")) == [dict(expected)]
    load = source.open_load(["edges"], 2)
    assert loaded(load, "edges", ALL) == expected
    load.close()
    monitor.close()


def test_other_types_of_numbers_and_texts_become_canonical(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute(
        "CREATE TABLE kinds (a int2, b int4, c float4, d varchar(5), e char(5), f numeric(5,2))"
    )
    source = harness.source(["kinds"])
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO kinds VALUES (1, 2, 0.1, 'v ', 'c', 3)")
    expected = (1, 2, 0.10000000149011612, "v ", "c", Decimal("3.00"))
    (item,) = read_log(monitor, 1)
    assert dict(local(item.transaction)["kinds"].items()) == {expected: 1}
    relations = source.relations()
    assert answered(source, whole(relations, "kinds")) == [{expected: 1}]
    view = parse_view(
        "SELECT x.a FROM kinds x WHERE x.e = 'c' AND x.b < 3 AND x.f = CAST(3 AS DECIMAL(5,2))",
        relations,
    )
    assert answered(source, query_of(view)) == [{(1,): 1}]
    load = source.open_load(["kinds"], 1)
    assert loaded(load, "kinds", relations["kinds"].schema) == {expected: 1}
    load.close()
    monitor.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric(5,2)", "'NaN'"),
        ("date", "'infinity'"),
        ("date", "'0044-03-15 BC'"),
        ("timestamp", "'-infinity'"),
        ("timestamptz", "'20000-01-01 00:00Z'"),
    ],
)
def test_a_value_that_has_no_equal_is_refused_by_name(
    harness: PostgresHarness, kind: str, value: str
) -> None:
    writer = harness.writer()
    writer.execute(f"CREATE TABLE odd (id int, strange {kind})")
    source = harness.source(["odd"])
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute(f"INSERT INTO odd VALUES (1, {value})")
    gaps: list[Broken] = []
    while not gaps:  # it ends nothing: views that do not use the column go on
        gaps = [item for item in monitor.read(1.0) if isinstance(item, Broken)]
    assert "strange" in gaps[0].reason
    monitor.close()
    with pytest.raises(SourceError, match=r"public\.odd, column strange"):
        answered(source, whole(source.relations(), "odd"))
    load = source.open_load(["odd"], 1)
    with pytest.raises(SourceError, match=r"public\.odd, column strange"):
        loaded(load, "odd", source.relations()["odd"].schema)
    load.close()


def test_names_are_quoted_and_schemas_told_apart(harness: PostgresHarness) -> None:
    schema = Schema.of([('Odd "Column"', INT), ("select", TEXT), ("a.b%s", INT)])
    harness.create_table('Sales Übersicht.Mixed "Case"', schema, ['Odd "Column"'])
    source = harness.source(['Sales Übersicht.Mixed "Case"'], publication='My "pub\'s"')
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute('INSERT INTO "Sales Übersicht"."Mixed ""Case""" VALUES (1, ?, 2)', ["it's %s"])
    (item,) = read_log(monitor, 1)
    relations = source.relations()
    (name,) = relations
    assert name == 'Mixed "Case"'
    assert relations[name].key == ('Odd "Column"',)
    assert dict(local(item.transaction)[name].items()) == {(1, "it's %s", 2): 1}
    assert answered(source, whole(relations, name)) == [{(1, "it's %s", 2): 1}]
    load = source.open_load([name], 1)
    assert loaded(load, name, schema) == {(1, "it's %s", 2): 1}
    load.close()
    monitor.close()
    source.teardown()


def test_a_transaction_comes_whole_and_without_what_was_rolled_back(
    harness: PostgresHarness,
) -> None:
    harness.create_table("a", LINES, ["id"])
    harness.create_table("b", LINES)
    harness.create_table("other", LINES)
    source = harness.source(["a", "b"])
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    with writer.transaction():
        writer.execute("INSERT INTO a VALUES (1, 'x')")
        writer.execute("INSERT INTO other VALUES (1, 'x')")
        with suppress(ZeroDivisionError), writer.savepoint():
            writer.execute("INSERT INTO b VALUES (9, 'never')")
            raise ZeroDivisionError
        with writer.savepoint():
            writer.execute("INSERT INTO b VALUES (1, 'y'), (1, 'y')")
        writer.execute("UPDATE a SET id = 2, part = NULL")
    with suppress(ZeroDivisionError), writer.transaction():
        writer.execute("INSERT INTO a VALUES (3, 'never')")
        raise ZeroDivisionError
    writer.execute("INSERT INTO other VALUES (2, 'x')")
    writer.execute("DELETE FROM a WHERE id = 2")
    first, second = read_log(monitor, 2)
    assert {n: dict(d.items()) for n, d in local(first.transaction).items()} == {
        "a": {(2, None): 1},
        "b": {(1, "y"): 2},
    }
    assert {u.relation for u in first.transaction.updates} == {"pg.a", "pg.b"}
    assert dict(local(second.transaction)["a"].items()) == {(2, None): -1}
    monitor.close()


def test_a_large_value_that_an_update_leaves_alone_is_whole(harness: PostgresHarness) -> None:
    harness.create_table("big", LINES, ["id"])
    source = harness.source(["big"])
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("ALTER TABLE big ALTER part SET STORAGE EXTERNAL")
    large = "0123456789" * 5000
    writer.execute("INSERT INTO big VALUES (1, ?)", [large])
    writer.execute("UPDATE big SET id = 2")
    _, update = read_log(monitor, 2)
    assert dict(local(update.transaction)["big"].items()) == {(1, large): -1, (2, large): 1}
    monitor.close()


def test_reading_goes_on_at_a_position_with_nothing_lost_and_nothing_twice(
    harness: PostgresHarness,
) -> None:
    harness.create_table("a", LINES, ["id"])
    source = harness.source(["a"])
    source.setup()
    writer = harness.writer()
    for number in range(10):
        writer.execute("INSERT INTO a VALUES (?, 'x')", [number])
    monitor = source.open_monitor(None)
    items = read_log(monitor, 10)
    monitor.close()
    assert len({item.transaction.id for item in items}) == 10
    for at in range(10):
        monitor = source.open_monitor(items[at].position)
        assert ids(read_log(monitor, 9 - at)) == ids(items[at + 1 :])
        if at == 5:
            monitor.acknowledge(items[at].position)
        monitor.close()
    monitor = source.open_monitor(None)
    # The last transaction that was acknowledged is kept: by it the log is known again.
    kept = 5 if harness.changes == "replication" else 6
    assert ids(read_log(monitor, 10 - kept)) == ids(items[kept:])
    monitor.close()
    with pytest.raises(SourceError, match="acknowledged and is gone"):
        source.open_monitor(items[0].position)


def ids(items: list[Committed]) -> list[str]:
    return [item.transaction.id for item in items]


def test_the_position_moves_on_when_nothing_of_interest_happens(harness: PostgresHarness) -> None:
    harness.create_table("a", LINES, ["id"])
    harness.create_table("other", LINES)
    source = harness.source(["a"])
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    for _ in range(20):
        writer.execute("INSERT INTO other VALUES (1, 'x')")
    seen = [item for _ in range(10) for item in monitor.read(0.1)]
    assert seen
    assert all(isinstance(item, Progressed) for item in seen)
    monitor.close()


def test_only_what_was_acknowledged_is_forgotten_by_the_server(
    slot_harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = slot_harness
    harness.create_table("a", LINES, ["id"])
    source = harness.source(["a"])
    source.setup()
    writer = harness.writer()

    def confirmed() -> int:
        with psycopg.connect(harness.dsn) as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s",
                [harness.name],
            ).fetchone()
        assert row is not None
        return parse_lsn(row[0])

    monitor = source.open_monitor(None)
    before = confirmed()
    for number in range(3):
        writer.execute("INSERT INTO a VALUES (?, 'x')", [number])
    items = read_log(monitor, 3)
    monitor.read(0.2)
    assert confirmed() == before
    monitor.acknowledge(items[1].position)
    monitor.acknowledge(items[0].position)
    monitor.read(0.2)
    # All before the last transaction: by that one the log is known again.
    assert parse_lsn(str(items[0].position["lsn"])) <= confirmed()
    assert confirmed() < parse_lsn(str(items[1].position["lsn"]))
    monkeypatch.setattr(monitor_module, "_POST_BYTES", 1)
    writer.execute("CREATE TABLE other (n int)")
    writer.execute("INSERT INTO other VALUES (1)")
    idle = [item for _ in range(10) for item in monitor.read(0.1)]
    assert isinstance(idle[-1], Progressed)
    monitor.acknowledge(idle[-1].position)
    monitor.close()
    assert confirmed() > parse_lsn(str(items[2].position["lsn"]))


def test_joins_and_keys_are_found_whatever_the_collations(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute(
        """
        CREATE TABLE left_side (n int, t text COLLATE "C", c char(4), d numeric(9,2));
        CREATE TABLE right_side (n bigint, t varchar(9) COLLATE "POSIX", c text, d numeric(9,2));
        INSERT INTO left_side VALUES (1, 'x', 'c', 1.5), (2, 'Y', 'c', 2), (3, NULL, NULL, NULL);
        INSERT INTO right_side VALUES (1, 'x', 'c', 1.5), (2, 'y', 'c', 2), (3, NULL, '', NULL);
        """
    )
    source = harness.source(["left_side", "right_side"])
    source.setup()
    relations = source.relations()
    shown = "SELECT l.n FROM left_side l JOIN right_side r ON "
    for condition, expected in [
        ("l.t = r.t", {(1,): 1}),
        ("l.t = r.t AND l.n = r.n", {(1,): 1}),
        ("l.c = r.c", {(1,): 2, (2,): 2}),
        ("l.d = r.d AND r.n >= 2", {(2,): 1}),
        ("l.d < r.d", {(1,): 1}),
        ("l.n = r.n AND l.t = 'X'", {}),
        ("l.n = r.n AND l.t = 'x\x00'", {}),
    ]:
        query = query_of(parse_view(shown + condition, relations))
        assert answered(source, query) == [expected], condition
        for at, name in enumerate(("left_side", "right_side")):
            (rows,) = answered(source, whole(relations, name))
            bound = (bind_delta(query[0], at, Rows(relations[name].schema, rows)),)
            assert answered(source, bound) == [expected], (condition, name)
    count = query_of(parse_view("SELECT 1 AS one FROM left_side l", relations))
    assert answered(source, count) == [{(1,): 3}]


def test_reading_with_many_reconnections_loses_and_repeats_nothing(
    harness: PostgresHarness,
) -> None:
    harness.create_table("a", LINES, ["id"])
    source = harness.source(["a"])
    source.setup()
    stop = threading.Event()

    def write(base: int) -> None:
        own = harness.writer()
        for number in itertools.count(base):
            own.execute("INSERT INTO a VALUES (?, 'new')", [number])
            if number % 3 == 0:
                own.execute("UPDATE a SET part = part || '.' WHERE id = ?", [number - 3])
            if stop.wait(0.003):  # slow enough for a reader on a busy machine
                return

    threads = [threading.Thread(target=write, args=(base * 1_000_000,)) for base in (1, 2, 3)]
    for thread in threads:
        thread.start()
    state: Counter[Row] = Counter()
    position: Position | None = None
    monitor: Monitor = source.open_monitor(None)
    for turn in range(60):
        if turn == 50:
            stop.set()
            for thread in threads:
                thread.join()
        for _ in range(turn % 4):
            logged = monitor.read(0.05)
            state = replay(state, "a", committed(logged))
            places = [item for item in logged if isinstance(item, Committed | Progressed)]
            position = places[-1].position if places else position
        if turn % 3 == 0 and position:
            monitor.acknowledge(position)
        monitor.close()
        monitor = reopened(source, position)
    state = replay(state, "a", read_to_end(monitor))
    monitor.close()
    assert state == harness.contents("a")
    assert len(state) > 100


def reopened(source: Source, position: Position | None) -> Monitor:
    """Opens a monitor once the server has noticed that the last one is gone."""
    for _ in range(500):
        with suppress(LostConnectionError):
            return source.open_monitor(position)
        time.sleep(0.01)
    raise AssertionError("the slot stays in use")


@pytest.mark.parametrize("blocks", [0, 3])
def test_load_and_log_give_the_final_state_under_concurrent_writers(
    harness: PostgresHarness, blocks: int
) -> None:
    harness.create_table("a", LINES, ["id"])
    writer = harness.writer()
    writer.execute(
        f"INSERT INTO a SELECT n, repeat('x', 80) FROM generate_series(1, {blocks * 80}) n"
    )
    source = harness.source(["a"])
    source.setup()
    stop = threading.Event()

    def write(base: int) -> None:
        own = harness.writer()
        number = base
        while not stop.wait(0.002):
            number += 1
            with own.transaction():
                own.execute("INSERT INTO a VALUES (?, 'new')", [number])
                own.execute("UPDATE a SET part = part || '.' WHERE id = ?", [number - 3])
            own.execute("DELETE FROM a WHERE id = ?", [number - 7])

    threads = [threading.Thread(target=write, args=(base * 1_000_000,)) for base in (1, 2, 3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            load = source.open_load(["a"], 4)
            state = loaded(load, "a", LINES)
            monitor = source.open_monitor(load.position)
            load.close()
            items = read_at_least(monitor, 20)
            state = replay(state, "a", items)
            monitor.close()
            # Goes on from inside the window in which the snapshot still matters.
            monitor = source.open_monitor(items[0].position)
            assert items[1].transaction in [i.transaction for i in read_at_least(monitor, 10)]
            monitor.close()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    monitor = source.open_monitor(items[-1].position)
    state = replay(state, "a", read_to_end(monitor))
    monitor.close()
    assert state == harness.contents("a")
