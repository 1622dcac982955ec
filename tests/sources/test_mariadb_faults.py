"""What may happen to a MariaDB server and its tables: followed exactly, a gap, or a clear end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.embedded.mariadb import MariadbServer
from headwater.errors import BrokenLogError, LostConnectionError, RefusedError, SourceError
from headwater.sources.contract import Logged, Position, Progressed, Source
from headwater.sources.mariadb.catalog import Found, check_sort
from headwater.sources.mariadb.connect import Access, run
from headwater.sources.mariadb.snapshot import begin, read_twice
from headwater.testing.harness import local
from tests.sources.mariadb_harness import MariadbHarness, needs_mariadb
from tests.sources.mariadb_tools import (
    answered,
    committed,
    gaps,
    harness,
    loaded,
    net,
    read_until,
    reading,
)

pytestmark = needs_mariadb
__all__ = ["harness"]


@pytest.fixture
def source(harness: MariadbHarness) -> Iterator[Source]:
    harness.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b varchar(20), c int)",
        "CREATE TABLE u (id int PRIMARY KEY, a int)",
        "INSERT INTO t VALUES (1, 1, 'x', 1)",
    )
    made = harness.source(["t", "u"]).narrowed({"t": ["id", "a", "b"], "u": ["id", "a"]})
    made.setup()
    yield made
    made.teardown()


def after_these(harness: MariadbHarness, source: Source, *statements: str | bytes) -> list[Logged]:
    """What is logged by some statements in one session, and by a last change of another table."""
    position = here(source)
    connection = harness.server.connect(harness.name)
    try:
        for statement in statements:
            connection.cursor().execute(statement)
    finally:
        connection.close()
    return read_to_the_end(harness, source, position)


def read_to_the_end(harness: MariadbHarness, source: Source, position: Position) -> list[Logged]:
    harness.execute("REPLACE INTO u VALUES (99, 0)", "DELETE FROM u WHERE id = 99")
    with reading(source, position) as monitor:
        return read_until(monitor, _has_seen_the_end)


def _has_seen_the_end(found: Sequence[Logged]) -> bool:
    return any(
        row == (99, 0) and count < 0
        for item in committed(found)
        for row, count in local(item.transaction).get("u", {}).items()
    )


def here(source: Source) -> Position:
    load = source.open_load(["u"], 1)
    load.close()
    return load.position


def changes(found: Sequence[Logged], relation: str = "t") -> list[tuple[object, int]]:
    return [
        each
        for item in committed(found)
        for name, delta in local(item.transaction).items()
        if name == relation
        for each in delta.sorted_items()
    ]


# The place of a snapshot


def test_a_place_that_belongs_to_another_session_is_not_taken() -> None:
    """The server's status tells another session's place now and then: here at the first reading,
    and between two others."""
    mine = [("Binlog_snapshot_file", "b.000002"), ("Binlog_snapshot_position", "700")]
    others = [("Binlog_snapshot_file", "b.000002"), ("Binlog_snapshot_position", "400")]
    torn = [("Binlog_snapshot_file", "b.000002"), ("Binlog_snapshot_position", "401")]
    for told in ([others, mine, mine], [mine, others, mine, mine], [torn, others, mine, mine]):
        readings = iter(told)
        assert str(read_twice(lambda: next(readings))) == "b.000002:700"  # noqa: B023 (used at once)


def test_a_status_that_never_agrees_with_itself_is_asked_again_later() -> None:
    numbers = iter(range(1000))

    def status() -> list[tuple[str, str]]:
        place = str(next(numbers))
        return [("Binlog_snapshot_file", "b.000002"), ("Binlog_snapshot_position", place)]

    with pytest.raises(LostConnectionError):
        read_twice(status)


def test_an_answer_is_placed_right_though_the_first_reading_is_of_another_session(
    harness: MariadbHarness, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has an older snapshot is read at first, as the race makes it."""
    other = harness.server.connect(harness.name)
    other.cursor().execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    harness.execute("INSERT INTO t VALUES (2, 2, 'y', 2)")
    readings = {"swapped": 0}

    def swapped(connection: object, statement: str) -> object:
        if "binlog_snapshot" in statement and not readings["swapped"]:
            readings["swapped"] += 1
            return run(other, statement)
        return run(connection, statement)

    monkeypatch.setattr("headwater.sources.mariadb.snapshot.run", swapped)
    wrapper = source.open_wrapper()
    reply = wrapper.ask([])
    wrapper.close()
    other.close()
    assert readings["swapped"] == 1
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
    assert reply.snapshot.includes(committed(found)[-1].stamp)


# Statements


