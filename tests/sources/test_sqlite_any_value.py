"""Every storage class under every affinity: load, log and questions agree with SQLite's answers.

The oracle is SQLite itself: what it reads a text of ours back as, its own text, and its own `=`.
A value that is no value of its column's type here is refused by name on every path.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of, substitute
from headwater.algebra.values import Row, Value
from headwater.algebra.views import View
from headwater.errors import SourceError
from headwater.sources.contract import Constant
from headwater.sources.sqlite.meanings import meaning_of
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.sqlite.types import Stored, reader
from headwater.testing.harness import local
from tests.sources.sqlite_harness import SqliteHarness
from tests.sources.sqlite_reading import committed, gaps

IS_LONG = os.environ.get("HEADWATER_STRESS") == "1"
ROWS = 600 if IS_LONG else 40
PRINTED = ["", "JSON", "UUID", "NUMERIC", "DECIMAL", "DECIMAL(60,2)", "TIME", "STRING", "POINT"]
OWN = [
    *("INTEGER", "BIGINT UNSIGNED", "BOOLEAN", "REAL", "DOUBLE PRECISION", "TEXT", "VARCHAR(3)"),
    *("LONGTEXT", "BLOB", "LONGBLOB", "BINARY(4)", "DATE", "DATETIME(6)", "TIMESTAMPTZ"),
    *("DECIMAL(15,2)", "DECIMAL(30,0)", "NUMERIC(38,4)"),
]
EDGES: Sequence[Stored] = [
    *(None, 0, 1, -1, 2, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 20240501),
    *(0.0, -0.0, 1.0, 0.1, 0.1 + 0.2, 1.5, 1e15, 1e16, 123456789012345.67, 2.0**53, 2.0**63),
    *(5e-324, 1.7976931348623157e308, float("inf"), float("-inf"), float("nan"), 1e-5, 1 / 3),
    *("", "1", "1.0", " 1", "1e2", "0x10", "01", "abc", "Inf", "nan", "X'00'", "x'00'", "true"),
    *("a\0b", "\0", "ä€𝄞", "it's", "2024-05-01", "2024-05-01 12:30:00", "9223372036854775808"),
    *("2024-05-01T12:30:00Z", "[1, 2]", '{"a": 1.0}', "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    *(b"", b"\0\xff", b"1", b"abc", b"\xc3\x28"),
]


def drawn(chance: random.Random) -> Stored:
    match chance.randrange(7):
        case 0:
            return chance.choice(EDGES)
        case 1:
            return chance.getrandbits(chance.choice([1, 8, 53, 54, 63])) * chance.choice([1, -1])
        case 2:
            return chance.choice([chance.random(), chance.uniform(-1e20, 1e20), chance.gauss(0, 9)])
        case 3:
            return round(chance.uniform(-1000, 1000), chance.randrange(4))
        case 4:
            return str(chance.choice([chance.getrandbits(60), chance.random(), 7, "x"]))
        case 5:
            return "".join(chr(chance.choice([0, 65, 0xE4, 0x20AC, 0x1D11E])) for _ in range(3))
        case _:
            return chance.randbytes(chance.randrange(4))


@dataclass
class World:
    """A table of one declared type, filled with every edge and with random values."""

    harness: SqliteHarness
    source: SqliteSource
    connection: sqlite3.Connection

    def values(self) -> dict[int, Stored]:
        found = self.connection.execute("SELECT n, v FROM t")
        return {int(n): value for n, value in found}

    def scalar(self, sql: str, *parameters: object) -> object:
        return self.connection.execute(f"SELECT {sql}", parameters).fetchone()[0]


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


def made(harness: SqliteHarness, declared: str, values: Sequence[Stored]) -> World:
    """A table with each value, which its log has as an insertion and an update."""
    connection = harness.writer().connection
    connection.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, v {declared})")
    source = harness.source(["t"])
    source.setup()
    for at, value in enumerate(values):
        connection.execute("INSERT INTO t VALUES (?, NULL)", (at,))
        connection.execute("UPDATE t SET v = ? WHERE n = ?", (value, at))
    return World(harness, source, connection)


def some_values(seed: str) -> list[Stored]:
    chance = random.Random(seed)
    return [*EDGES, *(drawn(chance) for _ in range(ROWS))]


def by_log(source: SqliteSource) -> dict[int, Value]:
    """The table as its log leaves it."""
    rows: dict[Row, int] = {}
    for item in committed(source):
        for row, count in local(item.transaction)["t"].items():
            rows[row] = rows.get(row, 0) + count
    return {int(str(n)): value for (n, value), count in rows.items() if count}


def by_answer(source: SqliteSource, column: str = "v") -> dict[int, Value]:
    return answered(source, parse_view(f"SELECT n, {column} AS v FROM t", source.relations()))


def answered(source: SqliteSource, view: View) -> dict[int, Value]:
    wrapper = source.open_wrapper()
    try:
        (rows,) = wrapper.ask([query_of(view)]).results
    finally:
        wrapper.close()
    return {int(str(n)): value for n, value in rows}


def by_load(source: SqliteSource) -> dict[int, Value]:
    return {n: row["v"] for n, row in load_rows(source).items()}


def load_rows(source: SqliteSource) -> dict[int, dict[str, Value]]:
    load = source.open_load(["t"], 2)
    try:
        batches = [b for part in range(load.parts("t")) for b in load.read("t", part)]
    finally:
        load.close()
    return {row["n"]: row for batch in batches for row in batch.to_pylist()}


def check_text(world: World, stored: Stored, text: Value) -> None:
    """SQLite reads our text back as the value, and has the same text itself if that is exact."""
    if stored is None:
        assert text is None
        return
    assert isinstance(text, str)
    match stored:
        case bytes():
            assert text == world.scalar("quote(?)", stored)
        case float() if stored in (float("inf"), float("-inf")):
            assert text == world.scalar("CAST(? AS TEXT)", stored)
        case float():
            assert float(text) == stored
            own = str(world.scalar("CAST(? AS TEXT)", stored))
            whole = str(int(stored)) if stored.is_integer() else own
            assert text in (own, whole) or float(own) != stored
        case int():
            assert text == world.scalar("CAST(? AS TEXT)", stored)
        case str():
            assert text == stored


@pytest.mark.parametrize("declared", PRINTED)
def test_a_value_without_a_type_has_one_text_on_every_path(
    harness: SqliteHarness, declared: str
) -> None:
    values = [value for value in some_values(declared) if value not in ("Inf", "X'00'")]
    world = made(harness, declared, values)
    assert meaning_of(declared).is_printed
    texts = by_answer(world.source)
    assert by_log(world.source) == by_load(world.source) == texts
    for n, stored in world.values().items():
        check_text(world, stored, texts[n])


@pytest.mark.parametrize("declared", [*PRINTED, "TEXT", "INTEGER", "REAL", "BLOB"])
def test_texts_are_equal_where_values_are(harness: SqliteHarness, declared: str) -> None:
    values = [value for value in some_values(f"equal {declared}") if value not in ("Inf", "X'00'")]
    world = made(harness, declared, values[: 120 if not IS_LONG else None])
    texts = by_answer(world.source, "CAST(v AS STRING)")
    pairs = world.connection.execute(
        "SELECT a.n, b.n, a.v = b.v, typeof(a.v) = typeof(b.v) FROM t a, t b "
        "WHERE a.v IS NOT NULL AND b.v IS NOT NULL"
    )
    numbers = {n for (n,) in world.connection.execute(
        "SELECT n FROM t WHERE typeof(v) IN ('integer', 'real')")}  # fmt: skip
    told = meaning_of(declared).equality or not meaning_of(declared).is_printed
    for one, other, is_equal, is_alike in pairs:
        both = {one, other} <= numbers
        if is_equal:
            assert texts[one] == texts[other] or (told and not is_alike and both)
        elif is_alike or both or not told:
            assert texts[one] != texts[other]


@pytest.mark.parametrize("declared", PRINTED)
def test_every_text_finds_the_rows_that_have_it(harness: SqliteHarness, declared: str) -> None:
    values = [value for value in some_values(f"find {declared}") if value not in ("Inf", "X'00'")]
    world = made(harness, declared, values)
    world.connection.execute(f"CREATE TABLE u (m INTEGER PRIMARY KEY, w {declared})")
    world.connection.execute("INSERT INTO u SELECT n, v FROM t")
    both = harness.source(["t", "u"])
    both.setup()
    texts = by_answer(world.source)
    relations = both.relations()
    view = parse_view("SELECT n, m FROM t JOIN u ON v = w", relations)
    known = relations["t"].only(["n", "v"]).schema
    rows = Rows.of(known, list(texts.items()))
    expected = {
        (n, m) for n, a in texts.items() for m, b in texts.items() if a is not None and a == b
    }
    wrapper = both.open_wrapper()
    (by_keys,) = wrapper.ask([substitute(query_of(view), {"s.t": rows})]).results
    (joined,) = wrapper.ask([query_of(view)]).results
    wrapper.close()
    assert set(by_keys) == set(joined) == expected


@pytest.mark.parametrize("declared", OWN)
def test_a_value_fits_its_type_or_is_refused_by_name_on_every_path(
    harness: SqliteHarness, declared: str
) -> None:
    world = made(harness, declared, some_values(f"own {declared}"))
    read = reader(meaning_of(declared).type)
    fit, unfit = {}, []
    for n, stored in world.values().items():
        try:
            fit[n] = read(stored)
        except ValueError:
            unfit.append(n)
    assert fit
    if unfit:
        says = f"table t, column v ({declared}), row n = "
        assert any(says in gap.reason for gap in gaps(world.source))
        for ask in (by_answer, by_load):
            with pytest.raises(SourceError) as refused:
                ask(world.source)
            assert says in str(refused.value)
            assert "CAST(v AS STRING)" in str(refused.value)
    world.connection.executemany("DELETE FROM t WHERE n = ?", [(n,) for n in unfit])
    assert fit == by_answer(world.source) == by_load(world.source)
    for n, stored in world.values().items():
        check_value(world, stored, fit[n])


def check_value(world: World, stored: Stored, value: Value) -> None:
    """SQLite takes our value for equal to its own, where both have it."""
    match value:
        case None | int() | float() | str() | bytes():  # also bool
            assert world.scalar("? IS ?", stored, value)
        case Decimal():
            assert isinstance(stored, int | float)
            assert value == stored or abs(float(value) - stored) <= abs(stored) * 1e-14
        case datetime():
            whole = world.scalar("strftime('%Y-%m-%d %H:%M:%S', ?)", stored)
            assert value.strftime("%Y-%m-%d %H:%M:%S") == whole
        case _:
            assert str(value) == stored


@pytest.mark.parametrize("declared", OWN)
def test_every_value_is_a_text_where_a_view_casts_it(harness: SqliteHarness, declared: str) -> None:
    world = made(harness, declared, some_values(f"cast {declared}"))
    view = parse_view("SELECT n, CAST(v AS STRING) AS v FROM t", world.source.relations())
    narrow = world.source.narrowed({"t": view.used_columns["s.t"]})
    text = view.used_columns["s.t"][1]
    logged = by_log(narrow)
    assert not gaps(narrow)
    texts = answered(narrow, view)
    assert logged == texts == {n: row[text] for n, row in load_rows(narrow).items()}
    for n, stored in world.values().items():
        check_text(world, stored, texts[n])


@pytest.mark.parametrize("declared", ["", "JSON", "TEXT", "INTEGER", "BLOB"])
@pytest.mark.parametrize("data", ["ff", "c328", "61eda080"])
def test_a_text_that_is_not_utf8_is_refused_by_name(
    harness: SqliteHarness, declared: str, data: str
) -> None:
    world = made(harness, declared, [])
    world.connection.execute(f"INSERT INTO t VALUES (5, CAST(x'{data}' AS TEXT))")
    says = f"row n = 5: the text x'{data}' does not fit"
    (gap,) = gaps(world.source)
    assert says in gap.reason
    for column in ("v", "CAST(v AS STRING)"):
        with pytest.raises(SourceError, match=says):
            by_answer(world.source, column)
    with pytest.raises(SourceError, match=says):
        by_load(world.source)


@pytest.mark.parametrize("text", ["Inf", "-Inf", "X'00'", "X''"])
def test_a_text_that_another_value_is_written_as_is_refused(
    harness: SqliteHarness, text: str
) -> None:
    world = made(harness, "JSON", [text])
    with pytest.raises(SourceError, match="a blob or an infinity is written like that"):
        by_load(world.source)


def test_columns_of_strict_tables_have_their_types(harness: SqliteHarness) -> None:
    connection = harness.writer().connection
    columns = "n INTEGER PRIMARY KEY, i INT, r REAL, x TEXT, b BLOB, v ANY"
    connection.execute(f"CREATE TABLE t ({columns}) STRICT")
    source = harness.source(["t"])
    source.setup()
    for n, value in enumerate(EDGES):
        connection.execute("INSERT INTO t (n, v) VALUES (?, ?)", (n, value))
    connection.execute("DELETE FROM t WHERE v IN ('Inf', ?)", ("X'00'",))
    relation = source.relations()["t"]
    assert [str(kind) for kind in relation.schema.types] == [
        *("int", "int", "float", "text", "bytes", "text")
    ]
    assert {n: row["v"] for n, row in load_rows(source).items()} == by_answer(source)
    assert by_answer(source)[EDGES.index("1.0")] == "1.0"


def test_a_constant_is_written_as_sqlite_would_store_it(harness: SqliteHarness) -> None:
    harness.writer().execute("CREATE TABLE t (n NUMERIC, j JSON, x, b TEXT)")
    source = harness.source(["t"])
    asked = {
        Constant("t", "n", "1.50"): "1.5",
        Constant("t", "n", " 7 "): "7",
        Constant("t", "n", "1.5"): "1.5",
        Constant("t", "j", '{"a": 1}'): '{"a": 1}',
        Constant("t", "j", "007"): "7",
        Constant("t", "j", "X'00'"): "X'00'",
    }
    others = [Constant("t", "x", "1.50"), Constant("t", "b", "1.50")]
    assert source.printed([*asked, *others]) == asked
