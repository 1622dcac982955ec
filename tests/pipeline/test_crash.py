"""The command killed, stopped and replaced while its sources go on: nothing lost, nothing twice."""

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from headwater.pipeline.requests import drop_view
from headwater.sources.postgres.embedded import PostgresServer
from tests.pipeline.running import Files, Running, is_asking, locked
from tests.pipeline.world import VIEWS, Oracle, Shop, Writer, start_writers

TABLES = {"shop": "orders", "stock": "lines"}


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


# Kills


def kill_in_load(shop: Shop, running: Running, random: Random) -> None:
    """Some time after a view has begun to read its sources."""
    scratch = shop.warehouse.internal / "scratch"
    running.wait_until(lambda: scratch.exists() and any(scratch.iterdir()))
    time.sleep(random.uniform(0, 1))
    running.signal(signal.SIGSTOP)
    assert "loading" in map(running.state, VIEWS)
    running.kill()


def kill_in_question(shop: Shop, running: Running, random: Random) -> None:
    """While a source has not answered."""
    wait_running(running)
    source = random.choice(list(TABLES))
    with locked(shop.dsns[source], TABLES[source]):
        running.wait_until(lambda: is_asking(shop.dsns[source]))
        running.kill()


def kill_in_commit(shop: Shop, running: Running, random: Random) -> None:
    """When the rows of a commit are on disk, and the commit is not."""
    wait_running(running)
    running.wait_stopped_in(Files(shop.warehouse).in_commit, random)
    running.kill()


def kill_in_fold(shop: Shop, running: Running, random: Random) -> None:
    """When a plain table's new files are being written, or have no commit yet."""
    wait_running(running)
    running.wait_stopped_in(Files(shop.warehouse).in_fold, random)
    running.kill()


def kill_anywhere(shop: Shop, running: Running, random: Random) -> None:
    time.sleep(random.uniform(0.2, 5))
    running.kill()


Kill = Callable[[Shop, Running, Random], None]
LOAD, ASK, COMMIT, FOLD, ANY = (
    kill_in_load,
    kill_in_question,
    kill_in_commit,
    kill_in_fold,
    kill_anywhere,
)
PHASES: tuple[Kill, ...] = (LOAD, ASK, COMMIT, FOLD)
FEW = (LOAD, FOLD, ASK, COMMIT, COMMIT, ANY)
MANY = (
    LOAD,
    LOAD,
    FOLD,
    *(ASK, COMMIT, ANY) * 4,
    LOAD,
    FOLD,
    *(COMMIT, ASK, ANY) * 2,
    FOLD,
    COMMIT,
)


def wait_running(running: Running) -> None:
    running.wait_until(lambda: all(running.state(name) == "running" for name in VIEWS))


@pytest.mark.parametrize(
    ("engine", "kills", "pause_s"),
    [
        pytest.param("auto", FEW, 0.3, id="few"),
        pytest.param("auto", MANY, 0.1, id="many", marks=pytest.mark.stress),
        pytest.param("spark", FEW, 0.5, id="spark", marks=pytest.mark.stress),
    ],
)
def test_whenever_it_is_killed_every_version_is_right_and_nothing_is_lost(
    tmp_path: Path,
    servers: list[PostgresServer],
    engine: str,
    kills: Sequence[Kill],
    pause_s: float,
) -> None:
    shop = Shop(tmp_path, servers, engine)
    random = Random(time.time_ns() if len(kills) > len(FEW) else 1)
    writers = start_writers(shop, pause_s)
    hit: Counter[str] = Counter()
    try:
        for kill in kills:
            shop.publish_every("1 second" if kill is FOLD else "1 hour")
            if kill is LOAD and (loaded := shop.warehouse.view_names()):
                drop_view(shop.project, random.choice(loaded))
            running = Running(shop)
            try:
                kill(shop, running, random)
            finally:
                running.kill()
            hit[kill.__name__] += 1
        assert all(hit[phase.__name__] for phase in PHASES)
        finish(shop, writers)
        checked = check(shop)
        print(f"{engine}: {sum(hit.values())} kills {dict(hit)}, versions {checked}")  # noqa: T201
    finally:
        clear(shop, writers)


def finish(shop: Shop, writers: Sequence[Writer]) -> None:
    """Go on for a while, stop in the midst of changes, then take in what is left."""
    running = Running(shop)
    try:
        wait_running(running)
        assert running.stop() == 0, running.errors
        for writer in writers:
            writer.stop()
        last = Running(shop, "--once")
        assert last.wait() == 0, last.errors
        assert last.lines[-1]["event"] == "stopped"
    finally:
        running.kill()


def check(shop: Shop) -> dict[str, int]:
    """Every version that can be read is right, and the last ones reflect everything."""
    oracle = Oracle(shop)
    oracle.check_log()
    checked = {}
    for name in VIEWS:
        checked[name] = len(oracle.check_view(name))
        oracle.check_reached_the_end(name)
    return checked


def clear(shop: Shop, writers: Sequence[Writer]) -> None:
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join()
    shop.teardown()
