"""The same project on a standalone cluster, whose executors are killed as they work.

`make test` has one project with two kills in one run; the stress test kills in every step.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.embedded.postgres import PostgresServer
from tests.cli.commands import headwater
from tests.clusters.executors import LIMIT_S
from tests.clusters.projects import (
    ClusterShop,
    bulk_change,
    change,
    follow_while_executors_are_killed,
    kill_in,
    never_recomputed,
    wait_running,
)
from tests.clusters.standalone import NoClusterError, StandaloneCluster
from tests.pipeline.running import Running


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[StandaloneCluster]:
    try:
        found = StandaloneCluster.start()
    except NoClusterError as error:
        pytest.skip(str(error))
    yield found
    found.stop()


def test_a_project_runs_on_a_cluster_as_it_does_here_while_executors_are_killed(
    tmp_path: Path, servers: list[PostgresServer], cluster: StandaloneCluster
) -> None:
    follow_while_executors_are_killed(tmp_path / "shop", servers, cluster)


STEPS = ("load", "answer of", "fold")
"""Those with jobs of Spark's: the driver writes what a small change commits."""


@pytest.mark.stress
def test_whenever_an_executor_is_killed_every_version_is_right(
    tmp_path: Path, servers: list[PostgresServer], cluster: StandaloneCluster
) -> None:
    shop = ClusterShop(tmp_path / "shop", servers, cluster.url, ["order_lines", "prices"])
    try:
        _kill_in_steps(shop, cluster, STEPS)
        _kill_in_command(shop, cluster, "verify", "-p", str(shop.folder))
        query = "SELECT count(*) FROM order_lines"
        _kill_in_command(shop, cluster, "sql", query, "-p", str(shop.folder))
        assert all(shop.job_names())
        assert shop.with_secret() == []
        shop.check()
    finally:
        shop.teardown()


BULK_STEPS = ("question to shop", "answer of shop", "commit")
BULK_ROWS = 210_000
"""More than the driver keeps: Spark's executors work on these rows, and write what is committed."""


@pytest.mark.stress
def test_an_executor_that_is_killed_in_a_bulk_change_costs_no_row(
    tmp_path: Path, servers: list[PostgresServer], cluster: StandaloneCluster
) -> None:
    shop = ClusterShop(tmp_path / "shop", servers, cluster.url, ["order_lines"])
    never_recomputed(shop, "order_lines")
    running = Running(shop)
    try:
        wait_running(shop, running)
        for seed, step in enumerate(BULK_STEPS):
            before = shop.started(f": {step}")
            bulk_change(shop, seed, BULK_ROWS)
            kill_in(shop, cluster, running, f": {step}", before)
            running.wait_until(shop.has_reached)
        assert running.stop() == 0, running.errors
        assert shop.lost_executors() >= len(BULK_STEPS)
        assert all(shop.job_names())
        shop.check()
    finally:
        running.kill()
        shop.teardown()


def _kill_in_steps(shop: ClusterShop, cluster: StandaloneCluster, steps: Sequence[str]) -> None:
    running = Running(shop)
    try:
        for seed, step in enumerate(steps):
            before = 0
            if step != "load":
                wait_running(shop, running)
                before = shop.started(f": {step}")
                change(shop, seed)
            kill_in(shop, cluster, running, f": {step}", before)
        wait_running(shop, running)
        change(shop, len(steps))
        running.wait_until(shop.has_reached)
        assert running.stop() == 0, running.errors
    finally:
        running.kill()


def _kill_in_command(shop: ClusterShop, cluster: StandaloneCluster, *command: str) -> None:
    """A command whose executor is killed in its first job is right all the same."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(headwater, *command)
        until = time.monotonic() + LIMIT_S
        name = "verify" if command[0] == "verify" else "sql"
        while not done.done() and not any(name in each for each in shop.at_work()):
            assert time.monotonic() < until
            time.sleep(0.02)
        if not done.done():
            cluster.kill_executor()
        found = done.result()
    assert found.code == 0, found.err + found.out
