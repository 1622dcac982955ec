"""Only the columns that a top needs: the others are not stored.

Goes from the root down. DISTINCT, EXCEPT, LIMIT, windows and recursions look at all columns of
their input, so those stay below them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.expressions import ColumnRef, columns_of
from headwater.algebra.sql.plans import Leaf, refs
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
)

_Known: TypeAlias = dict[tuple[Top, frozenset[str]], Top]
"""What was made of subtrees: an outer join has its left side twice, and so on below."""


def pruned(top: Top, needed: Collection[str] | None = None, known: _Known | None = None) -> Top:
    """The same top with only the needed columns, in their order; all if none are named."""
    known = {} if known is None else known
    names = set(top.schema.names if needed is None else needed)
    wanted = tuple(name for name in top.schema.names if name in names)
    place = top, frozenset(wanted)
    if place not in known:
        known[place] = _only(_pruned(top, place[1], known), wanted)
    return known[place]


def _only(top: Top, names: tuple[str, ...]) -> Top:
    """The top with exactly these columns, by a projection if need be."""
    if isinstance(top, Project):
        kept = {n: o for n, o in zip(top.schema.names, top.outputs, strict=True) if n in names}
        outputs, schema = tuple(kept[name] for name in names), top.schema.only(names)
        if outputs == refs(top.input.schema) and names == top.input.schema.names:
            return top.input
        below = top.input
        if isinstance(below, Project) and all(isinstance(o, ColumnRef) for o in below.outputs):
            meanings = dict(zip(below.schema.names, below.outputs, strict=True))
            if all(isinstance(output, ColumnRef) for output in outputs):
                inner = tuple(meanings[o.name] for o in outputs if isinstance(o, ColumnRef))
                return Project(below.input, inner, schema)
        return Project(below, outputs, schema)
    if top.schema.names == names:
        return top
    return Project(top, refs(top.schema, names), top.schema.only(names))


def _pruned(top: Top, needed: frozenset[str], known: _Known) -> Top:
    """The top with at least the needed columns, below it with as few as can be."""
    match top:
        case Leaf(join=join):
            assert join is not None
            kept = [at for at, name in enumerate(top.schema.names) if name in needed]
            schema = top.schema.only([top.schema.names[at] for at in kept])
            outputs = tuple(join.outputs[at] for at in kept)
            return Leaf(schema.names, schema, join=replace(join, outputs=outputs, schema=schema))
        case Part() | Constant() | Found():
            return top
        case Recursive(start=start, step=step):
            return replace(top, start=pruned(start, None, known), step=pruned(step, None, known))
        case Select(condition=condition):
            return Select(pruned(top.input, needed | columns_of(condition), known), condition)
        case Project(outputs=outputs, schema=schema):
            kept = [at for at, name in enumerate(schema.names) if name in needed]
            outputs = tuple(outputs[at] for at in kept)
            below = frozenset().union(*map(columns_of, outputs))
            schema = schema.only([schema.names[at] for at in kept])
            return Project(pruned(top.input, below, known), outputs, schema)
        case UnionAll(inputs=inputs):
            places = [at for at, name in enumerate(top.schema.names) if name in needed]
            chosen_of = [(i, [i.schema.names[at] for at in places]) for i in inputs]
            return UnionAll(tuple(pruned(i, names, known) for i, names in chosen_of))
        case Product(left=left, right=right, left_key=left_key, right_key=right_key):
            return replace(
                top,
                left=pruned(left, needed & set(left.schema.names) | set(left_key), known),
                right=pruned(right, needed & set(right.schema.names) | set(right_key), known),
            )
        case Restrict(input=below, by=by, key=key, by_key=by_key, deciding=deciding):
            first = len(key) if deciding is None else deciding
            pairs = [
                (a, b)
                for at, (a, b) in enumerate(zip(key, by_key, strict=True))
                if at < first or a in needed
            ]
            key, by_key = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
            kept_below, kept_by = pruned(below, needed | set(key), known), pruned(by, by_key, known)
            return Restrict(kept_below, kept_by, key, by_key, top.anti)
        case Grouped(keys=keys, aggregates=aggregates, schema=schema):
            names = schema.names[len(keys) :]
            kept_names = [n for n in names if n in needed]
            chosen = tuple(a for n, a in zip(names, aggregates, strict=True) if n in needed)
            looked_at = frozenset(keys).union(*(a.columns for a in chosen))
            kept_schema = schema.only([*schema.names[: len(keys)], *kept_names])
            kept_input = pruned(top.input, looked_at, known)
            return replace(top, input=kept_input, aggregates=chosen, schema=kept_schema)
        case Summed():
            return top
        case Exploded(input=below, column=column, schema=schema):
            own = schema.names[len(below.schema) :]
            kept_below = pruned(below, needed - set(own) | {column}, known)
            return replace(top, input=kept_below, schema=kept_below.schema + schema.only(own))
        case Less(left=left, right=right):
            return Less(pruned(left, None, known), pruned(right, None, known))
        case Distinct() | First() | Windowed():
            return replace(top, input=pruned(top.input, None, known))
