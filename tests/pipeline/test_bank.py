"""Transactions across databases on real ones: what is shown of a transfer between two of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.embedded.postgres import PostgresServer
from tests.pipeline.bank import PARTS, TOTAL, VIEWS, WHOLE, Bank, Clerk
from tests.pipeline.running import Running
from tests.pipeline.world import Oracle


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


def follow(bank: Bank, name: str) -> Running:
    running = Running(bank, name=name)
    running.wait_until(lambda: all(running.state(view) == "running" for view in VIEWS))
    return running


def named(*algorithms: str) -> list[str]:
    return [name.replace("-", "_") for name in algorithms]


@pytest.mark.parametrize(
    ("south", "transfers"),
    [
        ("sqlite", 12),
        ("triggers", 12),
        pytest.param("sqlite", 300, marks=pytest.mark.stress),
        pytest.param("triggers", 300, marks=pytest.mark.stress),
    ],
)
def test_the_sum_of_all_accounts_is_the_same_at_every_version_that_shows_transfers_whole(
    tmp_path: Path, servers: list[PostgresServer], south: str, transfers: int
) -> None:
    north, other = servers
    bank = Bank(tmp_path, north, other if south == "triggers" else None)
    clerks = [Clerk(bank, seed, transfers) for seed in range(3)]
    running = follow(bank, "first")
    for clerk in clerks:
        clerk.start()
    clerks[0].join()  # the others are in the middle of it
    running.kill()
    running = follow(bank, "second")
    for clerk in clerks:
        clerk.join()
        assert clerk.failure is None
    bank.part("north", "the last", 0, -7)  # and nothing more, for a while
    running.wait_until(lambda: all(bank.sum(view) == TOTAL - 7 for view in named(*PARTS)))
    assert {bank.sum(view) for view in named(*WHOLE, "total")} == {TOTAL}
    bank.part("south", "the last", 1, 7)
    running.wait_until(lambda: all(bank.sum(view) == TOTAL for view in VIEWS))
    running.wait_until(lambda: all(map(bank.is_shown, VIEWS)))
    assert running.stop() == 0
    oracle = Oracle(bank)
    oracle.check_log()
    for view in VIEWS:
        oracle.check_view(view)
        oracle.check_reached_the_end(view)
    for view in named(*WHOLE, "total"):
        assert set(bank.sums(view)) == {TOTAL}, view
    for view in named(*PARTS):
        assert len(set(bank.sums(view))) > 1, view
    bank.teardown()
