"""Rewriting: a query over a mediated schema as one over sources, and how it was found.

The steps: the query as clauses (`queries`), unfolding by the rules of descriptions (`unfolding`),
one atom for each row by the keys of sources, the core of each clause, and no clause that another
one contains (`containment`). So a view that reads two mediated relations of which one source tells
both reads that source's relation once, and one change there is one change of the view (updategrams
paper, Example 4.2).

What is found gives certain answers only. It gives all of them for descriptions and queries without
comparisons and without mediated keys; with these it may miss some, and never shows one too many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.functions.late import LATE
from headwater.algebra.schema import Relation
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.typing_rules import call, folded
from headwater.mediation.clauses import Clause, present
from headwater.mediation.containment import joined_by_keys, smallest, without_contained
from headwater.mediation.descriptions import Rule, Rules
from headwater.mediation.facts import contradictory, implied
from headwater.mediation.queries import solved
from headwater.mediation.unfolding import Dead, unfolded
from headwater.mediation.writing import canonical

MOST_JOINS = 100
"""So many joins a rewritten view may have."""
MOST_COMPARED = 3 * MOST_JOINS
"""So many different joins are compared with each other, for what they add."""


@dataclass(frozen=True)
class Rewriting:
    """What a query over a mediated schema is over sources, and the steps to it."""

    query: tuple[Clause, ...]
    rules: tuple[Rule, ...]
    """Those that were used, or tried."""
    found: int
    """How many clauses unfolding gave."""
    dead: Mapping[Dead, int]
    """The ways that ended, and how often."""
    empty: tuple[Clause, ...]
    """Clauses that never have a row."""
    smaller: tuple[tuple[Clause, Clause], ...]
    """Clauses that have become smaller: before and after."""
    contained: tuple[tuple[Clause, Clause], ...]
    """Clauses that were left out, each with one that has all of its rows."""
    clauses: tuple[Clause, ...]
    """The result."""
    distinct: bool
    """Whether a row may be found in several ways, and is shown once."""

    @property
    def origins(self) -> tuple[str, ...]:
        """The descriptions by which answers are found."""
        return tuple(dict.fromkeys(o for clause in self.clauses for o in clause.origins))


def rewritten(
    query: Sequence[Clause], rules: Rules, mediated: frozenset[str], relations: Sequence[Relation]
) -> Rewriting:
    """The rewriting over these relations of sources; RefusalError if it is too large."""
    by_name = {relation.name: relation for relation in relations}
    found = unfolded(query, rules, mediated, by_name)
    empty: list[Clause] = []
    smaller: list[tuple[Clause, Clause]] = []
    contained: list[tuple[Clause, Clause]] = []
    done: dict[object, Clause] = {}
    for clause in found.clauses:
        alike = solved(_computed(clause))
        joined = alike and joined_by_keys(alike, by_name)
        if joined is None or contradictory(joined.conditions):
            empty.append(clause)
            continue
        core = _with_plain_equality(smallest(joined))
        if len(core.atoms) < len(clause.atoms):
            smaller.append((clause, core))
        same = done.setdefault(canonical(core, by_name), core)
        if same is not core:
            contained.append((core, same))
        if len(done) > MOST_COMPARED:
            raise _too_many(f"more than {MOST_COMPARED}")
    judged = without_contained(list(done.values()))
    kept = tuple(clause for clause, larger in judged if larger is None)
    contained += [(clause, larger) for clause, larger in judged if larger is not None]
    if len(kept) > MOST_JOINS:
        raise _too_many(str(len(kept)))
    return Rewriting(
        tuple(query),
        _tried(query, rules, mediated),
        len(found.clauses),
        found.dead,
        tuple(empty),
        tuple(smaller),
        tuple(contained),
        kept,
        not _are_apart(kept, by_name),
    )


def _too_many(number: str) -> RefusalError:
    return RefusalError(
        f"the query is answered by {number} joins, and at most {MOST_JOINS} can be kept.",
        "Ask for fewer mediated relations in one view.",
    )


def _computed(clause: Clause) -> Clause:
    """The clause with the values of what is computed from constants."""
    return replace(
        clause,
        outputs=tuple(map(_value_of, clause.outputs)),
        conditions=tuple(map(_value_of, clause.conditions)),
    )


def _value_of(expression: Expression) -> Expression:
    match expression:
        case Call(operator=name, arguments=(_, *_) as arguments) if not name.startswith(LATE):
            return folded(replace(expression, arguments=tuple(map(_value_of, arguments))))
    return expression


def _with_plain_equality(clause: Clause) -> Clause:
    """The clause with `=` where NULL equals NULL and neither side is NULL anyway: what is joined
    by `=` is looked up."""
    return replace(
        clause, conditions=tuple(_plain(each, clause.conditions) for each in clause.conditions)
    )


def _plain(condition: Expression, known: Sequence[Expression]) -> Expression:
    match condition:
        case Call("<=>", (a, b)) if implied(present(a), known) or implied(present(b), known):
            return call("=", a, b)
    return condition


def _tried(query: Sequence[Clause], rules: Rules, mediated: frozenset[str]) -> tuple[Rule, ...]:
    """The rules for all relations that a query reads, by itself or by rules."""
    left = [atom.relation for clause in query for atom in clause.atoms]
    seen: dict[str, None] = {}
    while left:
        name = left.pop(0)
        if name in mediated and name not in seen:
            seen[name] = None
            left += [a.relation for rule in rules.by_head.get(name, ()) for a in rule.body]
    return tuple(rule for name in seen for rule in rules.by_head.get(name, ()))


def _are_apart(clauses: Sequence[Clause], relations: Mapping[str, Relation]) -> bool:
    """Whether every row is found in one way only, whatever the sources have."""
    return all(_identifies(clause, relations) for clause in clauses) and all(
        _differ(a, b) for a, b in combinations(clauses, 2)
    )


def _identifies(clause: Clause, relations: Mapping[str, Relation]) -> bool:
    """Whether the outputs determine the row of each atom, by keys."""
    known = {output for output in clause.outputs if isinstance(output, ColumnRef)}
    left = list(clause.atoms)
    while left:
        keyed = [
            atom
            for atom in left
            if (relation := relations[atom.relation]).key
            and all(
                isinstance(atom.terms[at], Literal) or atom.terms[at] in known
                for at in relation.key_positions
            )
        ]
        if not keyed:
            return False
        known |= {t for atom in keyed for t in atom.terms if isinstance(t, ColumnRef)}
        left = [atom for atom in left if atom not in keyed]
    return True


def _differ(a: Clause, b: Clause) -> bool:
    """Whether some output is a constant in both, and another one."""
    return any(
        isinstance(x, Literal) and isinstance(y, Literal) and x.type == y.type and x != y
        for x, y in zip(a.outputs, b.outputs, strict=True)
    )
