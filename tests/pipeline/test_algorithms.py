"""Every algorithm that maintains views keeps its level on real databases that go on changing."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from headwater.embedded.postgres import PostgresServer
from tests.pipeline.orders import VIEWS, Orders, judged, maintained, run_beside_writers, write
from tests.pipeline.running import Running
from tests.pipeline.world import wait_for

TEXTS = {name: text for name, (text, _) in VIEWS.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


def are_running(running: Running) -> bool:
    return all(running.state(name) == "running" for name in VIEWS)


def check(shop: Orders) -> None:
    for found in judged(shop):
        assert found.level >= found.promised, found


@pytest.mark.parametrize(
    "transactions", [25, pytest.param(1000, marks=pytest.mark.stress, id="many")]
)
def test_every_algorithm_keeps_its_level_beside_writers(
    tmp_path: Path, server: PostgresServer, transactions: int
) -> None:
    shop = Orders(tmp_path, server, TEXTS)
    try:
        run_beside_writers(shop, transactions)
    finally:
        shop.teardown()
    check(shop)


@pytest.mark.stress
def test_every_algorithm_keeps_its_level_when_it_is_killed_again_and_again(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, TEXTS)
    random = Random(time.time_ns())
    writers = write(shop, 0.2, 1_000_000, seed=1)
    try:
        for _ in range(8):
            running = Running(shop)
            try:
                running.wait_until(partial(are_running, running))
                time.sleep(random.uniform(0.2, 5))
            finally:
                running.kill()
        for writer in writers:
            writer.stop()
        with maintained(shop) as runner:
            targets = runner.targets()
            wait_for(runner, lambda: runner.reach(targets))
    finally:
        shop.teardown()
    check(shop)
