from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from headwater.embedded.postgres import PostgresServer
from headwater.errors import BrokenLogError
from headwater.sources.contract import Committed, Logged, Position, Progressed
from headwater.sources.postgres.pgoutput import parse_lsn
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, committed, read_log


@dataclass
class World:
    """A server whose files can be put back, with a source that has been read for a while."""

    server: PostgresServer
    harness: PostgresHarness
    source: PostgresSource

    @property
    def backup(self) -> Path:
        return self.server.folder / "backup"

    @property
    def data(self) -> Path:
        return self.server.folder / "data"

    def insert(self, number: int) -> None:
        self.server.execute(f"INSERT INTO a VALUES ({number}, 'x')", database=self.harness.name)

    def write_elsewhere(self, kilobytes: int) -> None:
        """Make the log longer by what nobody follows."""
        self.server.execute(
            f"INSERT INTO other SELECT 1, repeat('x', 1000) FROM generate_series(1, {kilobytes})",
            database=self.harness.name,
        )

    def read(self, after: Position | None, count: int) -> Position:
        """Read so many transactions, to the end of the log; the position there, acknowledged."""
        monitor = self.source.open_monitor(after)
        logged: list[Logged] = []
        while (more := monitor.read(1.0)) or not logged or len(committed(logged)) < count:
            logged += more
        position = [i for i in logged if isinstance(i, Committed | Progressed)][-1].position
        monitor.acknowledge(position)
        monitor.read(0.1)
        monitor.close()
        return position

    def take_backup(self) -> None:
        self.server.halt()
        subprocess.run(["cp", "-a", str(self.data), str(self.backup)], check=True)
        self.server.start()

    def restore(self) -> None:
        self.server.halt()
        subprocess.run(["rm", "-rf", str(self.data)], check=True)
        subprocess.run(["cp", "-a", str(self.backup), str(self.data)], check=True)
        self.server.start()

    def promote(self) -> None:
        """Start anew as a standby would that is promoted: on the next timeline."""
        self.server.halt()
        settings = self.data / "postgresql.conf"
        settings.write_text(settings.read_text() + "restore_command = '/bin/false'\n")
        subprocess.run(
            ["cp", "-a", str(self.data / "PG_VERSION"), str(self.data / "recovery.signal")],
            check=True,
        )
        self.server.start()
        with psycopg.connect(self.server.dsn()) as connection:
            for _ in range(600):
                row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
                if row == (False,):
                    return
                time.sleep(0.1)
        raise AssertionError("it does not leave recovery")


@pytest.fixture
def world() -> Iterator[World]:
    server = PostgresServer(18)
    harness = PostgresHarness(server)
    harness.create_table("a", LINES, ["id"])
    harness.create_table("other", LINES)
    source = harness.source(["a"])
    source.setup()
    yield World(server, harness, source)
    server.stop()


def test_a_server_that_only_restarted_is_read_on(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.server.halt("immediate")
    world.server.start()
    world.insert(2)
    monitor = world.source.open_monitor(position)
    (item,) = read_log(monitor, 1)
    assert dict(local(item.transaction)["a"].items()) == {(2, "x"): 1}
    monitor.close()


def test_a_data_folder_put_back_is_noticed_while_its_log_is_shorter(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.take_backup()
    world.write_elsewhere(3000)
    world.insert(2)
    position = world.read(position, 1)
    world.restore()
    with pytest.raises(BrokenLogError, match="restored to an earlier state"):
        world.source.open_monitor(position)


def test_a_data_folder_put_back_is_noticed_when_its_log_has_grown_past_the_position(
    world: World,
) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.take_backup()
    world.insert(2)
    position = world.read(position, 1)
    world.restore()
    world.insert(3)
    world.write_elsewhere(3000)
    monitor = world.source.open_monitor(position)
    with pytest.raises(BrokenLogError, match=r"restored from a copy.*headwater repair pg"):
        read_log(monitor, 1)
    monitor.close()


def test_a_data_folder_put_back_is_noticed_though_nothing_was_read_since(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.take_backup()
    world.write_elsewhere(1000)
    moved = world.read(position, 0)
    assert parse_lsn(str(moved["lsn"])) > parse_lsn(str(position["lsn"]))
    world.restore()
    world.insert(3)
    world.write_elsewhere(3000)
    monitor = world.source.open_monitor(moved)
    with pytest.raises(BrokenLogError, match="restored from a copy"):
        read_log(monitor, 1)
    monitor.close()


def test_a_copy_of_a_server_is_told_from_it_by_nodes(world: World) -> None:
    world.take_backup()
    identity = world.source.identity()
    assert world.source.identity() == identity
    world.restore()
    assert world.source.identity() != identity


def test_a_node_that_reads_another_log_of_the_server_is_told_from_one_that_reads_the_same(
    world: World,
) -> None:
    other = world.harness.source(["a"], changes="triggers")
    assert other.identity() != world.source.identity()


def test_a_promoted_standby_that_had_everything_is_read_on(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.promote()
    world.insert(2)
    monitor = world.source.open_monitor(position)
    (item,) = read_log(monitor, 1)
    assert dict(local(item.transaction)["a"].items()) == {(2, "x"): 1}
    assert str(item.position["server"]).endswith("/2")
    monitor.close()


def test_a_promoted_standby_that_was_behind_is_noticed(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.take_backup()
    world.insert(2)
    position = world.read(position, 1)
    world.restore()
    world.promote()
    world.write_elsewhere(3000)
    with pytest.raises(BrokenLogError, match="a standby was promoted that was behind"):
        world.source.open_monitor(position)


def test_another_server_is_noticed(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.server.stop()
    other = PostgresServer(16)
    try:
        harness = PostgresHarness(other)
        harness.create_table("a", LINES, ["id"])
        source = harness.source(["a"])
        source.setup()
        with pytest.raises(BrokenLogError, match="another server"):
            source.open_monitor(position)
    finally:
        other.stop()


def test_a_slot_that_was_made_anew_is_noticed(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.source.teardown()
    world.insert(2)
    world.source.setup()
    with pytest.raises(BrokenLogError, match="acknowledged and is gone"):
        world.source.open_monitor(position)


def test_a_slot_that_the_server_gave_up_is_told(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    world.server.reload(max_slot_wal_keep_size="'1MB'")
    for _ in range(3):
        world.server.execute("SELECT pg_switch_wal()", "CHECKPOINT")
        world.write_elsewhere(20_000)
    world.server.execute("SELECT pg_switch_wal()", "CHECKPOINT", "CHECKPOINT")
    with pytest.raises(BrokenLogError, match="max_slot_wal_keep_size"):
        world.source.open_monitor(position)


def test_a_position_of_an_earlier_version_is_refused(world: World) -> None:
    world.insert(1)
    position = world.read(None, 1)
    with pytest.raises(BrokenLogError, match="written by an earlier version"):
        world.source.open_monitor({"lsn": position["lsn"]})
