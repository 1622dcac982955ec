"""KEEP KEYS in the lab: keys are kept out of sight, and a reader sees the view's own columns."""

from __future__ import annotations

import os
import re

import pytest

from headwater.algebra.values import Json
from headwater.check.levels import Level
from headwater.errors import UnsupportedViewError
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.protocol.trace import show_trace

SEEDS = range(300) if os.environ.get("HEADWATER_STRESS") == "1" else range(40)


def orders(keep_keys: bool, key: list[Json] | None = None, **more: Json) -> Scenario:
    """Two orders of one customer on one day: the view shows the same row twice."""
    return scenario_from_json(
        {
            "relations": {
                "orders": {
                    "source": "x",
                    "columns": {"id": "int", "customer": "int"},
                    "key": ["id"],
                    "rows": [[1, 7]],
                },
                "customers": {
                    "source": "y",
                    "columns": {"number": "int", "town": "text"},
                    "key": ["number"] if key is None else key,
                    "rows": [[7, "Ulm"]],
                },
            },
            "view": "SELECT town FROM orders, customers WHERE customer = number",
            "keep_keys": keep_keys,
            "transactions": [
                {"id": "T1", "updates": [{"relation": "orders", "insert": [2, 7]}]},
                {"id": "T2", "updates": [{"relation": "orders", "delete": [1, 7]}]},
            ],
            **more,
        }
    )


def without_keys(scenario: Scenario) -> Scenario:
    """The random scenario with a view that does not show its keys."""
    view = re.sub(r"t\d\.K\d AS t\d_K, ", "", str(scenario.data["view"]))
    assert "_K" not in view
    return scenario_from_json(scenario.data | {"view": view, "keep_keys": True})


def test_a_reader_sees_duplicates_and_no_key() -> None:
    steps = parse_schedule(["commit x", "answer y", "commit x"])
    done = run(simulate(orders(True), "strobe"), replayed(steps))
    assert [repr(state) for state in done.trace.states] == [
        "['Ulm']",
        "(['Ulm'], ['Ulm'])",
        "['Ulm']",
    ]
    assert done.trace.states[0].schema.names == ("town",)
    assert done.verdict.level == Level.COMPLETE
    assert (
        show_trace(done.trace)[-1] == "6. The warehouse receives T2 and the view becomes ['Ulm']."
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("strobe", "multi-source"),
        ("t-strobe", "source-local"),
        ("g-strobe", "global"),
        ("eca-key", "single-source"),
    ],
)
def test_duplicates_are_right_over_all_schedules(name: str, kind: str) -> None:
    duplicates = 0
    for seed in SEEDS:
        shape = Shape(kind, 2, 2, 3, keys=True, by_key=seed % 2 == 0)
        scenario = without_keys(generate(seed, shape))
        found = explore(simulate(scenario, name))
        assert found.level >= Level.STRONG, f"seed {seed}: {found.counterexample}"
        history = scenario.history
        duplicates += any(
            count > 1
            for vector in history.vectors()
            for _, count in history.view_at(vector).items()
        )
    assert duplicates > len(SEEDS) / 4


@pytest.mark.parametrize("options", [{"local": "on"}, {"batch": "2"}], ids=str)
def test_options_work_on_kept_keys(options: dict[str, str]) -> None:
    for seed in SEEDS:
        scenario = without_keys(
            generate(seed, Shape("multi-source", 2, 2, 3, keys=True, by_key=True))
        )
        assert explore(simulate(scenario, "strobe", options)).level >= Level.STRONG, seed


def test_an_algorithm_that_needs_no_keys_keeps_none() -> None:
    assert simulate(orders(True), "sweep").manager.view == orders(True).view


def test_without_it_the_missing_keys_are_named_and_it_is_suggested() -> None:
    with pytest.raises(
        UnsupportedViewError,
        match=r"missing: orders \(id\), customers \(number\)\. Say KEEP KEYS \(in a scenario",
    ):
        simulate(orders(False), "strobe")


@pytest.mark.parametrize("keep_keys", [True, False])
def test_a_relation_without_a_key_cannot_be_helped(keep_keys: bool) -> None:
    with pytest.raises(
        UnsupportedViewError,
        match=r"customers \(has no key\)\. KEEP KEYS cannot help a relation that has no key: give",
    ):
        simulate(orders(keep_keys, key=[]), "t-strobe")


def test_a_relation_that_occurs_twice_cannot_be_helped() -> None:
    twice = "SELECT a.customer FROM orders a, orders b WHERE a.customer = b.customer"
    with pytest.raises(
        UnsupportedViewError, match=r"No key can be kept for a relation that occurs"
    ):
        simulate(orders(True, view=twice), "t-strobe")
