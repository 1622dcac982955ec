"""Unfolding: clauses over mediated relations as clauses over sources, by the rules of descriptions.

Each mediated atom is resolved with every rule that may give it, until only relations of sources are
left. What needs a value that no source tells ends there: a reader would see it, it would be
compared, or it would have to equal another one. Why is kept, since it says what a view can never
answer (`Dead`).

Assumes rules without circles (`circles`), so that this ends; what is known of an unknown value may
still satisfy a condition.

Source: updategrams paper, section 4.1, with inverse rules and without functional dependencies; the
elimination of function terms is by unification, and no term of them is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.schema import Relation
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call
from headwater.mediation.clauses import (
    Atom,
    Clause,
    show_term,
    unknown_name,
    unknowns_in,
    with_term,
)
from headwater.mediation.descriptions import PLACE, Rule, Rules
from headwater.mediation.facts import TRUE, contradictory, implied
from headwater.mediation.unification import Bindings

_NEVER = "its conditions never hold together"
MOST_STEPS = 8_000
"""After so many resolved atoms a rewriting is given up."""
MOST_FOUND = 1_000
"""After so many joins over sources, too."""


@dataclass(frozen=True)
class Dead:
    """Why some way of answering a query gives nothing."""

    atom: str
    """The mediated relation at which it ended."""
    origin: str
    """The description that was tried there; empty if there is none."""
    reason: str
    is_untold: bool = True
    """Whether it ended because a value is not told, and not because constants differ."""


@dataclass
class Unfolded:
    """What became of a query: clauses over sources, and the ways that ended before."""

    clauses: list[Clause] = field(default_factory=list)
    dead: dict[Dead, int] = field(default_factory=dict)
    """How often each way has ended."""
    steps: int = 0

    def ended(self, dead: Dead) -> None:
        self.dead[dead] = self.dead.get(dead, 0) + 1


@dataclass(frozen=True)
class _State:
    """A clause on its way: atoms over sources, mediated ones that are left, what is bound."""

    left: tuple[Atom, ...]
    done: tuple[Atom, ...]
    bindings: Bindings
    origins: tuple[str, ...]
    conditions: tuple[Expression, ...]


def unfolded(
    clauses: Sequence[Clause],
    rules: Rules,
    mediated: frozenset[str],
    relations: Mapping[str, Relation],
) -> Unfolded:
    """The union as one over these relations; RefusalError if there are too many ways to try."""
    found = Unfolded()
    for clause in clauses:
        left = tuple(atom for atom in clause.atoms if atom.relation in mediated)
        done = tuple(atom for atom in clause.atoms if atom.relation not in mediated)
        state = _State(left, done, Bindings(), (), clause.conditions)
        _Unfolding(clause, rules, mediated, relations, found).from_(state)
    return found


class _Unfolding:
    """Goes every way from one clause, depth first."""

    def __init__(
        self,
        query: Clause,
        rules: Rules,
        mediated: frozenset[str],
        relations: Mapping[str, Relation],
        found: Unfolded,
    ) -> None:
        self._query = query
        self._rules = rules
        self._mediated = mediated
        self._relations = relations
        self._found = found

    def from_(self, state: _State) -> None:
        if not state.left:
            self._found.clauses.append(self._clause(state))
            return
        atom = min(state.left, key=lambda each: len(self._given(each)))
        rest = tuple(each for each in state.left if each is not atom)
        if not self._given(atom):
            self._found.ended(Dead(atom.relation, "", "nothing tells of it"))
        for rule in self._given(atom):
            self._step(replace(state, left=rest), atom, rule)

    def _given(self, atom: Atom) -> tuple[Rule, ...]:
        return self._rules.by_head.get(atom.relation, ())

    def _step(self, state: _State, atom: Atom, rule: Rule) -> None:
        self._found.steps += 1
        if self._found.steps > MOST_STEPS or len(self._found.clauses) > MOST_FOUND:
            raise RefusalError(
                "there are too many ways to answer the query from what the sources are described "
                "to have.",
                "Ask for fewer mediated relations in one view.",
            )
        own = rule.apart(f"#{self._found.steps}")
        bindings = self._unified(state.bindings, atom, own)
        if bindings is None:
            return
        done = tuple(each for each in own.body if each.relation not in self._mediated)
        left = tuple(each for each in own.body if each.relation in self._mediated)
        bindings = self._with_keys(bindings, state.done, done)
        if bindings is None:
            why = "one row would have two values in one column"
            self._found.ended(Dead(atom.relation, rule.origin, why, is_untold=False))
            return
        after = _State(
            left + state.left,
            state.done + done,
            bindings,
            (*state.origins, rule.origin),
            (*state.conditions, *own.conditions),
        )
        reason = self._ends(after)
        if reason:
            self._found.ended(Dead(atom.relation, rule.origin, reason, reason != _NEVER))
        else:
            self.from_(after)

    def _with_keys(
        self, bindings: Bindings, done: Sequence[Atom], more: Sequence[Atom]
    ) -> Bindings | None:
        """With atoms that have one key as one row, as far as that can be seen by now."""
        found: Bindings | None = bindings
        for at, atom in enumerate(more):
            key = self._relations[atom.relation].key_positions
            for other in (*done, *more[:at]):
                if found is None:
                    return None
                pairs = list(zip(atom.terms, other.terms, strict=False))
                if key and atom.relation == other.relation:
                    same = (
                        found.resolved(a) == found.resolved(b)
                        for a, b in map(pairs.__getitem__, key)
                    )
                    found = found.together(pairs) if all(same) else found
        return found

    def _unified(self, bindings: Bindings, atom: Atom, rule: Rule) -> Bindings | None:
        for a, b in zip(atom.terms, rule.head.terms, strict=True):
            found = bindings.same(a, b)
            if found is None:
                a, b = bindings.resolved(a), bindings.resolved(b)
                is_untold = unknown_name(a) is not None or unknown_name(b) is not None
                self._found.ended(Dead(atom.relation, rule.origin, _clash(a, b), is_untold))
                return None
            bindings = found
        return bindings

    def _ends(self, state: _State) -> str:
        """Why no way leads on from here; empty if one may."""
        resolved = state.bindings.resolved
        for output in map(resolved, self._query.outputs):
            for each in unknowns_in(output):
                return f"{_named(each)} would be shown, which is not told"
        for term in (resolved(term) for atom in state.done for term in atom.terms):
            for each in unknowns_in(term):
                return f"{_named(each)} would have to be a value of a source, and is not told"
        conditions = tuple(map(resolved, (*state.conditions, *state.bindings.conditions)))
        told = []
        for condition in conditions:
            part = self._told_part(condition)
            if part is None:
                return f"{show_term(condition)} would have to hold, which is not told"
            told.append(part)
        return _NEVER if contradictory(told) else ""

    def _told_part(self, condition: Expression) -> Expression | None:
        """What is to hold of told values for a condition to hold for certain; None if it never
        is. Of `a OR b` that is the part that is told."""
        if not any(unknowns_in(condition)):
            return condition
        if self._is_known(condition):
            return TRUE
        match condition:
            case Call(operator="or" | "and" as operator, arguments=arguments):
                parts = [self._told_part(argument) for argument in arguments]
                found = [part for part in parts if part is not None]
                if operator == "or":
                    return reduce(partial(call, "or"), found) if found else None
                return reduce(partial(call, "and"), found) if len(found) == len(parts) else None
        return None

    def _is_known(self, condition: Expression) -> bool:
        """Whether what is known of unknown values makes a condition hold."""
        inside = dict.fromkeys(unknowns_in(condition))
        if len(inside) != 1:
            return False
        (term,) = inside
        asked = with_term(condition, term, ColumnRef(PLACE, term.type))
        name = unknown_name(term)
        assert name is not None
        return implied(asked, self._rules.known.get(name, ()))

    def _clause(self, state: _State) -> Clause:
        resolved = state.bindings.resolved
        conditions = map(resolved, (*state.conditions, *state.bindings.conditions))
        told = map(self._told_part, conditions)
        clause = Clause(
            tuple(map(resolved, self._query.outputs)),
            tuple(Atom(a.relation, tuple(map(resolved, a.terms))) for a in state.done),
            tuple(part for part in told if part is not None and part != TRUE),
            tuple(dict.fromkeys(state.origins)),
        )
        return _flat(clause)


def _named(term: Expression) -> str:
    return unknown_name(term) or ""


def _clash(a: Expression, b: Expression) -> str:
    names = [_named(each) for each in (a, b) if unknown_name(each) is not None]
    if len(names) == 2:
        return f"{names[0]} would have to equal {names[1]}"
    if names:
        other = b if unknown_name(a) is not None else a
        return f"{names[0]} would have to equal {show_term(other)}"
    return f"{show_term(a)} is not {show_term(b)}"


def _flat(clause: Clause) -> Clause:
    """The clause with variables and constants only in its atoms."""
    added: list[Expression] = []
    atoms = []
    for number, atom in enumerate(clause.atoms):
        terms = list(atom.terms)
        for at, term in enumerate(terms):
            if not isinstance(term, ColumnRef | Literal):
                terms[at] = ColumnRef(f"computed {number}.{at}", term.type)
                added.append(call("<=>", terms[at], term))
        atoms.append(Atom(atom.relation, tuple(terms)))
    return replace(clause, atoms=tuple(atoms), conditions=(*clause.conditions, *added))
