"""What a SQLite file is read as: relations, types, setup, answers, loads, and refusals."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of, substitute
from headwater.algebra.values import FLOAT, INT, TEXT, Row, Value, parse_type, sort_key
from headwater.errors import SourceError
from headwater.sources.fetch import plan_fetch
from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.meanings import meaning_of
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.sqlite.statements import statements
from headwater.sources.sqlite.tables import Tables
from headwater.sources.sqlite.types import pushes
from headwater.testing.harness import local
from tests.sources.sqlite_harness import SqliteHarness
from tests.sources.sqlite_reading import committed, gaps

AB = Schema.of([("a", INT), ("b", TEXT)])


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


def answer(source: SqliteSource, sql: str) -> Counter[Row]:
    view = parse_view(sql, source.relations())
    wrapper = source.open_wrapper()
    try:
        (rows,) = wrapper.ask([query_of(view)]).results
    finally:
        wrapper.close()
    return Counter(dict(rows.items()))


def loaded(source: SqliteSource, relation: str, readers: int = 3) -> list[Row]:
    load = source.open_load([relation], readers)
    try:
        found: list[Row] = []
        for part in range(load.parts(relation)):
            for batch in load.read(relation, part):
                found += [tuple(row.values()) for row in batch.to_pylist()]
        return found
    finally:
        load.close()


def master(path: Path) -> list[tuple[str, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    finally:
        connection.close()


# Types

EDGES: Mapping[str, list[Value]] = {
    "bool": [True, False, None],
    "int": [0, -1, 2**63 - 1, -(2**63), None],
    "decimal(15,2)": [Decimal("0.10"), Decimal("-9999999999999.99"), Decimal("7.00"), None],
    "decimal(15,0)": [Decimal("999999999999999"), Decimal("-1"), None],
    "float": [0.0, -0.0, 1e308, 5e-324, float("inf"), float("-inf"), 1.0, 0.1, 2.0**60, None],
    "text": ["", "a\x00b", "\x00", "12", "1.0", "ä€𝄞", "it's", None],
    "bytes": [b"", b"\x00\xff", b"12", None],
    "date": [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None],
    "timestamp": [datetime(2024, 2, 29, 23, 59, 59, 999999), datetime(1, 1, 1), None],
    "timestamp_tz": [datetime(2024, 2, 29, 1, 2, 3, 40, UTC), None],
}


@pytest.mark.parametrize("name", EDGES)
def test_every_value_survives_log_answer_and_load(harness: SqliteHarness, name: str) -> None:
    kind = parse_type(name)
    schema = Schema.of([("n", INT), ("v", kind)])
    harness.create_table("t", schema, ["n"])
    source = harness.source(["t"])
    source.setup()
    writer = harness.writer()
    rows = [schema.row((n, value)) for n, value in enumerate(EDGES[name])]
    for row in rows:
        writer.execute("INSERT INTO t VALUES (?, ?)", row)
    logged = [row for item in committed(source) for row in local(item.transaction)["t"]]
    assert logged == rows
    assert answer(source, "SELECT n, v FROM t") == Counter(rows)
    assert sorted(loaded(source, "t"), key=sort_key) == rows
    assert harness.contents("t") == Counter(rows)


@pytest.mark.parametrize("name", [name for name in EDGES if pushes("=", parse_type(name))])
def test_every_value_is_found_as_a_join_value(harness: SqliteHarness, name: str) -> None:
    kind = parse_type(name)
    schema = Schema.of([("n", INT), ("v", kind)])
    for table in ("t", "u"):
        harness.create_table(table, schema)
    source = harness.source(["t", "u"])
    source.setup()
    rows = [schema.row((n, value)) for n, value in enumerate(EDGES[name])]
    writer = harness.writer()
    for row in rows:
        writer.execute("INSERT INTO u VALUES (?, ?)", row)
    view = parse_view("SELECT t.n AS m, u.n FROM t, u WHERE t.v = u.v", source.relations())
    query = substitute(query_of(view), {"s.t": Rows.of(schema, rows)})
    wrapper = source.open_wrapper()
    (found,) = wrapper.ask([query]).results
    wrapper.close()
    expected = {(a[0], b[0]) for a in rows for b in rows if a[1] is not None and a[1] == b[1]}
    assert set(found) == expected


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ("varchar(20)", "text"),
        ("CHAR(3)", "text"),
        ("character  varying (5)", "text"),
        ("BigInt", "int"),
        ("int(11)", "int"),
        ("NUMERIC(10)", "decimal(10,0)"),
        ("decimal( 15 , 4 )", "decimal(15,4)"),
        ("double precision", "float"),
        ("DATETIME", "timestamp"),
        ("timestamp(3) with time zone", "timestamp_tz"),
    ],
)
def test_declared_types_have_one_meaning(declared: str, name: str) -> None:
    assert meaning_of(declared).type == parse_type(name)
    assert not meaning_of(declared).is_printed


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("INTEGER", "'abc'"),
        ("INTEGER", "1.5"),
        ("INTEGER", "1e19"),
        ("BOOLEAN", "2"),
        ("BOOLEAN", "'true'"),
        ("REAL", "'x'"),
        ("TEXT", "x'00'"),
        ("BLOB", "'text'"),
        ("DECIMAL(5,2)", "1.005"),
        ("DECIMAL(5,2)", "1000"),
        ("DECIMAL(5,2)", "'n/a'"),
        ("DATE", "'2024-02-30'"),
        ("DATE", "'2024-02-03 00:00:00'"),
        ("DATE", "20240203"),
        ("TIMESTAMP", "'2024-02-03 10:00:00Z'"),
        ("TIMESTAMP", "1700000000"),
        ("TIMESTAMPTZ", "'2024-02-03 10:00:00'"),
    ],
)
def test_a_stored_value_of_another_type_is_refused_by_name(
    harness: SqliteHarness, declared: str, value: str
) -> None:
    writer = harness.writer()
    writer.execute(f"CREATE TABLE t (n INTEGER PRIMARY KEY, odd {declared})")
    source = harness.source(["t"])
    source.setup()
    writer.execute(f"INSERT INTO t VALUES (77, {value})")
    says = r"table t, column odd .*n = 77: the (text|blob|real|integer) .* does not fit"
    (gap,) = gaps(source)
    assert gap.columns == {f"{source.name}.t": frozenset({"odd"})}
    assert re.search(says, gap.reason)
    assert [row for item in committed(source) for row in local(item.transaction)["t"]] == [(77,)]
    with pytest.raises(SourceError, match=says):
        answer(source, "SELECT n, odd FROM t")
    with pytest.raises(SourceError, match=says):
        loaded(source, "t")


def test_traces_of_binary_sums_in_decimals_are_read_as_what_they_mean(
    harness: SqliteHarness,
) -> None:
    harness.writer().execute("CREATE TABLE t (d DECIMAL(10,2))")
    source = harness.source(["t"])
    source.setup()
    harness.writer().execute("INSERT INTO t VALUES (0.1 + 0.2)")
    assert loaded(source, "t") == [(Decimal("0.30"),)]
    assert answer(source, "SELECT d FROM t WHERE d = 0.3") == {(Decimal("0.30"),): 1}


@pytest.mark.parametrize(
    "text", ["2024-05-01 12:30", "2024-05-01T12:30:00.0", "2024-05-01 12:30:00"]
)
def test_one_moment_may_be_written_in_several_ways(harness: SqliteHarness, text: str) -> None:
    harness.writer().execute("CREATE TABLE t (a TIMESTAMP, b TIMESTAMPTZ)")
    source = harness.source(["t"])
    source.setup()
    harness.writer().execute("INSERT INTO t VALUES (?, ?)", (text, text + "+02"))
    assert loaded(source, "t") == [
        (datetime(2024, 5, 1, 12, 30), datetime(2024, 5, 1, 10, 30, tzinfo=UTC))
    ]


def test_text_that_is_not_utf8_is_refused(harness: SqliteHarness) -> None:
    harness.create_table("t", AB)
    source = harness.source(["t"])
    source.setup()
    harness.writer().execute("INSERT INTO t VALUES (1, CAST(x'ff' AS TEXT))")
    says = r"column b \(TEXT\), row rowid = 1: the text x'ff' does not fit"
    (gap,) = gaps(source)
    assert re.search(says, gap.reason)
    with pytest.raises(SourceError, match=says):
        answer(source, "SELECT a, b FROM t")
    with pytest.raises(SourceError, match=says):
        loaded(source, "t")


# Relations and refusals


def test_keys_come_from_the_file_or_from_the_settings(harness: SqliteHarness) -> None:
    harness.create_table("t", AB, ["b", "a"])
    harness.create_table("u", AB)
    harness.writer().execute("CREATE UNIQUE INDEX one ON u (a)")
    relations = harness.source(["t", "u"], keys={"u": ["a"]}).relations()
    assert relations["t"].key == ("b", "a")
    assert relations["u"].key == ("a",)
    assert relations["u"].without_texts().schema == AB
    with pytest.raises(SourceError, match=r"no column c .*Its columns are a, b"):
        harness.source(["u"], keys={"u": ["c"]}).relations()


def test_a_null_in_a_key_is_a_gap(harness: SqliteHarness) -> None:
    harness.create_table("t", AB, ["b"])
    source = harness.source(["t"])
    source.setup()
    harness.writer().execute("INSERT INTO t VALUES (1, NULL)")
    (gap,) = gaps(source)
    assert gap.columns == {f"{source.name}.t": frozenset({"b"})}
    assert "NULL in the key" in gap.reason


def test_what_is_missing_is_said_in_one_sentence(harness: SqliteHarness, tmp_path: Path) -> None:
    harness.create_table("t", AB)
    harness.writer().execute("CREATE VIEW w AS SELECT * FROM t")
    with pytest.raises(SourceError, match=r"no table tt\. There are: t\."):
        harness.source(["tt"]).setup()
    with pytest.raises(SourceError, match="w is a view"):
        harness.source(["w"]).setup()
    with pytest.raises(SourceError, match="there is no file"):
        SqliteSource("s", tmp_path / "none.db", ["t"]).setup()
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text").write_text("this is not a database, but long enough to look at" * 50)
    with pytest.raises(SourceError, match="not a sound SQLite database"):
        SqliteSource("s", tmp_path / "text", ["t"]).relations()
    source = harness.source(["t"])
    with pytest.raises(SourceError, match="no log of changes"):
        source.open_monitor(None)
    with pytest.raises(SourceError, match="no log of changes"):
        source.open_load(["t"], 1)
    with pytest.raises(SourceError, match="no log of changes"):
        answer(source, "SELECT a FROM t")


# Setup


def test_setup_and_teardown_can_be_repeated_and_leave_nothing(harness: SqliteHarness) -> None:
    harness.create_table("t", AB, ["a"])
    harness.create_table("u", AB)
    before = master(harness.path)
    source = harness.source(["t", "u"])
    assert len(source.setup_statements()) > 5
    assert master(harness.path) == before
    source.setup()
    after = master(harness.path)
    assert source.setup_statements() == []
    source.setup()
    assert master(harness.path) == after
    source.teardown()
    source.teardown()
    assert master(harness.path) == before


def test_the_statements_can_be_run_by_a_person(harness: SqliteHarness) -> None:
    harness.create_table("t", AB, ["a"])
    source = harness.source(["t"])
    writer = harness.writer()
    for statement in source.setup_statements():
        writer.execute(statement)
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    assert len(committed(source)) == 1


def test_a_second_source_widens_the_log_and_leaves_it_to_the_first(harness: SqliteHarness) -> None:
    harness.create_table("t", Schema.of([("a", INT)]))
    harness.create_table("u", AB)
    one, two = harness.source(["t"]), harness.source(["u"])
    one.setup()
    two.setup()
    harness.writer().execute("INSERT INTO u VALUES (1, 'x')")
    harness.writer().execute("INSERT INTO t VALUES (2)")
    assert [local(item.transaction)["u"] for item in committed(two)] == [Rows.of(AB, [(1, "x")])]
    two.teardown()
    assert [list(local(item.transaction)["t"]) for item in committed(one)] == [[(2,)]]
    one.teardown()
    assert not [name for _, name, _ in master(harness.path) if "headwater" in name]


def test_any_name_is_quoted(harness: SqliteHarness) -> None:
    schema = Schema.of([('Say "hi"', INT), ("select", TEXT), ("it's", INT), ("rowid", INT)])
    name = 'Order\'s "Table"'
    harness.create_table(name, schema, ['Say "hi"'])
    source = harness.source([name])
    source.setup()
    writer = harness.writer()
    quoted = '"Order\'s ""Table"""'
    for n in range(20):
        writer.execute(f"INSERT INTO {quoted} VALUES (?, 'x', 2, 3)", (n,))
    writer.execute(f"INSERT OR REPLACE INTO {quoted} VALUES (1, 'y', 2, 3)")
    assert len(committed(source)) == 21
    assert Counter(loaded(source, name)) == harness.contents(name)
    source.teardown()