def test_columns_that_nobody_uses_may_come_go_and_change(
    harness: MariadbHarness, source: Source
) -> None:
    found = after_these(
        harness,
        source,
        "ALTER TABLE t ADD COLUMN d int FIRST",
        "UPDATE t SET a = 2",
        "ALTER TABLE t DROP COLUMN c, MODIFY d bigint",
        "UPDATE t SET b = 'y'",
    )
    assert gaps(found) == []
    assert changes(found) == [
        ((1, 1, "x"), -1), ((1, 2, "x"), 1), ((1, 2, "x"), -1), ((1, 2, "y"), 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("ALTER TABLE t DROP COLUMN a", {"a"}),
        ("ALTER TABLE t RENAME COLUMN a TO z", {"a"}),
        ("ALTER TABLE t CHANGE a b2 int", {"a"}),
        ("ALTER TABLE t MODIFY a bigint", {"a"}),
        ("ALTER TABLE t RENAME COLUMN a TO c, RENAME COLUMN c TO a", {"a"}),
        ("ALTER TABLE t DROP COLUMN a, ADD COLUMN a int DEFAULT 5", {"a"}),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", None),
        ("TRUNCATE TABLE t", None),
        ("DROP TABLE t", None),
        ("RENAME TABLE t TO t2", None),
        ("CREATE OR REPLACE TABLE t (id int PRIMARY KEY, a int, b varchar(20))", None),
        ("ALTER TABLE t ENGINE = MyISAM", None),
    ],
)
def test_what_a_statement_does_to_used_columns_is_a_gap_and_others_go_on(
    harness: MariadbHarness, source: Source, statement: str, columns: set[str] | None
) -> None:
    found = after_these(harness, source, statement)
    *earlier, gap = gaps(found)  # a table that is not there is told when reading begins, too
    assert gap.columns == {"m.t": None if columns is None else frozenset(columns)}
    assert gap.stamp is not None
    assert [other.columns for other in earlier] in ([], [{"m.t": None}])


def test_rows_that_were_changed_while_a_column_was_away_come_without_it(
    harness: MariadbHarness, source: Source
) -> None:
    found = after_these(harness, source, "ALTER TABLE t RENAME COLUMN b TO z", "UPDATE t SET a = 7")
    assert [gap.columns for gap in gaps(found)] == [{"m.t": frozenset({"b"})}] * 2
    assert changes(found) == [((1, 1), -1), ((1, 7), 1)]


def test_a_statement_that_was_logged_instead_of_rows_is_a_gap_of_everything(
    harness: MariadbHarness, source: Source
) -> None:
    found = after_these(
        harness, source, "SET SESSION binlog_format = STATEMENT", "UPDATE t SET a = 5"
    )
    (gap,) = gaps(found)
    assert gap.columns == {"m.t": None, "m.u": None}
    assert "binlog_format = ROW" in gap.reason


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_rows_that_are_not_logged_whole_are_a_gap(
    harness: MariadbHarness, source: Source, image: str
) -> None:
    harness.execute("ALTER TABLE t MODIFY b text")
    found = after_these(
        harness,
        source,
        f"SET SESSION binlog_row_image = {image}",
        "UPDATE t SET a = 5",
        "SET SESSION binlog_row_image = FULL",
        "UPDATE t SET a = 6",
    )
    (gap,) = gaps(found)
    assert gap.columns == {"m.t": None}
    assert "binlog_row_image = FULL" in gap.reason
    assert changes(found) == [((1, 5, "x"), -1), ((1, 6, "x"), 1)]


def test_columns_without_names_are_a_gap(harness: MariadbHarness, source: Source) -> None:
    found = after_these(
        harness,
        source,
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "UPDATE t SET a = 5",
        "SET GLOBAL binlog_row_metadata = FULL",
    )
    assert [g.columns for g in gaps(found)] == [{"m.t": None}]
    assert "binlog_row_metadata = FULL" in gaps(found)[0].reason
    assert changes(found) == []


def test_load_data_triggers_and_partitions_are_followed(
    harness: MariadbHarness, source: Source
) -> None:
    harness.execute(
        "CREATE TRIGGER x AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (NEW.id, 7)",
        "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 3",
    )
    found = after_these(
        harness,
        source,
        f"SELECT 5, 6, 'five', 0 INTO OUTFILE '{harness.server.folder}/{harness.name}'",
        f"LOAD DATA INFILE '{harness.server.folder}/{harness.name}' INTO TABLE t",
        "UPDATE t SET id = 8 WHERE id = 5",
    )
    assert gaps(found) == []
    assert net(found, "t").sorted_items() == [((8, 6, "five"), 1)]
    assert ((5, 7), 1) in changes(found, "u")


