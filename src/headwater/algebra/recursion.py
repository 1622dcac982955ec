"""Recursion: what is found step by step, each step from what the last one has found.

The SQL standard's meaning of WITH RECURSIVE over rows of any kind, in memory or on Spark. With
UNION ALL every row counts that a step finds; with UNION only those that no step has found before,
so that rows which go in a circle end it.

Choices: a recursion that does not end fails, as a row does on which an expression fails. Limits are
Spark's: so many steps as `MAX RECURSION LEVEL` says, 100 by default, and `ROWS_FOR_A_STEP` rows for
each of them, which is a million by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.errors import ExpressionError

MOST_STEPS = 100
ROWS_FOR_A_STEP = 10_000


@dataclass(frozen=True)
class Limit:
    """How far the recursion of a name may go."""

    name: str
    steps: int

    def check(self, steps: int, rows: int) -> None:
        """ExpressionError if there can be no further step behind so many, with so many rows."""
        most = self.steps * ROWS_FOR_A_STEP
        if steps < self.steps and rows <= most:
            return
        raise ExpressionError(
            f"The recursion {self.name} has not ended after {self.steps:,} steps or {most:,} rows.",
            "If rows go in a circle, write UNION, or a condition that ends it; if it needs more "
            f"steps, write MAX RECURSION LEVEL {self.steps * 10} behind its name.",
        )


def repeated(
    start: Rows,
    step: Callable[[Rows], Rows],
    hold: Callable[[Rows], Rows],
    limit: Limit,
    *,
    distinct: bool,
) -> Rows:
    """The start, and what each step makes of what the last one found, until that is nothing.

    `hold` computes rows that are used more than once.
    """
    found = hold(start.each_once() if distinct else start)
    last, steps, rows = found, 0, 0
    while last:
        limit.check(steps, rows)
        new = step(last)
        if distinct:
            columns = found.schema.names
            new = new.each_once().restricted(found, columns, columns, anti=True)
        last = hold(new)
        found = hold(found + last)
        steps, rows = steps + 1, rows + last.number
    return found