def test_tables_without_rowids_are_read_in_parts(harness: SqliteHarness) -> None:
    harness.writer().execute("CREATE TABLE t (a TEXT, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID")
    source = harness.source(["t"])
    source.setup()
    writer = harness.writer()
    rows = [(f"k{n % 7}", n) for n in range(100)]
    for row in rows:
        writer.execute("INSERT INTO t VALUES (?, ?)", row)
    writer.execute("INSERT OR REPLACE INTO t VALUES ('k0', 0)")
    found = loaded(source, "t", readers=4)
    assert sorted(found) == sorted(rows)
    logged = [update for item in committed(source) for update in item.transaction.updates]
    assert sum(sum(c for _, c in update.delta.items()) for update in logged) == len(rows)
    load = source.open_load(["t"], 4)
    assert load.parts("t") == 4
    load.close()


def test_a_load_has_the_types_of_its_columns(harness: SqliteHarness) -> None:
    schema = Schema.of((name, parse_type(name)) for name in EDGES)
    harness.create_table("t", schema)
    source = harness.source(["t"])
    source.setup()
    writer = harness.writer()
    writer.execute(
        f"INSERT INTO t VALUES ({', '.join('?' * len(EDGES))})", [v[0] for v in EDGES.values()]
    )
    load = source.open_load(["t"], 1)
    (batch,) = load.read("t", 0)
    load.close()
    assert batch.schema.types == [
        *(pa.bool_(), pa.int64(), pa.decimal128(15, 2), pa.decimal128(15, 0), pa.float64()),
        *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ]


