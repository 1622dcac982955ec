"""Which columns of tables a view tells apart by their values beyond joins and conditions.

GROUP BY, DISTINCT, UNION, EXCEPT, partitions of windows and DISTINCT inside aggregates compare
values for equality too. Goes from the nodes of a top down to the columns that are stored for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.algebra.expressions import columns_of
from headwater.algebra.schema import Column
from headwater.algebra.tops import (
    Constant,
    Distinct,
    Exploded,
    Found,
    Grouped,
    Less,
    Part,
    Product,
    Project,
    Recursive,
    Top,
    UnionAll,
    Windowed,
    inputs_of,
    nodes_of,
)
from headwater.algebra.views import View


def told_apart(view: View) -> list[Column]:
    """The columns of tables, each once."""
    found: dict[Column, None] = {}
    for part, stored in _compared(view.top) if view.top else ():
        joins = view.joins if part is None else [view.joins[part - 1]]
        for join in joins:
            output = join.outputs[view.schema.positions[stored]]
            columns = {c.name: c for each in join.occurrences for c in each.schema.columns}
            found.update({columns[name]: None for name in sorted(columns_of(output))})
    return list(found)


def _compared(top: Top) -> Iterator[tuple[int | None, str]]:
    for node in nodes_of(top):
        match node:
            case Distinct() | Less() | Recursive(distinct=True):
                yield from _origins(node, node.schema.names)
            case Grouped(input=below, keys=keys, aggregates=aggregates):
                distinct = [a.columns for a in aggregates if a.distinct]
                yield from _origins(below, frozenset(keys).union(*distinct))
            case Windowed(input=below, functions=functions):
                yield from _origins(below, {name for f in functions for name in f.partition})


def _origins(top: Top, names: Iterable[str]) -> Iterator[tuple[int | None, str]]:
    """The stored columns that columns of a node are made of."""
    wanted = frozenset(names)
    places = [at for at, name in enumerate(top.schema.names) if name in wanted]
    match top:
        case Part(columns=columns, number=number):
            yield from ((number, columns[at]) for at in places)
        case Constant() | Found():
            return
        case Recursive(start=start, step=step):  # a step may move columns to other places
            yield from _origins(start, start.schema.names)
            yield from _origins(step, step.schema.names)
        case Project(input=below, outputs=outputs):
            yield from _origins(
                below, frozenset().union(*(columns_of(outputs[at]) for at in places))
            )
        case UnionAll() | Less():
            for below in inputs_of(top):
                yield from _origins(below, [below.schema.names[at] for at in places])
        case Product(left=left, right=right):
            yield from _origins(left, wanted & set(left.schema.names))
            yield from _origins(right, wanted & set(right.schema.names))
        case Exploded(input=below, column=column):
            own = wanted & set(below.schema.names)
            yield from _origins(below, own if own == wanted else own | {column})
        case Grouped(input=below, keys=keys):
            yield from _origins(below, [keys[at] for at in places if at < len(keys)])
        case _:
            below = inputs_of(top)[0]
            yield from _origins(below, wanted & set(below.schema.names))
