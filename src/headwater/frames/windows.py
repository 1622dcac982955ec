"""Window functions on Spark: its own where they mean the same, else those of rows in memory.

Each copy of a row becomes a row with a number, which completes every order behind all columns, so
that several functions number copies alike. Spark's functions get the completed order, and those
that know peers the order as it is written. What Spark would round or pick by chance is computed in
Python for one partition at a time, which is then held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)
from pyspark.sql import types as spark

from headwater.algebra.aggregates import FUNCTIONS, Aggregate
from headwater.algebra.expressions import ColumnRef, Literal, show_expression
from headwater.algebra.schema import Schema
from headwater.algebra.values import Type, sort_key
from headwater.algebra.windows import WindowFunction, window_values
from headwater.errors import ExpressionError
from headwater.frames.accumulators import MERGES, Inputs, told_from
from headwater.frames.arrow import COUNT, arrow_array, row_values
from headwater.frames.expressions import place
from headwater.frames.failures import told
from headwater.frames.order import completed, sort_columns
from headwater.frames.spark_types import spark_type

_COPY = "copy"


@dataclass(frozen=True)
class Placed:
    """A window function over rows of `schema`, with the places of its arguments behind them."""

    function: WindowFunction
    schema: Schema
    places: tuple[int, ...]

    @property
    def columns(self) -> list[Column]:
        return [F.col(place(at)) for at in self.places]

    @property
    def as_written(self) -> WindowSpec:
        """The window with the order that the function has."""
        order = sort_columns(self.schema, self.function.order) or [F.lit(0)]
        return self._partition.orderBy(*order)

    @property
    def in_full(self) -> WindowSpec:
        """The window with that order completed."""
        order = completed(self.schema, self.function.order)
        return self._partition.orderBy(*order, F.col(_COPY))

    @property
    def framed(self) -> WindowSpec:
        frame = self.function.frame
        start = Window.unboundedPreceding if frame.start is None else frame.start
        end = Window.unboundedFollowing if frame.end is None else frame.end
        if frame.by_range:
            return self.as_written.rangeBetween(start, end)
        return self.in_full.rowsBetween(start, end)

    @property
    def is_forward(self) -> bool:
        """Whether the frame does not end before it starts, which Spark refuses."""
        start, end = self.function.frame.start, self.function.frame.end
        return start is None or end is None or start <= end

    @property
    def partition(self) -> list[str]:
        return [place(self.schema.positions[name]) for name in self.function.partition]

    @property
    def group(self) -> tuple[tuple[str, Column, Type], ...]:
        """What tells its partition."""
        columns = self.schema.only(self.function.partition).columns
        places = zip(columns, self.partition, strict=True)
        return tuple((c.name, F.col(name), c.type) for c, name in places)

    @property
    def _partition(self) -> WindowSpec:
        return Window.partitionBy(*self.partition)


def windowed(data: DataFrame, inputs: Schema, functions: Sequence[Placed]) -> DataFrame:
    """The rows of `data` with the functions' values behind them, by name, each with the count 1.

    `data` has the columns of `inputs` by place, each row once with a count above zero.
    """
    copies = F.explode(F.sequence(F.lit(1).cast("bigint"), F.col(COUNT))).alias(_COPY)
    each = data.select(*(place(at) for at in range(len(inputs))), copies)
    each = each.withColumn(COUNT, F.least(F.col(_COPY), F.lit(1).cast("bigint")))
    left: dict[tuple[str, ...], dict[str, Placed]] = {}
    for at, placed in enumerate(functions):
        found = _by_spark(each, placed, value_name(at))
        if found is None:
            left.setdefault(placed.function.partition, {})[value_name(at)] = placed
        else:
            each = found
    for same in left.values():
        each = _by_python(each, inputs, same)
    return each


def value_name(number: int) -> str:
    """The column of the value of a function, by its number."""
    return f"value_{number}"


# By Spark


def _by_spark(each: DataFrame, placed: Placed, name: str) -> DataFrame | None:
    """With the value as Spark has it, or None if that is not the same."""
    function = placed.function
    if function.function in FUNCTIONS:
        by_spark = placed.is_forward and not function.frame.by_value
        return _aggregated(each, placed, name) if by_spark else None
    column = _column(placed)
    return None if column is None else each.select("*", column.alias(name))


def _column(placed: Placed) -> Column | None:
    function = placed.function
    if function.function in _PEERS:
        return _PEERS[function.function]().over(placed.as_written)
    if function.function == "row_number":
        return F.row_number().over(placed.in_full)
    if function.function == "ntile":
        return F.ntile(function.offset).over(placed.in_full)
    if function.ignore_nulls:
        return None
    if function.function in ("lag", "lead"):
        return _neighbour(placed)
    if function.frame.by_range or not placed.is_forward:
        return None  # which of several peers comes first is not told by the order as written
    value = placed.columns[0]
    return _IN_FRAME[function.function](value, function.offset).over(placed.framed)


def _neighbour(placed: Placed) -> Column:
    """In a struct, so that a NULL there differs from a row that is not there."""
    value, otherwise = (F.struct(column.alias("value")) for column in placed.columns)
    function = placed.function
    step = function.offset if function.function == "lead" else -function.offset
    there = F.lead(value, step) if step >= 0 else F.lag(value, -step)
    return F.coalesce(there.over(placed.in_full), otherwise)["value"]


def _aggregated(each: DataFrame, placed: Placed, name: str) -> DataFrame | None:
    """Aggregates that Spark tells of sums and extremes alone, over a frame as over a group."""
    function = placed.function
    aggregate = Aggregate(function.function, function.arguments, function.type)
    way = told_from(Inputs(aggregate, placed.places, None, placed.group))
    if way.column is None or way.slots:
        return None
    sums = [
        MERGES[merge](column).over(placed.framed).alias(key)
        for key, (merge, column) in way.accumulators.items()
    ]
    prepared = each.select("*", *(column.alias(key) for key, column in way.prepared.items()))
    return prepared.select("*", *sums).select(*each.columns, way.column.alias(name))


_PEERS: dict[str, Callable[[], Column]] = {
    "rank": F.rank,
    "dense_rank": F.dense_rank,
    "percent_rank": F.percent_rank,
    "cume_dist": F.cume_dist,
}
_IN_FRAME: dict[str, Callable[[Column, int], Column]] = {
    "first_value": lambda value, offset: F.first(value),
    "last_value": lambda value, offset: F.last(value),
    "nth_value": F.nth_value,
}


# By Python


def _by_python(each: DataFrame, inputs: Schema, functions: dict[str, Placed]) -> DataFrame:
    """With the values of functions that have the same partition."""
    first = next(iter(functions.values()))
    schema = _named(inputs, functions.values())
    fields = [*each.schema.fields]
    fields += [
        spark.StructField(name, spark_type(placed.function.type))
        for name, placed in functions.items()
    ]
    over = {name: _over(placed, schema) for name, placed in functions.items()}
    compute = _computing(schema, len(first.schema), over)
    return each.groupBy(*first.partition).applyInArrow(compute, spark.StructType(fields))


def _named(inputs: Schema, functions: Iterable[Placed]) -> Schema:
    """The columns under names that say what they are, for who is told of an error."""
    names = dict(enumerate(inputs.names))
    for placed in functions:
        names.update(enumerate(placed.schema.names))
        for at, argument in zip(placed.places, placed.function.arguments, strict=True):
            if (label := show_expression(argument)) not in names.values():
                names[at] = label
    return Schema.of(zip(names.values(), inputs.types, strict=True))


def _over(placed: Placed, schema: Schema) -> WindowFunction:
    """The function over such columns, with computed arguments; constants stay what they are."""
    columns = [ColumnRef(schema.columns[at].name, schema.columns[at].type) for at in placed.places]
    pairs = zip(placed.function.arguments, columns, strict=True)
    arguments = tuple(given if isinstance(given, Literal) else ref for given, ref in pairs)
    return replace(placed.function, arguments=arguments)


def _computing(
    schema: Schema, width: int, functions: dict[str, WindowFunction]
) -> Callable[[pyarrow.Table], pyarrow.Table]:
    places = [place(at) for at in range(len(schema))]

    def compute(table: pyarrow.Table) -> pyarrow.Table:
        rows = list(row_values(table.select(places).rename_columns(list(schema.names)), schema))
        copies = table.column(_COPY).to_pylist()
        order = sorted(range(len(rows)), key=lambda at: (sort_key(rows[at][:width]), copies[at]))
        ordered = [rows[at] for at in order]
        sorted_table = table.take(pyarrow.array(order, pyarrow.int64()))
        for name, function in functions.items():
            try:
                values = window_values(function, ordered, schema)
            except ExpressionError as error:
                raise ValueError(told(error.message, error.hint)) from None
            sorted_table = sorted_table.append_column(name, arrow_array(values, function.type))
        return sorted_table

    return compute
