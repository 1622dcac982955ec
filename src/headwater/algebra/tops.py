"""Tops: what a view shows, as a function of the linear rows that are stored for it.

A view beyond joins is `shown = top(P1, ..., Pk)`. Its parts are sums of joins, which the
algorithms maintain; the top is a tree of the nodes here over them. A top depends on the multiset
of stored rows alone: where SQL leaves an order open, it is completed by all columns, so that every
engine picks the same rows. Hence a shown state is the view at a vector exactly if the stored state
is, and every consistency level carries over.

Nodes are values; what they do stands in `Rows`, so that the same tree is evaluated on rows in
memory and as a plan on Spark.

Choices: several parts are one linear view with a column `_part`; `Part` says which stored columns
are a part's. Comparing keys (`Restrict`, `Product`) is NULL-safe; where SQL compares with `=`, the
planner has taken NULL keys out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeAlias

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import ColumnRef, Expression, Literal, is_late
from headwater.algebra.hashing import cached_hash
from headwater.algebra.order import Order
from headwater.algebra.recursion import Limit, repeated
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sums import SummedAggregate
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, Row
from headwater.algebra.windows import WindowFunction

PART = "_part"
"""The stored column that tells parts apart, where there are several."""


@cached_hash
@dataclass(frozen=True)
class Part:
    """The rows of one part: the stored `columns`, under the names of `schema`."""

    columns: tuple[str, ...]
    schema: Schema
    number: int | None = None
    """Which part, or None where there is only one."""
    signed: bool = False
    """Whether counts below zero mean something: those of sums do."""


@cached_hash
@dataclass(frozen=True)
class Constant:
    """Rows that the query itself names; one that is there twice is named twice."""

    rows: tuple[Row, ...]
    schema: Schema


@cached_hash
@dataclass(frozen=True)
class Select:
    """The rows for which a condition is true."""

    input: Top
    condition: Expression

    @property
    def schema(self) -> Schema:
        return self.input.schema


@cached_hash
@dataclass(frozen=True)
class Project:
    """Other columns of each row."""

    input: Top
    outputs: tuple[Expression, ...]
    schema: Schema


@cached_hash
@dataclass(frozen=True)
class UnionAll:
    """All rows of several inputs with the same types; the names are the first one's."""

    inputs: tuple[Top, ...]

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@cached_hash
@dataclass(frozen=True)
class Product:
    """Every pair of rows whose keys are the same, NULL with NULL."""

    left: Top
    right: Top
    left_key: tuple[str, ...] = ()
    right_key: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema


@cached_hash
@dataclass(frozen=True)
class Distinct:
    """Every row once."""

    input: Top

    @property
    def schema(self) -> Schema:
        return self.input.schema


@cached_hash
@dataclass(frozen=True)
class Restrict:
    """The rows whose key some row of `by` has, or, if `anti`, none has; NULL is a key too."""

    input: Top
    by: Top
    key: tuple[str, ...]
    by_key: tuple[str, ...]
    anti: bool = False
    deciding: int | None = None
    """How many columns of the key decide; the others follow from them, and are there only to look
    rows up by. None if all do."""

    @property
    def schema(self) -> Schema:
        return self.input.schema


@cached_hash
@dataclass(frozen=True)
class Less:
    """Rows as often as the left has them more often than the right: EXCEPT ALL."""

    left: Top
    right: Top

    @property
    def schema(self) -> Schema:
        return self.left.schema


@cached_hash
@dataclass(frozen=True)
class Grouped:
    """A row for each key: the key, then the aggregates.

    Without keys there is one group; `always` says that it has a row also if there are no rows.
    """

    input: Top
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    schema: Schema
    always: bool = False


@cached_hash
@dataclass(frozen=True)
class Summed:
    """The same of groups whose sums are stored and not their rows (see `sums`)."""

    input: Top
    keys: tuple[str, ...]
    aggregates: tuple[SummedAggregate, ...]
    schema: Schema
    always: bool = False


