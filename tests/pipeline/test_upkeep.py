"""The upkeep of a warehouse goes on where something cannot be done for a view just now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from headwater.frames.engine import Engine
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.upkeep import Unpublished, Upkeep
from headwater.protocol.transactions import Transaction
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.warehouse import Warehouse


class Table:
    """A view that cannot be cleaned up the first time."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.tried = 0

    def clean_up(self, keep: object) -> None:
        self.tried += 1
        if self.fails and self.tried == 1:
            raise FileNotFoundError("version 3 is not there")


def no_spark() -> NoReturn:
    raise AssertionError("nothing here needs Spark")


def test_old_versions_that_go_while_they_are_looked_at_do_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a runner that was replaced, and does not know it yet, cleans up too."""
    tables = {"a": Table(fails=True), "b": Table(fails=False)}
    warehouse = Warehouse(tmp_path)
    monkeypatch.setattr(warehouse, "has_view", tables.__contains__)
    monkeypatch.setattr(warehouse, "view", tables.__getitem__)
    views = [KeptView(name) for name in tables]
    upkeep = Upkeep(warehouse, lambda: views, dict, Engine(no_spark), "r", 0.0, 0.0, lambda: False)
    upkeep._clean_up()
    assert upkeep.troubles == {"a": "Old versions could not be deleted: version 3 is not there"}
    upkeep._clean_up()
    assert upkeep.troubles == {}
    assert [table.tried for table in tables.values()] == [2, 2]


@dataclass
class Waiting:
    """What waits to be published."""

    retention_s: float
    behind: int | None = None

    def needed(self, source: str) -> int | None:
        return self.behind

    def number(self, unit: str) -> int | None:
        return self.behind


def upkeep_of(warehouse: Warehouse, feeds: dict[str, Any], kept: Unpublished | None) -> Upkeep:
    return Upkeep(
        *(warehouse, list, lambda: feeds, Engine(no_spark), "r", 0.0, 0.0, lambda: False),
        unpublished=kept,
    )


def kept_after_release(folder: Path, kept: Unpublished | None) -> int:
    """The oldest transaction that is kept of nine in three segments, after a release."""
    warehouse = Warehouse(folder, durable=False)
    log = ChangeLog(warehouse.changes, "x")
    for epoch in (1, 2, 3):
        log.open(epoch)
        numbers = range(log.end + 1, log.end + 4)
        log.append([Change(n, Transaction(f"x{n}", (), ("x",), ("x",)), {}, 0) for n in numbers])
        log.close()
    feed = SimpleNamespace(log=log, channel=SimpleNamespace(needed=10))
    upkeep_of(warehouse, {"x": feed}, kept)._release()
    return log.first


@pytest.mark.parametrize(
    ("kept", "first"),
    [
        (None, 7),
        (Waiting(3600.0), 7),
        (Waiting(3600.0, behind=4), 4),
        (Waiting(3600.0, behind=0), 1),
        (Waiting(0.0, behind=0), 7),
    ],
)
def test_a_change_log_is_kept_as_far_as_it_is_not_published_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: Waiting | None, first: int
) -> None:
    monkeypatch.setattr(Warehouse, "reached", lambda warehouse, source: [9])
    assert kept_after_release(tmp_path, kept) == first


def test_versions_of_a_view_are_kept_since_the_last_that_is_published_up_to_a_limit(
    tmp_path: Path,
) -> None:
    now = time.time()
    ages = {5: 10.0, 4: 100.0, 3: 1000.0}
    commits = [SimpleNamespace(number=n, timestamp=(now - age) * 1000) for n, age in ages.items()]
    table: Any = SimpleNamespace(name="v", commits=lambda: iter(commits))

    def kept_s(kept: Waiting | None) -> float:
        found = upkeep_of(Warehouse(tmp_path), {}, kept)._unpublished_for(table)
        return found / timedelta(seconds=1)

    assert kept_s(None) == kept_s(Waiting(3600.0)) == 0.0
    assert 100.0 < kept_s(Waiting(3600.0, behind=4)) < 1000.0
    assert kept_s(Waiting(50.0, behind=4)) == 50.0
    assert kept_s(Waiting(3600.0, behind=1)) == 3600.0, "where the last one is not known any more"