def test_what_is_undone_in_a_transaction_with_another_engine_is_not_delivered(
    harness: MariadbHarness, source: Source
) -> None:
    harness.execute("CREATE TABLE other (id int) ENGINE = MyISAM")
    found = after_these(
        harness,
        source,
        "BEGIN",
        "INSERT INTO t VALUES (2, 2, 'kept', 0)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (3, 3, 'undone', 0)",
        "INSERT INTO other VALUES (1)",
        "ROLLBACK TO SAVEPOINT s",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (4, 4, 'undone', 0)",
        "INSERT INTO other VALUES (2)",
        "ROLLBACK",
    )
    assert changes(found) == [((2, 2, "kept"), 1)]
    assert answered(source, "t") == loaded(source, "t")


def test_a_transaction_of_several_packets_arrives(harness: MariadbHarness) -> None:
    harness.execute("CREATE TABLE big (id int PRIMARY KEY, v longblob)")
    source = harness.source(["big"])
    source.setup()
    harness.execute(
        "SET GLOBAL max_allowed_packet = 1 << 26",
    )
    harness.execute("INSERT INTO big VALUES (1, repeat('x', 20 << 20))")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
    ((row, _),) = net(found, "big").items()
    assert row == (1, b"x" * (20 << 20))


def test_a_compressed_log_is_read(harness: MariadbHarness, source: Source) -> None:
    found = after_these(
        harness,
        source,
        "SET GLOBAL log_bin_compress = ON",
        "UPDATE t SET b = repeat('z', 20)",
        "INSERT INTO t SELECT 10 + seq, seq, repeat('y', 20), 0 FROM seq_1_to_50",
        "ALTER TABLE t ADD COLUMN d int COMMENT 'a statement that is long enough as well'",
        "SET GLOBAL log_bin_compress = OFF",
    )
    assert gaps(found) == []
    assert len(net(found, "t")) == 52


# Foreign keys


def test_the_server_does_not_log_what_a_cascade_does_and_such_a_table_is_refused(
    harness: MariadbHarness,
) -> None:
    harness.execute(
        "CREATE TABLE p (id int PRIMARY KEY)",
        "CREATE TABLE k (id int PRIMARY KEY, p int, FOREIGN KEY f (p) REFERENCES p (id) "
        "ON DELETE CASCADE)",
        "CREATE TABLE n (id int PRIMARY KEY, p int, v int, FOREIGN KEY g (p) REFERENCES p (id) "
        "ON DELETE SET NULL)",
        "INSERT INTO p VALUES (1)",
        "INSERT INTO k VALUES (1, 1)",
        "INSERT INTO n VALUES (1, 1, 5)",
    )
    source = harness.source(["p", "k", "n"])
    relations = source.relations()
    assert set(relations) == {"p", "n"}
    assert "ON DELETE CASCADE" in str(source.unusable()["k"])
    assert relations["n"].schema.names == ("id", "v")
    source.setup()
    harness.execute("DELETE FROM p")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
    assert {name for item in committed(found) for name in local(item.transaction)} == {"p"}
    assert harness.contents_of("k") == []  # it was emptied, and the log does not say so


def test_a_cascade_that_comes_later_is_a_gap(harness: MariadbHarness, source: Source) -> None:
    found = after_these(
        harness,
        source,
        "DELETE FROM t",
        "ALTER TABLE t ADD FOREIGN KEY f (a) REFERENCES u (id) ON DELETE CASCADE",
    )
    assert [gap.columns for gap in gaps(found)] == [{"m.t": None}] * 2
    assert "t" not in source.relations()


# XA


def _xa(name: str, statement: str) -> list[str]:
    return [f"XA START '{name}'", statement, f"XA END '{name}'", f"XA PREPARE '{name}'"]


def test_an_xa_transaction_is_a_gap_unless_snapshots_are_taken_by_a_lock(
    harness: MariadbHarness, source: Source
) -> None:
    found = after_these(harness, source, *_xa("one", "UPDATE t SET a = 5"), "XA COMMIT 'one'")
    (gap,) = gaps(found)
    assert gap.columns == {"m.t": None}
    assert 'snapshots = "lock"' in gap.reason


def test_xa_transactions_are_followed_when_they_are_committed(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int)", "CREATE TABLE u (id int PRIMARY KEY, a int)"
    )
    source = harness.source(["t", "u"], snapshots="lock")
    source.setup()
    position = here(source)
    for name, end in (("one", "COMMIT"), ("two", "ROLLBACK")):
        connection = harness.server.connect(harness.name)
        for statement in _xa(name, f"INSERT INTO t VALUES ({len(name + end)}, 0)"):
            connection.cursor().execute(statement)
        connection.close()
    harness.execute("INSERT INTO u VALUES (1, 1)")
    with reading(source, position) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
    assert changes(found) == []  # prepared only
    between = committed(found)[-1].position
    harness.execute("XA COMMIT 'one'", "XA ROLLBACK 'two'")
    found = read_to_the_end(harness, source, between)
    assert gaps(found) == []
    assert changes(found) == [((9, 0), 1)]


