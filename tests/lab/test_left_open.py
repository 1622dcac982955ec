"""What the papers leave open: answers out of order, copies, keys of some relations."""

import pytest

from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.errors import InputError, UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from headwater.lab.spectrum import measure, small_scenarios, some_key_scenarios
from headwater.protocol.trace import Consulted, show_trace

UPDATES = {"channels": "updates"}


@pytest.mark.parametrize("name", ["strobe", "t-strobe", "g-strobe", "c-t-strobe", "eca-key"])
def test_strobe_converges_although_answers_come_out_of_order(name: str) -> None:
    cell = measure(name, "multi-source", small_scenarios("multi-source", range(3)), UPDATES)
    assert cell.measured >= Level.CONVERGENT
    assert cell.exhaustive


@pytest.mark.parametrize("name", ["eca", "sweep", "pvm-cc"])
def test_who_relies_on_where_an_answer_stands_does_not(name: str) -> None:
    cell = measure(name, "single-source", small_scenarios("single-source"), UPDATES)
    assert cell.measured == Level.NONE
    assert cell.counterexample is not None


def test_an_algorithm_with_nodes_has_no_such_channels() -> None:
    (scenario,) = small_scenarios("multi-source", [0])
    with pytest.raises(InputError, match="has a node at each source"):
        simulate(scenario, "rings", UPDATES)


def with_copies(scenario: Scenario, *names: str) -> Scenario:
    return scenario_from_json(scenario.data | {"keep_copies": list(names)}, scenario.name)


@pytest.mark.parametrize("name", [n for n, a in ALGORITHMS.items() if a.nodes is None])
def test_every_algorithm_keeps_its_level_where_a_relation_is_copied(name: str) -> None:
    for kind in ("single-source-local", "source-local"):
        for scenario in small_scenarios(kind, range(2)):
            found = explore(simulate(with_copies(scenario, "r2"), name))
            assert found.level >= parse_level(ALGORITHMS[name].promises[kind])


def test_copies_answer_in_the_place_of_sources() -> None:
    (scenario,) = small_scenarios("multi-source", [0])
    asks, fewer, none = (
        run(simulate(found, name), seeded(0)).trace
        for found, name in (
            (scenario, "sweep"),
            (with_copies(scenario, "r1", "r2"), "sweep"),
            (scenario, "copies"),
        )
    )
    assert asks.message_count > fewer.message_count == none.message_count == 0
    assert any(isinstance(entry, Consulted) for entry in none.entries)
    assert any("in copies" in step for step in show_trace(none))


def test_a_copy_of_what_the_view_does_not_read_is_an_invalid_scenario() -> None:
    (scenario,) = small_scenarios("multi-source", [0])
    with pytest.raises(InputError, match="the view does not read r9"):
        with_copies(scenario, "r9")


def test_keys_of_some_relations_are_too_few_unless_all_are_kept() -> None:
    few, enough = (some_key_scenarios("multi-source", range(2), keeps) for keeps in (False, True))
    with pytest.raises(UnsupportedViewError):
        simulate(few[0], "strobe")
    assert measure("strobe", "multi-source", enough).measured >= Level.STRONG
