"""A stop ends within seconds, whatever is under way, says what was not done, and loses nothing."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.runner import Runner
from headwater.sources.channel import Channel
from tests.cli.commands import quick
from tests.pipeline.running import Running, is_asking, locked
from tests.pipeline.small import AMOUNTS, Small
from tests.pipeline.world import VIEWS, Oracle, Shop


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def shop(tmp_path: Path, servers: list[PostgresServer]) -> Iterator[Shop]:
    found = Shop(tmp_path, servers, views={"prices": VIEWS["prices"]})
    yield found
    found.teardown()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_load_that_waits_for_a_lock_is_stopped_and_the_next_run_loads_the_view(
    shop: Shop, number: int
) -> None:
    with locked(shop.dsns["stock"], "lines"):
        run = Running(shop)
        try:
            run.wait_until(lambda: is_asking(shop.dsns["stock"]))
            run.signal(number)
            assert run.wait() == 130, run.errors  # the lock is still held
        finally:
            run.kill()
    assert run.errors.splitlines() == [
        "headwater: stopping; what is ready is committed first",
        "headwater: Stopped before prices could be loaded. The next run goes on from there.",
    ]
    assert "prices" not in shop.warehouse.view_names()
    assert (again := Running(shop, "--once")).wait() == 0, again.errors
    oracle = Oracle(shop)
    oracle.check_view("prices")


def test_a_question_that_waits_for_a_lock_does_not_hold_up_a_stop(
    shop: Shop, spark: SparkSession
) -> None:
    shop.project.run(once=True, spark=spark)
    run = Running(shop)
    try:
        run.wait_until(lambda: run.state("prices") == "running")
        with locked(shop.dsns["stock"], "lines"):
            with psycopg.connect(shop.dsns["shop"], autocommit=True) as connection:
                connection.execute("UPDATE orders SET customer = 1, id = id + 100 WHERE id = 3")
            run.wait_until(lambda: is_asking(shop.dsns["stock"]))
            assert run.stop() == 0, run.errors
    finally:
        run.kill()
    shop.project.run(once=True, spark=spark)
    oracle = Oracle(shop)
    oracle.check_view("prices")
    oracle.check_reached_the_end("prices")


def test_a_load_that_is_stopped_before_it_knows_its_place_commits_nothing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would commit rows of now, and say that they are of the place where the log was read."""
    small = Small(tmp_path, {"amounts": AMOUNTS})
    small.run(spark)
    quick("drop", "amounts", *small.arguments)
    for amount in range(30):
        small.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 1")
    caught_up = Channel.catch_up

    def stopped(channel: Channel, limit_s: float = 60.0) -> None:
        monkeypatch.setattr(channel.order, "has_passed", lambda marker: False)
        channel.stop()
        caught_up(channel, limit_s)

    with monkeypatch.context() as stopping:
        stopping.setattr(Channel, "catch_up", stopped)
        runner = Runner(small.project, lambda: spark)
        runner.start()
        maintainer = runner.views["amounts"].maintainer
        assert maintainer is not None
        maintainer.join(600)
        runner.stop()
    assert "amounts" not in small.warehouse.view_names()
    small.run(spark)
    assert small.rows("amounts") == {(1, 29), (2, 20)}
