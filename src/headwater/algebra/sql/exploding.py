"""Rows made of arrays: UNNEST, EXPLODE and POSEXPLODE, in FROM, LATERAL VIEW and the select list.

Each is a further table, whose rows depend on the row beside which they stand. Separate from the
tables of FROM, because the same functions also stand in the select list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from headwater.algebra.expressions import ColumnRef, columns_of
from headwater.algebra.sql.expressions import Translator
from headwater.algebra.sql.names import OUTER
from headwater.algebra.sql.plans import Plan, exploded, extended
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.values import INT

_KINDS: dict[type, tuple[bool, bool]] = {
    exp.Explode: (False, False),
    exp.ExplodeOuter: (False, True),
    exp.Posexplode: (True, False),
    exp.PosexplodeOuter: (True, True),
}
"""Whether elements are numbered, and whether rows without elements stay."""


@dataclass(frozen=True)
class Made:
    """The array of which rows are made, and what their columns are."""

    array: exp.Expr
    columns: tuple[str, ...]
    """Of `value` and `number`, in their order."""
    first: int | None = None
    outer: bool = False
    defaults: tuple[str, ...] = ()
    """What the columns are called where nothing else is said."""


def made_of(node: Any) -> Made | None:
    """What a call makes rows of, or None if it makes none."""
    if isinstance(node, exp.Unnest):
        if len(node.expressions) != 1:
            raise RefusalError("UNNEST of several arrays is not supported.", "Write one of them.")
        (array,) = node.expressions
        if node.args.get("offset"):
            return Made(array, ("value", "number"), 1, defaults=("col", "ordinality"))
        return Made(array, ("value",), defaults=("col",))
    if type(node) not in _KINDS or node.expressions:
        return None
    numbered, outer = _KINDS[type(node)]
    if numbered:
        return Made(node.this, ("number", "value"), 0, outer, ("pos", "col"))
    return Made(node.this, ("value",), None, outer, ("col",))


def with_made(
    plan: Plan, made: Made, translator: Translator, name: str, *, outer: bool
) -> tuple[Plan, Sequence[ColumnRef]]:
    """Each row with the rows that are made of it, and their columns; `name` is theirs alone."""
    array = translator.expression(made.array)
    if array.type.name != "array":
        raise RefusalError(f"rows are made of an array, not of {array.type}.", "Write an array.")
    if any(column.startswith(OUTER) for column in columns_of(array)):
        raise RefusalError(
            "the array is a column from outside the subquery.", "Use such columns in WHERE only."
        )
    column = array.name if isinstance(array, ColumnRef) else f"#array of {name}"
    plan = extended(plan, {} if isinstance(array, ColumnRef) else {column: array})
    value = ColumnRef(f"{name}.#value", array.type.element)
    number = ColumnRef(f"{name}.#number", INT)
    names = [value.name] if made.first is None else [value.name, number.name]
    plan = exploded(plan, column, names, made.first, outer=outer or made.outer)
    return plan, [value if column == "value" else number for column in made.columns]
