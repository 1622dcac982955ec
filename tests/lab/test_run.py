"""One run: what a reader sees of it."""

from headwater.lab.run import run
from headwater.lab.scenario import scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate

BOTH_ARE_DELETED = scenario_from_json(
    {
        "relations": {
            "r1": {"source": "x", "columns": {"A": "int"}, "rows": [[1]]},
            "r2": {"source": "x", "columns": {"A": "int"}, "rows": [[1]]},
        },
        "view": "SELECT r1.A FROM r1, r2 WHERE r1.A = r2.A",
        "transactions": [
            {"id": "T1", "updates": [{"relation": "r1", "delete": [1]}]},
            {"id": "T2", "updates": [{"relation": "r1", "insert": [1]}]},
            {"id": "T3", "updates": [{"relation": "r2", "delete": [1]}]},
        ],
    }
)
STEPS = ["commit x", "answer x", "commit x", "commit x", "answer x", "answer x"]


def test_a_reader_does_not_see_rows_that_count_less_than_nothing() -> None:
    """The insertion is asked for too late and finds nothing, so one row is taken off twice."""
    done = run(simulate(BOTH_ARE_DELETED, "conventional"), replayed(parse_schedule(STEPS)))
    assert [len(state) for state in done.trace.states] == [1, 0, 0, 0]
    assert str(done.verdict.level) == "strong"
