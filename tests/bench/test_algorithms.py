"""The workloads of the benchmark of algorithms are the same for a seed, and its views run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.bench.algorithms.comparing import CHOSEN, Comparison, Entry, compare, entries
from headwater.bench.algorithms.measure import Measured
from headwater.bench.algorithms.workload import WORKLOADS, Changes, Templates, Workload
from headwater.check.levels import Level


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)
def test_changes_of_a_seed_are_always_the_same(workload: Workload) -> None:
    first, again, other = (list(Changes(workload, seed).rounds()) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == workload.rounds
    assert {len(changes) for changes in first} == {workload.together}


def test_every_algorithm_that_runs_is_an_entry_and_the_chosen_one() -> None:
    names = {entry.name for entry in entries(WORKLOADS[0], Level.STRONG)}
    assert {"eca", "lca", "pvm", "sweep", "t-strobe (local = on)", CHOSEN} <= names
    below = [entry.name for entry in entries(WORKLOADS[1], Level.STRONG) if not entry.keeps]
    assert below == ["recompute", "strobe", "c-strobe", "pvm"]


def test_the_chosen_one_is_compared_with_the_best_that_keeps_the_level() -> None:
    found = Comparison(WORKLOADS[0], Level.STRONG)
    measured = {"sweep": 1.0, "lca": 0.5, "copies": 0.7, "strobe": 0.1, CHOSEN: 1.5}
    for name, seconds in measured.items():
        found.found[name] = Measured(name, (seconds,), 1, 100)
        found.entries[name] = Entry(name, "", keeps=name != "strobe")
    assert found.best(lambda m: m.median_ms)[0] == "lca"
    assert found.ratio(lambda m: m.median_ms) == 3.0
    assert found.ratio(lambda m: m.median_ms, choosable=True) == 1.5
    assert found.ratio(lambda m: m.bytes) == 1.0


@pytest.mark.stress
def test_a_workload_is_measured(tmp_path: Path) -> None:
    templates = Templates(tmp_path)
    try:
        found = compare(templates, WORKLOADS[1], Level.STRONG, [0], [1], 0.0, lambda text: None)
    finally:
        templates.stop()
    assert found.found["sweep"].messages == 4
    assert found.found[CHOSEN].transactions == found.found["sweep"].transactions
