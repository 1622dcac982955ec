from __future__ import annotations

import pytest

from headwater.algebra.rows import Rows
from headwater.check.certificate import Claim, certify
from headwater.check.levels import Level
from headwater.lab.generate import Shape, generate
from headwater.lab.run import run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from headwater.protocol.trace import Showed


def claims(scenario: Scenario, algorithm: str, seed: int, **settings: str) -> list[Claim]:
    trace = run(simulate(scenario, algorithm, settings), seeded(seed)).trace
    return [Claim(e.view, e.transactions) for e in trace.entries if isinstance(e, Showed)]


@pytest.mark.parametrize("seed", range(20))
def test_complete_run_is_certified_complete(seed: int) -> None:
    scenario = generate(seed, Shape(transactions=5))
    found = certify(scenario.history, claims(scenario, "pvm-cc", seed))
    assert found.level == Level.COMPLETE


def test_batches_are_certified_strong_at_most_once_they_skip_a_view() -> None:
    levels = set()
    for seed in range(20):
        scenario = generate(seed, Shape(transactions=5))
        found = certify(scenario.history, claims(scenario, "sweep", seed, batch="3"))
        assert found.broken is None
        levels.add(found.level)
    assert Level.STRONG in levels


def test_wrong_view_breaks_its_claim() -> None:
    scenario = generate(3, Shape(transactions=5))
    good = claims(scenario, "sweep", 0)
    at = next(at for at, claim in enumerate(good) if claim.view)
    empty = Claim(Rows.empty(scenario.view.schema), good[at].transactions)
    found = certify(scenario.history, [*good[:at], empty, *good[at + 1 :]])
    assert found.level == Level.NONE
    assert found.broken is not None
    assert found.broken.at == at


def test_transaction_claimed_twice_or_never_breaks_the_claim() -> None:
    scenario = generate(3, Shape(transactions=5))
    good = claims(scenario, "sweep", 0)
    for wrong in ([good[0], *good], good[:-1]):
        assert certify(scenario.history, wrong).level == Level.NONE
