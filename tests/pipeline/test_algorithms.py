"""Every algorithm that maintains views keeps its level on real databases that go on changing."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from headwater.embedded.postgres import PostgresServer
from tests.pipeline.orders import VIEWS, WITH_COPIES, Orders, judged, run_beside_writers, write
from tests.pipeline.running import Running
from tests.pipeline.world import Writer

TEXTS = {name: text for name, (text, _) in VIEWS.items()}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


def are_running(running: Running, shop: Orders) -> bool:
    return all(running.state(name) == "running" for name in shop.project.view_files)


def check(shop: Orders) -> None:
    for found in judged(shop):
        assert found.level >= found.promised, found


@pytest.mark.parametrize(
    "transactions", [12, pytest.param(1000, marks=pytest.mark.stress, id="many")]
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
    survive(Orders(tmp_path, server, TEXTS), 8, 0.2)


@pytest.mark.stress
def test_copies_keep_their_level_on_spark_when_the_runner_is_killed(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, {name: TEXTS[name] for name in WITH_COPIES})
    settings = tmp_path / "headwater.toml"
    settings.write_text(settings.read_text().replace("[spark]", "[spark]\nengine = 'spark'"))
    survive(shop, 3, 2.0, most=6)


def survive(shop: Orders, kills: int, pause_s: float, most: int = 300) -> None:
    """Kill runners while writers write, so much at most, however slow it all is; then let all be
    shown, and judge it."""
    random = Random(time.time_ns())
    writers: list[Writer] = []
    try:
        for _ in range(kills):
            running = Running(shop)
            try:
                running.wait_until(partial(are_running, running, shop))
                writers = writers or write(shop, pause_s, most, seed=1)
                time.sleep(random.uniform(0.2, 5))
            finally:
                running.kill()
        for writer in writers:
            writer.stop()
        once = Running(shop, "--once", name="once")
        try:
            assert once.wait() == 0, once.errors
        finally:
            once.kill()
    finally:
        for writer in writers:
            writer.stop()
        shop.teardown()
    check(shop)
