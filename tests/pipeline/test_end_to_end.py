"""Views over two PostgreSQL servers and a SQLite file, while all three go on changing."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.pipeline.runner import Runner
from headwater.sources.postgres.embedded import PostgresServer
from tests.pipeline.world import A_SUM, VIEWS, Oracle, Shop, start_writers

LIMIT_S = 600.0


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


def wait_for(runner: Runner, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        runner.supervise()
        for status in runner.views.values():
            assert status.state != "stopped", status.message
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run_until_caught_up(
    shop: Shop, spark: SparkSession, commits: int, pause_s: float, most: int = 1_000_000
) -> None:
    """Maintain the shop's views beside live writers for so many commits each, then to the end."""
    writers = start_writers(shop, pause_s, most=most)
    runner = Runner(shop.project, lambda: spark)
    runner.start()
    try:
        wait_for(
            runner,
            lambda: all(
                s.maintainer is not None and s.maintainer.counters.commits >= commits
                for s in runner.views.values()
            ),
        )
        for writer in writers:
            writer.stop()
        targets = runner.targets()
        wait_for(runner, lambda: runner.reach(targets))
    finally:
        for writer in writers:
            writer.stopping.set()
        runner.stop()
        shop.teardown()


@pytest.mark.parametrize(("engine", "commits", "pause_s"), [("auto", 25, 0.02), ("spark", 3, 1.5)])
def test_every_version_of_every_view_is_the_view_at_its_version_vector(
    tmp_path: Path,
    servers: list[PostgresServer],
    spark: SparkSession,
    engine: str,
    commits: int,
    pause_s: float,
) -> None:
    shop = Shop(tmp_path, servers, engine)
    joined_before = Rows.rows_joined
    most = 10 if engine == "spark" else 1_000_000  # each takes seconds on a slow machine
    run_until_caught_up(shop, spark, commits, pause_s, most)
    joined = Rows.rows_joined - joined_before
    if engine == "spark":
        assert joined == 0
    oracle = Oracle(shop)
    oracle.check_log()
    for name in VIEWS:
        found = oracle.check_view(name)
        assert len(found) >= commits
        oracle.check_reached_the_end(name)
        if name == "large_orders":
            oracle.check_complete(name, found)


def test_every_version_of_a_sum_of_joins_is_the_view_at_its_version_vector(
    tmp_path: Path, servers: list[PostgresServer], spark: SparkSession
) -> None:
    shop = Shop(tmp_path, servers, "auto", A_SUM)
    run_until_caught_up(shop, spark, commits=15, pause_s=0.05)
    oracle = Oracle(shop)
    assert len(oracle.check_view("activity")) >= 15
    oracle.check_reached_the_end("activity")
