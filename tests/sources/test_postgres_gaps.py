from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set

import psycopg
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.algebra.values import INT, TEXT, Row
from headwater.embedded.postgres import PostgresServer
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Monitor,
    Position,
    Progressed,
)
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, loaded, whole

MORE = Schema.of([("id", INT), ("part", TEXT), ("price", INT)])
WHOLE = {"pg.a": None}


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    harness.create_table("a", MORE, ["id"])
    harness.create_table("b", LINES, ["id"])
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x', 10)")
    yield harness
    harness.close()


def followed(harness: PostgresHarness, **settings: float) -> PostgresSource:
    """A source of which the columns id and part of the table a are used."""
    source = harness.source(["a", "b"], publication="p", **settings).narrowed(
        {"a": ["id", "part"], "b": ["id", "part"]}
    )
    source.relations()
    return source


def read_all(monitor: Monitor, upto: str = "end") -> list[Logged]:
    """Everything up to the transaction that puts a row of this name into b."""
    found: list[Logged] = []
    for _ in range(300):
        found += monitor.read(0.2)
        if any(isinstance(i, Committed) and upto in str(contents(i)) for i in found):
            return found
    raise AssertionError(found)


def contents(item: Committed) -> Mapping[str, Mapping[Row, int]]:
    return {name: dict(delta.items()) for name, delta in local(item.transaction).items()}


def gaps(logged: Sequence[Logged]) -> list[Broken]:
    return [item for item in logged if isinstance(item, Broken)]


def last_position(logged: Sequence[Logged]) -> Position:
    return [i for i in logged if isinstance(i, Broken | Committed | Progressed)][-1].position


REWRITTEN = "ALTER TABLE a ALTER part TYPE text USING upper(part)"
MADE_ANEW = "ALTER TABLE a DROP part; ALTER TABLE a ADD part text DEFAULT 'new'"
FOR_A_WHILE = (
    "ALTER PUBLICATION p DROP TABLE a; UPDATE a SET part = 'y'; ALTER PUBLICATION p ADD TABLE a"
)
SWAP = (
    "ALTER TABLE a RENAME id TO x; ALTER TABLE a RENAME price TO id; "
    "ALTER TABLE a RENAME x TO price"
)
CASES = [
    (REWRITTEN, {"pg.a": {"part"}}, "part was made anew or rewritten"),
    (MADE_ANEW, {"pg.a": {"part"}}, "part was made anew or rewritten"),
    ("ALTER TABLE a RENAME part TO old; ALTER TABLE a ADD part text", {"pg.a": {"part"}}, "part"),
    ("ALTER TABLE a DROP part", {"pg.a": {"part"}}, "no column part any more"),
    ("ALTER TABLE a RENAME part TO other", {"pg.a": {"part"}}, "no column part any more"),
    ("ALTER TABLE a ALTER part TYPE int USING 7", {"pg.a": {"part"}}, "part"),
    ("ALTER TABLE a ALTER part TYPE bpchar", {"pg.a": {"part"}}, "type was altered"),
    (
        "ALTER TABLE a RENAME part TO other; UPDATE a SET other = 'z';"
        "ALTER TABLE a RENAME other TO part",
        {"pg.a": {"part"}},
        "while it had no column part",
    ),
    (
        f"{SWAP}; INSERT INTO a (id, part, price) VALUES (50, 'q', 5); {SWAP}",
        {"pg.a": {"id"}},
        "while it had no column id",
    ),
    (
        "ALTER TABLE a RENAME id TO old; ALTER TABLE a RENAME price TO id;"
        "INSERT INTO a (old, part, id) VALUES (5, 'q', 50);"
        "ALTER TABLE a RENAME id TO price; ALTER TABLE a RENAME old TO id",
        {"pg.a": {"id"}},
        "while it had no column id",
    ),
    (FOR_A_WHILE, WHOLE, "taken out of the publication"),
    (
        "ALTER PUBLICATION p SET TABLE ONLY a WHERE (id > 5), ONLY b;"
        "UPDATE a SET part = 'y'; ALTER PUBLICATION p SET TABLE ONLY a, ONLY b",
        WHOLE,
        "altered in it",
    ),
    ("ALTER PUBLICATION p SET TABLE ONLY a (id), ONLY b", WHOLE, "without some of its rows"),
    ("TRUNCATE a", WHOLE, "emptied by TRUNCATE"),
    ("ALTER TABLE a RENAME TO z", WHOLE, "dropped or has another name"),
    (
        "DROP TABLE a; CREATE TABLE a (id bigint PRIMARY KEY, part text, price bigint);"
        "ALTER TABLE a REPLICA IDENTITY FULL; ALTER PUBLICATION p ADD TABLE a",
        WHOLE,
        "taken out of the publication",
    ),
    (
        "ALTER TABLE a REPLICA IDENTITY DEFAULT; UPDATE a SET part = 'y';"
        "ALTER TABLE a REPLICA IDENTITY FULL",
        WHOLE,
        "whole old rows",
    ),
    (
        "ALTER PUBLICATION p SET (publish = 'insert'); UPDATE a SET part = 'y';"
        "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
        None,
        "publication was altered",
    ),
]


