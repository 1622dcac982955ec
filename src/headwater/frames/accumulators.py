"""What Spark adds up of each group for an aggregate, and how its value is told from that.

An aggregate is told in one of three ways. Most from *accumulators*: sums, least and greatest values
of the group's rows, which Spark merges as it likes. Some need their rows grouped by a value first,
their *slot*: floats by the bin of their exponent, what is counted once by itself. And what looks at
all values together gets them with their counts. Then either Spark tells the value, or Python does
for each group, with the very code that rows in memory have (`algebra.aggregates`).

Assumes a frame with a column for each input (`Inputs`), NULL where a FILTER leaves the row out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, aggregated, from_moments
from headwater.algebra.grouping import CORRECT_THEM
from headwater.algebra.moments import FINISH, Moments, with_squares
from headwater.algebra.values import FLOAT, INT, INT_MAX, INT_MIN, Row, Type, Value, canonical
from headwater.frames.arrow import COUNT
from headwater.frames.expressions import place
from headwater.frames.failures import told_column
from headwater.frames.numbers import (
    float_bin,
    prepared,
    put_bins_together,
    put_together,
    sums_of,
    total_of,
)
from headwater.frames.spark_types import spark_type

MERGES: dict[str, Callable[[Column], Column]] = {
    "sum": F.sum,
    "min": F.min,
    "max": F.max,
    "and": F.bit_and,
    "or": F.bit_or,
    "xor": F.bit_xor,
}
_MOST_CHARACTERS = 100
_NATIVE_PRECISION, _NATIVE_SCALE = 18, 10
"""Spark divides a whole number of 28 digits exactly by ten to the power of up to this."""


@dataclass(frozen=True)
class Inputs:
    """An aggregate, and in which places its inputs and its condition stand."""

    aggregate: Aggregate
    places: tuple[int, ...]
    condition: int | None
    group: tuple[tuple[str, Column, Type], ...] = ()
    """What tells its group: names, and the columns that have the values."""

    @property
    def columns(self) -> list[Column]:
        return [F.col(place(at)) for at in self.places]

    @property
    def name(self) -> str:
        """One for all aggregates that look at the same rows and inputs."""
        sees_nulls = FUNCTIONS[self.aggregate.function].sees_nulls
        rows = ("nulls",) if sees_nulls else ()
        return "_".join(map(str, ("of", *self.places, self.condition, *rows)))

    @property
    def kept(self) -> Column:
        """Whether the FILTER keeps the row."""
        return F.lit(True) if self.condition is None else F.col(place(self.condition))

    @property
    def counts(self) -> Column:
        """Whether the row counts for the aggregate."""
        width = len(self.aggregate.arguments)
        kept = self.kept
        if not FUNCTIONS[self.aggregate.function].sees_nulls:
            for column in self.columns[:width]:
                kept = kept & column.isNotNull()
        return kept


Accumulators = dict[str, tuple[str, Column]]
"""By name how it merges, one of `MERGES`, and what of each row."""


@dataclass(frozen=True)
class Slot:
    """Rows grouped by a value too, and what is made of these groups."""

    value: Column
    accumulators: Accumulators
    made: Callable[[Column, Mapping[str, Column]], Column]
    """From the value and the accumulators, NULL in all other rows, to a column of the group."""


@dataclass(frozen=True)
class Told:
    """How an aggregate is told: by a column, or by Python, of what is named."""

    accumulators: Accumulators = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    prepared: dict[str, Column] = field(default_factory=dict)
    """Columns of each row that accumulators look at, computed once."""
    column: Column | None = None
    value: Callable[[Mapping[str, Any]], Value] | None = None


def told_from(inputs: Inputs) -> Told:
    """How Spark and Python tell an aggregate."""
    function = inputs.aggregate
    if not function.distinct or function.function in ("min", "max", "any_value"):
        if function.function in _SIMPLE:
            return _SIMPLE[function.function](inputs)
        if function.function in FINISH:
            return _from_moments(inputs)
    elif function.function == "count":
        return _distinct_count(inputs)
    return _from_values(inputs)


# Told by Spark


def _count(inputs: Inputs) -> Told:
    name = f"{inputs.name}_number"
    counted = {name: ("sum", F.when(inputs.counts, F.col(COUNT)))}
    return Told(counted, column=F.coalesce(F.col(name), F.lit(0).cast("bigint")))


def _count_if(inputs: Inputs) -> Told:
    name = f"{inputs.name}_true"
    counted = {name: ("sum", F.when(inputs.columns[0], F.col(COUNT)))}
    return Told(counted, column=F.coalesce(F.col(name), F.lit(0).cast("bigint")))


def _extreme(merge: str) -> Callable[[Inputs], Told]:
    def tell(inputs: Inputs) -> Told:
        name = f"{inputs.name}_{merge}"
        return Told({name: (merge, inputs.columns[0])}, column=F.col(name))

    return tell


def _bits(merge: str) -> Callable[[Inputs], Told]:
    """Bit by bit; for XOR only values that are there an odd number of times count."""

    def tell(inputs: Inputs) -> Told:
        name, value = f"{inputs.name}_{merge}", inputs.columns[0]
        if merge == "xor":
            odd = F.col(COUNT) % F.lit(2).cast("bigint") != F.lit(0).cast("bigint")
            value = F.when(odd | value.isNull(), value).otherwise(F.lit(0).cast("bigint"))
        return Told({name: (merge, value)}, column=F.col(name))

    return tell


def _least_by(inputs: Inputs) -> Told:
    name = f"{inputs.name}_least"
    value, by = inputs.columns
    pair = F.when(inputs.counts & by.isNotNull(), F.struct(by.alias("by"), value.alias("value")))
    return Told({name: ("min", pair)}, column=F.col(name)["value"])


def _greatest_by(inputs: Inputs) -> Told:
    """The least value for each `by` first: a pair would give the greatest one."""
    value, by = inputs.columns
    name = f"{inputs.name}_greatest"
    least = {f"{name}_value": ("min", F.struct(value.alias("value")))}

    def made(by: Column, sums: Mapping[str, Column]) -> Column:
        return F.max_by(sums[f"{name}_value"], by)

    slots = {name: Slot(F.when(inputs.counts, by), least, made)}
    return Told(slots=slots, column=F.col(name)["value"])


def _single(inputs: Inputs) -> Told:
    number, name = f"{inputs.name}_all", f"{inputs.name}_single"
    (value,) = inputs.columns
    found = {
        number: ("sum", F.when(inputs.counts, F.col(COUNT))),
        name: ("min", F.when(inputs.counts, F.struct(value.alias("value")))),
    }
    words = "a subquery that stands for one value has more than one row"
    failure = _failing(inputs, words)
    return Told(found, column=F.when(F.col(number) > 1, failure).otherwise(F.col(name)["value"]))


def _distinct_count(inputs: Inputs) -> Told:
    name = f"{inputs.name}_distinct"

    def made(value: Column, sums: Mapping[str, Column]) -> Column:
        return F.count(value)

    values = F.struct(*(column.alias(place(at)) for at, column in enumerate(inputs.columns)))
    slots = {name: Slot(F.when(inputs.counts, values), {}, made)}
    return Told(slots=slots, column=F.col(name))


def _failing(inputs: Inputs, words: str) -> Column:
    """As `algebra.grouping.told_of` says it."""
    parts = [F.lit(f"{inputs.aggregate} fails")]
    for at, (name, column, kind) in enumerate(inputs.group):
        parts += [F.lit(f"{', ' if at else ' for '}{name} = "), _shown(column, kind)]
    message = F.concat(*parts, F.lit(f": {words}."))
    return F.raise_error(told_column(F.to_json(F.array(message, F.lit(CORRECT_THEM)))))


def _shown(column: Column, kind: Type) -> Column:
    match kind.name:
        case "text":
            shown = F.concat(F.lit("'"), F.replace(column, F.lit("'"), F.lit("''")), F.lit("'"))
        case "bytes":
            shown = F.concat(F.lit("x'"), F.hex(column), F.lit("'"))
        case "array" | "struct":
            shown = F.to_json(column)
        case _:
            shown = column.cast("string")
    return F.coalesce(F.left(shown, F.lit(_MOST_CHARACTERS)), F.lit("NULL"))


# Told from sums


def _from_moments(inputs: Inputs) -> Told:
    function, kind = inputs.aggregate, inputs.aggregate.arguments[0].type
    name, squares = inputs.name, with_squares(inputs.aggregate.function)
    number = inputs.columns[0]
    columns = prepared(name, number, kind)
    sums: Accumulators = {
        key: ("sum", column) for key, column in sums_of(name, kind, F.col(COUNT), squares).items()
    }
    if function.function == "sum" and (total := _sum_by_spark(inputs, kind)) is not None:
        return Told(sums, prepared=columns, column=total)
    counted: Accumulators = {f"{name}_number": ("sum", F.when(number.isNotNull(), F.col(COUNT)))}
    if kind != FLOAT:
        return Told(counted | sums, prepared=columns, value=_of_moments(inputs))
    special = F.isnan(number) | (F.abs(number) == float("inf"))
    counted[f"{name}_least"] = ("min", F.when(special, number))
    counted[f"{name}_most"] = ("max", F.when(special, number))

    def made(value: Column, sums: Mapping[str, Column]) -> Column:
        fields = [column.alias(key) for key, column in sums.items()]
        return F.collect_list(F.when(value.isNotNull(), F.struct(value.alias("bin"), *fields)))

    columns[f"{name}_bin"] = float_bin(number)
    slots = {f"{name}_bins": Slot(F.col(f"{name}_bin"), sums, made)}
    return Told(counted, slots, columns, value=_of_moments(inputs))


def _sum_by_spark(inputs: Inputs, kind: Type) -> Column | None:
    function, name = inputs.aggregate, inputs.name
    if kind == INT:
        total = total_of(name, kind)
        failure = _failing(inputs, "the sum is outside the range of int (64 bits)")
        is_out = (total < F.lit(INT_MIN).cast("decimal(38,0)")) | (
            total > F.lit(INT_MAX).cast("decimal(38,0)")
        )
        return F.when(is_out, failure).otherwise(total).cast("bigint")
    if 0 < kind.precision <= _NATIVE_PRECISION and kind.scale <= _NATIVE_SCALE:
        one = F.lit(10**kind.scale).cast(f"decimal({kind.scale + 1},0)")
        quotient = total_of(name, kind).cast("decimal(28,0)") / one
        return quotient.cast(spark_type(function.type))
    return None


def _of_moments(inputs: Inputs) -> Callable[[Mapping[str, Any]], Value]:
    function, name = inputs.aggregate, inputs.name
    kind = function.arguments[0].type

    def value(group: Mapping[str, Any]) -> Value:
        special = 0.0
        if kind == FLOAT:
            total, squared = put_bins_together(group[f"{name}_bins"], name)
            special = float(sum({group[f"{name}_least"], group[f"{name}_most"]} - {None}))
        else:
            total, squared = put_together(group, name, kind)
        moments = Moments(group[f"{name}_number"] or 0, total, squared, special)
        return from_moments(function, moments)

    return value


# Told from all values


def _from_values(inputs: Inputs) -> Told:
    function, name = inputs.aggregate, f"{inputs.name}_values"
    kinds = [expression.type for expression in function.inputs]
    values = [column.alias(place(at)) for at, column in enumerate(inputs.columns)]
    number: Accumulators = {f"{name}_number": ("sum", F.col(COUNT))}

    def made(value: Column, sums: Mapping[str, Column]) -> Column:
        pair = F.struct(value.alias("row"), sums[f"{name}_number"].alias("count"))
        return F.collect_list(F.when(value.isNotNull(), pair))

    def value(group: Mapping[str, Any]) -> Value:
        counted = [(_row(item["row"], kinds), item["count"]) for item in group[name]]
        return aggregated(function, counted)

    slot = Slot(F.when(inputs.counts, F.struct(*values)), number, made)
    return Told(slots={name: slot}, value=value)


def _row(values: Mapping[str, Any], kinds: list[Type]) -> Row:
    return tuple(canonical(values[place(at)], kind) for at, kind in enumerate(kinds))


_SIMPLE: dict[str, Callable[[Inputs], Told]] = {
    "count(*)": _count,
    "count": _count,
    "count_if": _count_if,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "any_value": _extreme("min"),
    "bool_and": _extreme("min"),
    "bool_or": _extreme("max"),
    **{f"bit_{merge}": _bits(merge) for merge in ("and", "or", "xor")},
    "min_by": _least_by,
    "max_by": _greatest_by,
    "single": _single,
}