# The log itself


@pytest.fixture(scope="module")
def own_server() -> Iterator[MariadbServer]:
    server = MariadbServer()
    yield server
    server.stop()


@pytest.fixture
def alone(own_server: MariadbServer) -> Iterator[MariadbHarness]:
    made = MariadbHarness(own_server)
    made.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE u (id int, a int)")
    yield made
    made.close()


def _read(source: Source, harness: MariadbHarness, position: Position | None) -> list[Logged]:
    with reading(source, position) as monitor:
        return read_until(monitor, lambda found: bool(committed(found)))


def purge(harness: MariadbHarness) -> None:
    """Remove all files but the last; one that is still sent to somebody stays for a while."""
    deadline = time.monotonic() + 60
    while len(harness.contents_of("", "SHOW BINARY LOGS")) > 1:
        assert time.monotonic() < deadline
        ((last, *_),) = harness.contents_of("", "SHOW MASTER STATUS")
        harness.execute(f"PURGE BINARY LOGS TO '{last}'")
        time.sleep(0.05)


def test_reading_goes_on_after_restarts_and_in_the_next_files(alone: MariadbHarness) -> None:
    source = alone.source(["t"])
    source.setup()
    position: Position | None = None
    for number in range(4):
        alone.execute(f"INSERT INTO t VALUES ({number})")
        if number == 1:
            alone.server.halt()
            alone.server.start()
        elif number == 2:
            alone.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        elif number == 3:
            alone.server.halt(kill=True)
            alone.server.start()
        found = _read(source, alone, position)
        assert changes(found) == [((number,), 1)]
        position = committed(found)[-1].position


def test_a_monitor_goes_on_in_the_next_file_and_is_lost_with_the_server(
    alone: MariadbHarness,
) -> None:
    source = alone.source(["t"])
    source.setup()
    with reading(source) as monitor:
        alone.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (1)")
        found = read_until(monitor, lambda found: bool(committed(found)))
        assert changes(found) == [((1,), 1)]
        alone.server.halt()
        with pytest.raises(LostConnectionError):
            read_until(monitor, lambda found: False)
    alone.server.start()


def test_a_log_that_was_purged_ends_with_a_remedy_that_works(alone: MariadbHarness) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.execute("INSERT INTO t VALUES (1)")
    position = committed(_read(source, alone, None))[-1].position
    alone.execute("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    alone.execute("FLUSH BINARY LOGS")
    purge(alone)
    with pytest.raises(BrokenLogError, match="headwater repair m"):
        _read(source, alone, position)
    source.set_up_again()
    with pytest.raises(BrokenLogError, match="set up again"), reading(source, position):
        pass
    alone.execute("INSERT INTO t VALUES (4)")
    assert changes(_read(source, alone, None)) == [((4,), 1)]


def test_old_files_may_be_purged_when_nothing_has_happened_since(alone: MariadbHarness) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.execute("INSERT INTO t VALUES (1)")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
        alone.execute("FLUSH BINARY LOGS")
        found += read_until(monitor, lambda found: bool(found))
    position = found[-1].position  # type: ignore[union-attr] # no marker
    purge(alone)
    alone.execute("INSERT INTO t VALUES (2)")
    assert changes(_read(source, alone, position)) == [((2,), 1)]


@pytest.mark.parametrize("more", [0, 12])
def test_a_log_that_was_reset_is_noticed_also_when_it_has_grown_again(
    alone: MariadbHarness, more: int
) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.execute("INSERT INTO t VALUES (1)")
    position = committed(_read(source, alone, None))[-1].position
    alone.execute("RESET MASTER")
    for number in range(more):
        alone.execute(f"INSERT INTO t VALUES ({10 + number})")
    with pytest.raises(BrokenLogError, match="headwater repair m"):
        _read(source, alone, position)
    source.set_up_again()


@pytest.mark.parametrize("more", [0, 5])
def test_a_server_that_was_restored_is_noticed_also_when_it_has_gone_on(
    alone: MariadbHarness, more: int
) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.server.halt()
    alone.server.copy_data("backup")
    alone.server.start()
    for number in range(3):
        alone.execute(f"INSERT INTO t VALUES ({number})")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: len(committed(found)) == 3)
    position = committed(found)[-1].position
    alone.server.halt()
    alone.server.restore_data("backup")
    alone.server.start()
    for number in range(more):
        alone.execute(f"INSERT INTO t VALUES ({100 + number})")
    with pytest.raises(BrokenLogError, match="headwater repair m"):
        _read(source, alone, position)
    source.set_up_again()
    alone.execute("INSERT INTO t VALUES (55)")
    assert changes(_read(source, alone, None)) == [((55,), 1)]


