"""What a view takes in: known by source and number, together where the level allows it, once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.pipeline.reflected import Reflected
from headwater.sources.contract import Committed, Logged, Monitor, Position, Reader
from headwater.sources.sqlite.source import SqliteSource
from headwater.warehouse.vectors import Reached
from tests.pipeline.small import AMOUNTS, NOTES, Small, running, wait_until

BOTH = """
    CREATE MATERIALIZED VIEW bought WITH COMPLETE CONSISTENCY AS
    SELECT c.name, o.amount FROM crm.customers c JOIN shop.orders o ON o.id = c.id
"""


class Renamed:
    """A monitor that calls every transaction by the same name as those of other sources."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._count = 0

    def read(self, timeout_s: float) -> Sequence[Logged]:
        return [self._called(item) for item in self._monitor.read(timeout_s)]

    def _called(self, item: Logged) -> Logged:
        if not isinstance(item, Committed):
            return item
        self._count += 1
        return replace(item, transaction=replace(item.transaction, id=f"{self._count}"))

    def acknowledge(self, position: Position) -> None:
        self._monitor.acknowledge(position)

    def close(self) -> None:
        self._monitor.close()


def test_transactions_of_two_sources_may_have_one_name(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = SqliteSource.open_monitor

    def open_monitor(
        self: SqliteSource, after: Position | None, reader: Reader | None = None
    ) -> Monitor:
        return Renamed(opened(self, after, reader))

    monkeypatch.setattr(SqliteSource, "open_monitor", open_monitor)
    small = Small(tmp_path, {"bought": BOTH})
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["bought"].state == "running")
        for amount in range(11, 31):
            small.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 1")
            small.write("crm", f"UPDATE customers SET name = 'Ada {amount}' WHERE id = 1")
        wait_until(lambda: small.rows("bought") == {("Ada 30", 30)}, runner.describe)
    commits = [c for c in small.warehouse.view("bought").commits() if c.kind == "change"]
    assert len(commits) == 40
    assert all(len(commit.added) == 1 for commit in commits)


def test_what_waits_for_a_view_that_asks_nothing_is_committed_together(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS, "notes": NOTES})
    small.run(spark)
    loaded = small.warehouse.view("amounts").latest().number
    away = tmp_path / "amounts.sql"
    small.view_file("amounts").rename(away)
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["notes"].state == "running")
        for number in range(200):
            change = f"note = 'n{number}', amount = {number}"
            small.write("shop", f"UPDATE orders SET {change} WHERE id = 1")
        wait_until(lambda: (1, "n199") in small.rows("notes"))
        assert runner.feeds["shop"].channel.end > 100  # each by itself
    away.rename(small.view_file("amounts"))
    small.run(spark)
    assert small.rows("amounts") == {(1, 199), (2, 20)}
    commits = [
        commit
        for commit in small.warehouse.view("amounts").commits()
        if commit.kind == "change" and commit.number > loaded
    ]
    assert len(commits) < 50


def test_transactions_that_were_in_early_stay_in_after_a_restart() -> None:
    progress = Reflected({"x": Reached(3, None, (5, 7))})
    assert [n for n in range(4, 9) if progress.was_early("x", n)] == [5, 7]
    take_in(progress, 4)
    assert progress.vector["x"] == Reached(5, None, (7,))
    take_in(progress, 5)
    take_in(progress, 6)
    assert progress.vector["x"].number == 7


def take_in(progress: Reflected, number: int) -> None:
    progress.receive("x", number, {"at": number})
    progress.reflect("x", number)


def test_a_view_that_nothing_concerns_comes_along() -> None:
    progress = Reflected({"x": Reached(3, {"at": 3})})
    progress.move_on("x", 9, {"at": 9})
    assert progress.vector["x"] == Reached(9, {"at": 9})
    progress.receive("x", 20, {"at": 20})
    progress.receive("x", 30, {"at": 30})
    progress.move_on("x", 40)
    assert progress.vector["x"].number == 19
    progress.reflect("x", 30)
    assert progress.vector["x"] == Reached(19, None, (30,))
    progress.reflect("x", 20)
    assert progress.vector["x"] == Reached(40, None)
