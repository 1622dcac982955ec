"""How a query over a mediated schema was rewritten, and what it can never answer, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from headwater.algebra.expressions import ColumnRef, Expression
from headwater.mediation.binding import Answer
from headwater.mediation.clauses import Atom, Clause, column_of, refs_in
from headwater.mediation.descriptions import Rule
from headwater.mediation.schema import SOURCE
from headwater.mediation.unfolding import Dead

_MOST = 12
"""So many lines of one sort are shown; the rest is counted."""

Line = tuple[int, str]


def steps_of(answer: Answer) -> tuple[Line, ...]:
    """The rewriting, step by step, as lines with depths."""
    found, shown = answer.rewriting, _Shower(answer)
    lines: list[Line] = [(0, "What is asked, over mediated relations")]
    lines += _listed(map(shown.clause, found.query))
    lines.append(
        (0, "What tells of these relations; a value with ? is there, and nothing tells it")
    )
    lines += _listed(f"{shown.rule(rule)}  ({rule.origin})" for rule in found.rules)
    lines.append((0, f"Unfolded: {_count(found.found, 'join')} over sources"))
    lines += _listed(
        f"ends at {_plain(dead.atom)}{_by(dead)}: {dead.reason}{_times(number)}"
        for dead, number in found.dead.items()
    )
    lines += _listed(f"never has a row: {shown.clause(clause)}" for clause in found.empty)
    lines += _listed(
        f"{_count(len(before.atoms), 'relation')} read as {len(after.atoms)}: {shown.clause(after)}"
        for before, after in found.smaller
    )
    lines += _listed(
        f"adds nothing to {shown.clause(larger)}: {shown.clause(clause)}"
        for clause, larger in found.contained
    )
    once = ", each row once" if found.distinct else ", in which no row can be found twice"
    lines.append((0, f"The result: {_count(len(found.clauses), 'join')}{once}"))
    lines += _listed(f"{shown.clause(c)}  (by {', '.join(c.origins)})" for c in found.clauses)
    return tuple(lines)


def never_told(answer: Answer) -> tuple[str, ...]:
    """What a query over mediated relations can never answer, and why: a sentence for each."""
    used = set(answer.rewriting.origins)
    found: dict[str, None] = {}
    for dead in answer.rewriting.dead:
        if dead.is_untold and dead.origin not in used:
            of = f"by the {dead.origin}" if dead.origin else "by anything"
            found.setdefault(
                f"Rows that are told of {_plain(dead.atom)} {of} never add an answer: "
                f"{dead.reason}."
            )
    return tuple(found)


def _by(dead: Dead) -> str:
    return f" by {dead.origin}" if dead.origin else ""


def _times(number: int) -> str:
    return f" ({number} times)" if number > 1 else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(lines: Iterator[str]) -> list[Line]:
    every = list(lines)
    found = [(1, line) for line in every[:_MOST]]
    return [*found, (1, f"and {len(every) - _MOST} more")] if len(every) > _MOST else found


def _plain(relation: str) -> str:
    return relation.removeprefix(f"{SOURCE}.")


class _Shower:
    """Clauses and rules in words, without columns that only stand for others as texts."""

    def __init__(self, answer: Answer) -> None:
        columns = (c for relation in answer.relations for c in relation.schema.columns)
        self._hidden = {column.name for column in columns if column.text_of}

    def clause(self, clause: Clause) -> str:
        return _without_prefix(str(self._readable(clause)))

    def rule(self, rule: Rule) -> str:
        named = self._readable(Clause(rule.head.terms, rule.body, rule.conditions))
        head = Atom(rule.head.relation, named.outputs)
        return _without_prefix(str(Rule(head, named.atoms, named.conditions, rule.origin)))

    def _readable(self, clause: Clause) -> Clause:
        every = [*clause.outputs, *clause.conditions, *clause.terms]
        uses = Counter(ref.name for each in every for ref in refs_in(each))

        def is_shown(term: Expression) -> bool:
            if not isinstance(term, ColumnRef) or uses[term.name] > 1:
                return True
            return column_of(term.name) not in self._hidden

        atoms = (Atom(a.relation, tuple(filter(is_shown, a.terms))) for a in clause.atoms)
        plain = replace(clause, atoms=tuple(atoms))
        return plain.substituted(_short_names(plain))


def _without_prefix(text: str) -> str:
    return text.replace(f"{SOURCE}.", "")


def _short_names(clause: Clause) -> dict[str, Expression]:
    """The variables under the names of their columns, with numbers where several have one."""
    found: dict[str, Expression] = {}
    taken: set[str] = set()
    for name, ref in clause.variables.items():
        plain = column_of(name)
        again, wanted = 1, plain
        while wanted in taken:
            again += 1
            wanted = f"{plain}_{again}"
        taken.add(wanted)
        found[name] = ColumnRef(wanted, ref.type)
    return found
