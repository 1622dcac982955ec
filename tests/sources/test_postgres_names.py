"""Tables and columns of every sort of name, and tables of one name in two schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.errors import SqlError
from headwater.sources.naming import called
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import answered, loaded, read_log

LONGEST = "é" * 31 + "x"
NAMES = ["Mixed Case", "select", "with space", "naïve ☃", 'quo"te', "per%cent", "do.t", LONGEST]


@pytest.fixture(params=["replication", "triggers"])
def harness(request: pytest.FixtureRequest) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(changes=request.param)
    yield harness
    harness.close()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_odd_names_of_schemas_tables_and_columns_are_followed(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute('CREATE SCHEMA "Odd Schema"')
    for name in NAMES:
        writer.execute(f'CREATE TABLE "Odd Schema".{quoted(name)} ({quoted(name)} int PRIMARY KEY)')
    source = harness.source([f'"Odd Schema".{quoted(name)}' for name in NAMES])
    assert list(source.relations()) == NAMES
    source.setup()
    monitor = source.open_monitor(None)
    for at, name in enumerate(NAMES):
        writer.execute(f'INSERT INTO "Odd Schema".{quoted(name)} VALUES ({at})')
        (item,) = read_log(monitor, 1)
        assert dict(local(item.transaction)[name].items()) == {(at,): 1}
    load = source.open_load(NAMES, 1)
    for at, name in enumerate(NAMES):
        relation = source.relations()[name]
        assert loaded(load, name, relation.schema) == Counter([(at,)])
        if '"' not in name:
            view = parse_view(f'SELECT "{name}" AS n FROM pg."Odd Schema"."{name}" t', [relation])
            assert answered(source, query_of(view)) == [{(at,): 1}]
    load.close()
    monitor.close()


def test_tables_of_one_name_in_two_schemas_are_two_relations(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE lines (id int PRIMARY KEY, old text)")
    writer.execute("CREATE SCHEMA sales; CREATE TABLE sales.lines (id int PRIMARY KEY)")
    source = harness.source(["lines", "sales.lines"])
    relations = source.relations()
    assert {r.name for r in relations.values()} == {"pg.lines", "pg.sales.lines"}
    source.setup()
    assert source.setup_statements() == []
    monitor = source.open_monitor(None)
    with writer.transaction():
        writer.execute("INSERT INTO lines VALUES (1, 'x')")
        writer.execute("INSERT INTO sales.lines VALUES (2)")
    (item,) = read_log(monitor, 1)
    assert {n: dict(rows.items()) for n, rows in local(item.transaction).items()} == {
        "lines": {(1, "x"): 1},
        "sales.lines": {(2,): 1},
    }
    monitor.close()
    view = parse_view(
        "SELECT lines.id, s.id AS other FROM pg.lines, pg.sales.lines AS s", relations
    )
    assert answered(source, query_of(view)) == [{(1, 2): 1}]
    load = source.open_load(["sales.lines"], 1)
    assert loaded(load, "sales.lines", relations["sales.lines"].schema) == Counter([(2,)])
    load.close()


def test_the_first_of_a_name_keeps_it() -> None:
    assert called(["sales.lines"]) == ["lines"]
    assert called(["sales.lines", "old.lines"]) == ["lines", "old.lines"]
    assert called(["sales.lines", "old.lines", "lines"]) == ["sales.lines", "old.lines", "lines"]


def test_a_view_may_name_the_schema_of_any_table(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE SCHEMA sales; CREATE TABLE sales.lines (id int PRIMARY KEY)")
    relations = harness.source(["sales.lines"]).relations()
    for name in ("lines", "pg.lines", "pg.sales.lines", "sales.lines", '"sales"."lines"'):
        view = parse_view(f"SELECT lines.id FROM {name}", relations)
        assert [r.name for r in view.relations] == ["pg.lines"]
    for name in ("pg.other.lines", "other.lines", 'pg."Sales".lines'):
        with pytest.raises(SqlError, match="there is no relation"):
            parse_view(f"SELECT lines.id FROM {name}", relations)
