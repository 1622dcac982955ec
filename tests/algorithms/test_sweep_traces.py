"""The PVM paper's examples, step by step, and its Figure 22, tick by tick."""

from __future__ import annotations

import pytest

from headwater.lab.generate import chain
from headwater.lab.library import example
from headwater.lab.run import Run, run
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import TimedRun, run_timed
from headwater.protocol.trace import show_trace


def replay(name: str) -> Run:
    scenario = example(name)
    settings = scenario.data.get("set", {})
    assert isinstance(settings, dict)
    chosen = {key: str(value) for key, value in settings.items()}
    simulation = simulate(scenario, str(scenario.data["algorithm"]), chosen)
    return run(simulation, replayed(parse_schedule(scenario.data["schedule"])))


def test_concurrent_update_is_taken_out_of_the_last_answer() -> None:
    """Section 2.2: the answer at r3 has DU2 in it, the view after DU1 does not."""
    assert show_trace(replay("pvm-2.2").trace)[5:8] == [
        "6. The warehouse receives DU2.",
        "7. Source z evaluates Q1^2: A1^2 = ([1, 2, 3, 4], [1, 2, 3, 5]).",
        "8. The warehouse receives A1^2 = ([1, 2, 3, 4], [1, 2, 3, 5]) and the view becomes "
        "[1, 2, 3, 4] and sends Q2^1 = r2 ⋈ [3, 5] to source y.",
    ]


def test_update_that_is_done_is_remembered_while_an_earlier_one_is_in_work() -> None:
    """Figures 6 and 7: the answer for DU1 shows DU2, which is in the view already."""
    assert show_trace(replay("pvm-6").trace)[4:] == [
        "5. Source x evaluates Q2^1: A2^1 = [1, 3].",
        "6. The warehouse receives A2^1 = [1, 3] and the view becomes [1, 3].",
        "7. Source y evaluates Q1^1: A1^1 = [1, 3].",
        "8. The warehouse receives A1^1 = [1, 3] and the view becomes [1, 3].",
    ]


def test_out_of_order_commit_passes_below_zero_and_ends_right() -> None:
    """Figures 8, 9 and 12: the deletion of [1, 3] commits before its insertion."""
    scenario = example("pvm-8")
    simulation = simulate(scenario, "pvm", {"p": "2"})
    world, counts = simulation.start(), []
    for action in parse_schedule(scenario.data["schedule"]):
        world, _ = simulation.step(world, action)
        counts.append(world.view.count((1, 3)))
    assert counts == [0, 0, -1, 0]
    assert not world.view


TICKS = {
    "sweep": [
        "IS2 Q1^1 1-2",
        "IS3 Q1^2 3-4",
        "IS1 Q2^1 5-6",
        "IS3 Q2^2 7-8",
        "IS2 Q3^1 9-10",
        "IS1 Q3^2 11-12",
    ],
    "p=2": [
        "IS2 Q1^1 1-2",
        "IS1 Q2^1 1-2",
        "IS3 Q1^2 3-4",
        "IS3 Q2^2 5-6",
        "IS2 Q3^1 5-6",
        "IS1 Q3^2 7-8",
    ],
    "p=3": [
        "IS2 Q1^1 1-2",
        "IS1 Q2^1 1-2",
        "IS2 Q3^1 3-4",
        "IS3 Q1^2 3-4",
        "IS3 Q2^2 5-6",
        "IS1 Q3^2 5-6",
    ],
}
"""Figure 22: which source works on which question in which ticks."""


def figure_22(column: str) -> TimedRun:
    scenario = example("pvm-22")
    if column == "sweep":
        return run_timed(simulate(scenario, "sweep"))
    return run_timed(simulate(scenario, "pvm", {"p": column[2:]}))


@pytest.mark.parametrize(("column", "ticks"), [("sweep", 12), ("p=2", 8), ("p=3", 6)])
def test_figure_22_takes_as_many_ticks_as_the_paper_says(column: str, ticks: int) -> None:
    assert figure_22(column).ticks == ticks


@pytest.mark.parametrize("column", TICKS)
def test_figure_22_has_every_question_in_its_place(column: str) -> None:
    served = figure_22(column).served
    assert sorted(f"{s.source} {s.label} {s.start + 1}-{s.end}" for s in served) == sorted(
        TICKS[column]
    )


@pytest.mark.parametrize("relations", [2, 3, 5, 8])
def test_sweep_asks_each_other_relation_once_per_update(relations: int) -> None:
    done = run(simulate(chain(relations, 4), "sweep"), lambda enabled: enabled[-1])
    assert done.trace.message_count == 4 * 2 * (relations - 1)


@pytest.mark.parametrize(("name", "settings"), [("nested-sweep", {}), ("sweep", {"batch": "9"})])
def test_taking_updates_together_asks_less(name: str, settings: dict[str, str]) -> None:
    """All updates come before the first answer."""
    scenario = chain(3, 9)
    plain = run_timed(simulate(scenario, "sweep"))
    together = run_timed(simulate(scenario, name, settings))
    assert len(together.served) < len(plain.served)
    assert together.view == plain.view


def test_nested_sweep_commits_although_updates_never_pause() -> None:
    """Before every answer one more update happens at the source that answers."""
    scenario = chain(3, 60)
    simulation = simulate(scenario, "nested-sweep", {"depth": "3"})
    world, states = simulation.start(), 0
    while any(world.positions[at] < n for at, n in enumerate(simulation.history.final)):
        asked = [at for at, asks in enumerate(world.questions) if asks]
        ready = [a for a in simulation.enabled(world) if a.kind == "commit"]
        busy = [a for a in ready if asked and a.source == scenario.sources[asked[0]]]
        world, _ = simulation.step(world, (busy or ready)[0])
        answers = [a for a in simulation.enabled(world) if a.kind == "answer"]
        if answers:
            world, step = simulation.step(world, answers[0])
            states += len(step.shown)
    assert states >= 5