def test_a_backup_that_is_as_new_as_what_was_read_goes_on(alone: MariadbHarness) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.execute("INSERT INTO t VALUES (1)")
    position = committed(_read(source, alone, None))[-1].position
    alone.server.halt()
    alone.server.copy_data("backup")
    alone.server.restore_data("backup")
    alone.server.start()
    alone.execute("INSERT INTO t VALUES (2)")
    assert changes(_read(source, alone, position)) == [((2,), 1)]


def test_an_answer_of_a_server_that_was_started_anew_waits_for_its_log(
    alone: MariadbHarness,
) -> None:
    source = alone.source(["t"])
    source.setup()
    with reading(source):
        alone.server.halt()
        import time

        time.sleep(1.1)  # a run of the server is known by the second in which it began
        alone.server.start()
        wrapper = source.open_wrapper()
        with pytest.raises(LostConnectionError, match="started anew"):
            wrapper.ask([])
        wrapper.close()


# Setting up, and who may


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("binlog_format", "MIXED"),
        ("binlog_row_image", "MINIMAL"),
        ("binlog_row_metadata", "NO_LOG"),
    ],
)
def test_settings_of_the_server_are_looked_at(
    alone: MariadbHarness, setting: str, value: str
) -> None:
    source = alone.source(["t"])
    source.setup()
    alone.execute(f"SET GLOBAL {setting} = {value}")
    try:
        with pytest.raises(SourceError, match=f"SET GLOBAL {setting}"):
            source.setup()
        with pytest.raises(SourceError, match=setting), reading(source):
            pass
        assert setting in str(source.lacking()[0])
    finally:
        alone.execute(f"SET GLOBAL {setting} = {'ROW' if value == 'MIXED' else 'FULL'}")
    assert source.lacking() == []


def test_an_account_is_told_which_rights_it_lacks_and_these_are_enough(
    harness: MariadbHarness,
) -> None:
    harness.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    account = f"reader_{harness.name}"
    owner = harness.source(["t"])
    owner.setup()
    harness.execute(
        f"CREATE USER {account}@localhost IDENTIFIED BY 's3cret word'",
        f"GRANT SELECT ON {harness.name}.* TO {account}@localhost",
    )
    dsn = harness.dsn.replace("root@", f"{account}:s3cret%20word@")
    source = harness.source(["t"], dsn=dsn)
    told = source.lacking()
    assert [isinstance(each, RefusedError) for each in told] == [True, True]
    for each in told:
        harness.execute(each.hint.partition("run: ")[2].rstrip(";"))
    assert source.lacking() == []
    assert len(loaded(source, "t")) == len(answered(source, "t")) == 1
    harness.execute("INSERT INTO t VALUES (2)")
    assert changes(_read(source, harness, None)) == [((2,), 1)]
    wrong = harness.source(["t"], dsn=dsn.replace("s3cret", "s4cret"))
    with pytest.raises(RefusedError, match="password") as error:
        wrong.relations()
    assert "cret" not in str(error.value)
    harness.execute(f"DROP USER {account}@localhost")
    owner.teardown()


def test_what_setup_made_is_missed_when_it_goes(harness: MariadbHarness, source: Source) -> None:
    with reading(source) as monitor:
        source.teardown()
        with pytest.raises(BrokenLogError, match="headwater repair m"):
            read_until(monitor, lambda found: False)
    source.setup()


def test_two_warehouses_follow_one_database(harness: MariadbHarness, source: Source) -> None:
    other = harness.source(["t"], owner="0a1b2c3d")
    other.setup()
    assert [log.owner for log in source.other_logs()] == ["0a1b2c3d"]
    assert [log.owner for log in harness.source(["t"], owner="x").other_logs()] == ["0a1b2c3d"]
    source.remove_log("0a1b2c3d")
    assert source.other_logs() == []


def test_a_table_of_another_engine_or_another_sort_is_refused(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE good (id int)",
        "CREATE TABLE isam (id int) ENGINE = MyISAM",
        "CREATE TABLE past (id int) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE s",
        "CREATE VIEW v AS SELECT 1 AS one",
    )
    source = harness.source(["good", "isam", "past", "s", "v", "nothing"])
    assert set(source.relations()) == {"good"}
    told = {name: str(error) for name, error in source.unusable().items()}
    assert "ENGINE = InnoDB" in told["isam"]
    assert "system-versioned" in told["past"]
    assert set(told) == {"isam", "past", "s", "v", "nothing"}
    assert {table.name for table in source.discover() if not table.problem} == {"good"}


