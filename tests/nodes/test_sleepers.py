"""Nodes and runners that are stopped for longer than anybody waits for them, and go on later."""

import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.embedded.postgres import PostgresServer
from headwater.warehouse.lease import current_runner
from tests.nodes.processes import MovingAddress, NodeCommand, free_port, with_nodes
from tests.nodes.test_processes import VIEWS, are_running, end, finished
from tests.pipeline.orders import Orders, OrdersWriter
from tests.pipeline.running import Running
from tests.pipeline.test_crash import is_free, wait_until

SOURCES = ("crm", "shop")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


def writing(shop: Orders) -> list[OrdersWriter]:
    writers = [OrdersWriter(shop, s, seed, 0.05, 1_000_000) for seed, s in enumerate(SOURCES)]
    for writer in writers:
        writer.start()
    return writers


def has_gone_on(shop: Orders, running: Running) -> None:
    """Return when each view has a version that it did not have before."""
    before = {name: shop.warehouse.view(name).latest().number for name in VIEWS}
    running.wait_until(
        lambda: all(shop.warehouse.view(n).latest().number > at for n, at in before.items())
    )


def wake_up(sleeper: NodeCommand) -> None:
    """Return when it has found that it was replaced."""
    sleeper.signal(signal.SIGCONT)
    sleeper.wait_until(lambda: sleeper.has_said("waiting", "has a node already"))


def take_over(sleeper: NodeCommand, substitute: NodeCommand) -> None:
    """Kill who has replaced it; return when it has begun again."""

    def begun() -> int:
        return sum(event["event"] == "view" for event in sleeper.events)

    before = begun()
    substitute.kill()
    sleeper.wait_until(lambda: begun() > before)


@pytest.mark.stress
def test_a_node_that_slept_while_it_was_replaced_disturbs_nobody_and_can_take_over(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop = Orders(tmp_path, server, VIEWS)
    with_nodes(tmp_path, free_port(), *SOURCES)
    nodes = {source: NodeCommand(tmp_path, source) for source in SOURCES}
    running, writers = Running(shop), writing(shop)
    substitutes: list[NodeCommand] = []
    try:
        running.wait_until(lambda: are_running(running))
        for source, sleeper in nodes.items():
            sleeper.signal(signal.SIGSTOP)
            running.wait_until(lambda: running.state("ring") == "waiting")
            substitutes.append(NodeCommand(tmp_path, source))
            running.wait_until(lambda: are_running(running))
            has_gone_on(shop, running)
            wake_up(sleeper)
            has_gone_on(shop, running)
            assert running.state("ring") == "running"
            take_over(sleeper, substitutes[-1])
        has_gone_on(shop, running)
        finished(shop, running, nodes, writers)
    finally:
        end(shop, [running], [*nodes.values(), *substitutes], writers)


@pytest.mark.stress
def test_a_runner_that_slept_while_it_was_replaced_does_not_disturb_the_nodes_of_the_other(
    tmp_path: Path, server: PostgresServer
) -> None:
    shop, port, other = Orders(tmp_path, server, VIEWS), free_port(), free_port()
    address = MovingAddress(port)
    with_nodes(tmp_path, port, *SOURCES, nodes=f"connect = '127.0.0.1:{address.port}'")
    nodes = {source: NodeCommand(tmp_path, source) for source in SOURCES}
    sleeper, writers = Running(shop, name="sleeper"), writing(shop)
    runners, folder = [sleeper], shop.warehouse.internal
    try:
        sleeper.wait_until(lambda: are_running(sleeper))
        has_gone_on(shop, sleeper)
        sleeper.wait_stopped_in(lambda: is_free(folder), Random(1))
        wait_until(lambda: current_runner(folder) is None)
        settings = tmp_path / "headwater.toml"
        settings.write_text(settings.read_text().replace(f":{port}'", f":{other}'"))
        address.leads_to = other
        runners.append(successor := Running(shop))
        successor.wait_until(lambda: are_running(successor))
        has_gone_on(shop, successor)
        sleeper.signal(signal.SIGCONT)
        assert sleeper.wait() == 1
        assert "Another runner has taken over" in sleeper.errors
        has_gone_on(shop, successor)
        assert are_running(successor)
        finished(shop, successor, nodes, writers)
    finally:
        end(shop, runners, nodes.values(), writers)
        address.close()