NO_KEY = ("ALTER TABLE a DROP CONSTRAINT a_pkey", {"pg.a": {"id"}}, "what kept its key (id)")
KEY_AGAIN = (
    "ALTER TABLE a DROP CONSTRAINT a_pkey; ALTER TABLE a ADD PRIMARY KEY (id)",
    *NO_KEY[1:],
)
CASES += [KEY_AGAIN]
SILENT = [
    ("ALTER PUBLICATION p DROP TABLE a", WHOLE, "not in the publication"),
    ("ALTER PUBLICATION p DROP TABLE a; ALTER TABLE a SET UNLOGGED", WHOLE, "in the log"),
    ("DROP TABLE a; CREATE VIEW a AS SELECT 1 AS id", WHOLE, "log"),
    ("CREATE TABLE of_a () INHERITS (a)", WHOLE, "tables that inherit from it"),
]
"""Of these the log itself shows nothing."""


@pytest.mark.parametrize(
    ("when", "statements", "columns", "told"),
    [
        *(("while it is read", *case) for case in [*CASES, NO_KEY]),
        *(("between two runs", *case) for case in [*CASES, *SILENT]),
        *(("at the next look", *case) for case in [*CASES, *SILENT, NO_KEY]),
    ],
)
def test_what_the_log_does_not_tell_is_a_gap_and_the_rest_goes_on(
    harness: PostgresHarness,
    when: str,
    statements: str,
    columns: Mapping[str, Set[str] | None] | None,
    told: str,
) -> None:
    source = followed(harness, watch_s=0.2 if when == "at the next look" else 600)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO b VALUES (1, 'first')")
    first = read_all(monitor, "first")
    if when == "between two runs":
        monitor.close()
    for statement in statements.split(";"):
        writer.execute(statement)
    if when == "while it is read":
        writer.execute(change_of_a(harness))
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    if when == "between two runs":
        monitor = source.open_monitor(last_position(first))
    logged = read_all(monitor)
    for _ in range(10 if when == "at the next look" else 0):
        logged += monitor.read(0.1)
    broken = gaps(logged)
    assert broken
    for gap in broken:
        assert gap.columns == columns
    assert any(told in gap.reason for gap in broken)
    monitor.close()
    monitor = source.open_monitor(last_position(logged))
    writer.execute("INSERT INTO b VALUES (3, 'again')")
    assert not gaps(read_all(monitor, "again"))
    monitor.close()


@pytest.mark.parametrize(
    "altering",
    [
        REWRITTEN,
        FOR_A_WHILE,
    ],
)
def test_what_was_altered_in_a_part_of_a_transaction_that_a_look_met_running_is_a_gap(
    harness: PostgresHarness, altering: str
) -> None:
    """Snapshots know nothing of the numbers of subtransactions, which rows of the catalog have."""
    source = followed(harness, watch_s=0)
    source.setup()
    monitor = source.open_monitor(None)
    with psycopg.connect(harness.dsn) as altered:
        altered.execute("INSERT INTO b VALUES (10, 'of it')")
        with altered.transaction():
            altered.execute(altering.encode())
        harness.writer().execute("INSERT INTO b VALUES (1, 'meanwhile')")
        logged = read_all(monitor, "meanwhile")
        logged += monitor.read(0.1)
        assert not gaps(logged)
    harness.writer().execute("INSERT INTO b VALUES (2, 'end')")
    assert gaps(read_all(monitor))
    monitor.close()