def test_a_key_of_the_settings_must_be_kept_by_an_index(harness: MariadbHarness) -> None:
    harness.execute("CREATE TABLE t (a int NOT NULL, b int NOT NULL, UNIQUE (a, b))")
    assert harness.source(["t"], keys={"t": ["a", "b"]}).relations()["t"].key == ("a", "b")
    with pytest.raises(SourceError, match="ADD UNIQUE"):
        harness.source(["t"], keys={"t": ["a"]}).relations()


# Questions and loads


def test_a_question_meets_a_table_that_was_altered(harness: MariadbHarness, source: Source) -> None:
    wrapper = source.open_wrapper()
    harness.execute("ALTER TABLE t RENAME COLUMN a TO z, RENAME COLUMN c TO a, MODIFY b text")
    view = parse_view("SELECT id, a, b FROM t", [harness.source(["t"]).relations()["t"]])
    with pytest.raises(LostConnectionError, match="altered"):
        wrapper.ask([query_of(view)])
    wrapper.close()


def test_parts_of_a_load_are_one_state_while_others_write(
    harness: MariadbHarness, source: Source
) -> None:
    harness.execute("INSERT INTO t SELECT seq, seq, 'x', 0 FROM seq_2_to_50000")
    load = source.open_load(["t"], 4)
    harness.execute("UPDATE t SET a = 0", "DELETE FROM t WHERE id % 2 = 0")
    assert load.parts("t") == 4
    rows = sum(batch.num_rows for part in range(4) for batch in load.read("t", part))
    load.close()
    assert rows == 50000


def test_a_probe_is_served_by_an_index_though_the_collation_is_loose(
    harness: MariadbHarness,
) -> None:
    from headwater.algebra.values import TEXT
    from headwater.sources.fetch import Fetch, FromItem, Keys, Ref
    from headwater.sources.mariadb.catalog import Wanted
    from headwater.sources.mariadb.statements import statements
    from headwater.sources.mariadb.tables import Tables

    harness.execute(
        "CREATE TABLE w (id int PRIMARY KEY, v varchar(20), n int, INDEX (v))",
        "INSERT INTO w SELECT seq, concat('v', seq), seq FROM seq_1_to_2000",
        "ANALYZE TABLE w",
    )
    source = harness.source(["w"])
    told = source.missing_indexes({"w": [("v",), ("n",), ("id",)]})
    assert len(told) == 1
    assert "(`n`)" in told[0]
    harness.execute(told[0])
    assert source.missing_indexes({"w": [("v",), ("n",)]}) == []
    access = Access("m", "mariadb", harness.dsn)
    with access.connected() as connection:
        tables = Tables(access, Wanted(("w",), {}, {})).read(connection)
        ref = Ref("w", "v", TEXT)
        schema = tables["w"].schema.only(["id"])
        fetch = Fetch((FromItem("w", "w"),), (Ref("w", "id", schema.types[0]),), (), (),
                      (Keys((ref,), (("v7",), ("v8",))),), schema)  # fmt: skip
        (sql,) = statements(fetch, tables)
        plan = run(connection, f"EXPLAIN {sql}")
        assert plan[0][5] == "v"
        assert len(run(connection, sql)) == 2


def test_a_text_that_a_column_cannot_hold_is_found_nowhere(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE w (id int PRIMARY KEY, v varchar(20) CHARACTER SET latin1, INDEX (v))",
        "INSERT INTO w VALUES (1, 'a'), (2, '?')",
    )
    source = harness.source(["w"])
    source.setup()
    assert list(answered(source, "w", "WHERE v = '日本'")) == []
    source.teardown()


def test_tables_whose_names_differ_by_case_alone_are_told_apart(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE `Order` (id int PRIMARY KEY)", "CREATE TABLE `order` (id int PRIMARY KEY)"
    )
    source = harness.source(["Order", "order"])
    source.setup()
    harness.execute("INSERT INTO `Order` VALUES (1)", "INSERT INTO `order` VALUES (2)")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: len(committed(found)) == 2)
    assert net(found, "Order").sorted_items() == [((1,), 1)]
    assert net(found, "order").sorted_items() == [((2,), 1)]


