"""Tables of every sort and names of every sort in a SQLite file: used, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.errors import SourceError
from headwater.sources.sqlite.source import SqliteSource
from headwater.testing.harness import local
from tests.sources.sqlite_harness import SqliteHarness
from tests.sources.sqlite_reading import committed

USABLE = {
    "plain": "CREATE TABLE plain (a INTEGER PRIMARY KEY, b TEXT)",
    "bag": "CREATE TABLE bag (a, b)",
    "composite": "CREATE TABLE composite (a INT, b TEXT, PRIMARY KEY (b, a))",
    "unrowed": "CREATE TABLE unrowed (a TEXT PRIMARY KEY, b) WITHOUT ROWID",
    "strict": "CREATE TABLE strict (a INT PRIMARY KEY, b ANY) STRICT",
    "numbered": "CREATE TABLE numbered (a INTEGER PRIMARY KEY AUTOINCREMENT, b)",
    "descending": "CREATE TABLE descending (a INTEGER PRIMARY KEY DESC, b)",
    "computed": "CREATE TABLE computed (a INT, b INT, v AS (a + b), s AS (a * b) STORED)",
    "lowered": "CREATE TABLE lowered (a INT, b TEXT); "
    "CREATE UNIQUE INDEX lowered_b ON lowered (lower(b))",
    "partial": "CREATE TABLE partial (a INT, b INT); "
    "CREATE UNIQUE INDEX partial_a ON partial (a) WHERE b > 0",
    "odd": "CREATE TABLE odd (a JSON, b, c UUID, d POINT, e DECIMAL, f FLOATING POINT)",
}
REFUSED = {
    "seen": ("CREATE VIEW seen AS SELECT * FROM plain", "is a view"),
    "words": ("CREATE VIRTUAL TABLE words USING fts5(a)", "is a virtual table"),
    "words_data": ("", "is a part of a virtual table"),
    "compared": (
        "CREATE TABLE compared (a INT); CREATE UNIQUE INDEX compared_a ON compared (a > 5)",
        "which compares values",
    ),
    "rowids": ("CREATE TABLE rowids (rowid, _rowid_, oid)", "cannot be told apart"),
    "keyed": ("CREATE TABLE keyed (a INT, b INT)", "nothing in the file keeps the key (a)"),
}


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    yield harness
    harness.close()


@pytest.fixture
def source(harness: SqliteHarness) -> SqliteSource:
    connection = harness.writer().connection
    for statement in (*USABLE.values(), *(made for made, _ in REFUSED.values())):
        connection.executescript(statement)
    return harness.source([*REFUSED, *USABLE, "nothing"], keys={"keyed": ["a"]})


def test_one_table_never_refuses_its_source_and_all_problems_are_told(
    source: SqliteSource,
) -> None:
    assert source.relations().keys() == USABLE.keys()
    problems = [str(problem) for problem in source.problems()]
    assert len(problems) == len(REFUSED) + 1
    for name, (_, reason) in REFUSED.items():
        assert any(name in problem and reason in problem for problem in problems), problems
    assert any("there is no table nothing" in problem for problem in problems)
    assert source.unusable().keys() == {*REFUSED, "nothing"}


@pytest.mark.parametrize("name", USABLE)
def test_every_sort_of_table_is_followed(
    harness: SqliteHarness, source: SqliteSource, name: str
) -> None:
    source.setup()
    connection = harness.writer().connection
    for statement in (
        f"INSERT INTO {name} (a, b) VALUES (1, 1), (2, 2), (3, 3)",
        f"UPDATE {name} SET b = 4 WHERE a = 1",
        f"DELETE FROM {name} WHERE a = 2",
        f"INSERT OR REPLACE INTO {name} (a, b) VALUES (3, 5)",
    ):
        connection.execute(statement)
    rows: dict[tuple[object, ...], int] = {}
    for item in committed(source):
        for row, count in local(item.transaction)[name].items():
            rows[row] = rows.get(row, 0) + count
    load = source.open_load([name], 1)
    (batch,) = load.read(name, 0)
    load.close()
    loaded = [tuple(row.values()) for row in batch.to_pylist()]
    assert sorted(map(str, loaded)) == sorted(str(row) for row, n in rows.items() for _ in range(n))
    assert len(loaded) == connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]


@pytest.mark.parametrize(
    ("declared", "key"),
    [
        ("DATETIME", ()),
        ("TIMESTAMPTZ", ()),
        ("DECIMAL(10,2)", ()),
        ("", ()),
        ("DECIMAL(10)", ("k",)),
        ("NUMERIC", ("k",)),
        ("DATE", ("k",)),
        ("REAL", ("k",)),
    ],
)
def test_a_key_is_one_here_if_its_values_differ_here_as_they_do_there(
    harness: SqliteHarness, declared: str, key: tuple[str, ...]
) -> None:
    """One moment has several texts, which the file keeps apart: two rows would have one key."""
    harness.writer().connection.execute(f"CREATE TABLE t (k {declared} PRIMARY KEY, a INT)")
    source = harness.source(["t"])
    assert source.relations()["t"].key == key
    told = [caution for caution in source.cautions() if "primary key (k)" in caution]
    assert len(told) == (0 if key else 1)
    named = harness.source(["t"], keys={"t": ["k"]})
    if key:
        assert named.relations()["t"].key == key
    else:
        with pytest.raises(SourceError, match="column k of the key of table t does not tell"):
            named.relations()


def test_what_there_is_can_be_listed_before_any_view(source: SqliteSource) -> None:
    found = {table.name: table for table in source.discover()}
    assert found.keys() >= {*USABLE, *REFUSED}
    for name, (_, reason) in REFUSED.items():
        assert reason in found[name].problem
    assert not any(found[name].problem for name in USABLE)
    assert found["composite"].key == ("b", "a")
    types = {column.name: column.type for column in found["odd"].columns}
    assert types == dict.fromkeys("abcdef", "text")
    (told,) = {column.remark for column in found["odd"].columns if column.name == "b"}
    assert "are equal here" in told
    generated = {c.name: c.remark for c in found["computed"].columns if not c.type}
    assert generated.keys() == {"v", "s"}
    assert all("it is generated" in remark for remark in generated.values())


def test_a_table_that_a_view_uses_and_that_cannot_be_used_is_told_to_who_loads_it(
    source: SqliteSource,
) -> None:
    narrow = source.narrowed({"plain": ["a"], "seen": ["a"]})
    assert "plain" in narrow.relations()
    assert "is a view" in str(narrow.unusable()["seen"])
    with pytest.raises(SourceError, match="is a view"):
        narrow.open_load(["seen"], 1)


def test_tables_of_other_databases_are_not_there(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    connection = harness.writer().connection
    connection.execute("ATTACH ':memory:' AS other")
    connection.execute("CREATE TABLE other.far (a)")
    connection.execute("CREATE TEMP TABLE passing (a)")
    assert {table.name for table in source.discover()}.isdisjoint({"far", "passing"})
    with pytest.raises(SourceError, match="there is no table far"):
        harness.source(["far"]).relations()


NAMES = [
    *("Order Lines", "select", "it's", 'say "hi"', "ÄÖü €𝄞", "a.b", "a*b"[:1] + "x", "[brackets]"),
    *("x" * 200, "_headwater", "log", "head", "new", "old", "-- x", "a;b", "%s", "{}", "`tick`"),
]


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_columns_may_have_any_name(harness: SqliteHarness, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    connection = harness.writer().connection
    connection.execute(f"CREATE TABLE {quoted} ({quoted} INTEGER PRIMARY KEY, other TEXT)")
    connection.execute(f"CREATE TRIGGER {quoted} AFTER INSERT ON {quoted} BEGIN SELECT 1; END")
    source = harness.source([name])
    source.setup()
    connection.execute(f"INSERT INTO {quoted} VALUES (1, 'x')")
    connection.execute(f"INSERT OR REPLACE INTO {quoted} VALUES (1, 'y')")
    assert len(committed(source)) == 2
    load = source.open_load([name], 1)
    (batch,) = load.read(name, 0)
    load.close()
    assert batch.to_pylist() == [{name: 1, "other": "y"}]
    source.teardown()
    names = connection.execute("SELECT name FROM sqlite_master WHERE type <> 'index'").fetchall()
    assert names == [(name,), (name,)]


def test_a_name_means_a_table_that_is_spelled_alike_but_for_case(harness: SqliteHarness) -> None:
    connection = harness.writer().connection
    connection.execute("CREATE TABLE Orders (a INTEGER PRIMARY KEY)")
    source = harness.source(["ORDERS", "orders"])
    assert source.relations().keys() == {"Orders"}
    source.setup()
    connection.execute("INSERT INTO orders VALUES (1)")
    assert len(committed(source)) == 1
    source.teardown()
    assert [n for (n,) in connection.execute("SELECT name FROM sqlite_master")] == ["Orders"]


def test_names_that_only_headwater_gives_are_refused(harness: SqliteHarness) -> None:
    connection = harness.writer().connection
    connection.execute("CREATE TABLE _headwater_mine (a)")
    connection.execute('CREATE TABLE t (a INT, "a (as text)" TEXT)')
    with pytest.raises(SourceError, match="only Headwater's own tables have"):
        harness.source(["_headwater_mine"]).relations()
    ((column, reason),) = harness.source(["t"]).relations()["t"].unusable
    assert column == "a (as text)"
    assert "only Headwater gives such names" in reason
