from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.embedded.postgres import GUARDED, PostgresServer, shared_server
from headwater.errors import BrokenLogError, InputError, LostConnectionError, SourceError, SqlError
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Monitor,
    Position,
    Reader,
    Source,
)
from headwater.sources.postgres import monitor as monitor_module
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered, committed, loaded, read_log, whole


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    harness.create_table("a", LINES, ["id"])
    yield harness
    harness.close()


@pytest.fixture(scope="module", params=[16, 18])
def own_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    server = PostgresServer(request.param)
    yield server
    server.stop()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_server_is_read_on_exactly_once(own_server: PostgresServer, mode: str) -> None:
    harness = PostgresHarness(own_server)
    harness.create_table("a", LINES, ["id"])
    source = harness.source(["a"])
    source.setup()
    monitor = source.open_monitor(None)
    wrapper = source.open_wrapper()
    own_server.execute("INSERT INTO a VALUES (1, 'x')", database=harness.name)
    (first,) = read_log(monitor, 1)
    lost: list[LostConnectionError] = []

    def read() -> None:
        try:
            while True:
                monitor.read(0.2)
        except LostConnectionError as error:
            lost.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    own_server.halt(mode)
    thread.join(timeout=120)
    assert lost
    monitor.close()
    with pytest.raises(LostConnectionError):
        source.open_monitor(first.position)
    own_server.start()
    with pytest.raises(LostConnectionError):
        wrapper.ask([whole(source.relations(), "a")])
    wrapper.close()
    own_server.execute("INSERT INTO a VALUES (2, 'y')", database=harness.name)
    monitor = source.open_monitor(first.position)
    (second,) = read_log(monitor, 1)
    assert dict(local(second.transaction)["a"].items()) == {(2, "y"): 1}
    monitor.close()
    harness.close()


def test_a_publication_that_is_dropped_while_it_is_read(own_server: PostgresServer) -> None:
    harness = PostgresHarness(own_server)
    harness.create_table("a", LINES, ["id"])
    source = harness.source(["a"], publication="p")
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("INSERT INTO a VALUES (1, 'x')")
    (first,) = read_log(monitor, 1)
    writer.execute("DROP PUBLICATION p")
    writer.execute("INSERT INTO a VALUES (2, 'x')")
    with pytest.raises(SourceError, match="publication"):
        read_log(monitor, 1, 3.0)
    monitor.close()
    with pytest.raises(BrokenLogError, match="publication p"):
        source.open_monitor(first.position)
    harness.close()


def test_a_slot_that_was_dropped(harness: PostgresHarness) -> None:
    source = harness.source(["a"])
    with pytest.raises(SourceError, match="no replication slot"):
        source.open_monitor(None)
    source.setup()
    monitor = source.open_monitor(None)
    with pytest.raises(SourceError, match="acknowledged and is gone"):
        source.open_monitor({"lsn": "0/0"})
    with pytest.raises(LostConnectionError, match="active"):
        source.open_monitor(None)
    monitor.close()
    source.teardown()
    source.teardown()
    with pytest.raises(SourceError, match="Run 'headwater setup pg', which makes it"):
        source.open_monitor(None)
    with pytest.raises(BrokenLogError, match=r"no replication slot .* any more"):
        source.open_monitor({"lsn": "0/0"})


def read_into(found: list[Committed], monitor: Monitor) -> None:
    for _ in range(20):
        found += committed(monitor.read(0.2))


def test_a_log_level_that_is_too_low_is_told_with_the_remedy() -> None:
    server = PostgresServer(16, {"wal_level": "replica"})
    try:
        harness = PostgresHarness(server)
        harness.create_table("a", LINES)
        source = harness.source(["a"])
        for step in (source.setup, lambda: source.open_monitor(None)):
            with pytest.raises(SourceError, match="ALTER SYSTEM SET wal_level = 'logical'"):
                step()
        harness.close()
    finally:
        server.stop()


