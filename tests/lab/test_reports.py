"""Ways of reporting global transactions: who tells the warehouse what, and when."""

import pytest

from headwater.errors import InputError
from headwater.lab.library import example
from headwater.lab.reports import COMMITTER, NUMBERED, SITES, report
from headwater.lab.run import Run, run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.world import Move, Simulation
from headwater.protocol.trace import Executed, Received, show_trace
from headwater.protocol.trace_json import trace_to_json
from headwater.protocol.transactions import Transaction
from tests.scenarios import counters
from tests.traces import trace_from_json

LOCAL_THEN_GLOBAL = counters("x", "xy", "y")


def told(way: str, source: str, *positions: int) -> Transaction | None:
    """What a source reports after its last step to these positions."""
    history = LOCAL_THEN_GLOBAL.history
    executed = history.transactions[source][positions[history.sources.index(source)] - 1]
    return report(history, positions, executed, way)


def test_every_site_reports_its_own_part() -> None:
    part = told(SITES, "x", 2, 0)
    assert part is not None
    assert (part.id, part.sources, part.spans) == ("T2", ("x",), ("x", "y"))


@pytest.mark.parametrize("way", [COMMITTER, NUMBERED])
def test_a_site_is_silent_while_parts_are_missing(way: str) -> None:
    assert told(way, "x", 2, 0) is None
    assert told(way, "y", 0, 1) is None


@pytest.mark.parametrize(("source", "positions"), [("x", (2, 1)), ("y", (2, 1)), ("x", (2, 2))])
def test_the_site_that_commits_last_reports_the_whole(
    source: str, positions: tuple[int, ...]
) -> None:
    whole = told(COMMITTER, source, *positions)
    assert whole is not None
    assert whole.is_whole
    assert (whole.id, whole.sources, whole.numbers) == ("T2", ("x", "y"), ())
    assert [update.relation for update in whole.updates] == ["x", "y"]


def test_numbers_count_the_transactions_of_each_source() -> None:
    whole, local = told(NUMBERED, "y", 2, 1), told(NUMBERED, "y", 2, 2)
    assert whole is not None
    assert local is not None
    assert dict(zip(whole.sources, whole.numbers, strict=True)) == {"x": 2, "y": 1}
    assert (local.id, local.numbers) == ("T3", (2,))


# In the lab


def replay(scenario: Scenario, settings: dict[str, str], steps: list[str]) -> Run:
    return run(simulate(scenario, "copies", settings), replayed(parse_schedule(steps)))


def test_the_trace_shows_what_silent_sites_execute() -> None:
    steps = ["commit x", "deliver x T1", "commit x", "commit y", "deliver y T2", "commit y"]
    done = replay(LOCAL_THEN_GLOBAL, {"report": "committer"}, [*steps, "deliver y T3"])
    executed = [e.transaction.id for e in done.trace.entries if isinstance(e, Executed)]
    received = [e.transaction.id for e in done.trace.entries if isinstance(e, Received)]
    assert (executed, received) == (["T1", "T2", "T2", "T3"], ["T1", "T2", "T3"])
    assert trace_from_json(trace_to_json(done.trace)) == done.trace


def test_numbers_are_saved_with_a_trace() -> None:
    done = replay(LOCAL_THEN_GLOBAL, {"report": "numbered"}, [])
    numbers = [e.transaction.numbers for e in done.trace.entries if isinstance(e, Received)]
    assert (2, 1) in numbers
    assert trace_from_json(trace_to_json(done.trace)) == done.trace


def deliverable(simulation: Simulation, *steps: str) -> list[str]:
    world = simulation.start()
    for step in parse_schedule(list(steps)):
        world, _ = simulation.step(world, Move(step.kind, *step.source.split()))
    return [str(a) for a in simulation.enabled(world) if a.kind == "deliver"]


def test_a_report_may_arrive_before_what_another_site_sent_earlier() -> None:
    simulation = simulate(LOCAL_THEN_GLOBAL, "copies", {"report": "committer"})
    assert deliverable(simulation, "commit x", "commit x", "commit y") == [
        "deliver x T1",
        "deliver y T2",
    ]


def test_messages_of_one_site_arrive_in_their_order() -> None:
    steps = ("commit x", "commit x", "commit y", "commit y")
    fifo = simulate(LOCAL_THEN_GLOBAL, "copies", {"report": "committer"})
    assert deliverable(fifo, *steps) == ["deliver x T1", "deliver y T2"]
    any_order = {"report": "committer", "channels": "unordered"}
    assert "deliver y T3" in deliverable(simulate(LOCAL_THEN_GLOBAL, "copies", any_order), *steps)


def test_an_answer_waits_for_the_report_of_what_it_reflects() -> None:
    """Example 4: A1 has seen the deletion at y, which x will report."""
    steps = ["commit x", "deliver x T1", "commit y", "answer y", "deliver y Q1"]
    simulation = simulate(example("strobe-4"), "g-strobe", {"report": "numbered"})
    done = run(simulation, replayed(parse_schedule([*steps, "commit x", "deliver x T2"])))
    assert show_trace(done.trace)[4:7] == [
        "5. Source x executes T2 = insert(r1, [2, 3]).",
        "6. The warehouse receives T2 and sends Q2 = [2, 3] ⋈ r2 to source y.",
        "7. The warehouse receives A1 = [1, 3, 5].",
    ]


def test_a_way_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"report=nobody.*Choose sites or committer or numbered"):
        simulate(LOCAL_THEN_GLOBAL, "copies", {"report": "nobody"})