def test_names_of_any_kind_are_followed(harness: MariadbHarness) -> None:
    for name in ("a b", "ümlaut", "it's", "x-y", "T$1"):
        harness.execute(f"CREATE TABLE `{name}` (id int PRIMARY KEY, `a``b` int, `select` int)")
        source = harness.source([name])
        source.setup()
        position = source.open_load([name], 1)
        position.close()
        harness.execute(f"INSERT INTO `{name}` VALUES (1, 2, 3)")
        with reading(source, position.position) as monitor:
            found = read_until(monitor, lambda found: bool(committed(found)))
        assert net(found, name) == answered(source, name) == loaded(source, name)
        harness.execute(f"ALTER TABLE `{name}` DROP COLUMN `a``b`", f"DROP TABLE `{name}`")


def test_an_alter_table_in_two_phases_is_a_gap(harness: MariadbHarness, source: Source) -> None:
    found = after_these(
        harness, source, "SET SESSION binlog_alter_two_phase = 1", "ALTER TABLE t DROP COLUMN a"
    )
    assert {frozenset(gap.columns or {}) for gap in gaps(found)} == {frozenset({"m.t"})}


def test_a_table_that_nobody_uses_may_be_of_any_type(
    harness: MariadbHarness, source: Source
) -> None:
    found = after_these(
        harness,
        source,
        "CREATE TABLE odd (id int, small text COMPRESSED, place polygon, v varchar(9) COMPRESSED)",
        "INSERT INTO odd VALUES (1, 'x', NULL, 'y')",
        "UPDATE t SET a = 3",
    )
    assert gaps(found) == []
    assert len(net(found, "t")) == 2


def test_a_server_of_another_kind_is_told(harness: MariadbHarness) -> None:
    with pytest.raises(SourceError, match='kind = "mariadb"'):
        harness.source(["t"], kind="mysql").relations()