def test_secrets_stay_secret(harness: PostgresHarness) -> None:
    server = shared_server()
    server.execute(f"DROP ROLE IF EXISTS {GUARDED}", f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'p'")
    secret = "hunter2-secret"
    wrong = PostgresSource("pg", server.dsn(harness.name, GUARDED, password=secret), ["a"])
    garbled = PostgresSource("pg", f"host=x {secret} password={secret}", ["a"])
    nowhere = PostgresSource("pg", f"postgresql://u:{secret}@127.0.0.1:1/d", ["a"])
    for source, told in [
        (wrong, "Check the role, the password"),
        (garbled, "connection string cannot be read"),
        (nowhere, "cannot connect"),
    ]:
        with pytest.raises(SourceError, match=told) as caught:
            source.relations()
        assert secret not in str(caught.value)
        assert secret not in repr(source)
        assert caught.value.__cause__ is None
    with pytest.raises(LostConnectionError):
        nowhere.open_wrapper()
    with pytest.raises(SourceError) as refused:
        wrong.open_wrapper()
    assert not isinstance(refused.value, LostConnectionError)


def test_tables_that_cannot_be_used_are_refused_with_a_remedy(harness: PostgresHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE odd (r regclass); CREATE TABLE zero ()")
    writer.execute("CREATE VIEW seen AS SELECT 1 AS n")
    writer.execute("CREATE UNLOGGED TABLE fleeting (n int)")
    writer.execute("CREATE SCHEMA s; CREATE TABLE s.a (n int); CREATE TABLE order_lines (n int)")
    for names, told in [
        (["odd"], "none of its columns can be used; r: its type is regclass"),
        (["zero"], r"public\.zero has no columns that can be read"),
        (["seen"], "is a view"),
        (["fleeting"], r'"fleeting" SET LOGGED; then .headwater setup pg'),
        (["seen", "public.seen"], "is a view"),
        (["order_line"], r"no table order_line\. Close names are: public\.order_lines"),
        (["nothing_like_it"], "No table there has a name close to it"),
    ]:
        with pytest.raises(SourceError, match=told):
            harness.source(names).relations()
    with pytest.raises(SourceError, match="names the column nope"):
        harness.source(["a"], keys={"a": ["nope"]}).relations()
    writer.execute("ALTER TABLE a ALTER part SET NOT NULL, ADD UNIQUE (part)")
    assert harness.source(["a"], keys={"a": ["part"]}).relations()["a"].key == ("part",)
    with pytest.raises(InputError, match="lower-case letters"):
        harness.source(["a"], slot="Not A Slot")


def test_a_column_that_cannot_be_used_is_left_out_and_a_view_that_names_it_is_told_why(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute(
        "CREATE TABLE made (n int, m int GENERATED ALWAYS AS (n + 1) STORED, r regclass)"
    )
    source = harness.source(["made"])
    relation = source.relations()["made"]
    assert relation.schema == Schema.of([("n", INT)])
    with pytest.raises(SqlError, match=r"column m cannot .* computed as \(n \+ 1\), which a view"):
        parse_view("SELECT m FROM made", [relation])
    with pytest.raises(SqlError, match=r"column r cannot be used: its type is regclass, and"):
        parse_view("SELECT t.r FROM made t", [relation])


def test_all_that_is_wrong_is_told_at_once_and_the_rest_can_be_used(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE VIEW seen AS SELECT 1 AS n")
    writer.execute("CREATE UNLOGGED TABLE fleeting (n int)")
    source = harness.source(["seen", "fleeting", "nowhere", "a"])
    assert set(source.relations()) == {"a"}
    told = [str(problem) for problem in source.problems()]
    assert len(told) == 3
    for text, of in zip(told, ("is a view", "SET LOGGED", "no table nowhere"), strict=True):
        assert of in text
    source.setup()
    assert_answers(source)


def test_a_table_that_was_used_and_cannot_be_any_more_is_a_gap_and_others_go_on(
    harness: PostgresHarness,
) -> None:
    harness.create_table("b", Schema.of([("n", INT)]))
    source = harness.source(["a", "b"])
    source.setup()
    source.relations()
    monitor = source.open_monitor(None)
    at = position(monitor.read(0.2)[-1])
    monitor.close()
    writer = harness.writer()
    writer.execute("ALTER TABLE b RENAME TO c; CREATE VIEW b AS SELECT 1 AS n")
    for again in (source, harness.source(["a", "b"]).narrowed({"a": ["id", "part"], "b": ["n"]})):
        monitor = again.open_monitor(at)
        (gap,) = monitor.read(0.2)[:1]
        assert isinstance(gap, Broken)
        assert gap.columns == {"pg.b": None}
        assert "public.b is a view" in gap.reason
        monitor.close()
        assert set(again.relations()) == {"a"}
        with pytest.raises(SourceError, match=r"public\.b is a view"):
            again.open_load(["b"], 1)
    assert_answers(source)


def position(logged: Logged) -> Position:
    assert not isinstance(logged, Marked)
    return logged.position


def assert_answers(source: Source) -> None:
    answered(source, whole(source.relations(), "a"))


def test_setup_says_what_it_runs_and_runs_it_once(harness: PostgresHarness) -> None:
    harness.create_table("b", Schema.of([("n", INT)]))
    source = harness.source(["a"])
    statements = source.setup_statements()
    assert [s.split()[0] for s in statements] == ["CREATE", "COMMENT", "ALTER", "ALTER", "SELECT"]
    source.setup()
    assert source.setup_statements() == []
    source.setup()
    more = harness.source(["a", "b"])
    assert [s.split()[0] for s in more.setup_statements()] == ["COMMENT", "ALTER", "ALTER"]
    more.setup()
    assert more.setup_statements() == []


def test_a_position_of_another_way_to_capture_changes_asks_for_a_repair(
    harness: PostgresHarness,
) -> None:
    ways = [harness.source(["a"], changes=changes) for changes in ("replication", "triggers")]
    positions: list[Position] = []
    for source in ways:
        source.setup()
        with closing(source.open_monitor(None)) as monitor:
            harness.writer().execute(f"INSERT INTO a VALUES ({len(positions)}, 'x')")
            positions.append(read_log(monitor, 1)[0].position)
    for source, position in zip(ways, reversed(positions), strict=True):
        with pytest.raises(BrokenLogError, match=r"another way before.*headwater repair"):
            source.open_monitor(position)


def test_triggers_are_made_once_fire_in_every_session_and_go_without_a_trace(
    harness: PostgresHarness,
) -> None:
    source = harness.source(["a"], changes="triggers")
    with pytest.raises(SourceError, match="headwater setup"):
        source.open_monitor(None)
    assert any("CREATE OR REPLACE TRIGGER" in statement for statement in source.setup_statements())
    source.setup()
    source.setup()
    assert source.setup_statements() == []
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute("SET session_replication_role = replica")
    writer.execute("SET DateStyle = 'German'; INSERT INTO a VALUES (1, 'x')")
    writer.execute("DELETE FROM a")
    found = read_log(monitor, 2)
    assert [dict(local(i.transaction)["a"].items()) for i in found] == [
        {(1, "x"): 1},
        {(1, "x"): -1},
    ]
    monitor.close()
    source.teardown()
    source.teardown()
    with psycopg.connect(harness.dsn) as connection:
        left = "SELECT FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT FROM pg_tables "
        left += "WHERE schemaname NOT IN ('public', 'pg_catalog', 'information_schema')"
        assert connection.execute(left.encode()).fetchall() == []


def test_a_role_with_few_privileges_can_read_and_is_told_what_it_cannot(
    harness: PostgresHarness,
) -> None:
    shared_server().execute("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN")
    dsn = shared_server().dsn(harness.name, "reader")
    source = PostgresSource("pg", dsn, ["a"], slot=harness.name)
    with pytest.raises(SourceError, match='GRANT SELECT ON "public"'):
        source.relations()
    writer = harness.writer()
    writer.execute("GRANT SELECT ON a TO reader")
    with pytest.raises(SourceError, match="As a role that may, run: CREATE PUBLICATION"):
        source.setup()
    PostgresSource("pg", harness.dsn, ["a"], slot=harness.name).setup()
    writer.execute("INSERT INTO a VALUES (1, 'x')")
    assert source.setup_statements() == []
    with pytest.raises(SourceError, match='ALTER ROLE "reader" REPLICATION;'):
        source.open_monitor(None)
    writer.execute("ALTER ROLE reader REPLICATION")
    monitor = source.open_monitor(None)
    read_log(monitor, 1)
    monitor.close()
    assert answered(source, whole(source.relations(), "a")) == [{(1, "x"): 1}]
    load = source.open_load(["a"], 2)
    assert loaded(load, "a", LINES) == {(1, "x"): 1}
    load.close()
    writer.execute("REVOKE SELECT ON a FROM reader; DROP OWNED BY reader")


def test_a_question_that_takes_too_long_is_told_and_the_wrapper_goes_on(
    harness: PostgresHarness,
) -> None:
    source = harness.source(["a"], limit_s=0.3)
    source.setup()
    query = whole(source.relations(), "a")
    wrapper = source.open_wrapper()
    with psycopg.connect(harness.dsn) as blocking:
        blocking.execute("LOCK TABLE a")
        with pytest.raises(SourceError, match=r"more than 0\.3 s") as caught:
            wrapper.ask([query])
        assert not isinstance(caught.value, LostConnectionError)
    assert len(wrapper.ask([query]).results) == 1
    wrapper.close()


def test_a_later_epoch_of_the_same_reader_takes_the_slot_from_one_that_hangs_on(
    harness: PostgresHarness,
) -> None:
    source = harness.source(["a"])
    source.setup()
    hanging = source.open_monitor(None, Reader("warehouse", 9))
    later = source.open_monitor(None, Reader("warehouse", 10))
    with pytest.raises(LostConnectionError):
        read_log(hanging, 1)
    hanging.close()
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    assert len(read_log(later, 1)) == 1
    later.close()


@pytest.mark.parametrize("other", [None, Reader("other", 11), Reader("warehouse", 8)])
def test_a_slot_is_not_taken_from_anyone_else(
    harness: PostgresHarness, other: Reader | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "_EVICT_AFTER_S", 0.1)
    monkeypatch.setattr(monitor_module, "_SLOT_WAIT_S", 0.5)
    source = harness.source(["a"])
    source.setup()
    first = source.open_monitor(None, Reader("warehouse", 9))
    with pytest.raises(LostConnectionError, match="is active"):
        source.open_monitor(None, other)
    harness.writer().execute("INSERT INTO a VALUES (1, 'x')")
    assert len(read_log(first, 1)) == 1
    first.close()


def test_a_locked_table_does_not_hold_up_the_log(harness: PostgresHarness) -> None:
    harness.create_table("b", LINES, ["id"])
    source = harness.source(["a", "b"], limit_s=5, watch_s=0)
    source.setup()
    monitor = source.open_monitor(None)
    with psycopg.connect(harness.dsn) as blocking:
        blocking.execute("LOCK TABLE a")
        harness.writer().execute("INSERT INTO b VALUES (1, 'x')")
        assert len(read_log(monitor, 1)) == 1
        source.open_wrapper().close()
    monitor.close()


def test_a_slot_of_another_database_is_told_with_the_way_to_drop_it(
    harness: PostgresHarness,
) -> None:
    """As after the database was renamed away and a copy took its name."""
    source = harness.source(["a"], owner="00c0ffee")
    source.setup()
    copied = PostgresHarness()
    copied.create_table("a", LINES, ["id"])
    try:
        here = copied.source(["a"], slot=harness.name, owner="00c0ffee")
        told = rf"belongs to the database {harness.name}.*pg_drop_replication_slot.*repair pg"
        for attempt in (here.setup_statements, here.setup, lambda: here.open_monitor(None)):
            with pytest.raises(SourceError, match=told):
                attempt()
        source.teardown()
        here.setup()
        here.open_monitor(None).close()
        here.teardown()
    finally:
        copied.close()


def test_teardown_beside_a_runner_says_to_stop_it(
    harness: PostgresHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.sources.postgres.setup._PATIENCE_S", 0.0)
    source = harness.source(["a"])
    source.setup()
    monitor = source.open_monitor(None)
    with pytest.raises(SourceError, match=r"is being read.* Stop the runner") as raised:
        source.teardown()
    assert not isinstance(raised.value, LostConnectionError)
    monitor.close()


def test_a_load_whose_snapshot_is_gone_is_worth_another_try(harness: PostgresHarness) -> None:
    source = harness.source(["a"])
    source.setup()
    load = source.open_load(["a"], 1)
    part = load.remote("a", 0)
    assert part is not None
    load.close()  # and with it the transaction that held the snapshot
    with pytest.raises(LostConnectionError, match="the snapshot that is read is gone"):
        list(part.read())
