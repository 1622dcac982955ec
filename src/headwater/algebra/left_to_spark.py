"""What of a top is left to Spark: the late functions (`functions.late`) that it calls.

A top in which there is one is evaluated on Spark only, however few rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.algebra.expressions import Call, Expression, walk
from headwater.algebra.functions.late import LAMBDA, LATE, VARIABLE
from headwater.algebra.tops import Grouped, Project, Select, Top, Windowed, nodes_of


def left_to_spark(top: Top) -> tuple[str, ...]:
    """The names of the late functions of a top, each once."""
    return tuple(sorted({call.operator.removeprefix(LATE) for call in late_calls(top)}))


def late_calls(top: Top) -> Iterator[Call]:
    """The calls of late functions in a top, those in lambdas too."""
    for expression in (e for node in nodes_of(top) for e in _expressions(node)):
        for part in walk(expression):
            if isinstance(part, Call) and part.operator.startswith(LATE) and not _binds(part):
                yield part


def _binds(call: Call) -> bool:
    return call.operator in (LAMBDA, VARIABLE)


def _expressions(node: Top) -> Iterator[Expression]:
    match node:
        case Select(condition=condition):
            yield condition
        case Project(outputs=outputs):
            yield from outputs
        case Grouped(aggregates=aggregates):
            yield from (e for aggregate in aggregates for e in aggregate.expressions)
        case Windowed(functions=functions):
            yield from (e for function in functions for e in function.arguments)
