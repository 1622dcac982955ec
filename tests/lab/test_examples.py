"""The shipped examples do what they say, and print as the papers print them."""

import pytest

from headwater.errors import InputError
from headwater.lab.explore import explore
from headwater.lab.library import example, example_names
from headwater.lab.run import Run, run
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.protocol.trace import show_trace
from headwater.protocol.trace_json import rows_to_json

WITH_A_RUN = [name for name in example_names() if "schedule" in example(name).data]


def replay(name: str) -> Run:
    scenario = example(name)
    settings = scenario.data.get("set", {})
    assert isinstance(settings, dict)
    simulation = simulate(
        scenario,
        str(scenario.data["algorithm"]),
        {key: str(value) for key, value in settings.items()},
    )
    return run(simulation, replayed(parse_schedule(scenario.data["schedule"])))


@pytest.mark.parametrize("name", WITH_A_RUN)
def test_an_example_does_what_it_expects(name: str) -> None:
    done, expected = replay(name), example(name).data["expect"]
    assert isinstance(expected, dict)
    found = {
        "level": str(done.verdict.level),
        "states": [rows_to_json(state) for state in done.trace.states],
    }
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", WITH_A_RUN)
def test_an_example_lists_its_whole_schedule(name: str) -> None:
    assert [str(move) for move in replay(name).schedule] == example(name).data["schedule"]


@pytest.mark.parametrize("name", example_names())
def test_an_example_is_named_like_its_file_and_says_what_it_is_about(name: str) -> None:
    scenario = example(name)
    assert scenario.name == name
    assert scenario.data["about"]


def test_most_examples_have_a_run_to_replay() -> None:
    assert {"eca-1", "eca-2", "eca-3", "strobe-0"} <= set(WITH_A_RUN)


def test_an_unknown_example_is_refused_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no example 'eca-99'. There are: eca-1, eca-2"):
        example("eca-99")


