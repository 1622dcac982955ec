"""Seeded schedules, replayed ones, and schedules as they are written."""

import pytest

from headwater.errors import ScenarioError
from headwater.lab.generate import Shape, generate
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.scenario import scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed, seeded, style_of
from headwater.lab.simulate import simulate

BUSY = generate(1, Shape("single-source", relations=2, transactions=5))


def commits_before_an_answer(seed: int) -> int:
    """How many transactions happen before the first question is answered."""
    kinds = [move.kind for move in run(simulate(BUSY, "conventional"), seeded(seed)).schedule]
    return kinds.index("answer")


def seeds_of(style: str) -> list[int]:
    return [seed for seed in range(50) if style_of(seed) == style]


@pytest.mark.parametrize("seed", range(10))
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    first = run(simulate(BUSY, "conventional"), seeded(seed))
    again = run(simulate(BUSY, "conventional"), seeded(seed))
    assert (first.schedule, first.trace) == (again.schedule, again.trace)


def test_five_seeds_in_a_row_have_five_styles() -> None:
    assert {style_of(seed) for seed in range(5, 10)} == {
        "uniform",
        "adversarial",
        "lazy",
        "bursts",
        "eager",
    }


def test_an_eager_schedule_answers_before_a_lazy_one() -> None:
    eager = [commits_before_an_answer(seed) for seed in seeds_of("eager")]
    lazy = [commits_before_an_answer(seed) for seed in seeds_of("lazy")]
    assert sum(eager) / len(eager) < 2
    assert sum(lazy) / len(lazy) > 3


def test_few_seeds_show_both_a_right_and_a_wrong_run() -> None:
    simulation = simulate(example("eca-2"), "conventional")
    levels = {str(run(simulation, seeded(seed)).verdict.level) for seed in range(5)}
    assert levels == {"none", "complete"}


def test_seeds_give_different_schedules() -> None:
    schedules = {run(simulate(BUSY, "conventional"), seeded(seed)).schedule for seed in range(20)}
    assert len(schedules) >= 8


@pytest.mark.parametrize("seed", range(10))
def test_a_seeded_run_can_be_replayed(seed: int) -> None:
    simulation = simulate(BUSY, "recompute", {"channels": "unordered"})
    first = run(simulation, seeded(seed))
    written = [str(move) for move in first.schedule]
    again = run(simulation, replayed(parse_schedule(written)))
    assert (again.schedule, again.trace) == (first.schedule, first.trace)


def test_a_schedule_that_stops_early_goes_on_in_a_fixed_order() -> None:
    done = run(simulate(example("eca-2"), "conventional"), replayed(()))
    assert [str(a) for a in done.schedule] == ["commit x", "answer x", "commit x", "answer x"]


def test_names_in_a_schedule_may_have_spaces() -> None:
    data = scenario_from_json(
        {
            "relations": {"r": {"source": "my shop", "columns": {"A": "int"}}},
            "view": "SELECT A FROM r",
            "transactions": [{"id": "T 1", "updates": [{"relation": "r", "insert": [1]}]}],
        }
    )
    steps = ["commit my shop", "deliver my shop T 1", "answer my shop Q1", "deliver my shop Q1"]
    done = run(
        simulate(data, "recompute", {"channels": "unordered"}), replayed(parse_schedule(steps))
    )
    assert [str(move) for move in done.schedule] == steps


@pytest.mark.parametrize(
    "step",
    ["", "commit", "comit x", "deliver x", "idle x", "answer", "commit ", 5, None, ["commit", "x"]],
)
def test_what_is_no_step_is_refused_with_its_place(step: object) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_schedule(["commit x", step])
    assert str(caught.value).startswith(f"schedule[1]: {step!r} is not a step. A step is 'commit")


@pytest.mark.parametrize("schedule", ["commit x", {"0": "commit x"}, None, 5])
def test_what_is_no_list_is_no_schedule(schedule: object) -> None:
    with pytest.raises(ScenarioError, match="schedule: must be a list of steps"):
        parse_schedule(schedule)


@pytest.mark.parametrize(
    ("steps", "place"),
    [
        (["answer x"], "schedule[0]: 'answer x' is not possible at this point. "),
        (["commit x", "commit y"], "schedule[1]: 'commit y' is not possible at this point. "),
        (["commit x", "commit x", "commit x"], "schedule[2]: 'commit x' is not possible"),
        (["idle"], "schedule[0]: 'idle' is not possible at this point. "),
        (["commit x", "answer x Q2"], "schedule[1]: 'answer x Q2' is not possible"),
    ],
)
def test_a_step_that_is_not_possible_is_named_with_what_is(steps: list[str], place: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        run(simulate(example("eca-2"), "conventional"), replayed(parse_schedule(steps)))
    assert str(caught.value).startswith(place)
    assert "Possible are: '" in str(caught.value)
