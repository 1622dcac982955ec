"""Logs of a view's Delta tables: entries, checkpoints and what lies beside them."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import NoReturn

import pyarrow.parquet

from headwater.algebra.rows import Rows
from headwater.errors import HeadwaterError, InputError
from headwater.warehouse import delta_log
from headwater.warehouse.sealing import sealed
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.fuzz.mutations import VALUES, changed, json_text, noise, put
from tests.warehouse.test_small import in_memory
from tests.warehouse.views import rows, vector

_VALUES = [
    *VALUES,
    "add",
    "{}",
    '{"numRecords": -1}',
    '{"fields": []}',
    "headwater",
    "../../outside/letter",
]


def _no_spark() -> NoReturn:
    raise HeadwaterError("Spark is not started here.")


class DeltaLogFiles:
    def __init__(self, folder: Path, outside: Path) -> None:
        self._outside = outside
        delta_log._TRIES, delta_log._PAUSE_S = 2, 0.0  # there are no others to be waited for
        self._template, self._folder = folder / "template", folder / "warehouse"
        warehouse = Warehouse(self._template, durable=False)
        view = in_memory(warehouse, rows({(1, "a"): 2, (2, "b"): 1}), "orders")
        with view.writer("r") as writer:
            states = []
            for number in range(1, 8):
                writer.commit(rows({(number, "c"): 1}), vector(number))
                states.append(view.rows())
                if number in (2, 5):
                    view.fold(_no_spark, "f")
                    view.log.write_checkpoint(view.log.snapshot())
                    view.plain.write_checkpoint(view.plain.snapshot())
        view.clean_up(timedelta(), minimum_age=timedelta())
        with view.writer("s") as writer:
            writer.commit(rows({(9, "z"): 1}), vector(9))
        self._states = [*states, view.rows()]
        self._files = sorted(
            path.relative_to(self._template)
            for path in self._template.rglob("*")
            if path.is_file() and path.name != "lock"
        )
        self.input = self._folder

    def attack(self, random: Random) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._template, self._folder)
        self.input = self._folder / random.choice(self._files)
        content = self.input.read_bytes()
        lost = random.random() < 0.1
        if lost:
            self.input.unlink()
        elif self.input.suffix == ".json" and random.random() < 0.8:
            actions = [json.loads(line) for line in content.splitlines()]
            spoilt = changed(random, actions, _VALUES)
            text = "\n".join(json_text(random, action) for action in spoilt)
            put(random, self.input, sealed(text.encode()), self._outside)
        elif (
            self.input.suffix == ".parquet"
            and "checkpoint" in self.input.name
            and random.random() < 0.6
        ):
            self._spoil_checkpoint(random)
        else:
            put(random, self.input, noise(random, content), self._outside)
        self._read(random, lost)

    def _spoil_checkpoint(self, random: Random) -> None:
        """A sound Parquet file with other contents."""
        table = pyarrow.parquet.read_table(self.input)
        names = table.column_names
        match random.randrange(3):
            case 0:
                table = table.drop_columns([random.choice(names)])
            case 1:
                table = table.slice(random.randrange(table.num_rows), random.randint(0, 3))
            case _:
                at = random.randrange(len(names))
                other = pyarrow.array(
                    random.choices([None, 1, -7], k=table.num_rows), pyarrow.int64()
                )
                table = table.set_column(at, random.choice([*names, "add"]), other)
        self.input.unlink()
        pyarrow.parquet.write_table(table, self.input)

    def _read(self, random: Random, lost: bool) -> None:
        refused: list[HeadwaterError] = []
        looks = [self._rows_read, self._described, self._history, self._written]
        for look in looks:
            try:
                found = look(Warehouse(self._folder, durable=False).view("orders"), random)
            except HeadwaterError as error:
                refused.append(error)
            else:
                assert not lost or found is None or found in self._states, found
        if refused:
            raise refused[0]

    def _rows_read(self, view: ViewTable, random: Random) -> Rows:
        return view.rows()

    def _described(self, view: ViewTable, random: Random) -> None:
        assert view.schema
        assert view.definition.name
        assert len(view.key) + len(view.sources) >= 0
        assert view.latest().number >= 0
        view.tail()

    def _history(self, view: ViewTable, random: Random) -> None:
        for commit in view.commits():
            assert isinstance(commit.number, int)
        view.changes(random.choice([0, 5, 7]))
        view.rows(view.latest().number)
        with suppress(InputError):  # it may have been cleaned up
            view.rows(random.choice([1, 5, 8]))

    def _written(self, view: ViewTable, random: Random) -> None:
        if random.random() < 0.2:
            with view.writer("t") as writer:
                writer.commit(rows({(10, "y"): 1}), vector(10))
            view.fold(_no_spark, "f")
            view.clean_up(timedelta(), minimum_age=timedelta())
