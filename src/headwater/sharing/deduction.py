"""What a condition implies: closed under deduction, and whether one condition follows from it.

The paper assumes that conditions are closed under deduction (section 2): with A = B and B = C
also A = C. `Facts` closes a conjunction: equalities and comparisons between columns and
constants by transitivity, everything else by putting equal columns in each other's place.

Sound, not complete: `implies` answers yes only if every row for which all conjuncts are true
makes the other condition true. It knows comparisons, AND, OR, IS NOT NULL, and otherwise looks
for the same expression. Parts that may fail on a row are left out by whoever asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import combinations, product
from typing import TypeAlias

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal, columns_of, walk
from headwater.algebra.operators import LAZY
from headwater.algebra.values import BOOL, Type
from headwater.algebra.views import equated_columns

_Side: TypeAlias = ColumnRef | Literal
_NOT_AFTER, _BEFORE = 1, 2
_EXACT = frozenset({"int", "decimal"})
_TRUE, _FALSE = Literal(True, BOOL), Literal(False, BOOL)


class Facts:
    """A conjunction, closed under deduction."""

    def __init__(self, conjuncts: Iterable[Expression], constants: Iterable[Literal] = ()) -> None:
        self.conjuncts = tuple(dict.fromkeys(part for c in conjuncts for part in _parts(c)))
        atoms = [atom for c in self.conjuncts if (atom := _atom(c))]
        nodes = [node for _, a, b in atoms for node in (a, b)]
        self.nodes: tuple[_Side, ...] = tuple(
            sorted({*nodes, *constants}, key=lambda node: (isinstance(node, Literal), repr(node)))
        )
        self._order = _closed_order(self.nodes, atoms)
        self._unequal = [(a, b) for operator, a, b in atoms if operator == "<>"]

    @property
    def contradict(self) -> bool:
        """Whether no row can make all of it true."""
        return (
            _FALSE in self.conjuncts
            or any(self._order.get((node, node)) == _BEFORE for node in self.nodes)
            or any(self._equal(a, b) for a, b in self._unequal)
        )

    # Following

    def implies(self, condition: Expression) -> bool:
        """Whether it certainly is true of every row of which all conjuncts are."""
        if self.contradict or condition == _TRUE:
            return True
        match condition:
            case Call("and", parts):
                return all(map(self.implies, parts))
            case Call("not", (Call("is null", (ColumnRef(name),)),)):
                return name in self._not_null or self._known(condition)
            case Call("<=>", (a, b)) if isinstance(a, _Side) and isinstance(b, _Side):
                return self._with(condition)._equal(a, b) or self._known(condition)
        if _atom(condition) and self._with(condition)._follows(condition):
            return True
        if isinstance(condition, Call) and condition.operator == "or":
            return any(map(self.implies, condition.arguments)) or self._known(condition)
        return self._known(condition)

    def _with(self, condition: Expression) -> Facts:
        """The same facts, with the condition's constants in their order."""
        constants = [c for c in walk(condition) if isinstance(c, Literal) and c not in self.nodes]
        return _facts(self.conjuncts, tuple(constants)) if constants else self

    def _follows(self, condition: Expression) -> bool:
        atom = _atom(condition)
        assert atom is not None
        operator, a, b = atom
        match operator:
            case "=":
                return self._equal(a, b)
            case "<":
                return self._order.get((a, b)) == _BEFORE
            case "<=":
                return (a, b) in self._order
        apart = self._order.get((a, b)), self._order.get((b, a))
        return _BEFORE in apart or self._known_unequal(a, b)

    def _equal(self, a: _Side, b: _Side) -> bool:
        return (a, b) in self._order and (b, a) in self._order

    def _known_unequal(self, a: _Side, b: _Side) -> bool:
        return any(
            (self._equal(a, c) and self._equal(b, d)) or (self._equal(a, d) and self._equal(b, c))
            for c, d in self._unequal
        )

    def _known(self, condition: Expression) -> bool:
        return normal(condition, self.same) in self._normal_forms

    @cached_property
    def _normal_forms(self) -> frozenset[Expression]:
        return frozenset(normal(conjunct, self.same) for conjunct in self.conjuncts)

    @cached_property
    def _not_null(self) -> frozenset[str]:
        return frozenset(name for c in self.conjuncts for name in _without_null(c))

    # Deducing

    @cached_property
    def same(self) -> dict[str, ColumnRef]:
        """For each column that equals another of its type, the first of them all."""
        classes: dict[str, tuple[ColumnRef, ...]] = {}
        for conjunct in self.conjuncts:
            if equated_columns(conjunct):
                assert isinstance(conjunct, Call)
                a, b = conjunct.arguments
                assert isinstance(a, ColumnRef)
                assert isinstance(b, ColumnRef)
                merged = tuple({*classes.get(a.name, (a,)), *classes.get(b.name, (b,))})
                classes.update((column.name, merged) for column in merged)
        return {name: min(found, key=lambda c: c.name) for name, found in classes.items()}

    def within(self, columns: Collection[str]) -> tuple[Expression, ...]:
        """What follows about these columns alone: what was said of them, then what is deduced."""
        kept = [c for c in self.conjuncts if columns_of(c) <= set(columns)]
        if self.contradict:
            return (*kept, _FALSE)
        known = Facts(kept)
        for candidate in (*self._comparisons(columns), *self._replaced(columns)):
            if not known.implies(candidate):
                kept.append(candidate)
                known = Facts(kept)
        return tuple(kept)

    def _comparisons(self, columns: Collection[str]) -> Iterator[Expression]:
        nodes = [n for n in self.nodes if isinstance(n, Literal) or n.name in columns]
        pairs = [
            pair for pair in product(nodes, nodes) if any(isinstance(n, ColumnRef) for n in pair)
        ]
        for a, b in combinations(nodes, 2):
            if self._equal(a, b) and (a, b) in pairs:
                yield Call("=", (a, b), BOOL)
        for strength, operator in ((_BEFORE, "<"), (_NOT_AFTER, "<=")):
            for a, b in pairs:
                if a != b and self._order.get((a, b)) == strength and not self._equal(a, b):
                    yield Call(operator, (a, b), BOOL)

    def _replaced(self, columns: Collection[str]) -> Iterator[Expression]:
        """Conjuncts about other columns, said of columns that equal these."""
        stand_in = {
            self.same[name].name: name
            for name in sorted(columns, reverse=True)
            if name in self.same
        }
        for conjunct in self.conjuncts:
            names = columns_of(conjunct)
            replaced = {
                name: stand_in[self.same[name].name]
                for name in names
                if name not in columns and name in self.same and self.same[name].name in stand_in
            }
            if names and names <= {*columns, *replaced} and replaced:
                yield _renamed(conjunct, replaced)


