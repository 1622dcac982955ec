"""Views in which an expression may fail: error rows are maintained like all others.

The terms of a delta meet rows that never existed together, on which an expression fails, and
these cancel out. An error that is really there is a state of its own, and goes when the row has
been corrected. The checker judges that over all schedules.
"""

from __future__ import annotations

from typing import Any

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.views import FAILING
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.lab.explore import explore
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from headwater.protocol.managers import Need

VIEWS = {
    "select list": "SELECT r1.A, r1.B / r2.C AS q FROM r1, r2 WHERE r1.A = r2.A",
    "where": "SELECT r1.A, r1.B, r2.C FROM r1, r2 WHERE r1.A = r2.A AND r1.B / r2.C > 1",
    "part of a top": "SELECT r1.A, SUM(r1.B / r2.C) AS q FROM r1, r2 WHERE r1.A = r2.A "
    "GROUP BY r1.A",
}
NEVER_MET = [
    {"id": "T1", "updates": [{"relation": "r1", "delete": [1, 6]}]},
    {"id": "T2", "updates": [{"relation": "r2", "update": [[1, 2], [1, 0]]}]},
    {"id": "T3", "updates": [{"relation": "r1", "insert": [2, 9]}]},
]
CORRECTED = [
    {"id": "T1", "updates": [{"relation": "r2", "update": [[1, 2], [1, 0]]}]},
    {"id": "T2", "updates": [{"relation": "r1", "insert": [2, 9]}]},
    {"id": "T3", "updates": [{"relation": "r2", "update": [[1, 0], [1, 3]]}]},
]


def scenario(view: str, transactions: list[dict[str, Any]], sources: int) -> Scenario:
    columns = {"r1": {"A": "int", "B": "int"}, "r2": {"A": "int", "C": "int"}}
    rows = {"r1": [[1, 6]], "r2": [[1, 2], [2, 3]]}
    relations = {
        name: {
            "source": "x" if sources == 1 else f"x{at}",
            "columns": columns[name],
            "key": ["A"],
            "rows": rows[name],
        }
        for at, name in enumerate(columns)
    }
    data: Any = {"relations": relations, "view": view, "transactions": transactions}
    return scenario_from_json(data)


def kept(name: str, view: str) -> bool:
    """Whether an algorithm has the keys that it needs."""
    return view != "part of a top" or Need.KEYS not in ALGORITHMS[name].needs


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_keeps_its_promise_where_expressions_fail(name: str, view: str) -> None:
    if not kept(name, view):
        pytest.skip("needs keys that it does not show")
    for sources, kind in ((1, "single-source"), (2, "multi-source")):
        promised = parse_level(ALGORITHMS[name].promises[kind])
        for transactions in (NEVER_MET, CORRECTED):
            if promised > Level.NONE:
                found = explore(simulate(scenario(VIEWS[view], transactions, sources), name))
                assert found.level >= promised, found.counterexample


def states(name: str, transactions: list[dict[str, Any]], seed: int) -> list[Rows]:
    simulation = simulate(scenario(VIEWS["select list"], transactions, 1), name)
    return run(simulation, seeded(seed)).trace.states


@pytest.mark.parametrize("name", ["eca", "sweep", "strobe", "lca"])
def test_rows_that_never_met_are_no_error(name: str) -> None:
    for seed in range(10):
        assert FAILING not in states(name, NEVER_MET, seed)


def test_an_error_is_there_from_its_row_to_the_correction() -> None:
    shown = states("sweep", CORRECTED, 0)
    assert [state is FAILING for state in shown] == [False, True, True, False]
    assert dict(shown[-1].items()) == {(1, 2.0): 1, (2, 3.0): 1}
