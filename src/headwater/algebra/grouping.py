"""Groups of rows in memory, and what aggregates make of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from headwater.algebra.aggregates import Aggregate, aggregated
from headwater.algebra.expressions import compile_expression, compile_rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Value
from headwater.errors import ExpressionError


def key_reader(schema: Schema, columns: Sequence[str]) -> Callable[[Row], Row]:
    """A function from a row to its values in these columns."""
    positions = [schema.positions[name] for name in columns]
    return lambda row: tuple([row[at] for at in positions])


def grouped(
    rows: Iterable[tuple[Row, int]],
    schema: Schema,
    keys: Sequence[str],
    aggregates: Sequence[Aggregate],
    *,
    always: bool,
) -> Iterator[Row]:
    """For each key of the rows with positive counts: the key, then its aggregates."""
    key = key_reader(schema, keys)
    groups: dict[Row, list[tuple[Row, int]]] = {(): []} if always and not keys else {}
    for row, count in rows:
        if count > 0:
            groups.setdefault(key(row), []).append((row, count))
    readers = [_arguments(aggregate, schema) for aggregate in aggregates]
    for group, members in groups.items():
        values = [
            computed(aggregate, read(members))
            for aggregate, read in zip(aggregates, readers, strict=True)
        ]
        yield group + tuple(values)


def _arguments(
    aggregate: Aggregate, schema: Schema
) -> Callable[[list[tuple[Row, int]]], Iterable[tuple[Row, int]]]:
    """How the arguments are read from a group, equal ones added up."""
    read = compile_rows(aggregate.inputs, schema)
    condition = aggregate.condition
    test = compile_expression(condition, schema) if condition is not None else None

    def of(members: list[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        counts: dict[Row, int] = defaultdict(int)
        for row, count in members:
            if test is None or test(row) is True:
                counts[read(row)] += count
        return counts.items()

    return of


def computed(aggregate: Aggregate, counted: Iterable[tuple[Row, int]]) -> Value:
    """The aggregate's value; an ExpressionError that names it where it has none."""
    return told(aggregate, lambda: aggregated(aggregate, counted))


def told(aggregate: Aggregate, compute: Callable[[], Value]) -> Value:
    try:
        return compute()
    except (ArithmeticError, ValueError) as error:
        raise ExpressionError(
            f"{aggregate} fails: {error}.", "Change the view, or the rows of that group."
        ) from None
