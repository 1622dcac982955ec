"""What of a top is left to Spark: the late functions (`functions.late`) that it calls.

A top in which there is one is evaluated on Spark only, however few rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.algebra.expressions import Call, walk
from headwater.algebra.functions.late import LAMBDA, LATE, VARIABLE
from headwater.algebra.tops import Top, expressions_of, nodes_of


def left_to_spark(top: Top) -> tuple[str, ...]:
    """The names of the late functions of a top, each once."""
    return tuple(sorted({call.operator.removeprefix(LATE) for call in late_calls(top)}))


def late_calls(top: Top) -> Iterator[Call]:
    """The calls of late functions in a top, those in lambdas too."""
    for expression in (e for node in nodes_of(top) for e in expressions_of(node)):
        for part in walk(expression):
            if isinstance(part, Call) and part.operator.startswith(LATE) and not _binds(part):
                yield part


def _binds(call: Call) -> bool:
    return call.operator in (LAMBDA, VARIABLE)
