"""Writers in processes of their own: killed at any moment, or replaced while they commit."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import headwater
from headwater.algebra.rows import Rows
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import SCHEMA, load, rows

SCRIPT = Path(__file__).parent / "committing.py"


@contextmanager
def committing(warehouse: Warehouse, runner: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(Path(headwater.__file__).parent.parent)}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(warehouse.path), runner],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def read_numbers(process: subprocess.Popen[str], count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def state_after(view: ViewTable, number: int) -> Rows:
    """What the rule of the committing process leads to, by the kinds of the commits."""
    total = Rows.empty(SCHEMA)
    shown: Rows | None = None
    for commit in sorted(view.commits(), key=lambda commit: commit.number):
        if commit.number > number:
            break
        if commit.kind == "open":
            shown = None
        if commit.kind == "change":
            new = rows({(commit.number, commit.runner): 1})
            total = total + new - (shown or Rows.empty(SCHEMA))
            shown = new
    return total


def test_a_killed_writer_leaves_a_prefix_of_its_commits(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, Rows.empty(SCHEMA))
    reported = 0
    for turn in range(3):
        with committing(warehouse, f"runner {turn}") as process:
            reported = read_numbers(process, 17 + 31 * turn)[-1]
        latest = view.latest()
        assert latest.number >= reported
        numbers = [commit.number for commit in view.commits()]
        assert numbers == list(range(latest.number, 0, -1))
        assert latest.vector["shop"] == Reached(latest.number, {"n": latest.number})
        for number in (reported, latest.number):
            assert view.rows(number) == state_after(view, number)
    with view.writer("last") as writer:
        assert writer.latest.number == view.latest().number > reported


def test_a_process_that_was_replaced_cannot_commit(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, spark, Rows.empty(SCHEMA))
    with committing(warehouse, "first") as first:
        read_numbers(first, 5)
        with committing(warehouse, "second") as second:
            read_numbers(second, 20)
            assert first.stdout is not None
            assert first.stdout.read().splitlines()[-1] == "fenced"
    runners = [c.runner for c in sorted(view.commits(), key=lambda c: c.number)]
    assert "".join(dict.fromkeys(runners)) == "loaderfirstsecond"
    assert runners == sorted(runners, key=["loader", "first", "second"].index)
    assert view.rows() == state_after(view, view.latest().number)
