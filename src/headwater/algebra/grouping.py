"""Groups of rows in memory, and what aggregates make of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headwater.algebra.aggregates import Aggregate, aggregated
from headwater.algebra.expressions import compile_expression, compile_rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Value, show
from headwater.errors import ExpressionError

CORRECT_THEM = "Correct the rows of that group at their source, or change the view."


@dataclass(frozen=True)
class Group:
    """Which group or partition it is: the values of some columns."""

    names: Sequence[str] = ()
    key: Row = ()

    def __str__(self) -> str:
        """What follows `fails`."""
        pairs = zip(self.names, self.key, strict=True)
        shown = ", ".join(f"{name} = {_short(show(value))}" for name, value in pairs)
        return f" for {shown}" if shown else ""


ALL_ROWS = Group()
_MOST_CHARACTERS = 100


def _short(shown: str) -> str:
    return shown if len(shown) <= _MOST_CHARACTERS else f"{shown[:_MOST_CHARACTERS]}..."


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
            computed(aggregate, read(members), Group(keys, group))
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


def computed(
    aggregate: Aggregate, counted: Iterable[tuple[Row, int]], group: Group = ALL_ROWS
) -> Value:
    """The aggregate's value; an ExpressionError that names it where it has none."""
    return told_of(aggregate, lambda: aggregated(aggregate, counted), group)


def told_of(aggregate: Aggregate, compute: Callable[[], Value], group: Group) -> Value:
    try:
        return compute()
    except (ArithmeticError, ValueError) as error:
        raise ExpressionError(f"{aggregate} fails{group}: {error}.", CORRECT_THEM) from None
