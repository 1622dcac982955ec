"""How much work a condition of somebody else's view is, before it is evaluated on their rows.

A view may put texts together and search them, and both view and rows come from one maker: a few
kilobytes of either could take all memory, or hours. The bounds hold for every row, since they are
made from the longest text of each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, show_expression
from headwater.algebra.rows import Rows
from headwater.sharing.errors import ForeignObjectError
from headwater.sharing.limits import MOST_STEPS, MOST_TEXT_CHARACTERS

_MANY = 1000
_NUMBER = 400
"""Characters of a number that has become a text, at most."""


def require_little_work(condition: Iterable[Expression], rows: Rows) -> int:
    """How many such rows can be decided in a few seconds; ForeignObjectError if not even one."""
    longest = _longest(rows)
    steps = 0
    for conjunct in condition:
        length, more = _bounds(conjunct, longest)
        steps += more
        if length > MOST_TEXT_CHARACTERS:
            raise ForeignObjectError(
                f"The condition {_shown(conjunct)} makes texts of up to {length:,} characters of "
                "rows that came with it.",
                f"Up to {MOST_TEXT_CHARACTERS:,} are made for somebody else's view.",
            )
    if steps > MOST_STEPS:
        raise ForeignObjectError(
            f"A view's condition looks at up to {steps:,} characters for one row.",
            f"Up to {MOST_STEPS:,} are looked at for somebody else's view.",
        )
    return min(_MANY, MOST_STEPS // max(steps, 1))


def _longest(rows: Rows) -> Mapping[str, int]:
    longest = dict.fromkeys(rows.schema.names, 0)
    for row in rows:
        for name, value in zip(longest, row, strict=True):
            if isinstance(value, str | bytes) and len(value) > longest[name]:
                longest[name] = len(value)
    return longest


def _bounds(expression: Expression, longest: Mapping[str, int]) -> tuple[int, int]:
    """The length of the longest text that is made anywhere in it, and the characters looked at."""
    made = steps = 0

    def length(part: Expression) -> int:
        nonlocal made, steps
        match part:
            case Literal(value=value):
                return len(value) if isinstance(value, str | bytes) else 0
            case ColumnRef(name=name):
                return longest.get(name, 0)
            case Call(operator=operator, arguments=arguments, type=kind):
                lengths = [length(argument) for argument in arguments]
                steps += sum(lengths) * _weight(part)
                if operator == "||":
                    made = max(made, sum(lengths))
                    return sum(lengths)
                if operator == "cast" and kind.name == "text":
                    return _NUMBER
                return max(lengths) if kind.name in ("text", "bytes") else 0

    length(expression)
    return made, steps


def _weight(call: Call) -> int:
    """What it costs to look at a character: much where a pattern has an `_`, whatever it is."""
    match call:
        case Call("like", (_, Literal(value=str(pattern)))):
            return 1 + ("_" in pattern) * (100 + len(pattern) // 10)
    return 1


def _shown(expression: Expression) -> str:
    shown = show_expression(expression)
    return shown if len(shown) < 200 else f"{shown[:200]}..."