@cached_hash
@dataclass(frozen=True)
class First:
    """The first rows in an order, which all columns complete."""

    input: Top
    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0

    @property
    def schema(self) -> Schema:
        return self.input.schema


@cached_hash
@dataclass(frozen=True)
class Windowed:
    """Each row with the values of window functions behind its columns."""

    input: Top
    functions: tuple[WindowFunction, ...]
    schema: Schema


@cached_hash
@dataclass(frozen=True)
class Exploded:
    """Each row once for each element of its array in `column`, which comes behind its columns.

    Behind that is the element's number, if `first` says what the first one has.
    """

    input: Top
    column: str
    schema: Schema
    first: int | None = None
    outer: bool = False
    """Whether a row whose array is NULL or empty is there once, with NULLs."""


@cached_hash
@dataclass(frozen=True)
class Found:
    """What the last step of the recursion of this name has found; only inside its `step`."""

    name: str
    schema: Schema


@cached_hash
@dataclass(frozen=True)
class Recursive:
    """WITH RECURSIVE: what is there at the start, and what each step makes of what the last found.

    If `distinct` (UNION), a step finds only rows that no step before it has found, each once.
    """

    start: Top
    step: Top
    name: str
    distinct: bool
    most_steps: int

    @property
    def schema(self) -> Schema:
        return self.start.schema


Top: TypeAlias = (
    Part
    | Constant
    | Select
    | Project
    | UnionAll
    | Product
    | Distinct
    | Restrict
    | Less
    | Grouped
    | Summed
    | First
    | Windowed
    | Exploded
    | Found
    | Recursive
)
_NODES = (
    Part,
    Constant,
    Select,
    Project,
    UnionAll,
    Product,
    Distinct,
    Restrict,
    Less,
    Grouped,
    Summed,
    First,
    Windowed,
    Exploded,
    Found,
    Recursive,
)


def inputs_of(top: Top) -> tuple[Top, ...]:
    """The nodes right below a node."""
    found: list[Top] = []
    for field in fields(top):
        value = getattr(top, field.name)
        if isinstance(value, _NODES):
            found.append(value)
        elif field.name == "inputs":
            found += value
    return tuple(found)


def with_inputs(top: Top, inputs: Sequence[Top]) -> Top:
    """The node over other inputs."""
    match top:
        case Part() | Constant() | Found():
            return top
        case Recursive():
            return replace(top, start=inputs[0], step=inputs[1])
        case UnionAll():
            return UnionAll(tuple(inputs))
        case Product() | Less():
            return replace(top, left=inputs[0], right=inputs[1])
        case Restrict():
            return replace(top, input=inputs[0], by=inputs[1])
        case _:
            return replace(top, input=inputs[0])


def nodes_of(top: Top) -> Iterator[Top]:
    """All nodes of a tree, from the root down; subtrees that are equal once."""
    seen: set[Top] = set()
    left = [top]
    while left:
        node = left.pop()
        if node not in seen:
            seen.add(node)
            yield node
            left += reversed(inputs_of(node))


def parts_of(top: Top) -> tuple[Part, ...]:
    """The parts that a top reads, each once."""
    return tuple(dict.fromkeys(node for node in nodes_of(top) if isinstance(node, Part)))


def expressions_of(node: Top) -> Iterator[Expression]:
    """The expressions that a node evaluates on rows."""
    match node:
        case Select(condition=condition):
            yield condition
        case Project(outputs=outputs):
            yield from outputs
        case Grouped(aggregates=aggregates):
            yield from (e for aggregate in aggregates for e in aggregate.expressions)
        case Windowed(functions=functions):
            yield from (e for function in functions for e in function.arguments)


def evaluate_top(top: Top, stored: Rows) -> Rows:
    """What a top makes of the stored rows; one with a count below zero is there for sums only."""
    return _evaluated(top, stored, {})


