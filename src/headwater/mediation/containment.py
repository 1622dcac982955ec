"""Containment of clauses: homomorphisms, the smallest equivalent clause, and a union without
clauses that add nothing.

A clause is contained in another one if the other's variables can be mapped so that its outputs
become those of the first, its atoms atoms of the first, and its conditions follow from those of the
first. That is exact without comparisons and sound with them: a clause too many costs work and is
never wrong.

Assumes clauses as `queries` solves them: what is equal is one variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from headwater.algebra.expressions import ColumnRef, Expression, substituted
from headwater.algebra.schema import Relation
from headwater.mediation.clauses import Atom, Clause
from headwater.mediation.facts import contradictory, implied, without_implied
from headwater.mediation.unification import Bindings

_Mapping = dict[str, Expression]


def is_contained(clause: Clause, other: Clause) -> bool:
    """Whether all rows of a clause are rows of the other."""
    return next(homomorphisms(other, clause), None) is not None


def homomorphisms(clause: Clause, into: Clause, atoms: Sequence[Atom] = ()) -> Iterator[_Mapping]:
    """The ways to map a clause into another one, onto these atoms of it, or any."""
    targets: dict[str, list[Atom]] = {}
    for atom in atoms or into.atoms:
        targets.setdefault(atom.relation, []).append(atom)
    if any(atom.relation not in targets for atom in clause.atoms):
        return
    start = _of_terms(clause.outputs, into.outputs, {})
    if start is None:
        return
    for found in _mapped(list(clause.atoms), targets, start):
        outputs = tuple(substituted(output, found) for output in clause.outputs)
        if outputs == into.outputs and all(
            implied(substituted(each, found), into.conditions) for each in clause.conditions
        ):
            yield found


def _mapped(
    left: list[Atom], targets: Mapping[str, Sequence[Atom]], known: _Mapping
) -> Iterator[_Mapping]:
    if not left:
        yield known
        return
    first = max(left, key=lambda atom: sum(_is_known(term, known) for term in atom.terms))
    rest = [atom for atom in left if atom is not first]
    for target in targets[first.relation]:
        found = _of_terms(first.terms, target.terms, known)
        if found is not None:
            yield from _mapped(rest, targets, found)


def _is_known(term: Expression, known: _Mapping) -> bool:
    return not isinstance(term, ColumnRef) or term.name in known


def _of_terms(
    terms: Sequence[Expression], others: Sequence[Expression], known: _Mapping
) -> _Mapping | None:
    """What variables have to be mapped to; computed terms are looked at in the end."""
    found = dict(known)
    for term, other in zip(terms, others, strict=True):
        match term:
            case ColumnRef(name=name):
                if found.setdefault(name, other) != other:
                    return None
            case _ if term != other and not any(True for _ in _variables(term)):
                return None
    return found


def _variables(term: Expression) -> Iterator[str]:
    yield from Clause((term,), ()).variables


# The smallest clause


def smallest(clause: Clause) -> Clause:
    """The clause without atoms that follow from the others: its core."""
    clause = replace(
        clause,
        atoms=tuple(dict.fromkeys(clause.atoms)),
        conditions=without_implied(clause.conditions),
    )
    while True:
        found = next(filter(None, (_without(clause, at) for at in range(len(clause.atoms)))), None)
        if found is None:
            return clause
        clause = found


def _without(clause: Clause, at: int) -> Clause | None:
    """An equivalent clause without one of its atoms; None if there is none."""
    rest = clause.atoms[:at] + clause.atoms[at + 1 :]
    if clause.atoms[at].relation not in {atom.relation for atom in rest}:
        return None
    found = next(homomorphisms(clause, clause, rest), None)
    if found is None:
        return None
    mapped = clause.substituted(found)
    return replace(
        mapped,
        atoms=tuple(dict.fromkeys(mapped.atoms)),
        conditions=without_implied(mapped.conditions),
    )


def joined_by_keys(clause: Clause, relations: Mapping[str, Relation]) -> Clause | None:
    """The clause with atoms that have one key as one atom, since they mean one row; None if it is
    empty, as that row would have two values in one place."""
    while True:
        pair = _with_one_key(clause, relations)
        if pair is None:
            return clause
        bindings = Bindings().together(zip(pair[0].terms, pair[1].terms, strict=True))
        if bindings is None:
            return None
        clause = clause.substituted(bindings.solved)
        more = tuple(substituted(each, bindings.solved) for each in bindings.conditions)
        atoms = tuple(dict.fromkeys(clause.atoms))
        clause = replace(clause, atoms=atoms, conditions=(*clause.conditions, *more))
        if contradictory(clause.conditions):
            return None


def _with_one_key(clause: Clause, relations: Mapping[str, Relation]) -> tuple[Atom, Atom] | None:
    seen: dict[tuple[str, tuple[Expression, ...]], Atom] = {}
    for atom in dict.fromkeys(clause.atoms):
        relation = relations.get(atom.relation)
        if relation is None or not relation.key:
            continue
        key = tuple(atom.terms[at] for at in relation.key_positions)
        other = seen.setdefault((atom.relation, key), atom)
        if other is not atom:
            return other, atom
    return None


def without_contained(clauses: Sequence[Clause]) -> list[tuple[Clause, Clause | None]]:
    """Each clause, and another one that has all of its rows, if there is one that is kept."""
    kept: list[Clause] = []
    by: dict[int, Clause] = {}
    order = sorted(range(len(clauses)), key=lambda at: len(clauses[at].atoms))
    for at in order:
        clause = clauses[at]
        larger = next((other for other in kept if is_contained(clause, other)), None)
        if larger is not None:
            by[at] = larger
            continue
        for position in order:
            other = clauses[position]
            if position not in by and any(other is k for k in kept) and is_contained(other, clause):
                by[position] = clause
                kept = [each for each in kept if each is not other]
        kept.append(clause)
    return [(clause, by.get(at)) for at, clause in enumerate(clauses)]
