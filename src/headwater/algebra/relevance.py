"""Which rows of a relation can matter to a view: irrelevant updates ask nothing.

A row that the view's conditions on its relation alone rule out, wherever the relation occurs, joins
with nothing, whatever the others hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from headwater.algebra.expressions import ColumnRef, Expression, substituted
from headwater.algebra.typing_rules import call

if TYPE_CHECKING:
    from headwater.algebra.views import Join


def condition_on(relation: str, joins: Sequence[Join]) -> Expression | None:
    """What a row of a relation has to meet to matter to one of these joins; None if all may."""
    ways: dict[Expression, None] = {}
    for join in joins:
        for at, occurrence in enumerate(join.occurrences):
            if occurrence.relation.name != relation:
                continue
            meanings = {
                f"{occurrence.alias}.{c.name}": ColumnRef(c.name, c.type)
                for c in occurrence.relation.schema.columns
            }
            own = [substituted(c, meanings) for c, reach in join.safe_conjuncts if reach == {at}]
            if not own:
                return None
            ways[reduce(lambda a, b: call("and", a, b), own)] = None
    return reduce(lambda a, b: call("or", a, b), ways)