@pytest.mark.parametrize("more", [(), ("ALTER TABLE c ADD z int",)])
def test_a_swap_is_a_gap_though_the_other_column_is_gone(
    harness: PostgresHarness, more: Sequence[str]
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE c (id int PRIMARY KEY, x int, y int)")
    source = harness.source(["c"], watch_s=600).narrowed({"c": ["id", "y"]})
    source.relations()
    source.setup()
    monitor = source.open_monitor(None)
    for statement in (
        "ALTER TABLE c RENAME y TO z",
        "ALTER TABLE c RENAME x TO y",
        "INSERT INTO c (id, y, z) VALUES (1, 100, 2)",
        "ALTER TABLE c RENAME y TO x",
        "ALTER TABLE c RENAME z TO y",
        "ALTER TABLE c DROP x",
        *more,
    ):
        writer.execute(statement)
    logged: list[Logged] = []
    while not gaps(logged):
        logged += monitor.read(0.2)
    assert [gap.columns for gap in gaps(logged)] == [{"pg.c": frozenset({"y"})}]
    monitor.close()


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(
    ("before", "altering"),
    [
        ("INSERT INTO c VALUES (1, 'ok')", "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'"),
        (
            "SELECT pg_current_xact_id()",
            "ALTER PUBLICATION p DROP TABLE c; {}; ALTER PUBLICATION p ADD TABLE ONLY c",
        ),
    ],
)
def test_a_gap_is_told_again_when_a_transaction_has_ended_that_was_open_meanwhile(
    harness: PostgresHarness, before: str, altering: str, between: bool
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    writer.execute("CREATE TABLE c (id int PRIMARY KEY, of mood)")
    source = harness.source(["b", "c"], publication="p", watch_s=0)
    source.setup()
    monitor = source.open_monitor(None)
    with psycopg.connect(harness.dsn) as long:
        long.execute(before.encode())
        for statement in altering.split(";"):
            if "{}" in statement:
                long.execute("INSERT INTO c VALUES (1, 'ok')")
            else:
                writer.execute(statement)
        writer.execute("INSERT INTO b VALUES (1, 'meanwhile')")
        logged = read_all(monitor, "meanwhile")
        assert [set(gap.columns or ()) for gap in gaps(logged)] == [{"pg.c"}]
        if between:
            monitor.close()
            monitor = source.open_monitor(last_position(logged))
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    logged = read_all(monitor)
    logged += monitor.read(0.2)
    (gap,) = gaps(logged)
    assert set(gap.columns or ()) == {"pg.c"}
    assert "open meanwhile has ended" in gap.reason
    if before.startswith("INSERT"):
        (of_it,) = [item for item in committed(logged) if "c" in contents(item)]
        assert logged.index(gap) < logged.index(of_it)
    monitor.close()


def test_a_schema_that_was_out_of_the_publication_is_a_gap(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("ALTER TABLE a REPLICA IDENTITY FULL; ALTER TABLE b REPLICA IDENTITY FULL")
    writer.execute("CREATE PUBLICATION p FOR TABLES IN SCHEMA public")
    source = followed(harness, watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO b VALUES (1, 'first')")
    position = last_position(read_all(monitor, "first"))
    monitor.close()
    writer.execute("ALTER PUBLICATION p DROP TABLES IN SCHEMA public")
    writer.execute("UPDATE a SET part = 'y'")
    writer.execute("ALTER PUBLICATION p ADD TABLES IN SCHEMA public")
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    monitor = source.open_monitor(position)
    found = {name for gap in gaps(read_all(monitor)) for name in gap.columns or ()}
    assert found == {"pg.a", "pg.b"}
    monitor.close()


def test_labels_that_were_renamed_are_a_gap_before_the_rows_behind_it(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    writer.execute("CREATE TABLE c (id int PRIMARY KEY, of mood)")
    source = harness.source(["c"], watch_s=600)
    source.setup()
    monitor = source.open_monitor(None)
    logged: list[Logged] = []
    writer.execute("INSERT INTO c VALUES (1, 'ok')")
    while not committed(logged):
        logged += monitor.read(0.2)
    assert not gaps(logged)
    writer.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
    writer.execute("INSERT INTO c VALUES (2, 'fine')")
    logged = []
    while not committed(logged):
        logged += monitor.read(0.2)
    assert [type(item) for item in logged if not isinstance(item, Progressed)] == [
        Broken,
        Committed,
    ]
    monitor.close()


SWAPPED = """
BEGIN; ALTER TABLE b RENAME TO x; ALTER TABLE c RENAME TO b; ALTER TABLE x RENAME TO c; COMMIT
"""
MOVED = """
BEGIN; CREATE SCHEMA x; ALTER TABLE b SET SCHEMA x; ALTER TABLE c RENAME TO b;
ALTER TABLE x.b RENAME TO c; ALTER TABLE x.c SET SCHEMA public; COMMIT
"""
INTO_PLACE = "BEGIN; ALTER TABLE b RENAME TO x; ALTER TABLE other RENAME TO b; COMMIT"


@pytest.mark.parametrize("when", ["while it is read", "between two runs", "at the next look"])
@pytest.mark.parametrize(
    ("statements", "relations"),
    [(SWAPPED, {"b", "c"}), (MOVED, {"b", "c"}), (INTO_PLACE, {"b"})],
)
def test_another_table_under_a_followed_name_is_a_gap_and_is_followed_from_there(
    harness: PostgresHarness, when: str, statements: str, relations: set[str]
) -> None:
    harness.create_table("c", LINES, ["id"])
    harness.create_table("other", LINES, ["id"])
    harness.source(["a", "b", "c", "other"], publication="p").setup()
    source = harness.source(
        ["a", "b", "c"], publication="p", watch_s=0.1 if when == "at the next look" else 600
    )
    writer = harness.writer()
    monitor: Monitor | None = source.open_monitor(None)
    assert monitor is not None
    for table in ("other", "c", "b"):
        writer.execute(f"INSERT INTO {table} VALUES (1, 'first {table}')")
    first = read_all(monitor, "first b")
    if when == "between two runs":
        monitor.close()
        monitor = None
    writer.execute(statements)
    logged: list[Logged] = []
    if when == "at the next look":
        assert monitor is not None
        while not gaps(logged):
            logged += monitor.read(0.2)
    writer.execute("INSERT INTO c VALUES (2, 'c goes on')")
    if statements == INTO_PLACE:
        writer.execute("INSERT INTO x VALUES (2, 'of nobody')")
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    if monitor is None:
        monitor = source.open_monitor(last_position(first))
    logged += read_all(monitor)
    assert {name for gap in gaps(logged) for name in gap.columns or ()} == {
        f"pg.{name}" for name in relations
    }
    for gap in gaps(logged):
        assert set((gap.columns or {}).values()) == {None}
        assert "another table is called" in gap.reason
    assert [contents(item) for item in committed(logged)] == [
        {"c": {(2, "c goes on"): 1}},
        {"b": {(2, "end"): 1}},
    ]
    monitor.close()
    monitor = source.open_monitor(last_position(logged))
    writer.execute("INSERT INTO b VALUES (3, 'again')")
    assert not gaps(read_all(monitor, "again"))
    monitor.close()


def change_of_a(harness: PostgresHarness) -> str:
    """Something that puts the table into the log again, whatever it is called now."""
    with psycopg.connect(harness.dsn) as connection:
        row = connection.execute("SELECT to_regclass('a') IS NOT NULL").fetchone()
    assert row is not None
    return f"INSERT INTO {'a' if row[0] else 'z'} (id) VALUES (99)"


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM FULL a",
        "ANALYZE a",
        "ALTER TABLE a ALTER part SET DEFAULT 'z'",
        "ALTER TABLE a ALTER part SET STATISTICS 5",
        "ALTER TABLE a ALTER part SET STORAGE EXTERNAL",
        "GRANT SELECT ON a TO PUBLIC",
        "CREATE INDEX ON a (part)",
        "REINDEX TABLE CONCURRENTLY a",
        "ALTER TABLE a ADD UNIQUE (id); ALTER TABLE a RENAME CONSTRAINT a_pkey TO kept",
        "COMMENT ON COLUMN a.part IS 'x'",
        "ALTER TABLE a DROP price",
        "ALTER TABLE a RENAME price TO cost",
        "ALTER TABLE a ALTER price TYPE text USING 'x'",
        "ALTER TABLE a ADD more jsonb DEFAULT '{}'",
        "ALTER TABLE a ADD made bigint GENERATED ALWAYS AS (id + 1) STORED",
        "ALTER TABLE a REPLICA IDENTITY DEFAULT; ALTER TABLE a REPLICA IDENTITY FULL",
        "CREATE TABLE c (n int); ALTER PUBLICATION p ADD TABLE c",
    ],
)
def test_what_concerns_no_used_column_changes_nothing(
    harness: PostgresHarness, statement: str
) -> None:
    source = followed(harness, watch_s=0.1)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO b VALUES (1, 'first')")
    first = read_all(monitor, "first")
    for each in statement.split(";"):
        writer.execute(each)
    writer.execute("INSERT INTO a (id, part) VALUES (2, 'y'); UPDATE a SET id = 3 WHERE id = 1")
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    logged = read_all(monitor)
    logged += monitor.read(0.3)
    assert not gaps(logged)
    (change,) = [c["a"] for c in map(contents, committed(logged)) if "a" in c]
    assert change == {(2, "y"): 1, (1, "x"): -1, (3, "x"): 1}
    monitor.close()
    monitor = source.open_monitor(last_position(first))
    assert not gaps(read_all(monitor))
    monitor.close()


def committed(logged: Sequence[Logged]) -> list[Committed]:
    return [item for item in logged if isinstance(item, Committed)]


def test_rows_come_without_a_column_that_is_gone(harness: PostgresHarness) -> None:
    source = followed(harness)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    with writer.transaction():
        writer.execute("INSERT INTO a VALUES (2, 'y', 20)")
        writer.execute("ALTER TABLE a DROP part")
        writer.execute("INSERT INTO a VALUES (3, 30)")
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    logged = read_all(monitor)
    assert isinstance(logged[0], Broken | Progressed)
    first = committed(logged)[0].transaction.updates
    assert [(u.delta.schema.names, dict(u.delta.items())) for u in first] == [
        (("id", "part"), {(2, "y"): 1}),
        (("id",), {(3,): 1}),
    ]
    monitor.close()


def test_a_truncate_is_a_gap_known_by_its_transaction_and_told_once(
    harness: PostgresHarness,
) -> None:
    source = followed(harness)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    with writer.transaction():
        writer.execute("TRUNCATE a")
        writer.execute("INSERT INTO b VALUES (1, 'with it')")
    logged = read_all(monitor, "with it")
    (gap,) = gaps(logged)
    (transaction,) = committed(logged)
    assert gap.stamp == transaction.stamp
    assert contents(transaction) == {"b": {(1, "with it"): 1}}
    monitor.close()
    monitor = source.open_monitor(gap.position)
    (again,) = [i for i in read_all(monitor, "with it") if not isinstance(i, Progressed)]
    assert isinstance(again, Committed)
    assert again.transaction == transaction.transaction
    monitor.close()


def test_a_load_after_a_gap_is_behind_it_in_the_order(harness: PostgresHarness) -> None:
    source = followed(harness, watch_s=600)
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO b VALUES (1, 'first')")
    read_all(monitor, "first")
    writer.execute(REWRITTEN)
    load = source.open_load(["a"], 1)
    wrapper = source.open_wrapper()
    wrapper.ask(())  # leaves a mark, as `Channel.catch_up` does
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    (gap,) = gaps(read_all(monitor))
    assert gap.stamp is not None
    assert load.snapshot.includes(gap.stamp)
    assert loaded(load, "a", LINES) == {(1, "X"): 1}
    load.close()
    wrapper.close()
    monitor.close()


def test_an_answer_after_a_gap_comes_behind_it(harness: PostgresHarness) -> None:
    source = followed(harness, watch_s=600)
    source.setup()
    query = whole(source.relations(), "a")
    monitor = source.open_monitor(None)
    writer = harness.writer()
    wrapper = source.open_wrapper()
    wrapper.ask([query])
    writer.execute("INSERT INTO b VALUES (1, 'first')")
    read_all(monitor, "first")
    writer.execute(REWRITTEN)
    with pytest.raises(LostConnectionError, match="a table was altered"):
        wrapper.ask([query])
    wrapper.close()
    wrapper = source.open_wrapper()
    reply = wrapper.ask([query])
    assert dict(reply.results[0].items()) == {(1, "X"): 1}
    writer.execute("INSERT INTO b VALUES (2, 'end')")
    kinds = [type(item) for item in read_all(monitor) if not isinstance(item, Progressed)]
    assert kinds == [Broken, Marked, Committed]
    wrapper.close()
    monitor.close()


def test_a_column_that_was_altered_is_not_asked_for_and_others_are(
    harness: PostgresHarness,
) -> None:
    source = followed(harness)
    source.setup()
    relations = source.relations()
    harness.writer().execute("ALTER TABLE a ALTER part TYPE bigint USING 7")
    wrapper = source.open_wrapper()
    other = query_of(parse_view("SELECT id FROM a", relations))
    assert [dict(rows.items()) for rows in wrapper.ask([other]).results] == [{(1,): 1}]
    with pytest.raises(SourceError, match=r"column part of public\.a is gone or was altered"):
        wrapper.ask([whole(relations, "a")])
    wrapper.close()


def test_a_table_altered_by_a_commit_that_waits_for_a_standby_is_a_gap_before_its_rows() -> None:
    server = PostgresServer(16)
    try:
        harness = PostgresHarness(server)
        harness.create_table("a", MORE, ["id"])
        harness.create_table("b", LINES, ["id"])
        harness.writer().execute("INSERT INTO a VALUES (1, 'x', 10)")
        source = followed(harness, watch_s=600)
        source.setup()
        monitor = source.open_monitor(None)
        harness.writer().execute("INSERT INTO b VALUES (1, 'first')")
        read_all(monitor, "first")
        server.reload(synchronous_standby_names="'nobody_there'")
        writer = harness.writer()
        altering = f"BEGIN; {REWRITTEN}; INSERT INTO a VALUES (2, 'end', 0); COMMIT"
        thread = threading.Thread(target=writer.execute, args=(altering,))
        thread.start()
        release = threading.Timer(1.0, server.reload, kwargs={"synchronous_standby_names": "''"})
        release.start()
        logged = [i for i in read_all(monitor) if not isinstance(i, Progressed)]
        assert [type(item) for item in logged] == [Broken, Committed]
        release.join()
        thread.join()
        monitor.close()
        harness.close()
    finally:
        server.stop()


def test_a_swap_of_names_behind_a_commit_that_waits_for_a_standby_is_a_gap() -> None:
    server = PostgresServer(16)
    try:
        harness = PostgresHarness(server)
        harness.create_table("a", MORE, ["id"])
        harness.create_table("b", LINES, ["id"])
        source = followed(harness, watch_s=600)
        source.setup()
        monitor = source.open_monitor(None)
        harness.writer().execute("INSERT INTO b VALUES (1, 'first')")
        position = last_position(read_all(monitor, "first"))
        monitor.close()
        server.reload(synchronous_standby_names="'nobody_there'")
        waiting = threading.Thread(
            target=harness.writer().execute, args=("INSERT INTO b VALUES (2, 'waits')",)
        )
        waiting.start()
        with psycopg.connect(harness.dsn, autocommit=True) as other:
            other.execute("SET synchronous_commit = local")
            while not other.execute(
                "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchall():
                time.sleep(0.01)
            for statement in (*SWAP.split(";"), "INSERT INTO a VALUES (5, 'q', 50)"):
                other.execute(statement.encode())
            for statement in SWAP.split(";"):
                other.execute(statement.encode())
        monitor = source.open_monitor(position)
        logged: list[Logged] = []
        while not any("a" in contents(item) for item in committed(logged)) and not gaps(logged):
            logged += monitor.read(0.2)
        assert [gap.columns for gap in gaps(logged)] == [{"pg.a": frozenset({"id"})}]
        monitor.close()
        server.reload(synchronous_standby_names="''")
        waiting.join()
        harness.close()
    finally:
        server.stop()


def test_a_publication_that_leaves_out_changes_ends_the_log(harness: PostgresHarness) -> None:
    source = followed(harness, watch_s=0.1)
    source.setup()
    monitor = source.open_monitor(None)
    harness.writer().execute("ALTER PUBLICATION p SET (publish = 'insert')")
    with pytest.raises(BrokenLogError, match="leaves out some kinds of changes"):
        read_all(monitor)
    monitor.close()
    with pytest.raises(BrokenLogError, match="headwater repair pg"):
        source.open_monitor(None)
