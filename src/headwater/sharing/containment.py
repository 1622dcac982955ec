"""Whether one view contains another: on the relations that they share, for every database.

The paper writes that the join of R and S by V is contained in that by W if it has a subset of
its rows for any database (section 3). Both join whole rows of the same relations, so that is
so exactly if V's condition on R and S implies W's. It is decided by deduction on the closed
conditions; where that does not know, the answer is no, and a booster is not used.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.sharing.deduction import Facts
from headwater.sharing.shared_views import SharedView


def is_contained(view: SharedView, other: SharedView, relations: Iterable[str]) -> bool:
    """Whether the join of these relations by `view` is certainly contained in that by `other`."""
    names = tuple(relations)
    for name in names:
        if name not in view.relations or name not in other.relations:
            return False
        if view.relations[name].schema != other.relations[name].schema:
            return False
    if view == other:
        return True
    facts = Facts(view.condition(names))
    return all(facts.implies(conjunct) for conjunct in other.condition(names))
