"""Which rows of a relation can matter to a view: irrelevant updates ask nothing.

A row that the view's conditions on its relation alone rule out, wherever the relation occurs, joins
with nothing, whatever the others hold.
"""

from __future__ import annotations

from headwater.algebra.expressions import Expression
from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.algebra.views import Occurrence, View


def relevant_rows(view: View, relation: str, delta: Rows) -> Rows:
    """The rows of a change that the view's conditions do not rule out."""
    alone = _alone(view, relation)
    if any(not conjuncts for _, conjuncts in alone):
        return delta
    kept: dict[Row, int] = {}
    for occurrence, conjuncts in alone:
        rows = delta.renamed(occurrence.schema)
        for conjunct in conjuncts:
            rows = rows.select(conjunct)
        kept.update(rows.items())
    return delta if len(kept) == len(delta) else Rows(delta.schema, kept)


def _alone(view: View, relation: str) -> list[tuple[Occurrence, list[Expression]]]:
    """Each occurrence of a relation, with the conditions that look at nothing else."""
    return [
        (occurrence, [c for c, reach in join.safe_conjuncts if reach == {at}])
        for join in view.joins
        for at, occurrence in enumerate(join.occurrences)
        if occurrence.relation.name == relation
    ]
