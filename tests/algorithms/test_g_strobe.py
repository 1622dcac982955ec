"""G-Strobe is strong for global transactions, by what the sources report; printed forms are not."""

from __future__ import annotations

import os

import pytest

from headwater.algorithms.g_strobe import GStrobe
from headwater.algorithms.integrator import ByNumber
from headwater.check.levels import Level
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example, example_names
from headwater.lab.reports import NUMBERED
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.simulate import scenario_kind, simulate
from headwater.lab.weakened.strobe import NumbersUpdatesOnly
from headwater.lab.world import Simulation

SEEDS = range(1000) if os.environ.get("HEADWATER_STRESS") == "1" else range(150)
GLOBAL = [name for name in example_names() if scenario_kind(example(name)) == "global"]
REPORTS = [{}, {"report": "numbered"}, {"report": "numbered", "channels": "unordered"}]


def random_scenario(seed: int) -> Scenario:
    """Global transactions over two or three sources; keys are re-used."""
    relations = 2 + seed % 2
    shape = Shape(
        kind="global",
        relations=relations,
        sources=2 + (seed // 2) % 2 if relations == 3 else 2,
        transactions=5 - relations,
        keys=True,
        by_key=seed % 3 != 0,
    )
    return generate(seed, shape)


def level(scenario: Scenario, name: str, settings: dict[str, str]) -> Level:
    found = explore(simulate(scenario, name, settings))
    assert found.exhaustive
    return found.level


@pytest.mark.parametrize("settings", REPORTS, ids=str)
def test_strong_over_all_schedules(settings: dict[str, str]) -> None:
    for seed in SEEDS:
        assert level(random_scenario(seed), "g-strobe", settings) >= Level.STRONG, f"seed {seed}"


@pytest.mark.parametrize("settings", REPORTS, ids=str)
@pytest.mark.parametrize("name", [name for name in GLOBAL if "strobe" in name])
def test_strong_on_the_examples(name: str, settings: dict[str, str]) -> None:
    assert level(example(name), "g-strobe", settings) >= Level.STRONG


def test_local_transactions_need_no_integrator() -> None:
    """Then it is T-Strobe."""
    for seed in range(20):
        scenario = generate(seed, Shape("source-local", 2, 2, 3, keys=True))
        found = [explore(simulate(scenario, name)) for name in ("t-strobe", "g-strobe")]
        assert found[0] == found[1]
        assert found[0].level >= Level.STRONG


def lowest(name: str, settings: dict[str, str]) -> Level:
    return min(level(random_scenario(seed), name, settings) for seed in range(40))


def test_as_printed_a_later_transaction_overtakes_a_part_that_is_held() -> None:
    assert level(example("g-strobe-overtaken"), "g-strobe", {"integrator": "off"}) == Level.NONE
    assert lowest("g-strobe", {"integrator": "off"}) == Level.NONE


def test_as_printed_a_row_is_lost_to_a_deletion_that_was_held() -> None:
    """T2 inserts at y what T1 has deleted there; T1 is taken in last and deletes it again."""
    data = example("strobe-4-another-row").data | {
        "transactions": [
            {
                "id": "T1",
                "updates": [
                    {"relation": "r2", "delete": [3, 4]},
                    {"relation": "r1", "insert": [2, 9]},
                ],
            },
            {"id": "T2", "updates": [{"relation": "r2", "insert": [3, 4]}]},
        ]
    }
    scenario = scenario_from_json(data)
    assert level(scenario, "g-strobe", {"integrator": "off"}) == Level.NONE
    assert level(scenario, "g-strobe", {}) >= Level.STRONG


def test_as_printed_it_still_waits_for_all_parts_before_it_updates_the_view() -> None:
    """Condition 3: what Example 4 shows too early, it does not."""
    settings = {"integrator": "off"}
    assert level(example("strobe-4"), "g-strobe", settings) >= Level.STRONG
    assert level(example("strobe-4"), "t-strobe", {"parts": "held"}) == Level.WEAK


def test_reported_by_one_site_without_numbers_it_keeps_nothing() -> None:
    settings = {"report": "committer"}
    assert level(example("g-strobe-committer"), "g-strobe", settings) == Level.NONE
    assert lowest("g-strobe", settings) == Level.NONE


def test_numbers_on_updates_alone_let_answers_overtake() -> None:
    scenario = example("strobe-4-another-row")
    manager = GStrobe(scenario.view)

    def explored(integrator: ByNumber) -> Level:
        return explore(Simulation(scenario, manager, integrator, way=NUMBERED)).level

    assert explored(NumbersUpdatesOnly()) == Level.CONVERGENT
    assert explored(ByNumber()) >= Level.STRONG


def test_t_strobe_with_a_holding_queue_is_not_even_weak() -> None:
    held = {"parts": "held"}
    assert level(example("strobe-4-another-row"), "t-strobe", held) == Level.CONVERGENT
    assert level(example("strobe-4-another-row"), "t-strobe", {}) == Level.WEAK


def test_t_strobe_with_a_holding_queue_does_not_always_converge() -> None:
    assert level(example("g-strobe-overtaken"), "t-strobe", {"parts": "held"}) == Level.NONE
    assert level(example("g-strobe-overtaken"), "t-strobe", {}) >= Level.WEAK


def test_sweep_needs_every_site_to_report_for_itself() -> None:
    """Numbers let an answer come late; sweep would take out of it what it does not contain."""
    scenario = example("strobe-4")
    assert level(scenario, "sweep", {}) == Level.COMPLETE
    assert level(scenario, "sweep", {"report": "numbered"}) < Level.STRONG
