"""Groups of rows on Spark, and what aggregates make of each, as one plan.

Where some aggregate has a slot (`accumulators`), each row is there once for each slot and once for
all others; Spark groups by key, slot and value, and then by key. Python, if anything needs it, sees
one row for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.grouping import Group, told_of
from headwater.algebra.schema import Schema
from headwater.algebra.values import Value
from headwater.errors import ExpressionError
from headwater.frames.accumulators import MERGES, Accumulators, Inputs, Slot, Told, told_from
from headwater.frames.arrow import COUNT, arrow_array
from headwater.frames.expressions import place
from headwater.frames.failures import told
from headwater.frames.spark_types import spark_schema

_NUMBER = "rows"
_SLOT = "slot"
_NO_SLOT = -1


def grouped(
    data: DataFrame,
    schema: Schema,
    labels: Sequence[str],
    aggregates: Sequence[Inputs],
    *,
    always: bool,
) -> DataFrame:
    """A row for each key of rows with counts above zero, by place, and then the count.

    `schema` is that of the result; the first columns of `data` and of the result are the keys of
    these labels.
    """
    keys = len(labels)
    ways = [told_from(inputs) for inputs in aggregates]
    names = [place(at) for at in range(keys)]
    sums: Accumulators = {_NUMBER: ("sum", F.col(COUNT))}
    slots: dict[str, Slot] = {}
    prepared: dict[str, Column] = {}
    for way in ways:
        prepared |= way.prepared
        sums |= way.accumulators
        for name, slot in way.slots.items():
            known = slots.get(name, slot)
            slots[name] = replace(slot, accumulators=known.accumulators | slot.accumulators)
    data = data.select("*", *(column.alias(name) for name, column in prepared.items()))
    groups = _by_slot(data, names, sums, slots) if slots else _at_once(data, names, sums)
    if not keys and not always:
        groups = groups.where(F.col(_NUMBER) > 0)
    shown = [F.col(name) for name in names]
    if any(way.value for way in ways):
        by = [inputs.aggregate for inputs in aggregates]
        return _finished_by_python(groups, schema, labels, ways, by)
    columns = [*shown, *(way.column for way in ways if way.column is not None)]
    placed = [column.alias(place(at)) for at, column in enumerate(columns)]
    return groups.select(*placed, _one().alias(COUNT))


def _one() -> Column:
    """1, told from the group, so that what is bound to it is not evaluated on rows before."""
    one = F.lit(1).cast("bigint")
    return F.least(F.greatest(F.col(_NUMBER), one), one)


def _at_once(data: DataFrame, keys: Sequence[str], sums: Accumulators) -> DataFrame:
    merged = [MERGES[merge](column).alias(name) for name, (merge, column) in sums.items()]
    return data.groupBy(*keys).agg(*merged)


def _by_slot(
    data: DataFrame, keys: Sequence[str], sums: Accumulators, slots: Mapping[str, Slot]
) -> DataFrame:
    """Each row is there for each slot, and once for what needs none."""
    numbers = {name: at for at, name in enumerate(slots)}
    each = F.explode(F.array(*(F.lit(at) for at in (_NO_SLOT, *numbers.values()))))
    here = {name: F.col(_SLOT) == at for name, at in numbers.items()}
    values = [
        F.when(here[name], slot.value).alias(_value_name(numbers[name]))
        for name, slot in slots.items()
    ]
    parts = [
        MERGES[merge](F.when(F.col(_SLOT) == _NO_SLOT, column)).alias(name)
        for name, (merge, column) in sums.items()
    ]
    for slot_name, slot in slots.items():
        parts += [
            MERGES[merge](F.when(here[slot_name], column)).alias(name)
            for name, (merge, column) in slot.accumulators.items()
        ]
    by_value = data.select("*", each.alias(_SLOT)).groupBy(*keys, _SLOT, *values).agg(*parts)
    merged = [MERGES[merge](F.col(name)).alias(name) for name, (merge, _) in sums.items()]
    for slot_name, slot in slots.items():
        value = F.when(here[slot_name], F.col(_value_name(numbers[slot_name])))
        made = slot.made(value, {name: F.col(name) for name in slot.accumulators})
        merged.append(made.alias(slot_name))
    return by_value.groupBy(*keys).agg(*merged)


def _value_name(slot: int) -> str:
    return f"value_{slot}"


# What Python finishes

_Finisher = Callable[[Mapping[str, Any]], Value]


def _finished_by_python(
    groups: DataFrame,
    schema: Schema,
    labels: Sequence[str],
    ways: Sequence[Told],
    aggregates: Sequence[Aggregate],
) -> DataFrame:
    """What Spark tells goes in its place already; the rest follows by name."""
    keys = [F.col(place(at)) for at in range(len(labels))]
    columns = [*keys, *(way.column for way in ways)]
    ready = {at: column for at, column in enumerate(columns) if column is not None}
    left = {
        len(keys) + at: (aggregate, way.value)
        for at, (way, aggregate) in enumerate(zip(ways, aggregates, strict=True))
        if way.value is not None
    }
    raw = [name for name in groups.columns if name not in {place(at) for at in range(len(keys))}]
    chosen = groups.select(*(c.alias(place(at)) for at, c in ready.items()), *raw)
    finish = _finishing(schema, left, raw, labels)
    return chosen.mapInArrow(finish, spark_schema(_by_place(schema), COUNT))


def _by_place(schema: Schema) -> Schema:
    return Schema.of((place(at), kind) for at, kind in enumerate(schema.types))


def _finishing(
    schema: Schema,
    left: Mapping[int, tuple[Aggregate, _Finisher]],
    raw: Sequence[str],
    labels: Sequence[str],
) -> Callable[[Iterable[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    names = [*(place(at) for at in range(len(schema))), COUNT]

    def finish(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            groups = batch.select(list(raw)).to_pylist()
            keys = [batch.column(place(at)).to_pylist() for at in range(len(labels))]
            known = [Group(labels, tuple(key[at] for key in keys)) for at in range(len(groups))]
            columns = [
                arrow_array(_values(*left[at], groups, known), kind)
                if at in left
                else batch.column(place(at))
                for at, kind in enumerate(schema.types)
            ]
            columns.append(pyarrow.array([1] * batch.num_rows, pyarrow.int64()))
            yield pyarrow.RecordBatch.from_arrays(columns, names)

    return finish


def _values(
    aggregate: Aggregate,
    finish: _Finisher,
    groups: Iterable[Mapping[str, Any]],
    known: Iterable[Group],
) -> list[Value]:
    try:
        return [
            told_of(aggregate, partial(finish, group), key)
            for group, key in zip(groups, known, strict=True)
        ]
    except ExpressionError as error:
        raise ValueError(told(error.message, error.hint)) from None
