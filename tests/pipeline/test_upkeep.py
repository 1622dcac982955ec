"""The upkeep of a warehouse goes on where something cannot be done for a view just now."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from headwater.frames.engine import Engine
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.upkeep import Upkeep
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
