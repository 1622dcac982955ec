"""Views over PostgreSQL, MariaDB and SQLite at once, while all go on changing and runners die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from headwater.embedded.postgres import shared_server
from tests.pipeline.running import Running
from tests.pipeline.test_crash import check, clear, finish, kill_anywhere, kill_in_commit
from tests.pipeline.test_end_to_end import run_beside_writers
from tests.pipeline.world import VIEWS, Oracle, Shop, start_writers
from tests.sources.mariadb_harness import MariadbHarness, needs_mariadb

pytestmark = needs_mariadb


@pytest.fixture
def mariadb() -> Iterator[MariadbHarness]:
    made = MariadbHarness()
    yield made
    made.close()


@pytest.mark.parametrize("commits", [8, pytest.param(150, marks=pytest.mark.stress)])
def test_every_version_of_views_over_three_kinds_is_the_view_at_its_vector(
    tmp_path: Path, mariadb: MariadbHarness, spark: SparkSession, commits: int
) -> None:
    shop = Shop(tmp_path, [shared_server()], mariadb=mariadb)
    run_beside_writers(shop, spark, commits, pause_s=0.02)
    oracle = Oracle(shop)
    oracle.check_log()
    for name in VIEWS:
        found = oracle.check_view(name)
        assert len(found) >= commits
        oracle.check_reached_the_end(name)
        if name == "large_orders":
            oracle.check_complete(name, found)


@pytest.mark.stress
@pytest.mark.parametrize("kills", [10])
def test_whenever_it_is_killed_every_version_over_three_kinds_is_right(
    tmp_path: Path, mariadb: MariadbHarness, kills: int
) -> None:
    shop = Shop(tmp_path, [shared_server()], mariadb=mariadb)
    random = Random(1)
    writers = start_writers(shop, 0.3)
    hit: Counter[str] = Counter()
    try:
        for at in range(kills):
            kill = (kill_in_commit, kill_anywhere)[at % 2]
            running = Running(shop)
            try:
                kill(shop, running, random)
            finally:
                running.kill()
            hit[kill.__name__] += 1
        finish(shop, writers)
        checked = check(shop)
        print(f"{sum(hit.values())} kills {dict(hit)}, versions {checked}")  # noqa: T201
    finally:
        clear(shop, writers)
