from __future__ import annotations

from headwater.costs.trial import Estimate
from headwater.costs.weighing import CLEARLY, NEARLY, Candidate, weigh


def candidate(name: str, time_s: float, moved: float = 100.0, out: str = "") -> Candidate:
    return Candidate(name, {}, None if out else Estimate(2.0, moved, time_s), out)


def taken(*candidates: Candidate, running: str | None = None, measured: bool = True) -> str:
    return weigh(candidates, "sweep", running, measured).taken.algorithm


def test_the_quickest_is_taken() -> None:
    assert taken(candidate("sweep", 2.0), candidate("eca", 1.0)) == "eca"


def test_of_those_nearly_as_quick_the_one_that_moves_least_is_taken() -> None:
    quick, near, far = (
        candidate("eca", 1.0, 500),
        candidate("posse", 0.99 * NEARLY, 50),
        candidate("lca", 1.01 * NEARLY, 5),
    )
    assert taken(candidate("sweep", 9.0), quick, near, far) == "posse"


def test_what_runs_stays_until_another_is_clearly_better() -> None:
    sweep, eca = candidate("sweep", 1.0), candidate("eca", 1.0 / CLEARLY + 0.001)
    assert taken(sweep, eca, running="sweep") == "sweep"
    assert taken(sweep, eca, running="eca") == "eca"
    assert taken(sweep, candidate("eca", 0.5), running="sweep") == "eca"
    assert taken(sweep, candidate("eca", 0.99, 10), running="sweep") == "eca"


def test_what_runs_and_is_out_now_does_not_stay() -> None:
    sweep, eca = candidate("sweep", 1.0), candidate("eca", 1.0, out="the sources hardly pause")
    assert taken(sweep, eca, running="eca") == "sweep"


def test_until_something_was_measured_the_default_is_taken() -> None:
    found = weigh([candidate("sweep", 2.0), candidate("eca", 1.0)], "sweep", None, False)
    assert found.taken.algorithm == "sweep"
    assert "nothing was measured yet" in found.why


def test_the_best_parameters_of_each_stand_for_it() -> None:
    slow, quick = candidate("posse", 3.0), candidate("posse", 1.0)
    found = weigh([slow, quick, candidate("sweep", 2.0)], "sweep", None, True)
    assert [each.algorithm for each in found.candidates] == ["posse", "sweep"]
    assert found.taken is quick


def test_a_default_that_cannot_be_estimated_is_taken_all_the_same() -> None:
    assert taken(candidate("sweep", 0, out="cannot be estimated"), candidate("eca", 1)) == "sweep"
