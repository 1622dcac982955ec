"""Views that are sums of joins: each algorithm keeps its promise, or refuses them."""

from __future__ import annotations

import os

import pytest

from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.scenario import scenario_from_json
from headwater.lab.simulate import simulate
from headwater.protocol.managers import Need
from tests.scenarios import counters

SEEDS = range(24) if os.environ.get("HEADWATER_STRESS") == "1" else range(6)
BY_KEY = {name for name, algorithm in ALGORITHMS.items() if Need.KEYS in algorithm.needs}
TRIED = sorted(ALGORITHMS.keys() - BY_KEY - {"rings", "rings-star"})
"""The others are tried in test_rings.py."""


@pytest.mark.parametrize("name", TRIED)
@pytest.mark.parametrize("kind", ["single-source", "multi-source", "source-local", "global"])
def test_sum_of_joins_is_maintained_as_promised_over_all_schedules(name: str, kind: str) -> None:
    promised = parse_level(ALGORITHMS[name].promises[kind])
    if promised == Level.NONE:
        return
    for seed in SEEDS:
        shape = Shape(kind, relations=3, sources=2, transactions=3, terms=2 + seed % 2)
        found = explore(simulate(generate(seed, shape), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("name", sorted(BY_KEY))
@pytest.mark.parametrize("kind", ["single-source", "multi-source", "source-local", "global"])
def test_sum_of_joins_is_maintained_by_key_part_by_part(name: str, kind: str) -> None:
    promised = parse_level(ALGORITHMS[name].promises[kind])
    if promised == Level.NONE:
        return
    for seed in SEEDS:
        shape = Shape(kind, 3, sources=2, transactions=3, keys=True, terms=2 + seed % 2)
        scenario = scenario_from_json(dict(generate(seed, shape).data) | {"keep_keys": True})
        found = explore(simulate(scenario, name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


@pytest.mark.parametrize("every", [1, 2])
def test_steps_of_all_parts_are_one_step_of_the_view(every: int) -> None:
    """Also where several updates are one step, whichever part is known first."""
    for seed in SEEDS:
        shape = Shape("source-local", 3, sources=2, transactions=4, keys=True, terms=3)
        scenario = scenario_from_json(dict(generate(seed, shape).data) | {"keep_keys": True})
        found = explore(simulate(scenario, "c-t-strobe", {"every": str(every)}))
        assert found.level >= (Level.COMPLETE if every == 1 else Level.STRONG), found.counterexample


def test_without_kept_keys_nothing_tells_the_parts_apart() -> None:
    scenario = generate(0, Shape("multi-source", keys=True, terms=2))
    with pytest.raises(UnsupportedViewError, match="each of the 2 parts"):
        simulate(scenario, "strobe")


def test_change_of_a_relation_shows_in_all_parts_at_once() -> None:
    data = counters("x", "y").data
    view = "SELECT x.n, y.n AS m FROM x, y UNION ALL SELECT x.n, x.n FROM x"
    found = explore(simulate(scenario_from_json(data | {"view": view}), "sweep"))
    assert found.level == Level.COMPLETE
