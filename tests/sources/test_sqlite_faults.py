"""What happens to a SQLite file behind our back: followed exactly, or said in a sentence."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.channel import Channel
from headwater.sources.contract import Broken, Committed, Logged, Monitor, Position, Reader
from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.source import SqliteSource
from headwater.testing.harness import local
from tests.sources.sqlite_harness import SqliteHarness
from tests.sources.sqlite_reading import committed, drain

KVW = Schema.of([("k", INT), ("v", TEXT), ("w", INT)])
ONE, TWO = "0000000a", "12345678"


@pytest.fixture
def harness() -> Iterator[SqliteHarness]:
    harness = SqliteHarness()
    harness.create_table("t", KVW, ["k"])
    harness.create_table("u", KVW, ["k"])
    yield harness
    harness.close()


@pytest.fixture
def source(harness: SqliteHarness) -> SqliteSource:
    source = harness.source(["t", "u"])
    source.setup()
    return source


def everything(monitor: Monitor) -> list[Logged]:
    found: list[Logged] = []
    while logged := monitor.read(0):
        found += logged
    return found


def gaps(logged: list[Logged]) -> list[Broken]:
    return [item for item in logged if isinstance(item, Broken)]


def rows(logged: list[Logged], relation: str = "t") -> list[tuple[object, ...]]:
    return [
        row
        for item in logged
        if isinstance(item, Committed)
        for row in local(item.transaction).get(relation, ())
    ]


def opened(source: SqliteSource, after: Position | None) -> list[Logged]:
    monitor = source.open_monitor(after)
    try:
        return everything(monitor)
    finally:
        monitor.close()


def copied(path: Path, name: str) -> Path:
    """A backup of a database, as SQLite itself makes one."""
    backup = path.with_name(name)
    origin, copy = sqlite3.connect(path), sqlite3.connect(backup)
    origin.backup(copy)
    origin.close()
    copy.close()
    return backup


def restore(harness: SqliteHarness, backup: Path) -> None:
    """Put a backup in the place of the file, as one does with the application stopped."""
    harness.release()
    for suffix in ("-wal", "-shm"):
        harness.path.with_name(harness.path.name + suffix).unlink(missing_ok=True)
    shutil.copyfile(backup, harness.path.with_name("new"))
    harness.path.with_name("new").rename(harness.path)


# A file that was restored


def test_a_file_that_was_restored_and_written_to_again_is_noticed(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    backup = copied(harness.path, "backup")
    writer.execute("INSERT INTO t VALUES (2, 'y', 1)")
    position = committed(source)[-1].position
    restore(harness, backup)
    with pytest.raises(BrokenLogError, match=r"ahead of the log.*headwater repair s"):
        source.open_monitor(position)
    harness.writer().execute("INSERT INTO t VALUES (3, 'z', 1)")
    with pytest.raises(BrokenLogError, match=r"change 2 .* restored .*headwater repair s"):
        source.open_monitor(position)


def test_a_restored_file_that_has_all_that_was_read_goes_on(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    position = committed(source)[-1].position
    backup = copied(harness.path, "backup")
    writer.execute("INSERT INTO t VALUES (2, 'lost', 1)")
    restore(harness, backup)
    harness.writer().execute("INSERT INTO t VALUES (3, 'z', 1)")
    assert rows(opened(source, position)) == [(3, "z", 1)]


def test_a_file_that_is_swapped_while_it_is_read_is_looked_at_again(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    backup = copied(harness.path, "backup")
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    position = drain(monitor)[-1].position
    restore(harness, backup)
    harness.writer().execute("INSERT INTO t VALUES (2, 'y', 1)")
    with pytest.raises(LostConnectionError):
        drain(monitor)
    monitor.close()
    with pytest.raises(BrokenLogError, match="restored"):
        source.open_monitor(position)


def test_another_file_in_the_place_of_the_one_that_was_set_up_is_told_with_one_remedy(
    harness: SqliteHarness, source: SqliteSource, tmp_path: Path
) -> None:
    monitor = source.open_monitor(None)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v, w)")
    other.close()
    for end in ("-wal", "-shm"):
        Path(f"{harness.path}{end}").unlink()
    (tmp_path / "other.db").replace(harness.path)
    with pytest.raises(LostConnectionError, match="was replaced"):
        drain(monitor)
    monitor.close()
    with pytest.raises(LostConnectionError, match="Put the right file back; or") as told:
        source.open_monitor(None)
    assert "headwater repair s" in str(told.value)
    assert "setup" not in str(told.value)
    source.set_up_again()
    source.open_monitor(None).close()


def test_a_file_that_is_restored_in_place_while_it_is_read_is_noticed(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    backup = copied(harness.path, "backup")
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    assert len(drain(monitor)) == 1
    origin, copy = sqlite3.connect(backup), sqlite3.connect(harness.path)
    origin.backup(copy)
    copy.execute("INSERT INTO t VALUES (2, 'y', 1)")
    copy.commit()
    with pytest.raises(BrokenLogError, match="restored from an earlier state"):
        drain(monitor)
    monitor.close()
    origin.close()
    copy.close()


def test_a_position_of_an_earlier_version_is_refused(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    (item,) = committed(source)
    old = {key: value for key, value in item.position.items() if key != "nonce"}
    with pytest.raises(BrokenLogError, match="headwater repair s"):
        source.open_monitor(old)


# Several that read one file


def test_two_warehouses_follow_one_file_each_at_its_own_place(harness: SqliteHarness) -> None:
    one, two = (harness.source(["t"], owner=owner) for owner in (ONE, TWO))
    one.setup()
    two.setup()
    writer = harness.writer()
    for n in range(3):
        writer.execute("INSERT INTO t VALUES (?, 'x', 1)", (n,))
    first = one.open_monitor(None)
    found = drain(first)
    first.acknowledge(found[-1].position)
    first.close()
    assert len(found) == 3
    assert rows(opened(two, None)) == [(n, "x", 1) for n in range(3)]
    assert [log.owner for log in one.other_logs()] == [TWO]


def test_a_log_whose_warehouse_is_gone_is_removed_by_its_owner(harness: SqliteHarness) -> None:
    one, two = (harness.source(["t"], owner=owner) for owner in (ONE, TWO))
    one.setup()
    two.setup()
    one.remove_log(TWO)
    assert one.other_logs() == []
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    assert rows(opened(one, None)) == [(1, "x", 1)]
    with pytest.raises(SourceError, match=r"not set up.*headwater setup s"):
        two.open_monitor(None)
    two.setup()
    two.open_monitor(None).close()


def test_a_reader_that_was_replaced_by_a_copy_stops_with_a_sentence(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    first = source.open_monitor(None, Reader("here", 7))
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    assert len(drain(first)) == 1
    copy = harness.source(["t", "u"]).open_monitor(None, Reader("there", 3))
    with pytest.raises(SourceError, match=r"another runner \(there, epoch 3\)"):
        drain(first)
    first.close()
    assert len(drain(copy)) == 1
    copy.close()


def test_a_later_epoch_replaces_an_earlier_one_and_not_the_other_way_round(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    source.open_monitor(None, Reader("here", 7)).close()
    later = source.open_monitor(None, Reader("here", 8))
    with pytest.raises(SourceError, match="a later runner of the same warehouse"):
        source.open_monitor(None, Reader("here", 7))
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    assert len(drain(later)) == 1
    later.close()


def test_a_reader_that_was_replaced_prunes_nothing(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    harness.writer().execute("INSERT INTO t VALUES (1, 'x', 1)")
    first = source.open_monitor(None, Reader("here", 7))
    (item,) = drain(first)
    copy = harness.source(["t", "u"]).open_monitor(None, Reader("there", 3))
    first.acknowledge(item.position)
    first.close()
    copy.close()
    assert len(committed(source)) == 1


# Columns and tables that change


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN x JSON",
        "ALTER TABLE t DROP COLUMN w",
        "ALTER TABLE t RENAME COLUMN w TO x",
        "CREATE INDEX i ON t (v)",
        "CREATE TRIGGER x BEFORE INSERT ON t BEGIN SELECT 1; END",
        "CREATE TRIGGER x AFTER INSERT ON u BEGIN SELECT 1; END",
    ],
)
@pytest.mark.parametrize("is_running", [True, False])
def test_what_no_view_uses_may_change(
    harness: SqliteHarness, statement: str, is_running: bool
) -> None:
    source = harness.source(["t"]).narrowed({"t": ["v"]})
    source.setup()
    writer = harness.writer()
    monitor = source.open_monitor(None) if is_running else None
    writer.execute("INSERT INTO t (k, v) VALUES (1, 'x')")
    writer.execute(statement)
    writer.execute("INSERT INTO t (k, v) VALUES (2, 'y')")
    monitor = monitor or source.open_monitor(None)
    logged = everything(monitor)
    monitor.close()
    assert rows(logged) == [(1, "x"), (2, "y")]
    assert gaps(logged) == []


@pytest.mark.parametrize("is_running", [True, False])
def test_a_used_column_that_is_renamed_breaks_itself_and_nothing_else(
    harness: SqliteHarness, source: SqliteSource, is_running: bool
) -> None:
    writer = harness.writer()
    monitor = source.open_monitor(None) if is_running else None
    writer.execute("INSERT INTO t VALUES (1, 'x', 7)")
    if monitor is not None:
        assert rows(everything(monitor)) == [(1, "x", 7)]
    writer.execute("ALTER TABLE t RENAME COLUMN v TO x")
    writer.execute("INSERT INTO t VALUES (2, 'y', 8)")
    writer.execute("INSERT INTO u VALUES (3, 'z', 9)")
    wanted = source.narrowed({"t": ["v", "w"], "u": ["k", "v", "w"]})
    monitor = monitor or wanted.open_monitor(None)
    logged = everything(monitor)
    monitor.close()
    assert rows(logged)[-1] == (2, 8)
    assert rows(logged, "u") == [(3, "z", 9)]
    (gap,) = gaps(logged)
    short = [rows([item]) == [(2, 8)] for item in logged]
    assert logged.index(gap) < short.index(True), "no row comes without a column before the gap"
    assert gap.columns == {"s.t": frozenset({"v"})}
    assert "headwater setup" not in gap.reason  # it is told after it was done, too


def test_after_another_setup_a_renamed_column_is_logged_under_its_new_name(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x', 7)")
    writer.execute("ALTER TABLE t RENAME COLUMN v TO x")
    with pytest.raises(SourceError, match=r"column x of table t is not .*headwater setup"):
        source.open_monitor(None)
    source.setup()
    writer.execute("INSERT INTO t VALUES (2, 'y', 8)")
    logged = opened(source, None)
    assert rows(logged) == [(1, 7), (2, "y", 8)]
    (gap,) = gaps(logged)
    assert gap.columns == {"s.t": frozenset({"v"})}
    assert gap.stamp is not None


def test_columns_that_exchange_their_names_are_noticed(harness: SqliteHarness) -> None:
    writer = harness.writer()
    writer.execute("CREATE TABLE x (k INTEGER PRIMARY KEY, a TEXT, b TEXT)")
    source = harness.source(["x"])
    source.setup()
    for one, other in (("a", "c"), ("b", "a"), ("c", "b")):
        writer.execute(f"ALTER TABLE x RENAME COLUMN {one} TO {other}")
    (gap,) = gaps(opened(source, None))
    assert gap.columns == {"s.x": frozenset({"a", "b"})}


def test_a_column_that_a_view_comes_to_use_is_logged_after_another_setup(
    harness: SqliteHarness,
) -> None:
    whole = harness.source(["t"])
    whole.narrowed({"t": ["v"]}).setup()
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x', 7)")
    wider = whole.narrowed({"t": ["v", "w"]})
    with pytest.raises(SourceError, match=r"column w of table t is not .*headwater setup"):
        wider.open_monitor(None)
    wider.setup()
    assert wider.setup_statements() == []
    writer.execute("INSERT INTO t VALUES (2, 'y', NULL)")
    logged = opened(wider, None)
    assert rows(logged) == [(1, "x"), (2, "y", None)]
    assert gaps(logged) == []


REBUILT = [
    "CREATE TABLE new (k INTEGER PRIMARY KEY, v TEXT, w INTEGER)",
    "INSERT INTO new SELECT k, v, w + 1 FROM t",
    "DROP TABLE t",
    "ALTER TABLE new RENAME TO t",
]
BROKEN = {
    "rebuilt": (REBUILT, "lost the trigger"),
    "dropped": (["DROP TABLE t"], "no table t"),
    "renamed": (["ALTER TABLE t RENAME TO x"], "no table t"),
    "without a trigger": (["DROP TRIGGER _headwater_1_delete"], "lost the trigger"),
    "with a new unique index": (["CREATE UNIQUE INDEX i ON t (v)"], "new unique index"),
    "with a younger trigger": (
        ["CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET w = 1; END"],
        "trigger x of table t is younger",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_table_whose_changes_were_not_seen_is_broken_and_others_go_on(
    harness: SqliteHarness, source: SqliteSource, name: str
) -> None:
    statements, says = BROKEN[name]
    monitor = source.open_monitor(None)
    writer = harness.writer()
    for statement in statements:
        writer.execute(statement)
    writer.execute("INSERT INTO u VALUES (1, 'x', 1)")
    logged = everything(monitor)
    monitor.close()
    (gap,) = gaps(logged)
    assert gap.columns == {"s.t": None}
    assert says in gap.reason
    assert rows(logged, "u") == [(1, "x", 1)]


def test_a_key_that_nothing_keeps_any_more_is_a_gap_before_rows_that_share_it(
    harness: SqliteHarness,
) -> None:
    writer = harness.writer()
    writer.execute("CREATE UNIQUE INDEX kept ON t (w)")
    source = harness.source(["t", "u"], keys={"t": ["w"]})
    source.setup()
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    assert gaps(everything(monitor)) == []
    writer.execute("DROP INDEX kept")
    writer.execute("INSERT INTO t VALUES (2, 'y', 1)")
    (gap,) = gaps(everything(monitor))
    monitor.close()
    assert gap.columns == {"s.t": frozenset({"w"})}
    assert "keeps its key (w) unique any more" in gap.reason
    with pytest.raises(SourceError, match=r"keeps the key \(w\) .*CREATE UNIQUE INDEX"):
        harness.source(["t"], keys={"t": ["w"]}).setup()


def test_a_table_that_was_dropped_between_runs_does_not_stop_the_others(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    writer.execute("DROP TABLE t")
    writer.execute("INSERT INTO u VALUES (1, 'x', 1)")
    monitor, wrapper = source.open_monitor(None), source.open_wrapper()
    logged = everything(monitor)
    assert [gap.columns for gap in gaps(logged)] == [{"s.t": None}]
    assert rows(logged, "u") == [(1, "x", 1)]
    wrapper.ask([])
    wrapper.close()
    writer.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, w TEXT)")
    with pytest.raises(LostConnectionError, match="made anew"):
        drain(monitor)
    monitor.close()
    source.setup()
    writer.execute("INSERT INTO t VALUES (1, 'x', 'y')")
    assert rows(opened(source, logged[-1].position)) == [(1, "x", "y")]  # type: ignore[union-attr]


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in ("dropped", "renamed")])
def test_a_gap_is_in_the_log_although_nobody_looked_before_the_next_setup(
    harness: SqliteHarness, source: SqliteSource, name: str
) -> None:
    writer = harness.writer()
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    for statement in BROKEN[name][0]:
        writer.execute(statement)
    writer.execute("DELETE FROM t")
    with pytest.raises(SourceError, match="headwater setup s"):
        source.open_load(["t"], 1)
    source.setup()
    load = source.open_load(["t"], 1)
    writer.execute("INSERT INTO t VALUES (5, 'y', 1)")
    logged = opened(source, None)
    (gap,) = gaps(logged)
    assert gap.columns == {"s.t": None}
    assert gap.stamp is not None
    assert load.snapshot.includes(gap.stamp)
    load.close()
    after = logged[logged.index(gap) + 1 :]
    assert [row[:2] for row in rows(after)] == [(5, "y")]
    assert opened(source, gap.position)[-len(after) :] == after


def test_a_warehouse_that_was_deleted_is_told_to_set_up_and_can(harness: SqliteHarness) -> None:
    harness.source(["t"], owner=ONE).setup()
    anew = harness.source(["t"], owner=TWO)
    for attempt in (lambda: anew.open_monitor(None), lambda: anew.open_load(["t"], 1)):
        with pytest.raises(SourceError, match=r"not set up.*Run 'headwater setup s'"):
            attempt()
    anew.setup()
    anew.open_monitor(None).close()
    anew.open_load(["t"], 1).close()


# Transactions that cannot be told apart


def test_a_unit_of_several_transactions_says_where_it_begins(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer = harness.writer()
    for n in range(3):
        writer.execute("INSERT INTO t VALUES (?, 'x', 1)", (n,))
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (item,) = committed(source)
    assert item.stamps == (1, 3)
    assert "while no runner is up" in source.limits


def test_a_snapshot_between_two_transactions_that_became_one_does_not_fit(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer, wrapper = harness.writer(), source.open_wrapper()
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    between = wrapper.ask([]).snapshot
    writer.execute("INSERT INTO t VALUES (2, 'y', 1)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    behind = wrapper.ask([]).snapshot
    wrapper.close()
    channel = Channel(source)
    subscription = channel.subscribe(lambda delivery: None, paused=True)
    channel.start()
    try:
        channel.catch_up()
        assert channel.end == 1
        assert subscription.split(between, 0) is None
        assert subscription.split(behind, 0) == 1
    finally:
        channel.close()


def test_a_vacuum_under_a_busy_monitor_says_what_it_merged(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    writer, wrapper = harness.writer(), source.open_wrapper()
    source.teardown()
    writer.execute("CREATE TABLE a (b)")
    source.setup()
    writer.execute("DROP TABLE a")  # a free page in front of the log, which a VACUUM fills
    monitor = source.open_monitor(None)
    writer.execute("INSERT INTO t VALUES (1, 'x', 1)")
    between = wrapper.ask([]).snapshot
    writer.execute("INSERT INTO t VALUES (2, 'y', 1)")
    writer.execute("VACUUM")
    (item,) = [item for item in everything(monitor) if isinstance(item, Committed)]
    assert [between.includes(stamp) for stamp in item.stamps] == [True, False]
    monitor.close()
    wrapper.close()


def test_triggers_that_vanish_without_a_new_version_of_the_schema_are_missed(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    monitor.read(0)
    writer = harness.writer()
    writer.execute("PRAGMA writable_schema = 1")
    writer.execute("DELETE FROM sqlite_master WHERE name = '_headwater_1_insert'")
    (gap,) = monitor.read(0)
    assert isinstance(gap, Broken)
    assert "has lost the trigger _headwater_1_insert" in gap.reason
    monitor.close()


EVIL = (
    "CREATE TRIGGER evil AFTER UPDATE ON _Headwater_head BEGIN "
    "UPDATE _headwater_head SET seq = seq; END"
)


def test_a_trigger_on_the_log_itself_is_noticed_beside_a_monitor(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    monitor = source.open_monitor(None)
    monitor.read(0)
    harness.writer().execute(EVIL)
    with pytest.raises(BrokenLogError, match=r"trigger evil .* Run 'headwater repair s'"):
        monitor.read(0)
    monitor.close()


@pytest.mark.parametrize("name", ["evil", "_headwater_99_evil", "_headwater_2_evil"])
def test_a_trigger_on_the_log_itself_is_refused_until_the_source_is_repaired(
    harness: SqliteHarness, source: SqliteSource, name: str
) -> None:
    harness.writer().execute(EVIL.replace("evil", name))
    for use in (
        lambda: source.open_monitor(None),
        lambda: source.open_wrapper().ask([]),
        lambda: source.open_load(["t"], 1),
        source.setup,
    ):
        with pytest.raises(BrokenLogError, match=f"trigger {name} "):
            use()
    source.set_up_again()
    source.open_monitor(None).close()


def test_a_repair_of_one_table_of_a_log_removes_foreign_triggers_first(
    harness: SqliteHarness, source: SqliteSource
) -> None:
    harness.writer().execute(
        EVIL.replace("UPDATE ON _Headwater_head", "DELETE ON _headwater_column")
    )
    harness.source(["t"]).set_up_again()
    source.open_monitor(None).close()


def test_the_file_on_a_copy_of_the_disk_is_told_from_it_by_nodes(
    source: SqliteSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = source.identity()
    assert source.identity() == identity
    monkeypatch.setattr(Access, "machine", lambda access: "another, where the disk was copied to")
    assert source.identity() != identity