def test_a_load_goes_on_in_its_log(harness: SqliteHarness) -> None:
    harness.create_table("t", AB)
    source = harness.source(["t"])
    source.setup()
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'before')")
    load = source.open_load(["t"], 3)
    writer.execute("INSERT INTO t VALUES (2, 'after')")
    assert sum(batch.num_rows for p in range(load.parts("t")) for batch in load.read("t", p)) == 1
    items = committed(source, load.position)
    load.close()
    assert [list(local(item.transaction)["t"]) for item in items] == [[(2, "after")]]


# Answers


def test_comparisons_are_exact_whatever_the_collation(harness: SqliteHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE t (a INTEGER, b TEXT COLLATE NOCASE, c VARCHAR(9) COLLATE RTRIM)")
    source = harness.source(["t"])
    source.setup()
    for row in ((1, "x", "y"), (2, "X", "y "), (3, "1", "1.0")):
        writer.execute("INSERT INTO t VALUES (?, ?, ?)", row)
    assert answer(source, "SELECT a FROM t WHERE b = 'X'") == {(2,): 1}
    assert answer(source, "SELECT a FROM t WHERE c = 'y'") == {(1,): 1}
    assert answer(source, "SELECT p.a FROM t p, t q WHERE p.b = q.b") == {(1,): 1, (2,): 1, (3,): 1}
    assert answer(source, "SELECT a FROM t WHERE a > 1 AND b < 'a'") == {(2,): 1, (3,): 1}


def test_many_keys_are_asked_in_chunks_each_row_once(harness: SqliteHarness) -> None:
    schema = Schema.of([("a", INT), ("b", TEXT), ("f", FLOAT)])
    harness.create_table("t", schema, ["a"])
    harness.create_table("u", schema)
    source = harness.source(["t", "u"])
    source.setup()
    writer = harness.writer()
    with writer.transaction():
        for n in range(500):
            writer.execute("INSERT INTO t VALUES (?, ?, ?)", (n * 100, f"b{n}", n / 2))
    many = Rows.of(schema, [(n, f"b{n // 100}", n / 200) for n in range(70_000)])
    for where in ("t.a = u.a", "t.a = u.a AND t.b = u.b", "t.b = u.b AND t.f = u.f"):
        view = parse_view(f"SELECT t.a FROM t, u WHERE {where}", source.relations())
        wrapper = source.open_wrapper()
        (rows,) = wrapper.ask([substitute(query_of(view), {"s.u": many})]).results
        wrapper.close()
        assert dict(rows.items()) == {(n * 100,): 1 for n in range(500)}, where


@pytest.mark.parametrize("where", ["t.a = u.a", "t.b = u.b AND t.a = u.a", "t.b = u.b"])
def test_keys_are_searched_in_an_index(harness: SqliteHarness, where: str) -> None:
    harness.create_table("t", AB, ["a"])
    harness.create_table("u", AB)
    harness.writer().execute("CREATE INDEX i ON t (b)")
    source = harness.source(["t", "u"])
    view = parse_view(f"SELECT t.a FROM t, u WHERE {where}", source.relations())
    (term,) = substitute(query_of(view), {"s.u": Rows.of(AB, [(1, "x"), (2, "y")])})
    tables = Tables(Access("s", harness.path), ["t"], {}, {}).now()
    ((sql, parameters),) = statements(plan_fetch(term, (0,), pushes), tables)
    plan = harness.writer().connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    assert any("SEARCH" in row[3] for row in plan), plan


def test_an_altered_column_is_not_read_and_others_are(harness: SqliteHarness) -> None:
    harness.create_table("t", AB, ["a"])
    source = harness.source(["t"])
    source.setup()
    wrapper = source.open_wrapper()
    relations = source.relations()
    both = query_of(parse_view("SELECT a, b FROM t", relations))
    one = query_of(parse_view("SELECT a FROM t", relations))
    wrapper.ask([both])
    harness.writer().execute("ALTER TABLE t ADD COLUMN c INTEGER")
    wrapper.ask([both])
    harness.writer().execute("ALTER TABLE t RENAME COLUMN b TO d")
    with pytest.raises(SourceError, match=r"column b was renamed to d.*headwater setup s"):
        wrapper.ask([both])
    wrapper.ask([one])
    wrapper.close()
    with pytest.raises(SourceError, match="headwater setup s"):
        source.open_load(["t"], 1)
    source.setup()
    assert committed(source) == []
    source.open_load(["t"], 1).close()


def test_a_key_that_the_file_does_not_keep_unique_is_refused(harness: SqliteHarness) -> None:
    harness.create_table("t", AB)
    source = harness.source(["t"], keys={"t": ["b"]})
    with pytest.raises(SourceError, match=r"keeps the key \(b\) .*CREATE UNIQUE INDEX"):
        source.setup()
    harness.writer().execute('CREATE UNIQUE INDEX "t_key" ON "t" ("b")')
    source.setup()