@lru_cache(maxsize=1024)
def _facts(conjuncts: tuple[Expression, ...], constants: tuple[Literal, ...]) -> Facts:
    return Facts(conjuncts, constants)


# The order of columns and constants

_Order: TypeAlias = dict[tuple[_Side, _Side], int]
Atom: TypeAlias = tuple[str, _Side, _Side]
_FLIPPED = {">": "<", ">=": "<="}


def _atom(condition: Expression) -> Atom | None:
    """A comparison of columns and constants that can be compared as they are."""
    match condition:
        case Call(operator, (a, b)) if operator in ("=", "<>", "<", "<=", ">", ">="):
            if not (isinstance(a, _Side) and isinstance(b, _Side) and _comparable(a.type, b.type)):
                return None
            if any(isinstance(n, Literal) and n.value is None for n in (a, b)):
                return None
            return (_FLIPPED[operator], b, a) if operator in _FLIPPED else (operator, a, b)
    return None


def _comparable(a: Type, b: Type) -> bool:
    return a == b or {a.name, b.name} <= _EXACT


def _closed_order(nodes: Sequence[_Side], atoms: Iterable[Atom]) -> _Order:
    order: _Order = {}

    def note(a: _Side, b: _Side, strength: int) -> None:
        order[a, b] = max(strength, order.get((a, b), 0))

    for node in nodes:
        note(node, node, _NOT_AFTER)
    for operator, a, b in atoms:
        if operator == "=":
            note(a, b, _NOT_AFTER)
            note(b, a, _NOT_AFTER)
        elif operator != "<>":
            note(a, b, _BEFORE if operator == "<" else _NOT_AFTER)
    constants = [node for node in nodes if isinstance(node, Literal)]
    for a, b in product(constants, constants):
        if _comparable(a.type, b.type) and _rank(a) <= _rank(b):
            note(a, b, _BEFORE if _rank(a) < _rank(b) else _NOT_AFTER)
    for between, a, b in product(nodes, nodes, nodes):
        if (a, between) in order and (between, b) in order:
            note(a, b, max(order[a, between], order[between, b]))
    return order


def _rank(constant: Literal) -> tuple[bool, object]:  # NaN is greater than every other number
    value = constant.value
    return (True, 0) if value != value else (False, value)


# Forms of expressions


def normal(expression: Expression, same: dict[str, ColumnRef]) -> Expression:
    """One form for expressions that mean the same: equal columns by one name, sides in order."""
    match expression:
        case ColumnRef(name=name):
            return same.get(name, expression)
        case Call(operator=operator, arguments=arguments, type=kind):
            parts = tuple(normal(argument, same) for argument in arguments)
            if operator in _FLIPPED:
                return Call(_FLIPPED[operator], parts[::-1], kind)
            if operator in ("=", "<>", "<=>", "and", "or"):
                parts = tuple(sorted(parts, key=repr))
            return Call(operator, parts, kind)
    return expression


def _parts(condition: Expression) -> Iterator[Expression]:
    if isinstance(condition, Call) and condition.operator == "and":
        for part in condition.arguments:
            yield from _parts(part)
    else:
        yield condition


def _renamed(expression: Expression, names: dict[str, str]) -> Expression:
    match expression:
        case ColumnRef(name=name, type=kind):
            return ColumnRef(names.get(name, name), kind)
        case Call(operator=operator, arguments=arguments, type=kind):
            return Call(operator, tuple(_renamed(a, names) for a in arguments), kind)
    return expression


def _without_null(condition: Expression) -> Iterator[str]:
    """The columns that are not NULL where a conjunct is true."""
    match condition:
        case Call("not", (Call("is null", (ColumnRef(name),)),)):
            yield name
        case Call("and", parts):
            for part in parts:
                yield from _without_null(part)
        case _ if not any(isinstance(n, Call) and n.operator in LAZY for n in walk(condition)):
            yield from columns_of(condition)
