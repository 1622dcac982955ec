"""Unification: what variables have to mean for two terms to be the same value.

A value that nobody tells is never one that is told, and never one of another name: whether they
are equal in truth is not known, so nothing that needs it is certain. Where a term is computed from
told values, whether it equals another one is decided on the rows: it becomes a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, columns_of
from headwater.algebra.typing_rules import call
from headwater.mediation.clauses import unknown_name


@dataclass(frozen=True)
class Bindings:
    """What variables mean, and the conditions under which this holds."""

    meanings: Mapping[str, Expression] = field(default_factory=dict)
    conditions: tuple[Expression, ...] = ()

    def resolved(self, term: Expression) -> Expression:
        """A term with everything put in that is known of its variables."""
        match term:
            case ColumnRef(name=name):
                meaning = self.meanings.get(name)
                return term if meaning is None else self.resolved(meaning)
            case Call(arguments=arguments):
                found = tuple(self.resolved(argument) for argument in arguments)
                return term if found == arguments else Call(term.operator, found, term.type)
        return term

    @cached_property
    def solved(self) -> Mapping[str, Expression]:
        """What every bound variable means in the end."""
        return {name: self.resolved(meaning) for name, meaning in self.meanings.items()}

    def together(self, pairs: Iterable[tuple[Expression, Expression]]) -> Bindings | None:
        """With both terms of each pair the same; None if that cannot be."""
        found: Bindings | None = self
        for a, b in pairs:
            if found is None:
                return None
            found = found.same(a, b)
        return found

    def same(self, a: Expression, b: Expression) -> Bindings | None:
        """With two terms the same; None if they cannot be, or if it is not certain."""
        a, b = self.resolved(a), self.resolved(b)
        if a == b:
            return self
        if isinstance(a, ColumnRef):
            return self._bound(a, b)
        if isinstance(b, ColumnRef):
            return self._bound(b, a)
        names = unknown_name(a), unknown_name(b)
        if names == (None, None):
            return self._computed(a, b)
        if names[0] != names[1]:
            return None
        assert isinstance(a, Call)
        assert isinstance(b, Call)
        return self.together(zip(a.arguments, b.arguments, strict=True))

    def _bound(self, variable: ColumnRef, term: Expression) -> Bindings | None:
        if variable.name in columns_of(term):
            if unknown_name(term) is not None:
                return None
            return Bindings(self.meanings, (*self.conditions, call("<=>", variable, term)))
        return Bindings({**self.meanings, variable.name: term}, self.conditions)

    def _computed(self, a: Expression, b: Expression) -> Bindings | None:
        if isinstance(a, Literal) and isinstance(b, Literal):
            return None
        return Bindings(self.meanings, (*self.conditions, call("<=>", a, b)))
