"""Clauses: conjunctive queries as data, with terms for values that nobody tells.

A clause is `outputs :- atoms, conditions`. Terms are expressions: a column is a variable, and
where a variable stands twice, both places have the same value, NULL with NULL. What SQL's `=` says
beside that, that neither side is NULL, is a condition (`present`). A union is several clauses.

A value that is there and that no source tells is a Skolem term, `unknown`: a call of a function
that only names it, with what it depends on (updategrams paper, section 4.1, by its inverse rules).
Two of them are the same value if name and arguments are.

Assumes that whoever reads SQL has typed and checked it (`queries`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    as_written,
    columns_of,
    show_expression,
    substituted,
)
from headwater.algebra.hashing import cached_hash
from headwater.algebra.typing_rules import call
from headwater.algebra.values import TEXT, Type

_UNKNOWN = "unknown"


@cached_hash
@dataclass(frozen=True)
class Atom:
    """A relation with a term for each of its columns."""

    relation: str
    terms: tuple[Expression, ...]

    def substituted(self, meanings: Mapping[str, Expression]) -> Atom:
        return replace(self, terms=tuple(substituted(term, meanings) for term in self.terms))

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(show_term, self.terms))})"


@cached_hash
@dataclass(frozen=True)
class Clause:
    """A conjunctive query. `origins` says by which descriptions it was found."""

    outputs: tuple[Expression, ...]
    atoms: tuple[Atom, ...]
    conditions: tuple[Expression, ...] = ()
    origins: tuple[str, ...] = ()

    def substituted(self, meanings: Mapping[str, Expression]) -> Clause:
        return replace(
            self,
            outputs=tuple(substituted(output, meanings) for output in self.outputs),
            atoms=tuple(atom.substituted(meanings) for atom in self.atoms),
            conditions=tuple(substituted(each, meanings) for each in self.conditions),
        )

    def apart(self, mark: str) -> Clause:
        """The same with other variables: a mark stands behind the name of each."""
        return self.substituted(marked(self.variables, mark))

    @cached_property
    def variables(self) -> Mapping[str, ColumnRef]:
        """By their names."""
        found = list(self.outputs) + list(self.conditions)
        found += [term for atom in self.atoms for term in atom.terms]
        return {ref.name: ref for each in found for ref in refs_in(each)}

    @property
    def terms(self) -> Iterator[Expression]:
        """Those of its atoms, place by place."""
        return (term for atom in self.atoms for term in atom.terms)

    def __str__(self) -> str:
        outputs = ", ".join(map(show_term, self.outputs))
        body = [*map(str, self.atoms), *map(show_term, self.conditions)]
        return f"({outputs}) :- {', '.join(body)}"


def refs_in(expression: Expression) -> Iterator[ColumnRef]:
    match expression:
        case ColumnRef():
            yield expression
        case Call(arguments=arguments):
            for argument in arguments:
                yield from refs_in(argument)


def marked(variables: Mapping[str, ColumnRef], mark: str) -> dict[str, Expression]:
    return {name: ColumnRef(f"{name}{mark}", ref.type) for name, ref in variables.items()}


def unknown(name: str, arguments: Iterable[Expression], kind: Type) -> Call:
    """The value that `name` stands for, which depends on the arguments and on nothing else."""
    return Call(_UNKNOWN, (Literal(name, TEXT), *arguments), kind)


def unknown_name(term: Expression) -> str | None:
    """What a term that stands for a value nobody tells is called; None if it is another term."""
    match term:
        case Call(operator="unknown", arguments=(Literal(value=str(name)), *_)):
            return name
    return None


def unknowns_in(expression: Expression) -> Iterator[Call]:
    """The terms in an expression that stand for values nobody tells, outermost only."""
    if isinstance(expression, Call):
        if unknown_name(expression) is not None:
            yield expression
            return
        for argument in expression.arguments:
            yield from unknowns_in(argument)


def present(term: Expression) -> Expression:
    """The condition that a term is not NULL."""
    return call("not", call("is null", term))


def present_term(condition: Expression) -> Expression | None:
    """The term that a condition says is not NULL, and nothing else; None if it says more."""
    match condition:
        case Call("not", (Call("is null", (term,)),)):
            return term
    return None


def conjuncts_of(condition: Expression) -> Iterator[Expression]:
    match condition:
        case Call(operator="and", arguments=arguments):
            for argument in arguments:
                yield from conjuncts_of(argument)
        case _:
            yield condition


def show_term(term: Expression) -> str:
    """A term in words."""
    match present_term(term):
        case None:
            pass
        case inner:
            return f"{show_term(inner)} IS NOT NULL"
    names = {f"?{at}": each for at, each in enumerate(dict.fromkeys(unknowns_in(term)))}
    shown = {name: _shown_unknown(each) for name, each in names.items()}
    plain = _replaced(term, {each: ColumnRef(n, each.type) for n, each in names.items()})
    return show_expression(as_written(plain), lambda name: shown.get(name, name))


def _shown_unknown(term: Call) -> str:
    name, *arguments = term.arguments
    assert isinstance(name, Literal)
    column = str(name.value).partition(" of ")[0]
    return f"{column}?({', '.join(map(show_term, arguments))})"


def _replaced(term: Expression, meanings: Mapping[Expression, Expression]) -> Expression:
    if term in meanings:
        return meanings[term]
    if isinstance(term, Call):
        return replace(term, arguments=tuple(_replaced(a, meanings) for a in term.arguments))
    return term


def with_term(term: Expression, old: Expression, new: Expression) -> Expression:
    """The term with another one in the place of one in it."""
    return _replaced(term, {old: new})


def column_of(name: str) -> str:
    """The column that a variable is named for, without what tells it from others."""
    return re.split("['#~]", name.rpartition(".")[2], maxsplit=1)[0]


def is_constant(expression: Expression) -> bool:
    return not columns_of(expression) and not any(unknowns_in(expression))
