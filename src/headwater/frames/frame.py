"""Frame: relations held by Spark. A Frame is a `Rows`, stored elsewhere.

Every operation is a plan, computed by Spark when something reads it, and then kept: reading a
Frame (its size, whether it is empty, its rows) settles it. Operations on a Frame and rows in
memory take the rows to Spark.

Assumes that what a Frame is made of does not change before it is settled: one that was read
from a source is settled before it becomes an event.

Choices: an expression that may fail is evaluated exactly on the rows that are there, as in
memory: on merged rows, since one that cancels out is not there, and never on the rows of one
side of a join that find no partner, to which Spark would move it (`_on_present_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import (
    Call,
    ColumnRef,
    Expression,
    can_fail,
    told_columns,
)
from headwater.algebra.order import Order
from headwater.algebra.rows import Equality, Rows, Spread
from headwater.algebra.schema import Schema
from headwater.algebra.sums import BIN, SUM, SummedAggregate
from headwater.algebra.values import BOOL, Row
from headwater.algebra.windows import WindowFunction
from headwater.errors import HeadwaterError
from headwater.frames.arrow import COUNT, from_arrow
from headwater.frames.columns import Columns
from headwater.frames.expressions import canonical_column, place, to_column
from headwater.frames.failures import Fragile, explained
from headwater.frames.grouping import grouped
from headwater.frames.held import Held, positional
from headwater.frames.matching import kept_of, less, pairs_of, same
from headwater.frames.order import completed, first_of
from headwater.frames.small import ROWS, SMALL
from headwater.frames.spark_types import spark_type
from headwater.frames.sums import spread as spread_rows
from headwater.frames.sums import summed
from headwater.frames.wanted import Wanted
from headwater.frames.windows import value_name, windowed


class Frame(Rows):
    """A signed multiset of rows as a Spark DataFrame."""

    __slots__ = ("_held",)

    rank = 2

    def __init__(self, schema: Schema, held: Held) -> None:
        self.schema = schema
        self._hash = None
        self._held = held

    @classmethod
    def of_rows(cls, spark: SparkSession, rows: Rows) -> Frame:
        """The same rows, at hand for Spark; a Frame as it is."""
        return rows if isinstance(rows, Frame) else cls(rows.schema, Held.of_rows(spark, rows))

    @classmethod
    def of_dataframe(cls, data: DataFrame, schema: Schema, signed: bool) -> Frame:
        """A DataFrame whose columns are those of `schema` by place; if signed, then the count."""
        assert len(data.columns) == len(schema) + signed
        placed = data.toDF(*positional(schema).names, *([COUNT] if signed else []))
        columns = [
            canonical_column(F.col(place(at)).cast(spark_type(kind)), kind).alias(place(at))
            for at, kind in enumerate(schema.types)
        ]
        count = F.col(COUNT).cast("bigint") if signed else F.lit(1).cast("bigint")
        chosen = placed.select(*columns, count.alias(COUNT))
        held = Held(data.sparkSession, positional(schema), chosen, unsigned=not signed)
        return cls(schema, held)

    @property
    def spark(self) -> SparkSession:
        return self._held.spark

    # Reading

    def __getattr__(self, name: str) -> dict[Row, int]:
        """The rows in memory, which all that reads a `Rows` looks at; brought when first asked."""
        if name != "_counts":
            raise AttributeError(name)
        self._counts = self._held.counts()
        return self._counts

    def __len__(self) -> int:
        return self._held.settle()

    def __bool__(self) -> bool:
        return self._held.settle() > 0

    @property
    def size_hint(self) -> int:
        return self._held.most

    def some(self, most: int) -> list[Row]:
        return []

    @property
    def number(self) -> int:
        return self._held.number()

    @property
    def is_settled(self) -> bool:
        return self._held.size is not None

    @property
    def is_at_hand(self) -> bool:
        """Whether the rows are in memory here, so that reading them takes no job."""
        return self._held.is_at_hand

    @property
    def is_far(self) -> bool:
        return self._held.settle() > SMALL

    def settled(self, *, large: bool = False) -> Frame:
        """This Frame, computed: nothing that uses it will compute or read anything again.

        `large` is what one thinks of it: it is quicker where that is true.
        """
        self._held.settle(large=large)
        return self

    def gathered(self) -> Rows:
        return self.collected() if len(self) <= ROWS else self

    def distinct(self, columns: Sequence[str]) -> set[Row]:
        """Of large rows only these columns are brought here, each value of them once."""
        if len(self) <= SMALL:
            return self.in_columns().distinct(columns)
        schema = self.schema.only(tuple(dict.fromkeys(columns)))
        places = [place(self.schema.positions[name]) for name in schema.names]
        once = self._held.data.select(*places).distinct().toDF(*positional(schema).names)
        counted = once.withColumn(COUNT, F.lit(1).cast("bigint"))
        held = Held(self.spark, positional(schema), counted, merged=True, unsigned=True)
        return Frame(schema, held).in_columns().distinct(columns)

    def collected(self) -> Rows:
        """The same rows in memory."""
        return Rows(self.schema, self._counts)

    def in_columns(self) -> Columns:
        """The same rows in memory, as Arrow holds them."""
        return Columns(self.schema, self._held.table(), merged=True)

    @property
    def dataframe(self) -> DataFrame:
        """The rows by column name, each once, with its count as the column `_count`."""
        merged = self._held.merged_data()
        return merged.toDF(*self.schema.names, COUNT)

    def explained(self, error: Exception) -> HeadwaterError:
        """Why computing these rows has failed on Spark: which expression, and on which row."""
        return explained(error, self._held.fragile)

    def release(self) -> None:
        """Free what Spark keeps of these rows; the Frame is of no use afterwards."""
        self._held.release()

    # The ring

    def __add__(self, other: Rows) -> Frame:
        return self._summed(self.schema, (self, other))

    def __radd__(self, other: Rows) -> Frame:
        return self._summed(other.schema, (other, self))

    def _summed(self, schema: Schema, parts: tuple[Rows, ...]) -> Frame:
        in_memory = [part for part in parts if not isinstance(part, Frame) and part]
        held = [part._held for part in parts if isinstance(part, Frame) and part.size_hint]
        if in_memory:
            held.append(Held.of_rows(self.spark, Rows.sum(schema, in_memory)))
        if not held:
            return self._nothing(schema)
        if len(held) == 1:
            return Frame(schema, held[0])
        data = reduce(DataFrame.union, (each.data for each in held))
        most = sum(each.most for each in held)
        in_one = all(each.in_one for each in held)
        if in_one:
            data = data.coalesce(1)
        added = Held(
            self.spark,
            held[0].schema,
            data,
            most=most,
            likely=sum(each.likely for each in held),
            unsigned=all(each.unsigned for each in held),
            fragile=tuple(f for each in held for f in each.fragile),
            in_one=in_one,
            alike=frozenset.intersection(*(each.alike for each in held)),
        )
        return Frame(schema, added)

    def scaled(self, factor: int) -> Frame:
        if factor == 1 or not self.size_hint:
            return self
        if factor == 0:
            return self._nothing(self.schema)
        count = f"{COUNT} * CAST({factor} AS BIGINT) AS {COUNT}"
        scaled = self._with(self._held.data.selectExpr(*self._held.schema.names, count))
        scaled._held.unsigned = self._held.unsigned and factor > 0
        return scaled

    # Relational operations

    def select(self, condition: Expression) -> Frame:
        if not self.size_hint:
            return self
        source, fragile = self._prepared_for((condition,))
        test = _on_present_rows(condition, self.schema)
        return source._with(source._held.data.where(test), fragile)

    def project(self, schema: Schema, outputs: Sequence[Expression]) -> Frame:
        if not self.size_hint:
            return self._nothing(schema)
        if all(isinstance(output, ColumnRef) for output in outputs):
            return self._rearranged(schema, outputs)
        source, fragile = self._prepared_for(outputs)
        # Inside a lambda Spark would take a name for that of a column that is made beside it.
        columns = [
            _on_present_rows(output, self.schema).cast(spark_type(kind)).alias(f"made{at}")
            for at, (output, kind) in enumerate(zip(outputs, schema.types, strict=True))
        ]
        result = positional(schema)
        held = Held(
            self.spark,
            result,
            source._held.data.select(*columns, F.col(COUNT)).toDF(*result.names, COUNT),
            most=source._held.most,
            likely=source._held.likely,
            unsigned=source._held.unsigned,
            fragile=fragile,
            in_one=source._held.in_one,
        )
        return Frame(schema, held)

    def _rearranged(self, schema: Schema, outputs: Sequence[Expression]) -> Frame:
        """Only columns: of rows at hand without a job, and of others without adding them up again
        if rows that differ still do."""
        source = self._held
        if source.is_at_hand:
            found = self.in_columns().project(schema, outputs)
            return Frame.of_rows(self.spark, Columns.of_rows(found))
        places = [self.schema.positions[o.name] for o in outputs if isinstance(o, ColumnRef)]
        names = positional(schema).names
        columns = [
            F.col(place(at)).cast(spark_type(kind)).alias(name)
            for at, kind, name in zip(places, schema.types, names, strict=True)
        ]
        held = source.derived(source.data.select(*columns, F.col(COUNT)))
        held.schema = positional(schema)
        held.merged = source.merged and source.determined_by(places)
        held.size = source.size if held.merged else None
        held.alike = frozenset(
            (one, other)
            for one, a in enumerate(places)
            for other, b in enumerate(places)
            if one < other and (a == b or {(a, b), (b, a)} & source.alike)
        )
        return Frame(schema, held)

    def join(self, other: Rows, on: Sequence[Equality] = ()) -> Frame:
        return self._joined(self, Frame.of_rows(self.spark, other), on)

    def _joined_behind(self, first: Rows, on: Sequence[Equality]) -> Frame:
        return self._joined(Frame.of_rows(self.spark, first), self, on)

    def _joined(self, first: Frame, second: Frame, on: Sequence[Equality]) -> Frame:
        schema = first.schema + second.schema
        if not (first.size_hint and second.size_hint):
            return self._nothing(schema)
        first, fragile = first._prepared_for([left for left, _ in on])
        second, more = second._prepared_for([right for _, right in on])
        pairs = [to_column(Call("=", pair, BOOL), schema) for pair in on]
        matches = reduce(Column.__and__, pairs) if on else None
        held = pairs_of(first._held, second._held, matches)
        held.fragile = fragile + more
        held.alike |= {
            (schema.positions[a.name], schema.positions[b.name])
            for a, b in on
            if isinstance(a, ColumnRef) and isinstance(b, ColumnRef) and a.type == b.type
        }
        return Frame(schema, held)

    def key_delete(self, columns: Sequence[str], keys: Iterable[Row]) -> Frame:
        gone = Rows(self.schema.only(columns), dict.fromkeys(keys, 1))
        if not gone or not self.size_hint:
            return self
        positions = [self.schema.positions[name] for name in columns]
        matches = same([(at, len(self.schema) + own) for own, at in enumerate(positions)])
        held = kept_of(self._held, Held.of_rows(self.spark, gone), matches, anti=True)
        return Frame(self.schema, held)

    def among(self, other: Rows) -> Frame:
        return self._among(self, Frame.of_rows(self.spark, other))

    def _kept_of(self, first: Rows) -> Frame:
        return self._among(Frame.of_rows(self.spark, first), self)

    def _among(self, first: Frame, second: Frame) -> Frame:
        """Of `second` only rows that are there count, so it is merged first."""
        if not (first.size_hint and second.size_hint):
            return self._nothing(first.schema)
        width = len(first.schema)
        matches = same([(at, width + at) for at in range(width)])
        return Frame(first.schema, kept_of(first._held, second._merged()._held, matches))

    def positive(self) -> Frame:
        if self._held.unsigned:
            return self
        positive = self._merged()._where_count(F.col(COUNT) > 0)
        positive._held.unsigned = True
        return positive

    def negative(self) -> Frame:
        return self._merged()._where_count(F.col(COUNT) < 0)

    # What tops are made of

    def _alike(self, rows: Rows) -> Frame:
        return Frame.of_rows(self.spark, rows)

    def each_once(self) -> Frame:
        columns = [*self._held.schema.names, f"IF({COUNT} > 0, CAST(1 AS BIGINT), 0) AS {COUNT}"]
        present = self.positive()._merged()
        return present._with(present._held.data.selectExpr(*columns))

    def paired(self, other: Rows, key: Sequence[str], other_key: Sequence[str]) -> Frame:
        second = Frame.of_rows(self.spark, other)
        schema = self.schema + second.schema
        if not (self.size_hint and second.size_hint):
            return self._nothing(schema)
        matches = self._same_key(second, key, other_key) if key else None
        return Frame(schema, pairs_of(self._held, second._held, matches))

    def restricted(
        self, by: Rows, key: Sequence[str], by_key: Sequence[str], *, anti: bool = False
    ) -> Frame:
        if not by.size_hint:
            return self if anti else self._nothing(self.schema)
        second = Frame.of_rows(self.spark, by).positive()
        matches = self._same_key(second, key, by_key)
        return Frame(self.schema, kept_of(self._held, second._held, matches, anti=anti))

    def less(self, other: Rows) -> Frame:
        second = Frame.of_rows(self.spark, other)
        return Frame(self.schema, less(self.positive()._held, second.positive()._held))

    def first(self, order: Sequence[Order], limit: int | None, offset: int = 0) -> Frame:
        if limit == 0 or not self.size_hint:
            return self._nothing(self.schema)
        present = self.positive()._merged()
        sorting = completed(self.schema, order)
        return Frame(self.schema, first_of(present._held, sorting, limit, offset))

    def aggregated(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        *,
        always: bool = False,
    ) -> Frame:
        if not self.size_hint:
            found = Rows.empty(self.schema).aggregated(schema, keys, aggregates, always=always)
            return Frame.of_rows(self.spark, found)
        wanted = Wanted(self.schema, keys)
        inputs = [wanted.aggregate(aggregate) for aggregate in aggregates]
        source = self.positive().project(wanted.schema, wanted.expressions)._held
        data = grouped(source.data, schema, keys, inputs, always=always)
        return _of_groups(schema, data, source, keys)

    def spread(self, schema: Schema, spread: Spread) -> Frame:
        if not self.size_hint:
            return self._nothing(schema)
        result = positional(schema)
        data = spread_rows(self._held.data, self._held.schema, result, spread)
        return Frame(schema, Held(self.spark, result, data, fragile=self._held.fragile))

    def summed(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[SummedAggregate],
        *,
        always: bool = False,
    ) -> Frame:
        if not self.size_hint:
            found = Rows.empty(self.schema).summed(schema, keys, aggregates, always=always)
            return Frame.of_rows(self.spark, found)
        names = (*keys, SUM, BIN)
        outputs = [ColumnRef(name, self.schema.only((name,)).types[0]) for name in names]
        source = self.project(self.schema.only(names), outputs)._held
        data = summed(source.data, positional(schema), keys, aggregates, always=always)
        return _of_groups(schema, data, source, keys)

    def windowed(self, schema: Schema, functions: Sequence[WindowFunction]) -> Frame:
        if not self.size_hint:
            return self._nothing(schema)
        wanted = Wanted(self.schema, self.schema.names)
        placed = [wanted.window(function, self.schema) for function in functions]
        source = self.positive()._merged().project(wanted.schema, wanted.expressions)._held
        data = windowed(source.data, wanted.schema, placed)
        names = [*self._held.schema.names, *(value_name(at) for at in range(len(functions)))]
        columns = [F.col(name).alias(place(at)) for at, name in enumerate(names)]
        held = Held(
            self.spark,
            positional(schema),
            data.select(*columns, COUNT),
            unsigned=True,
            fragile=source.fragile,
        )
        return Frame(schema, held)

    def exploded(
        self, schema: Schema, column: str, *, first: int | None = None, outer: bool = False
    ) -> Frame:
        if not self.size_hint:
            return self._nothing(schema)
        array, width = F.col(place(self.schema.positions[column])), len(self.schema)
        names = [place(width)] if first is None else ["_at", place(width)]
        if first is None:
            made = (F.explode_outer if outer else F.explode)(array)
        else:
            made = (F.posexplode_outer if outer else F.posexplode)(array)
        data = self._held.data.select("*", made.alias(*names))
        if first is not None:
            data = data.withColumn(place(width + 1), F.col("_at").cast("bigint") + F.lit(first))
        held = Held(
            self.spark,
            positional(schema),
            data.select(*positional(schema).names, COUNT),
            unsigned=self._held.unsigned,
            fragile=self._held.fragile,
        )
        return Frame(schema, held)

    def _same_key(self, other: Frame, key: Sequence[str], other_key: Sequence[str]) -> Column:
        """Whether a row here and one of `other`, whose columns are behind these, have one key."""
        width = len(self.schema)
        places = zip(key, other_key, strict=True)
        return same(
            [(self.schema.positions[a], width + other.schema.positions[b]) for a, b in places]
        )

    def renamed(self, schema: Schema) -> Frame:
        assert schema.types == self.schema.types
        return Frame(schema, self._held)

    # Making Frames out of this one

    def _nothing(self, schema: Schema) -> Frame:
        return Frame.of_rows(self.spark, Rows.empty(schema))

    def _with(self, data: DataFrame, fragile: tuple[Fragile, ...] | None = None) -> Frame:
        """A Frame of some of these rows, or of the same with other counts."""
        return Frame(self.schema, self._held.derived(data, fragile))

    def _where_count(self, condition: Column) -> Frame:
        return self._with(self._held.data.where(condition)) if self.size_hint else self

    def _merged(self) -> Frame:
        if self._held.merged:
            return self
        merged = self._with(self._held.merged_data())
        merged._held.merged = True
        return merged

    def _prepared_for(self, expressions: Iterable[Expression]) -> tuple[Frame, tuple[Fragile, ...]]:
        """This Frame as these expressions need it, and what in its plan may fail with them."""
        risky = [expression for expression in expressions if can_fail(expression)]
        source = self._merged() if risky and not self._held.unsigned else self
        added = tuple(Fragile(expression, source._sample, source._failing) for expression in risky)
        return source, source._held.fragile + added

    def _sample(self, expression: Expression, most: int) -> Rows:
        """Up to so many rows, to find the one on which a job failed."""
        schema = self.schema.only(told_columns(expression, self.schema))
        columns = [ColumnRef(column.name, column.type) for column in schema.columns]
        some = self._merged().project(schema, columns)._held.data.limit(most)
        return from_arrow(some.toArrow(), schema)

    def _failing(self, expression: Expression) -> Rows:
        """A row on which an expression fails, with what tells it apart."""
        schema = self.schema.only(told_columns(expression, self.schema))
        columns = [ColumnRef(column.name, column.type) for column in schema.columns]
        looked_at = self._merged().project(schema, columns)
        fails = to_column(Call("fails", (expression,), BOOL), schema)
        return from_arrow(looked_at._held.data.where(fails).limit(1).toArrow(), schema)


def _of_groups(schema: Schema, data: DataFrame, source: Held, keys: Sequence[str]) -> Frame:
    """A row for each group of some rows."""
    held = Held(
        source.spark,
        positional(schema),
        data,
        most=source.most if keys else 1,
        merged=True,
        unsigned=True,
        fragile=source.fragile,
    )
    return Frame(schema, held)


def _on_present_rows(expression: Expression, schema: Schema) -> Column:
    """The expression as a column; if it may fail, bound to the count of the row it stands on.

    The count of a joined row needs both sides, so that Spark cannot move the expression to
    one of them and evaluate it on rows that are not in the join.
    """
    column = to_column(expression, schema)
    return F.when(F.col(COUNT) != 0, column) if can_fail(expression) else column
