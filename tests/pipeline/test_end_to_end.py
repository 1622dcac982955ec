"""Views over two PostgreSQL servers and a SQLite file, while all three go on changing."""

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.embedded.postgres import PostgresServer
from headwater.frames import frame as frame_module
from headwater.frames import held
from headwater.pipeline.runner import Runner
from headwater.sources.postgres import wrapper
from headwater.sources.postgres.spreading import spread_out
from tests.pipeline.world import BEYOND_A_JOIN, VIEWS, Oracle, Shop, start_writers, wait_for


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


@contextlib.contextmanager
def started(shop: Shop, spark: SparkSession) -> Iterator[Runner]:
    runner = Runner(shop.project, lambda: spark)
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()
        shop.teardown()


def have_committed(runner: Runner, commits: int) -> bool:
    return all(
        s.maintainer is not None and s.maintainer.counters.commits >= commits
        for s in runner.views.values()
    )


def run_beside_writers(shop: Shop, spark: SparkSession, commits: int, pause_s: float) -> None:
    """Maintain the shop's views beside live writers for so many commits each, then to the end."""
    writers = start_writers(shop, pause_s)
    with started(shop, spark) as runner:
        try:
            wait_for(runner, lambda: have_committed(runner, commits))
        finally:
            for writer in writers:
                writer.stop()
        targets = runner.targets()
        wait_for(runner, lambda: runner.reach(targets))


def run_in_rounds(shop: Shop, spark: SparkSession, commits: int) -> None:
    """A few transactions of each writer at a time: each takes seconds on a slow machine."""
    with started(shop, spark) as runner:
        for first_seed in count(1, 10):
            if have_committed(runner, commits):
                break
            for writer in start_writers(shop, 0.1, first_seed, most=4):
                writer.join()
                assert writer.failure is None
            targets = runner.targets()
            wait_for(runner, partial(runner.reach, targets))


@pytest.mark.parametrize(("engine", "commits"), [("auto", 25), ("spark", 3)])
def test_every_version_of_every_view_is_the_view_at_its_version_vector(
    tmp_path: Path,
    servers: list[PostgresServer],
    spark: SparkSession,
    engine: str,
    commits: int,
) -> None:
    shop = Shop(tmp_path, servers, engine)
    joined_before = Rows.rows_joined
    if engine == "spark":
        run_in_rounds(shop, spark, commits)
    else:
        run_beside_writers(shop, spark, commits, pause_s=0.02)
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


@pytest.mark.stress
def test_changes_that_are_more_than_the_driver_is_to_hold_are_taken_in_by_spark(
    tmp_path: Path,
    servers: list[PostgresServer],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers ask PostgreSQL for what belongs to the rows that they hold."""
    for module in (held, frame_module):
        monkeypatch.setattr(module, "SMALL", 20)
    spread: list[str] = []
    monkeypatch.setattr(wrapper, "spread_out", _noting(spread, spread_out))
    names = ("order_lines", "prices")
    shop = Shop(tmp_path, servers, "spark", {name: VIEWS[name] for name in names})
    with started(shop, spark) as runner:
        wait_for(runner, lambda: have_committed(runner, 0))
        for statements in _BULK:
            for source, statement in statements.items():
                _commit(shop, source, statement)
            targets = runner.targets()
            wait_for(runner, partial(runner.reach, targets))
    oracle = Oracle(shop)
    for name in names:
        assert len(oracle.check_view(name)) >= len(_BULK)
        oracle.check_reached_the_end(name)
    assert {"orders", "lines"} <= set(spread)


_BULK = (
    {
        "shop": "INSERT INTO orders SELECT 1000 + n, n % 7, n FROM generate_series(1, 60) AS s (n)",
        "stock": "INSERT INTO lines SELECT 1000 + n % 60, n % 9, 2, 1.5 "
        "FROM generate_series(1, 150) AS s (n)",
    },
    {
        "crm": "UPDATE customers SET name = 'new ' || name",
        "stock": "UPDATE lines SET qty = qty + 1 WHERE order_id >= 1000",
        "shop": "DELETE FROM orders WHERE id >= 1030",
    },
)


def _commit(shop: Shop, source: str, statement: str) -> None:
    if source == "crm":
        connection = sqlite3.connect(shop.file)
        with contextlib.closing(connection), connection:
            connection.execute(statement)
    else:
        with psycopg.connect(shop.dsns[source]) as session:
            session.execute(statement.encode())


def _noting(noted: list[str], spread: Callable[..., Rows]) -> Callable[..., Rows]:
    def noted_and_spread(access: object, tables: Iterable[str], *rest: object) -> Rows:
        noted.extend(tables)
        return spread(access, tables, *rest)

    return noted_and_spread


def test_every_version_of_what_is_more_than_a_join_is_the_view_at_its_version_vector(
    tmp_path: Path, servers: list[PostgresServer], spark: SparkSession
) -> None:
    shop = Shop(tmp_path, servers, "auto", BEYOND_A_JOIN)
    run_beside_writers(shop, spark, commits=15, pause_s=0.05)
    oracle = Oracle(shop)
    for name in BEYOND_A_JOIN:
        found = oracle.check_view(name)
        assert len(found) >= 15
        oracle.check_reached_the_end(name)
        if name == "spent":
            oracle.check_complete(name, found)
