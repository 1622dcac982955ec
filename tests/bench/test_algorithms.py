"""The workloads of the benchmark of algorithms are the same for a seed, and its views run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.bench.algorithms import command
from headwater.bench.algorithms.comparing import CHOSEN, Comparison, Entry, compare, entries
from headwater.bench.algorithms.measure import Measured
from headwater.bench.algorithms.workload import WORKLOADS, Changes, Templates, Workload
from headwater.check.levels import Level
from headwater.errors import InputError


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each.name)
def test_changes_of_a_seed_are_always_the_same(workload: Workload) -> None:
    first, again, other = (list(Changes(workload, seed).rounds()) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == workload.rounds
    assert {len(changes) for changes in first} == {workload.together}


def test_every_algorithm_that_runs_is_an_entry_and_the_chosen_one() -> None:
    names = {entry.name for entry in entries(WORKLOADS[0], Level.STRONG)}
    assert {"eca", "lca", "pvm", "sweep", "t-strobe (fetch = on, local = on)", CHOSEN} <= names
    below = [entry.name for entry in entries(WORKLOADS[1], Level.STRONG) if not entry.keeps]
    assert below == ["recompute", "strobe", "c-strobe", "pvm"]


@pytest.mark.parametrize("workload", WORKLOADS[:2], ids=lambda each: each.name)
def test_the_chosen_one_is_compared_with_all_that_could_have_been_chosen(
    workload: Workload,
) -> None:
    names = {entry.name for entry in entries(workload, Level.STRONG) if entry.may_be_chosen}
    assert {"sweep (order = least)", "g-strobe (fetch = on, local = on, order = least)"} <= names
    assert "pvm-cc (handle = posse, policy = adjacent)" in names
    assert "posse (policy = concurrent)" in names


def test_some_algorithms_are_measured_beside_the_chosen_one() -> None:
    listed = command._entries(WORKLOADS[:2], Level.STRONG, ["eca", "sweep (order = least)"])
    names = [[entry.name for entry in found] for found in listed.values()]
    assert names == [["eca", "sweep (order = least)", CHOSEN], ["sweep (order = least)", CHOSEN]]


def test_an_algorithm_that_does_not_maintain_the_workloads_is_named() -> None:
    with pytest.raises(InputError, match=r"'ecca' does not maintain.*There are: .*eca"):
        command._entries(WORKLOADS, Level.STRONG, ["ecca"])


def test_the_chosen_one_is_compared_with_the_best_that_the_best_that_keeps_the_level() -> None:
    found = Comparison(WORKLOADS[0], Level.STRONG)
    measured = {"sweep": 1.0, "lca": 0.5, "copies": 0.7, "strobe": 0.1, CHOSEN: 1.5}
    for name, seconds in measured.items():
        found.found[name] = Measured(name, (seconds,), 1, 100)
        found.entries[name] = Entry(name, "", keeps=name != "strobe")
    assert found.best(lambda m: m.median_ms)[0] == "lca"
    assert found.ratio(lambda m: m.median_ms) == 3.0
    assert found.ratio(lambda m: m.median_ms, choosable=True) == 1.5
    assert found.ratio(lambda m: m.bytes) == 1.0


def test_the_average_leaves_out_what_the_machine_did() -> None:
    """The quickest and the slowest twentieth, of a transaction that asks and one that does not."""
    seconds = (0.0001, *[0.010] * 9, *[0.020] * 9, 3.0)
    assert Measured("t-strobe", seconds, 1, 100).average_ms == pytest.approx(15.0)


@pytest.mark.stress
def test_a_workload_is_measured(tmp_path: Path) -> None:
    templates = Templates(tmp_path)
    try:
        listed = entries(WORKLOADS[1], Level.STRONG)
        found = compare(
            templates, WORKLOADS[1], Level.STRONG, listed, [0], [1], 0.0, lambda text: None
        )
    finally:
        templates.stop()
    assert found.found["sweep"].messages == 4
    assert found.found[CHOSEN].transactions == found.found["sweep"].transactions
    assert found.choices[0].split(" ")[0] == found.found[CHOSEN].algorithm


def test_who_is_compared_is_told_with_each_figure(capsys: pytest.CaptureFixture[str]) -> None:
    found = Comparison(WORKLOADS[0], Level.STRONG, [10], choices=["sweep"])
    for name, (seconds, moved) in {
        "copies": (0.1, 0),
        "sweep": (0.4, 200),
        CHOSEN: (0.2, 300),
    }.items():
        found.found[name] = Measured(name, (seconds, seconds), 2, 2 * moved)
        found.entries[name] = Entry(name, "", keeps=True)
    command._show(found, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "by USING only" in told
    assert "time × 2.00 of the best of all that keep the level (copies)" in told
    assert "time × 1.00 of the best of the choosable (sweep)" in told
    assert "bytes without measure of the best of all that keep the level (copies)" in told
    assert "bytes × 1.50 of the best of the choosable (sweep)" in told
