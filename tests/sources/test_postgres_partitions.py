"""Partitioned tables of PostgreSQL: followed by their root, while partitions come and go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from headwater.algebra.values import Row
from headwater.embedded.postgres import shared_server
from headwater.errors import SourceError
from headwater.sources.contract import Broken, Committed, Logged, Marked, Monitor
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness, PostgresWriter
from tests.sources.postgres_tools import answered, committed, loaded, whole

MADE = """
CREATE TABLE e (id int, at int, note text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE e0 PARTITION OF e FOR VALUES FROM (0) TO (10);
CREATE TABLE e1 (note text, gone int, at int NOT NULL, id int NOT NULL);
ALTER TABLE e1 DROP COLUMN gone;
ALTER TABLE e ATTACH PARTITION e1 FOR VALUES FROM (10) TO (20);
CREATE TABLE deep PARTITION OF e FOR VALUES FROM (20) TO (40) PARTITION BY RANGE (at);
CREATE TABLE e2 PARTITION OF deep FOR VALUES FROM (20) TO (30);
INSERT INTO e SELECT n, n, 'x' || n FROM generate_series(0, 29) n;
"""


@pytest.fixture(params=[16, 18])
def harness(request: pytest.FixtureRequest) -> Iterator[PostgresHarness]:
    harness = PostgresHarness(shared_server(request.param))
    harness.writer().execute(MADE)
    yield harness
    harness.close()


def rows_of(writer: PostgresWriter) -> Counter[Row]:
    return Counter(writer.connection.execute("SELECT id, at, note FROM e").fetchall())


def load_all(source: PostgresSource) -> Counter[Row]:
    load = source.open_load(["e"], 3)
    try:
        return loaded(load, "e", source.relations()["e"].schema)
    finally:
        load.close()


def read_until(monitor: Monitor, wanted: type[Logged], count: int = 1) -> list[Logged]:
    logged: list[Logged] = []
    deadline = time.monotonic() + 60
    while sum(isinstance(item, wanted) for item in logged) < count:
        assert time.monotonic() < deadline, logged
        logged += monitor.read(0.2)
    return logged


def follow(state: Counter[Row], logged: list[Logged]) -> None:
    for item in committed(logged):
        for row, count in local(item.transaction)["e"].items():
            state[row] += count


def test_a_partitioned_table_is_loaded_asked_and_followed_as_one(harness: PostgresHarness) -> None:
    writer = harness.writer()
    source = harness.source(["e"])
    source.setup()
    assert source.setup_statements() == []
    state = load_all(source)
    assert state == rows_of(writer)
    assert answered(source, whole(source.relations(), "e")) == [dict(state)]
    monitor = source.open_monitor(None)
    writer.execute("UPDATE e SET note = 'all'")
    writer.execute("UPDATE e SET at = at + 10 WHERE id = 5")
    with writer.transaction():
        writer.execute("DELETE FROM e WHERE id % 2 = 0")
        writer.execute("INSERT INTO e VALUES (100, 25, NULL)")
    follow(state, read_until(monitor, Committed, 3))
    assert +state == rows_of(writer)
    monitor.close()


def test_a_new_partition_is_followed_without_a_gap(harness: PostgresHarness) -> None:
    writer = harness.writer()
    source = harness.source(["e"])
    source.setup()
    state = load_all(source)
    monitor = source.open_monitor(None)
    with writer.transaction():
        writer.execute("CREATE TABLE e3 PARTITION OF deep FOR VALUES FROM (30) TO (40)")
        writer.execute("ALTER TABLE e3 REPLICA IDENTITY FULL")
        writer.execute("INSERT INTO e VALUES (31, 31, 'new')")
    writer.execute("UPDATE e SET note = 'newer' WHERE id = 31")
    writer.execute("UPDATE e SET at = 32 WHERE id = 1")
    logged = read_until(monitor, Committed, 3)
    logged += [*monitor.read(0.2)]
    assert not [item for item in logged if isinstance(item, Broken)]
    follow(state, logged)
    assert +state == rows_of(writer)
    monitor.close()


SWAP = "ALTER TABLE e RENAME id TO x; ALTER TABLE e RENAME at TO id; ALTER TABLE e RENAME x TO at"


@pytest.mark.parametrize("at", [5, 15, 25])
def test_rows_written_while_two_columns_had_swapped_their_names_are_a_gap(
    harness: PostgresHarness, at: int
) -> None:
    writer = harness.writer()
    source = harness.source(["e"], watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    for statement in [*SWAP.split(";"), f"INSERT INTO e (at, id) VALUES (7, {at})"]:
        writer.execute(statement)
    for statement in SWAP.split(";"):
        writer.execute(statement)
    (gap,) = [i for i in read_until(monitor, Broken, 2) if isinstance(i, Broken)][:1]
    assert (gap.columns or {}).keys() == {"pg.e"}
    assert "while it had no column" in gap.reason
    monitor.close()


UNLOGGED = "ALTER TABLE e0 SET UNLOGGED; UPDATE e SET note = 'y'; ALTER TABLE e0 SET LOGGED"
FILLED = """
BEGIN; CREATE TABLE e3 (id int NOT NULL, at int NOT NULL, note text STORAGE plain);
INSERT INTO e3 VALUES (50, 50, 'filled');
ALTER TABLE e ATTACH PARTITION e3 FOR VALUES FROM (50) TO (60); COMMIT
"""


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER TABLE e ALTER note TYPE text USING upper(note)",
        "ALTER TABLE e ALTER note TYPE int USING 1; ALTER TABLE e ALTER note TYPE text",
        UNLOGGED,
        FILLED,
        "ALTER PUBLICATION p ADD TABLE e0 WHERE (id > 100); INSERT INTO e VALUES (70, 7, 'x')",
    ],
)
def test_what_partitions_do_not_tell_is_a_gap(harness: PostgresHarness, statements: str) -> None:
    writer = harness.writer()
    source = harness.source(["e"], publication="p", watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO e VALUES (100, 1, 'first')")
    position = committed(read_until(monitor, Committed))[-1].position
    monitor.close()
    for statement in statements.split(";") if "BEGIN" not in statements else [statements]:
        writer.execute(statement)
    monitor = source.open_monitor(position)
    (gap,) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)][:1]
    assert (gap.columns or {}).keys() == {"pg.e"}
    monitor.close()


def test_a_partition_published_by_its_root_that_was_out_of_the_publication_is_a_gap(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("ALTER TABLE e0 REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE e")
    source = harness.source(["e0"], publication="p", watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO e VALUES (100, 1, 'first')")
    position = committed(read_until(monitor, Committed))[-1].position
    monitor.close()
    writer.execute("ALTER PUBLICATION p DROP TABLE e; DELETE FROM e WHERE id = 100")
    writer.execute("ALTER PUBLICATION p ADD TABLE e")
    monitor = source.open_monitor(position)
    (gap,) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)]
    assert gap.columns == {"pg.e0": None}
    monitor.close()


def test_a_partition_published_by_a_root_that_it_had_left_is_a_gap(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("ALTER TABLE e2 REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE e")
    source = harness.source(["e2"], publication="p", watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO e VALUES (100, 21, 'first')")
    position = committed(read_until(monitor, Committed))[-1].position
    monitor.close()
    writer.execute("ALTER TABLE e DETACH PARTITION deep")
    writer.execute("DELETE FROM deep WHERE id = 100")
    writer.execute("ALTER TABLE e ATTACH PARTITION deep FOR VALUES FROM (20) TO (40)")
    monitor = source.open_monitor(position)
    (gap,) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)]
    assert gap.columns == {"pg.e2": None}
    monitor.close()


def test_a_partition_that_has_gone_is_a_gap_before_rows_of_others(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    source = harness.source(["e"], watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO e VALUES (100, 11, 'first')")
    read_until(monitor, Committed)
    writer.execute("ALTER TABLE e DETACH PARTITION e0")
    writer.execute("INSERT INTO e VALUES (101, 11, 'behind')")
    kinds = [type(i) for i in read_until(monitor, Committed) if isinstance(i, Broken | Committed)]
    assert kinds == [Broken, Committed]
    monitor.close()


def test_a_new_default_changes_nothing_in_partitions(harness: PostgresHarness) -> None:
    writer = harness.writer()
    source = harness.source(["e"], watch_s=600)
    source.setup()
    state = load_all(source)
    monitor = source.open_monitor(None)
    writer.execute("ALTER TABLE e ALTER note SET DEFAULT 'new'")
    for at in (5, 15, 25):
        writer.execute(f"INSERT INTO e (id, at) VALUES ({at + 100}, {at})")
    logged = read_until(monitor, Committed, 3)
    assert not [item for item in logged if isinstance(item, Broken)]
    follow(state, logged)
    assert +state == rows_of(writer)
    monitor.close()


def test_changes_in_a_new_partition_without_whole_old_rows_are_a_gap(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    source = harness.source(["e"])
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("CREATE TABLE e3 PARTITION OF e FOR VALUES FROM (40) TO (50)")
    writer.execute("INSERT INTO e VALUES (41, 41, 'new')")
    writer.execute("DELETE FROM e WHERE id = 41")
    (gap,) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)]
    assert gap.columns == {"pg.e": None}
    assert "whole old rows" in gap.reason
    monitor.close()
    assert source.setup_statements() == [
        statement
        for statement in source.setup_statements()
        if "e3" in statement or statement.startswith("COMMENT")
    ]
    source.setup()
    assert source.setup_statements() == []


AWAY_AND_BACK = [
    "ALTER TABLE e DETACH PARTITION e0",
    "UPDATE e0 SET note = 'changed by itself'",
    "ALTER TABLE e ATTACH PARTITION e0 FOR VALUES FROM (0) TO (10)",
]


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE e DETACH PARTITION e0"],
        ["DROP TABLE e0"],
        [
            "CREATE TABLE o (id int NOT NULL, at int NOT NULL, note text)",
            "INSERT INTO o VALUES (51, 51, 'attached')",
            "ALTER TABLE e ATTACH PARTITION o FOR VALUES FROM (50) TO (60)",
        ],
        [
            "BEGIN",
            "CREATE TABLE o (id int NOT NULL, at int NOT NULL, note text)",
            "INSERT INTO o VALUES (51, 51, 'attached')",
            "ALTER TABLE e ATTACH PARTITION o FOR VALUES FROM (50) TO (60)",
            "COMMIT",
        ],
        ["TRUNCATE e1"],
        AWAY_AND_BACK,
    ],
    ids=[
        "detached",
        "dropped",
        "attached",
        "attached in one transaction",
        "truncated",
        "away and back",
    ],
)
def test_rows_that_come_or_go_with_a_partition_are_a_gap(
    harness: PostgresHarness, statements: list[str]
) -> None:
    writer = harness.writer()
    source = harness.source(["e"], watch_s=0.1)
    source.setup()
    monitor = source.open_monitor(None)
    for statement in statements:
        writer.execute(statement)
    (gap, *_) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)]
    assert gap.columns == {"pg.e": None}
    monitor.close()


def test_a_partition_that_was_away_while_nobody_looked_is_a_gap(harness: PostgresHarness) -> None:
    writer = harness.writer()
    source = harness.source(["e"])
    source.setup()
    monitor = source.open_monitor(None)
    at = monitor.read(0.2)[-1]
    monitor.close()
    assert not isinstance(at, Marked)
    for statement in AWAY_AND_BACK:
        writer.execute(statement)
    monitor = harness.source(["e"]).open_monitor(at.position)
    (gap, *_) = [i for i in read_until(monitor, Broken) if isinstance(i, Broken)]
    assert "partitions of e were attached, detached or dropped" in gap.reason
    monitor.close()
    monitor = harness.source(["e"]).open_monitor(gap.position)
    writer.execute("INSERT INTO e VALUES (100, 5, 'later')")
    logged = read_until(monitor, Committed)
    assert not [item for item in logged if isinstance(item, Broken)], "it is told once"
    monitor.close()


def test_a_partition_that_is_not_logged_or_elsewhere_is_refused_by_name(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE UNLOGGED TABLE u PARTITION OF e FOR VALUES FROM (60) TO (70)")
    with pytest.raises(
        SourceError, match=r"has a partition that is foreign or unlogged, public\.u"
    ):
        harness.source(["e"]).relations()


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (at) DEFERRABLE"], ids=["none", "deferrable"])
def test_without_a_primary_key_it_is_refused_since_updates_of_a_new_partition_would_fail(
    harness: PostgresHarness, key: str
) -> None:
    writer = harness.writer()
    writer.execute(f"CREATE TABLE k (at int{key}) PARTITION BY RANGE (at)")
    writer.execute("CREATE TABLE k0 PARTITION OF k FOR VALUES FROM (0) TO (10)")
    with pytest.raises(SourceError, match=r"public\.k is .* without a primary key"):
        harness.source(["k"]).setup()
    source = harness.source(["k", "k0"])
    source.setup()
    assert set(source.relations()) == {"k0"}
    writer.execute("CREATE TABLE k1 PARTITION OF k FOR VALUES FROM (10) TO (20)")
    writer.execute("INSERT INTO k VALUES (5), (15)")
    writer.execute("UPDATE k SET at = at + 1")
    assert "UNION ALL" in str(source.problems()[0])


def test_triggers_do_not_follow_a_partitioned_table(harness: PostgresHarness) -> None:
    with pytest.raises(SourceError, match="partitioned table, which triggers do not follow"):
        harness.source(["e"], changes="triggers").relations()
    assert set(harness.source(["e", "e1"], changes="triggers").relations()) == {"e1"}
