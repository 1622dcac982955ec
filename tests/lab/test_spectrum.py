"""The consistency spectrum: promises are kept, and every cell below complete shows why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.check.levels import Level
from headwater.lab.run import run
from headwater.lab.scenario import Object, scenario_from_json
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.lab.spectrum import Cell, measure_spectrum, shrunk


def level_of(counterexample: Object) -> Level:
    settings = counterexample["set"]
    assert isinstance(settings, dict)
    simulation = simulate(
        scenario_from_json(counterexample),
        str(counterexample["algorithm"]),
        {key: str(value) for key, value in settings.items()},
    )
    return run(simulation, replayed(parse_schedule(counterexample["schedule"]))).verdict.level


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return list(measure_spectrum(range(2)))


def test_every_promise_is_kept(cells: list[Cell]) -> None:
    broken = [(c.algorithm, c.kind, str(c.measured)) for c in cells if not c.is_kept]
    assert not broken
    assert len(cells) == len(ALGORITHMS) * len(SCENARIO_KINDS)


def test_every_cell_below_complete_has_a_run_that_does_not_reach_the_next_level(
    cells: list[Cell],
) -> None:
    below = [cell for cell in cells if cell.measured < Level.COMPLETE]
    assert len(below) > 20
    for cell in below:
        assert cell.counterexample is not None
        assert level_of(cell.counterexample) == cell.measured, (cell.algorithm, cell.kind)
    assert not any(c.counterexample for c in cells if c.measured == Level.COMPLETE)


def test_the_strobe_papers_figure_is_measured(cells: list[Cell]) -> None:
    """Figure 9.3 and the text around it: complete, strong, convergent and weak where it says."""
    found = {(c.algorithm, c.kind): c.measured for c in cells}
    assert found["conventional", "single-source"] == Level.NONE
    assert found["eca", "single-source"] == Level.STRONG
    assert found["strobe", "multi-source"] == Level.STRONG
    assert found["strobe", "source-local"] == Level.CONVERGENT
    assert found["t-strobe", "source-local"] == Level.STRONG
    assert found["t-strobe", "global"] == Level.WEAK
    assert found["c-strobe", "multi-source"] == Level.COMPLETE
    assert found["c-t-strobe", "source-local"] == Level.COMPLETE


def test_a_broken_promise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    boastful = replace(ALGORITHMS["strobe"], promises=dict.fromkeys(SCENARIO_KINDS, "complete"))
    monkeypatch.setitem(ALGORITHMS, "strobe", boastful)
    (cell,) = measure_spectrum([], ["strobe"], ["global"])
    assert (cell.promised, cell.is_kept) == (Level.COMPLETE, False)


def test_a_shrunk_counterexample_is_smaller_and_as_low() -> None:
    (cell,) = measure_spectrum([], ["strobe"], ["single-source"])
    small = shrunk(cell)
    assert cell.counterexample is not None
    assert small.counterexample is not None
    assert level_of(small.counterexample) == cell.measured == small.measured
    assert len(str(small.counterexample)) < len(str(cell.counterexample))
