"""Columns that aggregates and window functions look at, each expression computed once.

Separate from both: they find their arguments by place, and rows that are computed before are
computed as rows of a Frame, with what may fail on them known.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.schema import Schema
from headwater.algebra.windows import WindowFunction
from headwater.frames.accumulators import Inputs
from headwater.frames.expressions import place
from headwater.frames.windows import Placed


class Wanted:
    """Expressions in their places, of which the first are given columns."""

    def __init__(self, schema: Schema, columns: Sequence[str]) -> None:
        self.expressions: list[Expression] = [
            ColumnRef(column.name, column.type) for column in schema.only(columns).columns
        ]
        self._given = tuple(schema.only(columns).columns)

    @property
    def schema(self) -> Schema:
        return Schema.of((place(at), e.type) for at, e in enumerate(self.expressions))

    def aggregate(self, aggregate: Aggregate) -> Inputs:
        """Its condition comes first, since where that fails nothing else is looked at.

        The given columns are the keys of its groups.
        """
        condition = aggregate.condition
        test = None if condition is None else self._place(condition)
        inputs = [_where(condition, expression) for expression in aggregate.inputs]
        places = tuple(map(self._place, inputs))
        group = [(c.name, F.col(place(at)), c.type) for at, c in enumerate(self._given)]
        return Inputs(aggregate, places, test, tuple(group))

    def window(self, function: WindowFunction, schema: Schema) -> Placed:
        """One over rows of a schema whose columns stand first."""
        return Placed(function, schema, tuple(map(self._place, function.arguments)))

    def _place(self, expression: Expression) -> int:
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)


def _where(condition: Expression | None, expression: Expression) -> Expression:
    """The expression, and NULL where the condition does not hold."""
    if condition is None:
        return expression
    return Call("case", (condition, expression, Literal(None, expression.type)), expression.type)