def _evaluated(top: Top, stored: Rows, known: dict[Top, Rows]) -> Rows:
    """Equal subtrees are evaluated once."""
    found = known.get(top)
    if found is None and isinstance(top, Recursive):
        found = known[top] = _repeated(top, stored, known)
    if found is None:
        inputs = [_evaluated(below, stored, known) for below in inputs_of(top)]
        found = known[top] = _step(top, inputs, stored)
    return found


def _step(top: Top, inputs: Sequence[Rows], stored: Rows) -> Rows:
    match top:
        case Part():
            return _part(top, stored if top.signed else stored.positive())
        case Constant(rows=rows, schema=schema):
            return stored.holding(Rows.of(schema, rows))
        case Select(condition=condition):
            return inputs[0].select(condition)
        case Project(outputs=outputs, schema=schema):
            return inputs[0].project(schema, outputs)
        case UnionAll(schema=schema):
            return Rows.sum(schema, [rows.renamed(schema) for rows in inputs])
        case Product(left_key=left, right_key=right):
            return inputs[0].paired(inputs[1], left, right)
        case Distinct():
            return inputs[0].each_once()
        case Restrict(key=key, by_key=by_key, anti=anti):
            return inputs[0].restricted(inputs[1], key, by_key, anti=anti)
        case Less():
            return inputs[0].less(inputs[1])
        case Grouped(keys=keys, aggregates=aggregates, schema=schema, always=always):
            return inputs[0].aggregated(schema, keys, aggregates, always=always)
        case Summed(keys=keys, aggregates=sums, schema=schema, always=always):
            return inputs[0].summed(schema, keys, sums, always=always)
        case First(order=order, limit=limit, offset=offset):
            return inputs[0].first(order, limit, offset)
        case Windowed(functions=functions, schema=schema):
            return inputs[0].windowed(schema, functions)
        case Exploded(column=column, schema=schema, first=number, outer=outer):
            return inputs[0].exploded(schema, column, first=number, outer=outer)
        case Found() | Recursive():
            raise AssertionError("evaluated where the recursion is repeated")


def _repeated(top: Recursive, stored: Rows, known: dict[Top, Rows]) -> Rows:
    """Step by step, until one finds nothing; what does not depend on that is evaluated once.

    Few rows are better off in memory, where a step takes no job of Spark's.
    """
    is_for_spark = any(is_late(e) for node in nodes_of(top.step) for e in expressions_of(node))

    def hold(rows: Rows) -> Rows:
        return rows.settled() if is_for_spark else rows.gathered()

    for node in _apart(top.step):
        known[node] = hold(_evaluated(node, stored, known))
    given = next(n for n in nodes_of(top.step) if isinstance(n, Found) and n.name == top.name)

    def step(last: Rows) -> Rows:
        inside = {**known, given: last.renamed(given.schema)}
        return _evaluated(top.step, stored, inside).renamed(top.schema)

    start = _evaluated(top.start, stored, known)
    limit = Limit(top.name, top.most_steps)
    return stored.holding(repeated(start, step, hold, limit, distinct=top.distinct))


def _apart(top: Top) -> Iterator[Top]:
    """The largest parts of a step that do not look at what was found."""
    if not any(isinstance(node, Found) for node in nodes_of(top)):
        yield top
    else:
        for below in inputs_of(top):
            yield from _apart(below)


def _part(part: Part, stored: Rows) -> Rows:
    if part.number is not None:
        wanted = call("=", ColumnRef(PART, INT), Literal(part.number, INT))
        stored = stored.select(wanted)
    if part.columns == stored.schema.names and part.schema.types == stored.schema.types:
        return stored.renamed(part.schema)
    pairs = zip(part.columns, part.schema.types, strict=True)
    return stored.project(part.schema, [ColumnRef(name, kind) for name, kind in pairs])
