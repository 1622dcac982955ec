"""Sums of groups on Spark: rows spread into them, and aggregates read off them.

Both by the very code that rows in memory have (`algebra.sums`): Python sees each row once where
rows are condensed, and one row for each group where aggregates are told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.grouping import Group
from headwater.algebra.rows import Rows, Spread
from headwater.algebra.schema import Schema
from headwater.algebra.sums import SummedAggregate, is_there
from headwater.algebra.values import Row, Value
from headwater.errors import ExpressionError
from headwater.frames.arrow import COUNT, arrow_array, row_values, to_arrow
from headwater.frames.expressions import place
from headwater.frames.failures import told
from headwater.frames.spark_types import spark_schema

_SUMS = "sums"

Batches: TypeAlias = Iterable[pyarrow.RecordBatch]


def spread(data: DataFrame, schema: Schema, result: Schema, by: Spread) -> DataFrame:
    """Each row as several others with their counts; equal ones may stand in several places."""

    def run(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            counts: dict[Row, int] = defaultdict(int)
            table = pyarrow.Table.from_batches([batch])
            signs = table.column(COUNT).to_pylist()
            for row, count in zip(row_values(table, schema), signs, strict=True):
                for other, weight in by(row):
                    counts[other] += count * weight
            yield from to_arrow(Rows(result, counts)).to_batches()

    return data.mapInArrow(run, spark_schema(result, COUNT))


def summed(
    data: DataFrame,
    schema: Schema,
    labels: Sequence[str],
    aggregates: Sequence[SummedAggregate],
    *,
    always: bool,
) -> DataFrame:
    """A row for each key, by place, and then the count.

    The first columns are the keys of these labels, then come sum, bin and count. `schema` is that
    of the result.
    """
    keys = len(labels)
    names = [place(at) for at in range(keys)]
    slot, where = place(keys), place(keys + 1)
    once = data.groupBy(*names, slot, where).agg(F.sum(COUNT).alias(COUNT))
    listed = F.collect_list(F.struct(slot, where, COUNT)).alias(_SUMS)
    groups = once.where(F.col(COUNT) != 0).groupBy(*names).agg(listed)
    every = always and not keys

    def run(batches: Batches) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield _told(batch, schema, labels, aggregates, (slot, where), every=every)

    return groups.mapInArrow(run, spark_schema(schema, COUNT))


def _told(
    batch: pyarrow.RecordBatch,
    schema: Schema,
    labels: Sequence[str],
    aggregates: Sequence[SummedAggregate],
    names: tuple[str, str],
    *,
    every: bool,
) -> pyarrow.RecordBatch:
    keys = len(labels)
    groups = [_sums(found, *names) for found in batch.column(_SUMS).to_pylist()]
    kept = [at for at, sums in enumerate(groups) if every or is_there(sums)]
    columns = [batch.column(at).take(pyarrow.array(kept, pyarrow.int64())) for at in range(keys)]
    known = list(zip(*(column.to_pylist() for column in columns), strict=True)) or [()] * len(kept)
    told_of = [(groups[at], Group(labels, key)) for at, key in zip(kept, known, strict=True)]
    values = [[_value(one, *group) for group in told_of] for one in aggregates]
    columns += [arrow_array(v, k) for v, k in zip(values, schema.types[keys:], strict=True)]
    columns.append(pyarrow.array([1] * len(kept), pyarrow.int64()))
    return pyarrow.RecordBatch.from_arrays(columns, [*schema.names, COUNT])


def _sums(found: Sequence[Any], slot: str, where: str) -> dict[Any, dict[Any, int]]:
    sums: dict[Any, dict[Any, int]] = defaultdict(dict)
    for item in found:
        sums[item[slot]][item[where]] = item[COUNT]
    return sums


def _value(one: SummedAggregate, sums: dict[Any, dict[Any, int]], group: Group) -> Value:
    try:
        return one.value(sums, group)
    except ExpressionError as error:
        raise ValueError(told(error.message, error.hint)) from None
