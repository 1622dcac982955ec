"""What ECA and recomputing cost over k updates: the ECA paper's section 6, counted in the lab.

Example 6: W and Z of `r1(W, X) ⋈ r2(X, Y) ⋈ r3(Y, Z)` where W > Z; every relation has C rows, every
join value occurs J times, half of the joined rows are selected. Updates insert into r1, r2 and
r3 in turn. Best case of ECA: each answer comes before the next update; worst: all updates
come first. Best case of recomputing: once at the end; worst: after every update.

The formulas are the paper's, the counts are those of simulated runs. The paper counts the rows
of every term by itself. An answer here is the sum of its terms, in which rows of opposite sign
cancel, so it is smaller; both are counted. The worst case needs inserted rows that join with each
other, and then J grows with k, which the paper leaves out: compare small k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.values import Json
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import Chooser
from headwater.lab.simulate import simulate
from headwater.lab.world import Move, Simulation
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived

C, J, SIGMA = 100, 4, 0.5
"""Rows of a relation, rows with one join value, share of rows that are selected."""
S = 16
"""Bytes of a row of the view, as the lab counts them: two integers."""


@dataclass(frozen=True)
class Costs:
    """One way to maintain the view over k updates: counted, and by the paper's formulas."""

    way: str
    updates: int
    messages: int
    messages_formula: int
    size: int
    """Bytes of all answers."""
    size_by_term: int
    """Bytes if the rows of every term travelled by themselves, as the paper counts."""
    size_formula: float
    terms: int
    """Terms that sources evaluated."""


def count_costs(updates: int, seed: int = 0) -> list[Costs]:
    """The four cases of section 6 for one number of updates."""
    scenario = example_6(updates, seed)
    k = updates
    answer = S * SIGMA * J * J
    whole = S * SIGMA * C * J * J
    cases: list[tuple[str, str, dict[str, str], Chooser, int, float]] = [
        ("ECA best", "eca", {}, _answers_first, 2 * k, k * answer),
        (
            "ECA worst",
            "eca",
            {},
            _commits_first,
            2 * k,
            k * answer + k * (k - 1) * S * SIGMA * J / 3,
        ),
        ("RV best", "recompute", {"every": str(k)}, _commits_first, 2, whole),
        ("RV worst", "recompute", {}, _answers_first, 2 * k, k * whole),
    ]
    return [
        _counted(way, k, simulate(scenario, name, settings), choose, messages, size)
        for way, name, settings, choose, messages, size in cases
    ]


def _counted(
    way: str, k: int, simulation: Simulation, choose: Chooser, messages: int, size: float
) -> Costs:
    counting = CountingTerms(simulation.scenario, simulation.manager)
    trace = run(counting, choose).trace
    by_term = sum(counting.term_sizes)
    return Costs(
        way, k, trace.message_count, messages, trace.byte_count, by_term, size, trace.term_count
    )


@dataclass(frozen=True, eq=False)
class CountingTerms(Simulation):
    """A simulation that also counts the bytes of every term's own rows."""

    term_sizes: list[int] = field(default_factory=list)

    def evaluate(self, ask: Ask, position: int) -> AnswerArrived:
        state = self.history.state_of(ask.source, position)
        self.term_sizes.extend(
            evaluate_term(term, state).byte_count for query in ask.queries for term in query
        )
        return super().evaluate(ask, position)


def _answers_first(enabled: Sequence[Move]) -> Move:
    return next((move for move in enabled if move.kind != "commit"), enabled[0])


def _commits_first(enabled: Sequence[Move]) -> Move:
    return next((move for move in enabled if move.kind == "commit"), enabled[0])


def example_6(updates: int, seed: int = 0) -> Scenario:
    """C rows in each relation, every join value J times; inserted rows also meet each other."""
    random = Random(seed)
    values = C // J
    numbers = list(range(C))
    random.shuffle(numbers)
    rows: dict[str, list[list[int]]] = {
        "r1": [[random.randrange(1000), at % values] for at in range(C)],
        "r2": [[at % values, number % values] for at, number in enumerate(numbers)],
        "r3": [[at % values, random.randrange(1000)] for at in range(C)],
    }
    columns = {"r1": ("W", "X"), "r2": ("X", "Y"), "r3": ("Y", "Z")}
    relations: Object = {
        name: {
            "source": "x",
            "columns": dict.fromkeys(columns[name], "int"),
            "rows": [list(row) for row in found],
        }
        for name, found in rows.items()
    }
    fresh = {
        "r1": lambda: [random.randrange(1000), 0],
        "r2": lambda: [0, 0],
        "r3": lambda: [0, random.randrange(1000)],
    }
    transactions: list[Json] = []
    for number in range(updates):
        name = f"r{number % 3 + 1}"
        update: Object = {"relation": name, "insert": list(fresh[name]())}
        transactions.append({"id": f"U{number + 1}", "updates": [update]})
    view = "SELECT r1.W, r3.Z FROM r1, r2, r3 WHERE r1.X = r2.X AND r2.Y = r3.Y AND r1.W > r3.Z"
    data: Object = {"relations": relations, "view": view, "transactions": transactions}
    return scenario_from_json(data, "ECA, Example 6")
