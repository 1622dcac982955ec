"""Example 6 of the ECA paper, run in the lab: what is sent, and what the source reads, counted.

The data keeps the paper's assumptions exactly, not just on the average: every join value occurs J
times whenever a relation is read, and half of what is joined is selected. For that, updates come in
pairs, an insertion and a deletion of rows with the same join values, of r1, r2 and r3 in turn; and
rows of r3 are all selected or not at all, so that each case is run with either and averaged. Three
updates are insertions, as in the paper, into relations that lack just these rows.

Appendix D.2 gives a term that is bound by rows of r1 and r3 as many rows as one bound by rows of
two neighbours. That holds only if rows of r2 with the same X have the same Y: so it is here, unless
the data is to be `spread`, with J different values of Y for each X.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.values import Json
from headwater.bench.papers.eca_disk import Reads, reads_of
from headwater.bench.papers.eca_formulas import Parameters
from headwater.lab.run import run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.simulate import simulate
from headwater.lab.world import Move, Simulation
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived

WAYS = ("RV best", "RV worst", "ECA best", "ECA worst")
VIEW = "SELECT r1.W, r3.Z FROM r1, r2, r3 WHERE r1.X = r2.X AND r2.Y = r3.Y AND r1.W > r3.Z"
_COLUMNS = {"r1": ("W", "X"), "r2": ("X", "Y"), "r3": ("Y", "Z")}
_MIDDLE, _HIGH = 10_000, 100_000
"""Every W lies between the low values of Z, which are selected, and the high ones."""


@dataclass(frozen=True)
class Counted:
    """One way to maintain the view over k updates; averages of two runs."""

    way: str
    messages: float
    bytes: float
    """Of the rows of every term by itself, as the paper counts."""
    net_bytes: float
    """Of the answers: sums of terms, in which rows of opposite sign cancel."""
    terms: float
    io1: float
    io2: float
    io2_every: float


def count(way: str, p: Parameters, k: int, spread: bool = False) -> Counted:
    """Count what one of `WAYS` costs."""
    runs = [_run(way, example_6(p, k, low, way, spread), p, k) for low in (True, False)]
    averages = (sum(values) / len(runs) for values in zip(*runs, strict=True))
    return Counted(way, *averages)


def _run(way: str, scenario: Scenario, p: Parameters, k: int) -> Sequence[int]:
    name = "recompute" if way.startswith("RV") else "eca"
    settings = {"every": str(k)} if way == "RV best" else {}
    chosen = simulate(scenario, name, settings)
    counting = Counting(chosen.scenario, chosen.manager, block=p.K)
    late = way in ("RV best", "ECA worst")
    trace = run(counting, _commits_first if late else _answers_first).trace
    reads, net = counting.reads, counting.net_rows
    return [
        trace.message_count,
        p.S * sum(counting.term_rows),
        p.S * sum(net),
        len(counting.term_rows),
        sum(read.io1 for read in reads),
        sum(read.io2 for read in reads),
        sum(read.io2_every for read in reads),
    ]


@dataclass(frozen=True, eq=False)
class Counting(Simulation):
    """A simulation that counts what the source does for every term."""

    block: int = 20
    term_rows: list[int] = field(default_factory=list)
    net_rows: list[int] = field(default_factory=list)
    reads: list[Reads] = field(default_factory=list)

    def evaluate(self, ask: Ask, position: int) -> AnswerArrived:
        state = self.history.state_of(ask.source, position)
        for query in ask.queries:
            for term in query:
                self.term_rows.append(_size(evaluate_term(term, state).items()))
                self.reads.append(reads_of(term, state, self.block))
        answer = super().evaluate(ask, position)
        self.net_rows.extend(_size(rows.items()) for rows in answer.results)
        return answer


def _size(items: Iterable[tuple[object, int]]) -> int:
    return sum(abs(count) for _, count in items)


def _answers_first(enabled: Sequence[Move]) -> Move:
    return next((move for move in enabled if move.kind != "commit"), enabled[0])


def _commits_first(enabled: Sequence[Move]) -> Move:
    return next((move for move in enabled if move.kind == "commit"), enabled[0])


# The data


def example_6(p: Parameters, k: int, low: bool, way: str = "", spread: bool = False) -> Scenario:
    """Three updates, or a multiple of six; the first of r3 are selected if `low`."""
    rows = _regular(p, spread)
    if k == 3:
        updates = _insertions(p, rows, low, meet=way != "ECA best")
    else:
        updates = list(_in_turn(p, rows, low, k))
    relations: Object = {
        name: {
            "source": "x",
            "columns": dict.fromkeys(_COLUMNS[name], "int"),
            "rows": [list(row) for row in found],
        }
        for name, found in rows.items()
    }
    transactions: list[Json] = [
        {"id": f"U{number}", "updates": [{"relation": name, kind: list(row)}]}
        for number, (name, kind, row) in enumerate(updates, 1)
    ]
    data: Object = {"relations": relations, "view": VIEW, "transactions": transactions}
    return scenario_from_json(data, "ECA, Example 6")


Row = tuple[int, int]
Tables = dict[str, list[Row]]


def _regular(p: Parameters, spread: bool) -> Tables:
    """C rows in each relation, every join value J times, half of every group of r3 low."""
    values = p.C // p.J
    each = [(value, at) for value in range(values) for at in range(p.J)]
    return {
        "r1": [(_MIDDLE + number, value) for number, (value, _) in enumerate(each)],
        "r2": [(value, (value + at * spread) % values) for value, at in each],
        "r3": [(value, number + _HIGH * (at % 2)) for number, (value, at) in enumerate(each)],
    }


def _insertions(p: Parameters, rows: Tables, low: bool, meet: bool) -> list[tuple[str, str, Row]]:
    """Rows that the relations lack so far; they join each other, or nothing of the others."""
    last = p.C // p.J - 1
    x, y = (0, 0) if meet else (last, last - 1)
    inserted = {
        "r1": next(row for row in rows["r1"] if row[1] == x),
        "r2": (0, 0),
        "r3": next(row for row in rows["r3"] if row[0] == y and (row[1] < _MIDDLE) == low),
    }
    for name, row in inserted.items():
        rows[name].remove(row)
    return [(name, "insert", row) for name, row in inserted.items()]


def _in_turn(p: Parameters, rows: Tables, low: bool, k: int) -> Iterable[tuple[str, str, Row]]:
    """A new row for an old one, of r1, r2 and r3 in turn; every row joins all others."""
    here = {name: list(found) for name, found in rows.items()}
    for pair in range(k // 2):
        name, is_low = f"r{pair % 3 + 1}", (pair // 3 % 2 == 0) == low
        old = next(row for row in here[name] if _is_met(name, row, is_low))
        new = _like(name, pair, is_low)
        here[name].remove(old)
        here[name].append(new)
        swapped = [("insert", new), ("delete", old)]
        for kind, row in swapped if pair % 2 == 0 else reversed(swapped):
            yield name, kind, row


def _is_met(name: str, row: Row, is_low: bool) -> bool:
    match name:
        case "r1":
            return row[1] == 0
        case "r2":
            return row == (0, 0)
        case _:
            return row[0] == 0 and (row[1] < _MIDDLE) == is_low


def _like(name: str, number: int, is_low: bool) -> Row:
    match name:
        case "r1":
            return 2 * _MIDDLE + number, 0
        case "r2":
            return 0, 0
        case _:
            return 0, _MIDDLE // 2 + number + (0 if is_low else _HIGH)
