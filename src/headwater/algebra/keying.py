"""By which stored columns a top can be computed key by key.

Folding and reading then look only at the keys that changes touch. A column of one part and a column
of another belong together where the top compares them: an attribute has one column for each part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.tops import (
    Constant,
    Distinct,
    Exploded,
    First,
    Found,
    Grouped,
    Less,
    Part,
    Product,
    Project,
    Recursive,
    Restrict,
    Select,
    Summed,
    Top,
    UnionAll,
    Windowed,
    parts_of,
)

Attribute: TypeAlias = frozenset[tuple[int | None, str]]
"""A stored column for each of some parts, whose values are compared with each other."""
_MOST_ATTRIBUTES = 64


def keying(top: Top) -> Mapping[int | None, tuple[str, ...]] | None:
    """By which stored columns of each part the top can be computed key by key, or None.

    The top over all stored rows is the sum, over the values that these columns have together, of
    the top over the stored rows with those values. NULL is a value here.
    """
    columns_of: dict[int | None, set[str]] = {}
    for part in parts_of(top):
        columns_of.setdefault(part.number, set()).update(part.columns)
    found = _keyed(top, _Known(columns_of))
    numbers = {part.number for part in parts_of(top)}
    types = {
        (p.number, c): k
        for p in parts_of(top)
        for c, k in zip(p.columns, p.schema.types, strict=True)
    }
    whole = sorted(
        (
            sorted(attribute, key=str)
            for attribute in found.all
            if dict(attribute).keys() == numbers
        ),
        key=lambda attribute: (frozenset(attribute) not in found.shown.values(), str(attribute)),
    )
    kept: list[dict[int | None, str]] = []
    for attribute in whole:
        columns = dict(attribute)
        used = {(number, c) for other in kept for number, c in other.items()}
        if used.isdisjoint(columns.items()) and len({types[item] for item in columns.items()}) == 1:
            kept.append(columns)
    if not kept:
        return None
    return {number: tuple(columns[number] for columns in kept) for number in numbers}


@dataclass(frozen=True)
class _Keyed:
    """By which attributes a node can be computed, and which of them its columns show."""

    all: frozenset[Attribute]
    shown: dict[str, Attribute]

    def only(self, columns: Sequence[str]) -> _Keyed:
        shown = {c: self.shown[c] for c in columns if c in self.shown}
        return _Keyed(frozenset(shown.values()), shown)


@dataclass(frozen=True)
class _Known:
    """What nodes need to know of the whole tree, and what was found of some already."""

    columns: Mapping[int | None, Collection[str]]
    """Of each part: its rows can be taken by any of them, shown or not."""
    found: dict[Top, _Keyed] = field(default_factory=dict)


def _keyed(top: Top, known: _Known) -> _Keyed:
    """Equal subtrees are looked at once."""
    if top not in known.found:
        known.found[top] = _of_node(top, known)
    return known.found[top]


def _of_node(top: Top, known: _Known) -> _Keyed:
    match top:
        case Part(columns=columns, number=number):
            shown = {
                name: frozenset({(number, column)})
                for name, column in zip(top.schema.names, columns, strict=True)
            }
            every = {frozenset({(number, column)}) for column in known.columns[number]}
            return _Keyed(frozenset(every), shown)
        case Select() | Exploded():
            return _keyed(top.input, known)
        case Project(outputs=outputs, schema=schema):
            below = _keyed(top.input, known)
            return _Keyed(
                below.all,
                {
                    name: below.shown[output.name]
                    for name, output in zip(schema.names, outputs, strict=True)
                    if isinstance(output, ColumnRef) and output.name in below.shown
                },
            )
        case Distinct():
            return _keyed(top.input, known).only(top.schema.names)
        case Grouped(keys=keys) | Summed(keys=keys):
            below = _keyed(top.input, known).only(keys)
            return _Keyed(
                below.all,
                {
                    name: below.shown[key]
                    for name, key in zip(top.schema.names, keys, strict=False)
                    if key in below.shown
                },
            )
        case Windowed(functions=functions):
            below = _keyed(top.input, known)
            common = set(top.input.schema.names)
            for function in functions:
                common &= set(function.partition)
            return below.only([name for name in top.input.schema.names if name in common])
        case First() | Constant() | Found() | Recursive():
            return _Keyed(frozenset(), {})
        case UnionAll(inputs=inputs):
            return _of_sum(
                [_keyed(below, known) for below in inputs], [i.schema.names for i in inputs]
            )
        case Less(left=left, right=right):
            both = [_keyed(left, known), _keyed(right, known)]
            found = _of_sum(both, [left.schema.names, right.schema.names])
            return found.only(left.schema.names)
        case Restrict(input=left, by=right) if not parts_of(right):
            return _keyed(left, known)
        case Product(left=left, right=right) if not (parts_of(left) and parts_of(right)):
            return _keyed(left if parts_of(left) else right, known)
        case Restrict(input=left, by=right, key=key, by_key=by_key):
            return _of_pairs(
                _keyed(left, known), _keyed(right, known), key, by_key, left.schema.names
            )
        case Product(left=left, right=right, left_key=key, right_key=by_key):
            found = _of_pairs(
                _keyed(left, known), _keyed(right, known), key, by_key, left.schema.names
            )
            pairs = zip(by_key, key, strict=True)
            shown = {b: found.shown[a] for b, a in pairs if a in found.shown}
            return _Keyed(found.all, {**found.shown, **shown})


def _merged(a: Attribute, b: Attribute) -> Attribute | None:
    """Both together, if no part has two columns then."""
    both = a | b
    return both if len(dict(both)) == len(both) else None


def _of_pairs(
    left: _Keyed, right: _Keyed, key: Sequence[str], by_key: Sequence[str], names: Sequence[str]
) -> _Keyed:
    shown: dict[str, Attribute] = {}
    for a, b in zip(key, by_key, strict=True):
        if a in left.shown and b in right.shown:
            both = _merged(left.shown[a], right.shown[b])
            if both is not None:
                shown[a] = both
                shown.update({n: both for n in names if left.shown.get(n) == left.shown[a]})
    return _Keyed(frozenset(shown.values()), shown)


def _of_sum(inputs: Sequence[_Keyed], names: Sequence[Sequence[str]]) -> _Keyed:
    every, shown = inputs[0].all, dict(inputs[0].shown)
    for below, columns in zip(inputs[1:], names[1:], strict=True):
        pairs = [
            both
            for a in sorted(every, key=str)
            for b in sorted(below.all, key=str)
            if (both := _merged(a, b))
        ]
        every = frozenset(pairs[:_MOST_ATTRIBUTES])
        together: dict[str, Attribute] = {}
        for first, column in zip(names[0], columns, strict=True):
            if first in shown and column in below.shown:
                both = _merged(shown[first], below.shown[column])
                if both is not None:
                    together[first] = both
        shown = together
        every |= frozenset(shown.values())
    return _Keyed(every, shown)