def test_a_question_that_meets_an_alter_table_holds_nobody_up(
    harness: MariadbHarness, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when one session holds the table and the other has not read it yet."""
    altering: list[threading.Thread] = []

    def alter() -> None:
        harness.execute("ALTER TABLE t ADD COLUMN z int")

    def held_up(*arguments: Any, **more: Any) -> Any:
        place = begin(*arguments, **more)
        if not altering:
            altering.append(threading.Thread(target=alter))
            altering[0].start()
            deadline = time.monotonic() + 60
            while "metadata lock" not in str(harness.contents_of("", "SHOW PROCESSLIST")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        return place

    monkeypatch.setattr("headwater.sources.mariadb.wrapper.begin", held_up)
    described = source.relations()["t"]
    query = query_of(parse_view("SELECT id, a, b FROM t", [described]))
    wrapper = source.open_wrapper()
    with pytest.raises(LostConnectionError, match="for now"):
        wrapper.ask([query])
    altering[0].join(timeout=60)
    assert not altering[0].is_alive()
    (answer,) = wrapper.ask([query]).results
    assert len(answer) == 1
    wrapper.close()


@pytest.mark.parametrize(
    ("mode", "statement"),
    [
        (
            "NO_BACKSLASH_ESCAPES",
            r"ALTER TABLE t COMMENT 'C:\', DROP a, ADD a int DEFAULT 7 COMMENT 'x'",
        ),
        ("ANSI_QUOTES", r'ALTER TABLE t RENAME INDEX "n\" TO "m", DROP a, ADD "a" int DEFAULT 7'),
    ],
)
def test_backslashes_that_escape_nothing_hide_no_statement(
    harness: MariadbHarness, source: Source, mode: str, statement: str
) -> None:
    harness.execute(r"ALTER TABLE t ADD INDEX `n\` (c)")
    found = after_these(harness, source, f"SET sql_mode = '{mode}'", statement)
    assert {name for gap in gaps(found) for name in gap.columns or ()} >= {"m.t"}


def test_a_statement_in_another_character_set_is_a_gap(harness: MariadbHarness) -> None:
    harness.execute("CREATE TABLE `bücher` (id int PRIMARY KEY)", "CREATE TABLE u (id int, a int)")
    source = harness.source(["bücher", "u"])
    source.setup()
    try:
        found = after_these(harness, source, "SET NAMES latin1", "TRUNCATE bücher".encode("latin1"))
        assert {name for gap in gaps(found) for name in gap.columns or ()} >= {"m.bücher"}
    finally:
        source.teardown()


def test_texts_beside_geometries_are_read(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE places (id int PRIMARY KEY, p point, b blob, t varchar(9) CHARSET latin1)",
        "CREATE TABLE u (id int PRIMARY KEY, a int)",
    )
    source = harness.source(["places", "u"]).narrowed({"places": ["id", "t"], "u": ["id", "a"]})
    source.setup()
    try:
        found = after_these(harness, source, "INSERT INTO places VALUES (1, point(1, 2), 'x', 'ä')")
        assert net(found, "places") == loaded(source, "places")
    finally:
        source.teardown()


def test_a_savepoint_is_known_by_its_whole_name(harness: MariadbHarness, source: Source) -> None:
    harness.execute("CREATE TABLE other (id int) ENGINE = MyISAM")
    found = after_these(
        harness,
        source,
        "BEGIN",
        "INSERT INTO t VALUES (10, 1, 'a', 1)",
        "SAVEPOINT `a x`",
        "INSERT INTO t VALUES (11, 1, 'a', 1)",
        "SAVEPOINT `b x`",
        "INSERT INTO t VALUES (12, 1, 'a', 1)",
        "INSERT INTO other VALUES (1)",
        "ROLLBACK TO `a x`",
        "COMMIT",
    )
    assert {row[0] for row in net(found, "t")} == {10}


def test_savepoints_whose_names_may_be_one_are_a_gap(
    harness: MariadbHarness, source: Source
) -> None:
    harness.execute("CREATE TABLE other (id int) ENGINE = MyISAM")
    found = after_these(
        harness,
        source,
        "BEGIN",
        "INSERT INTO t VALUES (10, 1, 'a', 1)",
        "SAVEPOINT Ä",
        "INSERT INTO other VALUES (1)",
        "ROLLBACK TO a",
        "COMMIT",
    )
    assert {name for gap in gaps(found) for name in gap.columns or ()} >= {"m.t"}


def test_partitions_may_come_and_be_put_together(harness: MariadbHarness, source: Source) -> None:
    harness.execute(
        "CREATE TABLE p (id int PRIMARY KEY, a int) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    )
    parted = harness.source(["p", "u"])
    parted.setup()
    found = after_these(
        harness,
        parted,
        "INSERT INTO p VALUES (1, 1)",
        "ALTER TABLE p ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))",
        "ALTER TABLE p REORGANIZE PARTITION p0, p1 INTO (PARTITION q VALUES LESS THAN (20))",
        "INSERT INTO p VALUES (25, 2)",
    )
    assert not gaps(found)
    assert changes(found, "p") == [((1, 1), 1), ((25, 2), 1)]


def test_a_value_that_is_no_text_is_told_with_its_row(
    harness: MariadbHarness, source: Source
) -> None:
    harness.execute("CREATE TABLE w (id int PRIMARY KEY, s varchar(9) CHARACTER SET ucs2)")
    wide = harness.source(["w", "u"])
    wide.setup()
    found = after_these(harness, wide, "INSERT INTO w VALUES (7, 'a'), (8, _ucs2 0xD800)")
    (gap,) = gaps(found)
    assert "column s" in gap.reason
    assert "in the row with id = 8" in gap.reason
    with pytest.raises(SourceError, match="in the row with id = "):
        loaded(wide, "w")


def test_times_in_an_old_format_are_a_gap_of_their_table(alone: MariadbHarness) -> None:
    alone.execute(
        "SET GLOBAL mysql56_temporal_format = OFF",
        "CREATE TABLE o (id int PRIMARY KEY, at datetime(3))",
        "ALTER TABLE u ADD PRIMARY KEY (id)",
        "SET GLOBAL mysql56_temporal_format = ON",
    )
    old = alone.source(["o", "u"])
    old.setup()
    found = after_these(alone, old, "INSERT INTO o VALUES (1, '2024-01-02 03:04:05.678')")
    (gap,) = gaps(found)
    assert ".o: its column at has the format of times before MariaDB 10.1" in gap.reason
    assert "ALTER TABLE" in gap.reason
    found = after_these(alone, old, "ALTER TABLE o FORCE", "INSERT INTO o VALUES (2, '2024-01-02')")
    assert len(changes(found, "o")) == 1


def test_a_gap_that_nothing_follows_is_not_read_again(
    harness: MariadbHarness, source: Source
) -> None:
    position = here(source)
    harness.execute("ALTER TABLE t DROP COLUMN b")
    with reading(source, position) as monitor:
        found = read_until(monitor, lambda items: bool(gaps(items)) and _ends_with_progress(items))
    last = found[-1]
    assert isinstance(last, Progressed)
    assert not gaps(read_to_the_end(harness, source, last.position))


def _ends_with_progress(found: Sequence[Logged]) -> bool:
    return isinstance(found[-1], Progressed)


def test_a_table_that_the_server_cannot_open_just_now_is_looked_at_again() -> None:
    access = Access("m", "mariadb", "")  # nothing is asked
    with pytest.raises(LostConnectionError, match="just now"):
        check_sort(access, "db.t", Found("BASE TABLE", "", 0, 0))