ECA_2 = """\
1. Source x executes U1 = insert(r2, [2, 3]).
2. The warehouse receives U1 and sends Q1 = Π_W(r1 ⋈ [2, 3]) to source x.
3. Source x executes U2 = insert(r1, [4, 2]).
4. The warehouse receives U2 and sends Q2 = Π_W([4, 2] ⋈ r2) to source x.
5. Source x evaluates Q1: A1 = ([1], [4]).
6. The warehouse receives A1 = ([1], [4]) and the view becomes ([1], [4]).
7. Source x evaluates Q2: A2 = [4].
8. The warehouse receives A2 = [4] and the view becomes ([1], [4], [4]).
"""
ECA_3 = """\
1. Source x executes U1 = delete(r1, [1, 2]).
2. The warehouse receives U1 and sends Q1 = Π_{W,Y}((-[1, 2]) ⋈ r2) to source x.
3. Source x executes U2 = delete(r2, [2, 3]).
4. The warehouse receives U2 and sends Q2 = Π_{W,Y}(r1 ⋈ (-[2, 3])) to source x.
5. Source x evaluates Q1: A1 = ∅.
6. The warehouse receives A1 = ∅ and the view becomes [1, 3].
7. Source x evaluates Q2: A2 = ∅.
8. The warehouse receives A2 = ∅ and the view becomes [1, 3].
"""
STROBE_1 = """\
1. Source y executes U2 = insert(r2, [2, 3]).
2. The warehouse receives U2 and sends Q1^1 = r1 ⋈ [2, 3] to source x.
3. Source x evaluates Q1^1: A1^1 = [1, 2, 3].
4. The warehouse receives A1^1 = [1, 2, 3] and sends Q1^2 = [1, 2, 3] ⋈ r3 to source z.
5. Source z evaluates Q1^2: A1^2 = [1, 2, 3, 4].
6. The warehouse receives A1^2 = [1, 2, 3, 4] and the view becomes [1, 2, 3, 4].
"""
STROBE_2 = """\
1. Source y executes U1 = insert(r2, [2, 3]).
2. The warehouse receives U1 and sends Q1^1 = r1 ⋈ [2, 3] to source x.
3. Source x evaluates Q1^1: A1^1 = [1, 2, 3].
4. The warehouse receives A1^1 = [1, 2, 3] and sends Q1^2 = [1, 2, 3] ⋈ r3 to source z.
5. Source x executes U2 = delete(r1, [1, 2]).
6. The warehouse receives U2.
7. Source z evaluates Q1^2: A1^2 = [1, 2, 3, 4].
8. The warehouse receives A1^2 = [1, 2, 3, 4] and the view becomes ∅.
"""
STROBE_3 = """\
1. Source x executes T1 = ⟨delete(r1, [1, 2]), insert(r1, [3, 4])⟩.
2. The warehouse receives T1 and the view becomes ∅ and the view becomes [3, 4].
"""
STROBE_4 = """\
1. Source x executes T1 = insert(r1, [1, 3]).
2. The warehouse receives T1 and sends Q1 = [1, 3] ⋈ r2 to source y.
3. Source y executes T2 = delete(r2, [3, 4]).
4. The warehouse receives T2.
5. Source y evaluates Q1: A1 = [1, 3, 5].
6. The warehouse receives A1 = [1, 3, 5] and the view becomes [1, 3, 5].
7. Source x executes T2 = insert(r1, [2, 3]).
8. The warehouse receives T2 and sends Q2 = [2, 3] ⋈ r2 to source y.
9. Source y evaluates Q2: A2 = [2, 3, 5].
10. The warehouse receives A2 = [2, 3, 5] and the view becomes ([1, 3, 5], [2, 3, 5]).
"""
STROBE_0 = """\
1. Source y executes U1 = insert(r2, [2, 3]).
2. The warehouse receives U1 and sends Q1^1 = r1 ⋈ [2, 3] to source x.
3. Source x evaluates Q1^1: A1^1 = [1, 2, 3].
4. The warehouse receives A1^1 = [1, 2, 3] and sends Q1^2 = [1, 2, 3] ⋈ r3 to source z.
5. Source x executes U2 = delete(r1, [1, 2]).
6. The warehouse receives U2 and the view becomes ∅.
7. Source z evaluates Q1^2: A1^2 = [1, 2, 3, 4].
8. The warehouse receives A1^2 = [1, 2, 3, 4] and the view becomes [1, 2, 3, 4].
"""
STROBE_5 = """\
1. Source y executes U1 = insert(r2, [2, 3]).
2. The warehouse receives U1 and sends Q1,1,0^1 = r1 ⋈ [2, 3] to source x.
3. Source x evaluates Q1,1,0^1: A1,1,0^1 = [1, 2, 3].
4. The warehouse receives A1,1,0^1 = [1, 2, 3] and sends Q1,1,0^2 = [1, 2, 3] ⋈ r3 to source z.
5. Source x executes U2 = delete(r1, [1, 2]).
6. The warehouse receives U2.
7. Source z evaluates Q1,1,0^2: A1,1,0^2 = [1, 2, 3, 4].
8. The warehouse receives A1,1,0^2 = [1, 2, 3, 4] and sends Q1,2,1 = [1, 2] ⋈ [2, 3] ⋈ r3 \
to source z.
9. Source z evaluates Q1,2,1: A1,2,1 = [1, 2, 3, 4].
10. The warehouse receives A1,2,1 = [1, 2, 3, 4] and the view becomes [1, 2, 3, 4] \
and the view becomes ∅.
"""
STROBE_6 = """\
1. Source y executes U1 = insert(r2, [2, 3]).
2. The warehouse receives U1 and sends Q1,1,0^1 = r1 ⋈ [2, 3] to source x.
3. Source x executes U2 = delete(r1, [1, 2]).
4. The warehouse receives U2.
5. Source x evaluates Q1,1,0^1: A1,1,0^1 = ∅.
6. The warehouse receives A1,1,0^1 = ∅ and sends Q1,2,1 = [1, 2] ⋈ [2, 3] ⋈ r3 to source z.
7. Source z evaluates Q1,2,1: A1,2,1 = [1, 2, 3, 4].
8. The warehouse receives A1,2,1 = [1, 2, 3, 4] and the view becomes [1, 2, 3, 4] \
and the view becomes ∅.
"""
PRINTED = {
    "eca-2": ECA_2,
    "eca-3": ECA_3,
    "strobe-0": STROBE_0,
    "strobe-1": STROBE_1,
    "strobe-2": STROBE_2,
    "strobe-3": STROBE_3,
    "strobe-4": STROBE_4,
    "strobe-5": STROBE_5,
    "strobe-6": STROBE_6,
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_steps_print_as_in_the_paper(name: str) -> None:
    assert show_trace(replay(name).trace) == PRINTED[name].splitlines()


def test_t_strobe_goes_from_one_end_of_a_transaction_to_the_other() -> None:
    """Example 3, the second half."""
    done = run(simulate(example("strobe-3"), "t-strobe"), replayed(parse_schedule(["commit x"])))
    assert show_trace(done.trace)[1:] == [
        "2. The warehouse receives T1 and the view becomes [3, 4]."
    ]


@pytest.mark.parametrize(("name", "printed"), [("eca-2", ECA_2), ("eca-3", ECA_3)])
def test_exploring_finds_the_papers_anomaly_by_itself(name: str, printed: str) -> None:
    simulation = simulate(example(name), "conventional")
    found = explore(simulation)
    assert found.counterexample is not None
    done = run(simulation, replayed(found.counterexample))
    assert (str(found.level), str(done.verdict.level)) == ("none", "none")
    assert show_trace(done.trace) == printed.splitlines()
