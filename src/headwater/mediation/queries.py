"""Queries over a mediated schema, from SQL to clauses: joins, selections, projections and unions.

What is asked of a mediated schema is a set: the answers that are certain, each once. So DISTINCT
and repeated rows make no difference, and IN and EXISTS are joins. What could have to be taken back
when another source tells more is refused: nobody knows of a mediated relation that it has no
further rows, so that "there is none", a count and a last row are never certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, substituted
from headwater.algebra.sql.plans import Branch, Leaf, Plan, Sum
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.tops import (
    Constant,
    Distinct,
    Exploded,
    First,
    Grouped,
    Less,
    Product,
    Project,
    Recursive,
    Restrict,
    Select,
    Top,
    UnionAll,
    Windowed,
)
from headwater.algebra.typing_rules import call
from headwater.algebra.values import BOOL, Type, canonical
from headwater.algebra.views import Occurrence
from headwater.mediation.clauses import Atom, Clause, conjuncts_of, present
from headwater.mediation.facts import contradictory
from headwater.mediation.unification import Bindings

MOST_CLAUSES = 500
"""So many joins a query may stand for, before they are rewritten."""
_HINT = (
    "Give the joins a view of their own, and read that: its rows are those that are certain, and "
    "a view over it may do with them what it likes."
)


def clauses_of(plan: Plan) -> list[Clause]:
    """What a query means, as a union; RefusalError says what it asks that can never be certain."""
    found = [solved(clause) for clause in _clauses(plan)]
    return [clause for clause in found if clause is not None]


def _clauses(plan: Plan) -> list[Clause]:
    match plan:
        case Sum(branches=branches):
            return [clause for branch in branches for clause in _of_branch(branch)]
        case Leaf(columns=columns, join=join):
            assert join is not None
            named = dict(zip(join.schema.names, join.outputs, strict=True))
            outputs = tuple(named[column] for column in columns)
            return [Clause(outputs, _atoms(join.occurrences), join.condition)]
        case Distinct(input=below):
            return _clauses(below)
        case UnionAll(inputs=inputs):
            return [clause for each in inputs for clause in _clauses(each)]
        case Project(input=below, outputs=outputs):
            return [_projected(clause, below, outputs) for clause in _clauses(below)]
        case Select(input=below, condition=condition):
            return [
                Clause(c.outputs, c.atoms, (*c.conditions, _meant(condition, c, below)))
                for c in _clauses(below)
            ]
        case Product():
            return _products(plan)
        case Restrict(anti=False):
            own, names = _clauses(plan.input), plan.input.schema.names
            keys = [[_named(c, names)[key] for key in plan.key] for c in own]
            return _matched(own, keys, plan.by, plan.by_key)
        case Constant(rows=rows, schema=schema):
            return [Clause(tuple(map(Literal, row, schema.types)), ()) for row in rows]
    raise _refusal(_asked(plan))


_ABSENT = "asks for what is not there (an outer join, NOT IN, NOT EXISTS or EXCEPT)"


def _asked(top: Top) -> str:
    """What a node of a query asks that is never certain, in words."""
    match top:
        case Grouped():
            return "groups rows or aggregates them"
        case First():
            return "takes the first of some rows (ORDER BY, LIMIT)"
        case Windowed():
            return "has a window function"
        case Less() | Restrict():
            return _ABSENT
        case Recursive():
            return "is recursive"
        case Exploded():
            return "makes rows of the elements of an array"
    return "is more than a union of joins"


def _refusal(what: str) -> RefusalError:
    return RefusalError(
        f"the query reads mediated relations, and {what}. Of these, what is certain is known for "
        "joins and unions only: there may be rows that no source tells.",
        _HINT,
    )


def _atoms(occurrences: Iterable[Occurrence]) -> tuple[Atom, ...]:
    return tuple(
        Atom(o.relation.name, tuple(ColumnRef(c.name, c.type) for c in o.schema.columns))
        for o in occurrences
    )


def _of_branch(branch: Branch) -> list[Clause]:
    found = [Clause(branch.outputs, _atoms(branch.occurrences), branch.condition)]
    for guard in branch.guards:
        if guard.anti:
            raise _refusal(_ABSENT)
        found = _matched(found, [list(guard.key)] * len(found), guard.by, guard.by_key)
    return found


def _named(clause: Clause, names: Sequence[str]) -> dict[str, Expression]:
    return dict(zip(names, clause.outputs, strict=True))


def _meant(expression: Expression, clause: Clause, below: Top) -> Expression:
    return substituted(expression, _named(clause, below.schema.names))


def _projected(clause: Clause, below: Top, outputs: Iterable[Expression]) -> Clause:
    meant = tuple(_meant(output, clause, below) for output in outputs)
    return Clause(meant, clause.atoms, clause.conditions)


def _products(top: Product) -> list[Clause]:
    found = []
    for at, (left, right) in enumerate(product(_clauses(top.left), _clauses(top.right))):
        _check_number(at)
        other = right.apart(f"'{at}")
        here, there = _named(left, top.left.schema.names), _named(other, top.right.schema.names)
        same = zip(top.left_key, top.right_key, strict=True)
        conditions = [call("<=>", here[a], there[b]) for a, b in same]
        found.append(
            Clause(
                left.outputs + other.outputs,
                left.atoms + other.atoms,
                (*left.conditions, *other.conditions, *conditions),
            )
        )
    return found


def _matched(
    clauses: Sequence[Clause], keys: Sequence[Sequence[Expression]], by: Plan, names: Sequence[str]
) -> list[Clause]:
    """Rows whose key some row of a query has: as a set, that is a join."""
    partners = _clauses(by)
    found: list[Clause] = []
    for clause, key in zip(clauses, keys, strict=True):
        for partner in partners:
            _check_number(len(found))
            other = partner.apart(f"~{len(found)}{len(clause.atoms)}")
            theirs = _named(other, by.schema.names)
            same = [call("<=>", a, theirs[b]) for a, b in zip(key, names, strict=True)]
            atoms, conditions = clause.atoms + other.atoms, (*clause.conditions, *other.conditions)
            found.append(Clause(clause.outputs, atoms, (*conditions, *same)))
    return found


def _check_number(number: int) -> None:
    if number >= MOST_CLAUSES:
        raise RefusalError(
            f"the query stands for more than {MOST_CLAUSES} joins.", "Ask for less in one view."
        )


# Solving


def solved(clause: Clause) -> Clause | None:
    """The clause with one variable for all that its conditions make the same; None if it is empty.

    Of `a = b` it stays that the value is not NULL.
    """
    bindings: Bindings | None = Bindings()
    left: list[Expression] = []
    for condition in (part for each in clause.conditions for part in conjuncts_of(each)):
        assert bindings is not None
        pair = _same(condition)
        if pair is None:
            left.append(condition)
            continue
        a, b = pair
        bindings = bindings.same(a, b)
        if bindings is None:
            return None
        if isinstance(condition, Call) and condition.operator == "=":
            left.append(present(a))
    assert bindings is not None
    plain = clause.substituted(bindings.solved)
    rest = [substituted(each, bindings.solved) for each in (*left, *bindings.conditions)]
    if contradictory(rest):
        return None
    return Clause(plain.outputs, plain.atoms, tuple(dict.fromkeys(rest)), clause.origins)


def _same(condition: Expression) -> tuple[Expression, Expression] | None:
    """A variable, and another one or a constant, that a condition makes the same value."""
    match condition:
        case Call(operator="=" | "<=>", arguments=(a, b)) if a == b:
            return None
        case Call(operator="=" | "<=>", arguments=(ColumnRef() as a, ColumnRef() as b)):
            return (a, b) if a.type == b.type else None
        case Call(operator="=" | "<=>", arguments=(ColumnRef() as a, Literal() as value)):
            fitting = as_constant(value, a.type)
        case Call(operator="=" | "<=>", arguments=(Literal() as value, ColumnRef() as a)):
            fitting = as_constant(value, a.type)
        case ColumnRef(type=kind) as a if kind == BOOL:
            return a, Literal(True, BOOL)
        case _:
            return None
    return None if fitting is None else (a, fitting)


def as_constant(value: Literal, kind: Type) -> Literal | None:
    """A constant as one of another type, if that has the same value."""
    if value.type == kind:
        return value
    if not (value.type.is_numeric and kind.is_numeric) or value.value is None:
        return None
    try:
        found = canonical(value.value, kind)
    except ValueError:
        return None
    return Literal(found, kind) if found == value.value else None
