"""One view over a source of every kind: PostgreSQL both ways, SQLite, files, a Delta table,
and MariaDB where it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.pipeline.runner import Runner
from tests.pipeline.every_kind import EveryKind, start_writers
from tests.pipeline.running import Running
from tests.pipeline.world import Oracle, wait_for


@pytest.fixture
def world(tmp_path: Path) -> Iterator[EveryKind]:
    made = EveryKind(tmp_path)
    yield made
    made.close()


def check(world: EveryKind) -> int:
    """Every version is right at its vector, and the last one reflects everything."""
    oracle = Oracle(world)
    oracle.check_log()
    found = oracle.check_view("everything")
    oracle.check_reached_the_end("everything")
    assert all(oracle.changes.values())
    return len(found)


def test_every_version_of_a_view_over_every_kind_is_right_at_its_vector(
    world: EveryKind, spark: SparkSession
) -> None:
    runner = Runner(world.project, lambda: spark)
    runner.start()
    try:
        writers = start_writers(world, 0.05)
        try:
            wait_for(runner, lambda: _commits(runner) >= 25)
        finally:
            for writer in writers:
                writer.stop()
        targets = runner.targets()
        wait_for(runner, lambda: runner.reach(targets))
    finally:
        runner.stop()
    versions = check(world)
    sys.stdout.write(f"\nevery kind: {versions} versions, 0 wrong\n")
    assert versions >= 25


def _commits(runner: Runner) -> int:
    maintainer = runner.views["everything"].maintainer
    return 0 if maintainer is None else maintainer.counters.commits


@pytest.mark.parametrize(
    "kills", [pytest.param(2, id="few"), pytest.param(12, id="many", marks=pytest.mark.stress)]
)
def test_a_view_over_every_kind_survives_kills(world: EveryKind, kills: int) -> None:
    writers = start_writers(world, 0.1)
    random = Random(kills)
    try:
        for number in range(kills):
            running = Running(world, name=f"run{number}")
            try:
                running.wait_until(lambda run=running: run.state("everything") == "running")  # type: ignore[misc]  # bound at once
                time.sleep(random.uniform(0.2, 4))
            finally:
                running.kill()
    finally:
        for writer in writers:
            writer.stop()
    last = Running(world, "--once", name="last")
    try:
        assert last.wait() == 0, last.errors
    finally:
        last.kill()
    sys.stdout.write(f"\nevery kind: {kills} kills, {check(world)} versions, 0 wrong\n")
