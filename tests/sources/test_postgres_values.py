"""Values of PostgreSQL that have no equal here: a gap of their column, and the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import DATE, INT, TEXT, decimal_type
from headwater.errors import SourceError
from headwater.sources.contract import Broken, Committed, Logged, Monitor
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, committed, loaded

PRICES = Schema.of([("id", INT), ("part", TEXT), ("price", decimal_type(10, 2)), ("day", DATE)])


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
    [("price", "NaN"), ("day", "0044-03-15 BC"), ("day", "infinity"), ("day", "12026-01-01")],
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
    assert rows == {(1, "x", None): 1}
    assert changes(second) == {"pg.b": (("id", "part"), {(2, "goes on"): 1})}
    monitor.close()


def test_after_the_value_was_changed_a_load_is_behind_the_gaps(harness: PostgresHarness) -> None:
    source = harness.source(["a", "b"])
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO a VALUES (1, 'x', 'NaN', NULL)")
    load = source.open_load(["a"], 1)
    with pytest.raises(SourceError, match=r"public\.a, column price: the value NaN .* reload VIEW"):
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
        "ALTER TYPE mood ADD VALUE 'great'",
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
