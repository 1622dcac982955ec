"""From where on a view is recomputed rather than maintained: what waits for it against a load.

Taking changed rows in costs what asking for their partners and writing what they come to does, for
each row; a load costs about the same whatever has changed. Both are measured: what a load of the
view took, and how large batches compared with what the statistics expect of them. Until there is
something, defaults stand for it.

Choices: recomputing has to be clearly quicker, since it reads the sources whole, and what was asked
already is thrown away; few rows are never weighed. Starting is all that is weighed: a load that is
under way is not given up, so the choice cannot swing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal, TypeAlias

from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.costs.estimating import Estimator
from headwater.costs.statistics import Loaded, Prices, Statistics

Recompute: TypeAlias = Literal["never", "when cheaper"] | int
"""When a view is recomputed: a number is from how many changed rows on that wait."""

FEWEST_ROWS = 10_000
"""Fewer changed rows are taken in at once, whatever a load would cost."""
CLEARLY = 1.2
"""A load is begun when taking in what waits would take so many times as long."""
UNMEASURED = 1.5
"""The same in place of it while either is only assumed."""
_BULK_ROW_S = 1.5e-6
"""For each row that is joined or written where there are many: in columns, or by Spark."""
_SPARK_TIMES = 3.0
"""How many times as long a row takes where Spark works on the change, on one machine."""
_LOAD_S, _LOAD_ROW_S = 1.0, 2e-6
"""What a load takes that was not measured: by itself, and for each row that it reads."""


def recomputes(asked: Recompute | None, level: Level) -> Recompute:
    """When a view is recomputed; one that shows every state only if its file says so."""
    if asked is not None:
        return asked
    return "never" if level in (Level.NONE, Level.COMPLETE) else "when cheaper"


@dataclass(frozen=True)
class Crossover:
    """What either way costs one view."""

    row_s: Mapping[str, float]
    """Taking in a changed row, by relation."""
    load_s: float
    is_measured: bool
    """Whether both were measured, and not only assumed."""
    from_rows: int | None = None
    """From how many rows on it is recomputed, if somebody has said so: whatever it costs."""
    spark_from: float = inf
    """Changes of more rows are worked on by Spark."""

    def maintaining_s(self, waiting: Mapping[str, float]) -> float:
        return _taking_s(self.row_s, waiting, self.spark_from)

    def is_passed(self, waiting: Mapping[str, float]) -> bool:
        """Whether so many changed rows, by relation, are a reason to recompute."""
        rows = sum(waiting.values())
        if self.from_rows is not None:
            return rows >= self.from_rows
        return rows >= FEWEST_ROWS and self.maintaining_s(waiting) > self._enough_s

    def rows_of(self, relation: str) -> float:
        """From how many changed rows of one relation on it is passed."""
        if self.from_rows is not None:
            return float(self.from_rows)
        row_s = self.row_s.get(relation, 0.0)
        if not row_s:
            return inf
        rows = self._enough_s / row_s
        if rows > self.spark_from:
            rows = max(self.spark_from, rows / _SPARK_TIMES)
        return max(float(FEWEST_ROWS), rows)

    @property
    def _enough_s(self) -> float:
        return self.load_s * (CLEARLY if self.is_measured else UNMEASURED)

    def told(self, waiting: Mapping[str, float]) -> str:
        """Why it is recomputed, as a sentence."""
        rows = f"{sum(waiting.values()):,.0f} changed rows waited"
        if self.from_rows is not None:
            return f"{rows}, and its file says RECOMPUTE FROM {self.from_rows} ROWS."
        return (
            f"{rows}, which would have taken about {self.maintaining_s(waiting):.1f} s to take in; "
            f"a load takes about {self.load_s:.1f} s."
        )


def crossover(
    view: View,
    algorithm: str,
    parameters: Mapping[str, str],
    statistics: Statistics,
    name: str,
    recompute: Recompute,
    spark_from: float = inf,
) -> Crossover | None:
    """Where recomputing a view by an algorithm is quicker than maintaining it; None if never.

    `name` is that of the view in the statistics; Spark works on changes of more than `spark_from`
    rows.
    """
    if recompute == "never":
        return None
    loaded, pace = statistics.loads.get(name), statistics.paces.get(name)
    found = _row_s(view, algorithm, parameters, statistics)
    return Crossover(
        {relation: row_s * (1.0 if pace is None else pace) for relation, row_s in found.items()},
        _load_s(view, statistics, loaded),
        loaded is not None and pace is not None,
        recompute if isinstance(recompute, int) else None,
        spark_from,
    )


def expected_s(
    view: View,
    algorithm: str,
    parameters: Mapping[str, str],
    statistics: Statistics,
    rows: Mapping[str, float],
    spark_from: float = inf,
) -> float:
    """What taking in so many changed rows is expected to take where nothing was measured."""
    return _taking_s(_row_s(view, algorithm, parameters, statistics), rows, spark_from)


def _taking_s(row_s: Mapping[str, float], rows: Mapping[str, float], spark_from: float) -> float:
    found = sum(row_s.get(name, 0.0) * count for name, count in rows.items())
    return found * _SPARK_TIMES if sum(rows.values()) > spark_from else found


def _row_s(
    view: View, algorithm: str, parameters: Mapping[str, str], statistics: Statistics
) -> dict[str, float]:
    """What each further changed row of a relation takes, by a trial in which all that does not
    grow with the rows is free."""
    estimator = Estimator(view, _marginal(statistics, view), each_state=False)
    found = {}
    for relation in view.relations:
        change = [(relation.name, "inserts")]
        try:
            tried = estimator.tried(ALGORITHMS[algorithm], parameters, change, 1, 0.0)
            found[relation.name] = max(tried.time_s, 2 * _BULK_ROW_S)
        except Exception:  # an estimate is no reason to stop a view
            found[relation.name] = 2 * _BULK_ROW_S * len(view.relations)
    return found


def _marginal(statistics: Statistics, view: View) -> Statistics:
    free = Prices(0.0, 0.0, _BULK_ROW_S, 0.0, 0.0)
    sources = {
        name: replace(statistics.source(name), question_s=0.0, together=1.0)
        for name in view.sources
    }
    return Statistics(statistics.relations, sources, free)


def _load_s(view: View, statistics: Statistics, loaded: Loaded | None) -> float:
    """What a load takes now, by how the last one compared with what was assumed of it: of a small
    one most does not grow with the rows."""
    known = [statistics.relations.get(relation.name) for relation in view.relations]
    rows = sum(each.rows for each in known if each is not None)
    if loaded is not None:
        now = max(rows, loaded.rows)
        return loaded.seconds * _assumed_s(now) / _assumed_s(loaded.rows)
    return _assumed_s(sum(statistics.relation(relation.name).rows for relation in view.relations))


def _assumed_s(rows: float) -> float:
    return _LOAD_S + rows * _LOAD_ROW_S
