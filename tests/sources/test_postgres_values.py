"""Values of PostgreSQL that have no equal here: a gap of their column, and the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal

import psycopg
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import DATE, INT, TEXT, array_type, decimal_type
from headwater.errors import SourceError
from headwater.sources.contract import Broken, Committed, Logged, Monitor
from headwater.sources.postgres.meanings import ARRAYS, KNOWN, own_meaning
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered, committed, loaded, whole

PRICES = Schema.of(
    [
        ("id", INT),
        ("part", TEXT),
        ("price", decimal_type(10, 2)),
        ("day", DATE),
        ("tags", array_type(TEXT)),
    ]
)


@pytest.fixture(params=["replication", "triggers"])
def harness(request: pytest.FixtureRequest) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes=request.param)
    harness.create_table("a", PRICES, ["id"])
    harness.create_table("b", LINES, ["id"])
    yield harness
    harness.close()


def read_upto(monitor: Monitor, count: int) -> list[Logged]:
    logged: list[Logged] = []
    deadline = time.monotonic() + 60
    while len(committed(logged)) < count:
        assert time.monotonic() < deadline, logged
        logged += monitor.read(0.2)
    return logged


def changes(item: Committed) -> dict[str, tuple[tuple[str, ...], dict[tuple[object, ...], int]]]:
    return {
        update.relation: (update.delta.schema.names, dict(update.delta.items()))
        for update in item.transaction.updates
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("price", "NaN"),
        ("day", "0044-03-15 BC"),
        ("day", "infinity"),
        ("day", "12026-01-01"),
        ("tags", "{{a,b},{c,d}}"),
        ("tags", "[0:1]={a,b}"),
    ],
)
def test_a_value_that_cannot_be_represented_is_a_gap_of_its_column_and_the_rest_goes_on(
    harness: PostgresHarness, column: str, value: str
) -> None:
    source = harness.source(["a", "b"])
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    with writer.transaction():
        writer.execute(f"INSERT INTO a (id, part, {column}) VALUES (1, 'x', '{value}')")
        writer.execute("INSERT INTO b VALUES (1, 'with it')")
    writer.execute("INSERT INTO b VALUES (2, 'goes on')")
    logged = read_upto(monitor, 2)
    (gap,) = [item for item in logged if isinstance(item, Broken)]
    first, second = committed(logged)
    assert gap.columns == {"pg.a": frozenset({column})}
    for told in ("public.a", column, value):
        assert told in gap.reason
    assert gap.stamp == first.stamp
    names, rows = changes(first)["pg.a"]
    assert names == tuple(name for name in PRICES.names if name != column)
    assert rows == {(1, "x", None, None): 1}
    assert changes(second) == {"pg.b": (("id", "part"), {(2, "goes on"): 1})}
    monitor.close()


def test_after_the_value_was_changed_a_load_is_behind_the_gaps(harness: PostgresHarness) -> None:
    source = harness.source(["a", "b"])
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 'NaN')")
    load = source.open_load(["a"], 1)
    with pytest.raises(SourceError, match=r"public\.a, column price: the value NaN "):
        loaded(load, "a", PRICES)
    load.close()
    writer.execute("UPDATE a SET price = 5")
    load = source.open_load(["a"], 1)
    assert sum(loaded(load, "a", PRICES).values()) == 1
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    logged = read_upto(monitor, 2)
    broken = [item for item in logged if isinstance(item, Broken)]
    assert len(broken) == 2
    assert all(gap.stamp is not None and load.snapshot.includes(gap.stamp) for gap in broken)
    load.close()
    monitor.close()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
        "ALTER TYPE pair ADD ATTRIBUTE c int",
        "ALTER TYPE pair RENAME ATTRIBUTE a TO b",
        "ALTER TYPE mood ADD VALUE 'great'",
        "ALTER TYPE mood RENAME VALUE 'ok' TO 'x'; ALTER TYPE mood RENAME VALUE 'x' TO 'ok'",
    ],
)
def test_an_altered_type_is_a_gap_of_the_columns_that_are_printed_with_it(
    harness: PostgresHarness, statement: str
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, m mood)")
    writer.execute("CREATE DOMAIN moods AS mood[]")
    writer.execute("CREATE TABLE p (id int PRIMARY KEY, of pair, all_of moods, n uuid)")
    writer.execute("INSERT INTO p VALUES (1, '(1,ok)', '{sad,ok}')")
    source = harness.source(["p"], watch_s=0.1)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO p VALUES (2, '(,ok)', '{ok}')")
    logged = read_upto(monitor, 1)
    assert not [item for item in logged if isinstance(item, Broken)]
    writer.execute(statement)
    deadline = time.monotonic() + 60
    while not (gaps := [item for item in logged if isinstance(item, Broken)]):
        assert time.monotonic() < deadline
        logged += monitor.read(0.2)
    assert "pg.p" in (gaps[0].columns or {})
    columns = (gaps[0].columns or {})["pg.p"] or frozenset()
    assert columns == ({"of"} if "pair" in statement else {"of", "all_of"})
    monitor.close()


def test_a_value_that_its_type_has_no_room_for_is_read_as_text_where_the_settings_say_so(
    harness: PostgresHarness,
) -> None:
    source = harness.source(["a", "b"], as_text={"a": ["tags", "day", "price"]})
    assert source.relations()["a"].schema.types[2:] == (TEXT, TEXT, TEXT)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 'NaN', 'infinity', '[0:1]={a,b}')")
    writer.execute("INSERT INTO a VALUES (2, 'y', 1.5, '2024-02-29', '{{a,b},{c,d}}')")
    expected = {
        (1, "x", "NaN", "infinity", "[0:1]={a,b}"): 1,
        (2, "y", "1.50", "2024-02-29", "{{a,b},{c,d}}"): 1,
    }
    logged = committed(read_upto(monitor, 2))
    state = {row: n for item in logged for row, n in changes(item)["pg.a"][1].items()}
    load = source.open_load(["a"], 1)
    assert state == dict(loaded(load, "a", source.relations()["a"].schema)) == expected
    assert answered(source, whole(source.relations(), "a"))[0] == expected
    load.close()
    monitor.close()


AS_TEXT = {
    "interval": ("'30 days'", "1 mon"),  # a text anyway, brought to one for equal values
    "timestamptz": ("'2024-02-29 12:00+02'", "2024-02-29 10:00:00+00"),
    "int[]": ("'{{1,2},{3,NULL}}'", "{{1,2},{3,NULL}}"),
    "pair": ("ROW(1, 'a b')", '(1,"a b")'),
    "pair[]": ("ARRAY[ROW(1, NULL)]::pair[]", '{"(1,)"}'),
    "money": ("5", "$5.00"),
    "numeric": ("'1.50'", "1.5"),
    "numeric(4,2)": ("1.5", "1.50"),
    "uuid": (
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "text": ("'  as it is '", "  as it is "),
    "character(4)": ("'ab'", "ab"),
}
"""What a column of a type holds, and how it is read as text."""


def test_as_text_the_log_a_load_and_an_answer_agree(
    harness: PostgresHarness,
) -> None:
    names = [f"c{at}" for at in range(len(AS_TEXT))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, AS_TEXT, strict=True))
    values = ", ".join(value for value, _ in AS_TEXT.values())
    writer = harness.writer()
    writer.execute("CREATE TYPE pair AS (n int, t text)")
    writer.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    source = harness.source(["t"], as_text={"t": names})
    assert source.relations()["t"].schema.types[1:] == (TEXT,) * len(names)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute(f"INSERT INTO t VALUES (1, {values})")
    expected = {(1, *(text for _, text in AS_TEXT.values())): 1}
    (item,) = committed(read_upto(monitor, 1))
    assert changes(item)["pg.t"][1] == expected
    load = source.open_load(["t"], 1)
    assert dict(loaded(load, "t", source.relations()["t"].schema)) == expected
    assert answered(source, whole(source.relations(), "t"))[0] == expected
    load.close()
    monitor.close()


def test_a_column_beside_one_of_its_type_that_is_read_as_text_keeps_its_values(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    pairs = "d date, e date, n numeric(4,2), o numeric(4,2), s timestamptz, t timestamptz"
    writer.execute(f"CREATE TABLE t (id int PRIMARY KEY, {pairs})")
    source = harness.source(["t"], as_text={"t": ["d", "n", "s"]})
    source.setup()
    at = "'2024-02-29 12:00+02'"
    values = f"'infinity', '2024-02-29', 'NaN', 1.5, {at}, {at}"
    writer.execute(f"INSERT INTO t VALUES (1, {values})")
    moment = datetime(2024, 2, 29, 10, tzinfo=UTC)
    texts = ("infinity", date(2024, 2, 29), "NaN", Decimal("1.50"), "2024-02-29 10:00:00+00")
    assert answered(source, whole(source.relations(), "t"))[0] == {(1, *texts, moment): 1}
    writer.execute("UPDATE t SET o = 'NaN'")
    with pytest.raises(SourceError, match="column o: the value NaN cannot be represented"):
        answered(source, whole(source.relations(), "t"))


def test_a_column_that_is_a_text_anyway_is_the_same_as_text(harness: PostgresHarness) -> None:
    harness.writer().execute("CREATE TABLE t (id int PRIMARY KEY, u uuid, i interval, x text)")
    plain = harness.source(["t"]).relations()["t"]
    assert harness.source(["t"], as_text={"t": ["u", "i", "x"]}).relations()["t"] == plain


def test_settings_that_name_a_column_that_is_not_there_are_told(harness: PostgresHarness) -> None:
    source = harness.source(["a"], as_text={"a": ["tag"]})
    with pytest.raises(SourceError, match=r"as_text names the column tag of public\.a, .* tags"):
        source.relations()


def test_an_array_with_room_for_other_digits_or_letters_is_followed(
    harness: PostgresHarness,
) -> None:
    """Where values are read in another way from then on, that is a gap of the column."""
    writer = harness.writer()
    writer.execute("CREATE TABLE w (id int PRIMARY KEY, t varchar(5)[], n numeric(5,1)[])")
    source = harness.source(["w"], watch_s=0.1)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO w VALUES (1, '{a}', '{1}')")
    logged = read_upto(monitor, 1)
    writer.execute("ALTER TABLE w ALTER t TYPE varchar(9)[], ALTER n TYPE numeric(6,2)[]")
    writer.execute("INSERT INTO w VALUES (2, '{b}', '{2}')")
    deadline = time.monotonic() + 60
    while not (gaps := [item for item in logged if isinstance(item, Broken)]):
        assert time.monotonic() < deadline
        logged += monitor.read(0.2)
    assert "n" in ((gaps[0].columns or {})["pg.w"] or ())
    monitor.close()


def test_the_arrays_of_the_table_of_types_are_the_servers(harness: PostgresHarness) -> None:
    with psycopg.connect(harness.dsn) as connection:
        found = connection.execute(
            "SELECT t.typarray::int8, t.oid::int8, t.typdelim FROM pg_type t WHERE t.oid = ANY(%s)",
            [list(ARRAYS.values())],
        ).fetchall()
    assert {array: element for array, element, _ in found} == ARRAYS
    for array, element, delimiter in found:
        assert own_meaning(array, -1).form == f"[{delimiter}{KNOWN[element].form}]"
