"""What belongs to many keys, read by Spark's workers where the keys are: none of it passes through
the driver.

How a worker connects is a secret. It travels beside the plan, which Spark keeps, logs and shows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow
from pyspark import Broadcast
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.frames.arrow import COUNT, row_values, signed_schema
from headwater.frames.columns import arrow_table
from headwater.frames.expressions import place
from headwater.frames.frame import Frame
from headwater.frames.held import Held, positional
from headwater.frames.spark_types import spark_schema

AT_ONCE = 50_000
"""So many keys are asked for together; what they find is in a worker's memory."""
_MOST_READERS = 8
"""So many connections to one source at most."""


class ByKeys(Protocol):
    """Reads rows by keys; it is sent to workers, and may be run again there."""

    def read(self, keys: Iterable[Sequence[Row]]) -> Iterator[Rows]:
        """For some keys at a time their rows. Rows of different keys differ."""
        ...


def read_by_keys(rows: Rows, columns: Sequence[str], reader: ByKeys, schema: Schema) -> Frame:
    """What is found for the values that some columns of rows have together, without NULL."""
    assert isinstance(rows, Frame)
    keyed = rows.schema.only(columns)
    names = positional(keyed).names
    data = rows._held.data.select(*(F.col(place(rows.schema.positions[c])) for c in columns))
    for name in names:
        data = data.toDF(*names).where(F.col(name).isNotNull())
    readers = min(_MOST_READERS, 1 + len(rows) // AT_ONCE)
    # Parted by their values: a task that is run again has the same.
    once = data.repartition(readers, *names).distinct()
    sent = rows.spark.sparkContext.broadcast(pickle.dumps(reader))
    try:
        found = once.mapInArrow(
            _reading(sent, keyed, schema), spark_schema(positional(schema), COUNT)
        )
        held = Held(rows.spark, positional(schema), found, merged=True, unsigned=True)
        held.settle(large=True)
    finally:
        sent.destroy()
    return Frame(schema, held)


_Batches = Iterator[pyarrow.RecordBatch]


def _reading(
    sent: Broadcast[bytes], keyed: Schema, schema: Schema
) -> Callable[[_Batches], _Batches]:
    """What a worker does with its keys."""

    def read(batches: _Batches) -> _Batches:
        reader: ByKeys = pickle.loads(sent.value)
        form = signed_schema(positional(schema))
        for rows in reader.read(_gathered(batches, keyed)):
            table = arrow_table(rows).rename_columns(form.names).cast(form)
            yield from table.to_batches(max_chunksize=AT_ONCE)

    return read


def _gathered(batches: _Batches, keyed: Schema) -> Iterator[Sequence[Row]]:
    keys: list[Row] = []
    for batch in batches:
        keys += row_values(pyarrow.Table.from_batches([batch]), keyed)
        if len(keys) >= AT_ONCE:
            yield keys
            keys = []
    if keys:
        yield keys
