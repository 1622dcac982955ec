"""Two nodes and a warehouse as processes of their own, over real databases, killed repeatedly."""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random

import pytest

from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.verify import verify_view
from tests.nodes.processes import NodeCommand, free_port, node, with_nodes
from tests.pipeline.orders import BOTH, ONE, SELECTS, Orders, OrdersWriter, write
from tests.pipeline.running import Running
from tests.pipeline.world import Oracle
from tests.warehouse.test_small import no_spark

VIEWS = {
    "ring": f"CREATE MATERIALIZED VIEW ring USING rings AS {SELECTS[BOTH]}",
    "star": f"CREATE MATERIALIZED VIEW star USING rings-star AS {SELECTS[BOTH]}",
    "star_one": f"CREATE MATERIALIZED VIEW star_one USING rings-star AS {SELECTS[ONE]}",
    "swept": f"CREATE MATERIALIZED VIEW swept AS {SELECTS[BOTH]}",
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


def are_running(running: Running) -> bool:
    return all(running.state(name) == "running" for name in VIEWS)


def judge(shop: Orders) -> int:
    """Every version is the view at its vector, the last shows everything; how many there are."""
    oracle = Oracle(shop)
    oracle.check_log()
    versions = 0
    for name in VIEWS:
        versions += len(oracle.check_view(name))
        oracle.check_reached_the_end(name)
        assert verify_view(shop.project, name, no_spark).holds, name
    return versions


def survive(
    shop: Orders, kills: int, random: Random, pause_s: float, *, runner_too: bool = False
) -> int:
    """Kill nodes again and again while writers write; then let everything be shown."""
    nodes = {source: NodeCommand(shop.folder, source) for source in ("crm", "shop")}
    running = Running(shop)
    writers = [OrdersWriter(shop, s, random.randrange(1000), pause_s, 1_000_000) for s in nodes]
    for writer in writers:
        writer.start()
    try:
        running.wait_until(lambda: are_running(running))
        for _ in range(kills):
            time.sleep(random.uniform(0.2, 3.0))  # a moment to be killed at
            killed = random.choice(["crm", "shop", *["runner"] * runner_too])
            if killed == "runner":
                running.kill()
                running = Running(shop)
            else:
                nodes[killed].kill()
                nodes[killed] = NodeCommand(shop.folder, killed)
                running.wait_until(lambda at=killed: nodes[at].has_said("view"))  # type: ignore[misc]
        return finished(shop, running, nodes, writers)
    finally:
        end(shop, [running], nodes.values(), writers)


def finished(
    shop: Orders,
    running: Running,
    nodes: Mapping[str, NodeCommand],
    writers: Iterable[OrdersWriter],
) -> int:
    """Let everything be shown, and judge it."""
    for writer in writers:
        writer.stop()
    running.wait_until(lambda: are_running(running))
    assert running.stop() == 0, running.errors
    once = Running(shop, "--once", name="once")
    assert once.wait() == 0, once.errors
    assert nodes["crm"].stop() == 0
    return judge(shop)


def end(
    shop: Orders,
    runners: Iterable[Running],
    nodes: Iterable[NodeCommand],
    writers: Iterable[OrdersWriter],
) -> None:
    for writer in writers:
        writer.stop()
    for running in runners:
        running.kill()
    for each in nodes:
        each.kill()
    shop.teardown()


def test_a_view_is_right_at_every_version_however_often_its_nodes_are_killed(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, VIEWS)
    with_nodes(tmp_path, free_port(), "crm", "shop")
    assert survive(shop, 2, Random(7), 0.05) > 10


@pytest.mark.stress
def test_the_same_with_many_kills_of_nodes_and_runners(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, VIEWS)
    with_nodes(tmp_path, free_port(), "crm", "shop")
    survive(shop, 15, Random(time.time_ns()), 0.03, runner_too=True)


def test_one_source_may_have_a_node_of_its_own_and_the_other_none(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, VIEWS)
    with_nodes(tmp_path, free_port(), "shop")
    writers = write(shop, 0.02, 15, seed=3)
    with node(tmp_path, "shop"):
        once = Running(shop, "--once")
        try:
            assert once.wait() == 0, once.errors
            for writer in writers:
                writer.join()
            again = Running(shop, "--once", name="again")
            assert again.wait() == 0, again.errors
            judge(shop)
        finally:
            once.kill()
            shop.teardown()
