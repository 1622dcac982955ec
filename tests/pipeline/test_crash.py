"""The command killed, stopped and replaced while its sources go on: nothing lost, nothing twice."""

import fcntl
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.requests import drop_view
from headwater.pipeline.runner import Runner
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import STALE_S, current_runner
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
    """While a view's sources are read, or its table is being written."""
    folder = shop.warehouse.internal / random.choice(["scratch", "staging"])
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*")}

    def is_loading() -> bool:
        now = {path: path.stat().st_mtime_ns for path in folder.glob("*")}
        return len(shop.warehouse.view_names()) < len(VIEWS) and bool(now.items() - before.items())

    running.wait_stopped_in(is_loading, random)
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
SHORT = (LOAD, FOLD, ASK, COMMIT)
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
    ("engine", "kills", "pause_s", "by_triggers"),
    [
        pytest.param("auto", FEW, 0.3, (), id="few"),
        # Without the source of the view that is complete, which triggers cannot promise.
        pytest.param("auto", SHORT, 0.3, ("stock",), id="triggers"),
        pytest.param("auto", MANY, 0.5, (), id="many", marks=pytest.mark.stress),
        pytest.param("auto", MANY, 0.5, ("stock",), id="many-tr", marks=pytest.mark.stress),
        # A commit is several Spark jobs, so its writers take their time.
        pytest.param("spark", FEW, 4.0, (), id="spark", marks=pytest.mark.stress),
    ],
)
def test_whenever_it_is_killed_every_version_is_right_and_nothing_is_lost(
    tmp_path: Path,
    servers: list[PostgresServer],
    engine: str,
    kills: Sequence[Kill],
    pause_s: float,
    by_triggers: Sequence[str],
) -> None:
    shop = Shop(tmp_path, servers, engine, by_triggers=by_triggers)
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
    finally:
        running.kill()
    for writer in writers:
        writer.stop()
    last = Running(shop, "--once")
    try:
        assert last.wait() == 0, last.errors
        assert last.lines[-1]["event"] == "stopped"
    finally:
        last.kill()


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


# Several runners


@pytest.fixture
def shop(
    tmp_path: Path, servers: list[PostgresServer], spark: SparkSession
) -> Iterator[tuple[Shop, list[Writer]]]:
    """A shop whose views are loaded, and whose writers go on."""
    shop = Shop(tmp_path, servers)
    shop.publish_every("1 hour")
    load(shop, spark)
    writers = start_writers(shop, 0.1)
    yield shop, writers
    clear(shop, writers)


def test_a_runner_that_slept_while_it_was_replaced_commits_nothing_more(
    shop: tuple[Shop, list[Writer]],
) -> None:
    world, writers = shop
    folder = world.warehouse.internal
    random = Random(2)
    sleeper = Running(world, name="sleeper")
    try:
        wait_running(sleeper)
        files = Files(world.warehouse)
        sleeper.wait_stopped_in(lambda: files.in_commit() and is_free(folder), random)
        waited = wait_until(lambda: current_runner(folder) is None)
        assert waited > STALE_S / 2
        before = vectors(world)
        successor = Running(world)
        try:
            successor.wait_until(lambda: all(has_grown(before, vectors(world), n) for n in VIEWS))
            sleeper.signal(signal.SIGCONT)
            assert sleeper.wait() == 1
            assert "Another runner has taken over" in sleeper.errors
            assert len(sleeper.errors.splitlines()) == 1, sleeper.errors
            again = vectors(world)
            successor.wait_until(lambda: all(has_grown(again, vectors(world), n) for n in VIEWS))
            runner = current_runner(folder)
            assert runner is not None
            assert runner["pid"] == successor.process.pid
            assert successor.stop() == 0, successor.errors
        finally:
            successor.kill()
    finally:
        sleeper.kill()
    finish(world, writers)
    check(world)


def test_a_second_runner_is_refused_and_the_first_goes_on(
    shop: tuple[Shop, list[Writer]],
) -> None:
    world, _ = shop
    first = Running(world, name="first")
    try:
        wait_running(first)
        second = Running(world, name="second")
        assert second.wait() == 1
        assert second.errors.startswith("headwater: Another runner is at work")
        assert len(second.errors.splitlines()) == 1, second.errors
        before = vectors(world)
        first.wait_until(lambda: all(has_grown(before, vectors(world), n) for n in VIEWS))
        assert first.stop() == 0, first.errors
    finally:
        first.kill()


def test_once_stops_where_the_sources_were_and_the_next_run_goes_on_from_there(
    shop: tuple[Shop, list[Writer]],
) -> None:
    world, writers = shop
    with psycopg.connect(world.dsns["stock"], autocommit=True) as stock:
        stock.execute("INSERT INTO lines SELECT id, 99, 2, 1.5 FROM generate_series(0, 29) id")
    assert (first := Running(world, "--once")).wait() == 0, first.errors
    assert 99 in {row[0] for row in world.warehouse.view("prices").rows()}
    logged = {source: ChangeLog(world.warehouse.changes, source) for source in TABLES}
    for log in logged.values():
        log.scan()
    for writer in writers:
        writer.stop()
    assert (second := Running(world, "--once")).wait() == 0, second.errors
    oracle = Oracle(world)
    assert all(len(oracle.changes[source]) > log.end for source, log in logged.items())
    check(world)


def load(shop: Shop, spark: SparkSession) -> None:
    runner = Runner(shop.project, lambda: spark)
    runner.start()
    try:
        targets = runner.targets()
        while not runner.reach(targets):
            runner.supervise()
            time.sleep(0.02)
    finally:
        runner.stop()


def wait_until(condition: Callable[[], bool], limit_s: float = 600.0) -> float:
    """Wait; returns the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + limit_s
        time.sleep(0.05)
    return time.monotonic() - began


def is_free(folder: Path) -> bool:
    """Whether nobody holds the lock of the lease just now."""
    with (folder / "lease.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def vectors(shop: Shop) -> dict[str, dict[str, int]]:
    """How far every view has come with every source."""
    return {
        name: {s: at.number for s, at in shop.warehouse.view(name).latest().vector.items()}
        for name in VIEWS
    }


def has_grown(
    before: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]], view: str
) -> bool:
    """Whether a view has taken something in from each of its sources."""
    return all(now[view][source] > number for source, number in before[view].items())
