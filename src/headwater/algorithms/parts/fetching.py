"""Asking for the partners of known rows alone, to be joined with these at the warehouse.

A relation is fetched reduced to the rows that join with what is bound, by the distinct values of
the join columns; one that no equality connects, whole. POSSE does so (PVM paper, section 8). What
is known already does not come back with each partner, as it does where the source joins.
"""

from __future__ import annotations

from headwater.algebra.evaluate import evaluate_term
from headwater.algebra.expressions import Call, ColumnRef, Expression, columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Base, Bound, Term
from headwater.algebra.views import Join


def collapsed(term: Term) -> Term:
    """The term with all bound rows joined into one factor."""
    if len(term.bound) <= 1 or not term.base:
        return term
    places = [at for factor in term.bound for at in factor.at]
    return term.bind(places, evaluate_term(term.part(places), {}))


def fetched(term: Term, at: int) -> Term:
    """A question for rows of one base relation, reduced by equalities with what is bound: one
    factor at most."""
    alone = term.part([at])
    pairs = equalities(term, at)
    if not pairs:
        return alone
    (bound,) = term.bound
    names = tuple(dict.fromkeys(name for name, _ in pairs))
    keys = _distinct(bound, names)
    order = sorted((*bound.at, at))
    join = Join(
        tuple(term.join.occurrences[place] for place in order),
        (*alone.join.condition, *(conjunct for _, conjunct in pairs)),
        alone.join.outputs,
        alone.join.schema,
    )
    numbers = {old: new for new, old in enumerate(order)}
    question = Term(join, (Base(numbers[at]),))
    return question.bind((numbers[p] for p in bound.at), keys)


def _distinct(bound: Bound, names: tuple[str, ...]) -> Rows:
    """The different values of some columns, each once, so that no row is counted twice.

    Not a projection: there an insertion and a deletion with the same values would cancel.
    """
    positions = [bound.rows.schema.positions[name] for name in names]
    values = {tuple(row[at] for at in positions): 1 for row in bound.rows}
    return Rows(bound.rows.schema.only(names), values)


def equalities(term: Term, at: int) -> list[tuple[str, Expression]]:
    """The conjuncts that equate a bound column with an expression of one occurrence."""
    own = frozenset(term.occurrence(at).schema.names)
    known = frozenset(name for factor in term.bound for name in factor.rows.schema.names)
    found: list[tuple[str, Expression]] = []
    for conjunct, _ in term.join.safe_conjuncts:
        match conjunct:
            case Call("=", (left, right)):
                for side, other in ((left, right), (right, left)):
                    names = columns_of(other)
                    if (
                        isinstance(side, ColumnRef)
                        and side.name in known
                        and names <= own
                        and names
                    ):
                        found.append((side.name, conjunct))
                        break
    return found
