"""Queries that are the same but for names and order, recognised: one answer serves them all.

Aliases are numbered by the names of their relations. The order of terms, conditions and columns
does not count, nor do columns that nothing looks at. Two queries of one likeness have the same
answer, up to the names and the order of its columns. The opposite is not promised: where a relation
occurs twice, its occurrences are numbered as they are written, which may hide a likeness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache

from headwater.algebra.expressions import Call, ColumnRef, Expression, columns_of, substituted
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.terms import Bound, Query, Term
from headwater.algebra.views import Join

MOST_ROWS = 1000
"""Rows that are bound in a query are compared if they are no more, and in memory."""


@dataclass(frozen=True)
class Likeness:
    """What is common to queries that are the same, and how the answer to one of them is ordered."""

    key: Hashable
    order: tuple[int, ...]
    """The places of its columns, in the order that is common."""


def likeness(query: Query) -> Likeness:
    """Of a query that is not compared, one that is like no other."""
    order = tuple(range(len(query[0].join.schema)))
    if not all(map(_is_compared, query)):
        return Likeness(_Unlike(), order)
    shapes = [_shape(term.join) for term in query]
    order = tuple(sorted(order, key=lambda at: sorted(shape.texts[at] for shape in shapes)))
    terms = Counter(
        _term_key(term, shape, order) for term, shape in zip(query, shapes, strict=True)
    )
    return Likeness(frozenset(terms.items()), order)


def as_asked(answer: Rows, given: Likeness, wanted: Likeness, schema: Schema) -> Rows:
    """The answer to one query as that to another of the same likeness, whose columns these are."""
    assert given.key == wanted.key
    places = dict(zip(wanted.order, given.order, strict=True))
    positions = [places[at] for at in range(len(schema))]
    if positions == sorted(positions):
        return answer if answer.schema == schema else answer.renamed(schema)
    numbered = Schema.of((str(at), kind) for at, kind in enumerate(answer.schema.types))
    columns = [ColumnRef(str(at), numbered.types[at]) for at in positions]
    return answer.renamed(numbered).project(schema, columns)


class _Unlike:
    """Equal to itself alone."""


@dataclass(frozen=True)
class _Shape:
    """A join under numbers instead of aliases."""

    relations: tuple[str, ...]
    condition: frozenset[Expression]
    outputs: tuple[Expression, ...]
    texts: tuple[str, ...]
    """The outputs, to be sorted by."""
    numbers: tuple[int, ...]
    """For each occurrence its number."""
    names: dict[str, str]
    """For each column that something looks at its name under a number."""


@lru_cache(maxsize=1024)
def _shape(join: Join) -> _Shape:
    occurrences = join.occurrences
    sorted_ones = sorted(range(len(occurrences)), key=lambda at: occurrences[at].relation.name)
    numbers = tuple(sorted_ones.index(at) for at in range(len(occurrences)))
    needed = frozenset[str]().union(*map(columns_of, (*join.condition, *join.outputs)))
    meanings: dict[str, Expression] = {}
    names: dict[str, str] = {}
    for at, occurrence in enumerate(occurrences):
        for column in occurrence.schema.columns:
            if column.name in needed:
                short = column.name.removeprefix(f"{occurrence.alias}.")
                names[column.name] = f"{numbers[at]}.{short}"
                meanings[column.name] = ColumnRef(names[column.name], column.type)
    outputs = tuple(substituted(output, meanings) for output in join.outputs)
    return _Shape(
        tuple(occurrences[at].relation.name for at in sorted_ones),
        frozenset(_either_way(substituted(conjunct, meanings)) for conjunct in join.condition),
        outputs,
        tuple(map(repr, outputs)),
        numbers,
        names,
    )


def _either_way(conjunct: Expression) -> Expression:
    """An equality with its sides in one order."""
    match conjunct:
        case Call("=", arguments):
            return replace(conjunct, arguments=tuple(sorted(arguments, key=repr)))
    return conjunct


def _is_compared(term: Term) -> bool:
    return all(f.rows.rank == 0 and f.rows.size_hint <= MOST_ROWS for f in term.bound)


def _term_key(term: Term, shape: _Shape, order: tuple[int, ...]) -> Hashable:
    bound = {
        tuple(sorted(shape.numbers[at] for at in factor.at)): _numbered(factor, shape)
        for factor in term.bound
    }
    return (
        shape.relations,
        shape.condition,
        tuple(shape.outputs[at] for at in order),
        frozenset(bound.items()),
        term.coefficient,
    )


def _numbered(factor: Bound, shape: _Shape) -> Rows:
    """Bound rows with the columns that something looks at, in the order of their new names."""
    known = [c for c in factor.rows.schema.columns if c.name in shape.names]
    known.sort(key=lambda column: shape.names[column.name])
    renamed = Schema(tuple(replace(column, name=shape.names[column.name]) for column in known))
    return factor.rows.only(Schema(tuple(known))).renamed(renamed)
