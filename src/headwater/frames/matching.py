"""Plans that match the rows of two relations: pairs, rows with or without a partner, differences.

Separate from `Frame`, which says which rows match: here stands how Spark is asked. The second
relation's columns are numbered on behind those of the first, so that every column has one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT
from headwater.frames.expressions import place
from headwater.frames.held import Held

_OTHER_COUNT = "_other_count"
_IN_PLACE = "shuffle_hash"
"""What has Spark join two sides of one partition each where they are."""


def same(pairs: Sequence[tuple[int, int]]) -> Column:
    """Whether the columns in each pair of places have the same value; NULL is one too."""
    equal = [F.col(place(a)).eqNullSafe(F.col(place(b))) for a, b in pairs]
    return reduce(Column.__and__, equal, F.lit(True))


def pairs_of(first: Held, second: Held, matches: Column | None) -> Held:
    """Every pair of rows that matches, with the product of their counts; all, if None."""
    width = len(first.schema)
    left = first.data
    right = second.data.selectExpr(*second.numbered_from(width), f"{COUNT} AS {_OTHER_COUNT}")
    in_one = _fit_one_task(first, second)
    if in_one:
        right = right.hint(_IN_PLACE)
    else:
        left, right = _with_broadcast(first, left, second, right)
    joined = left.crossJoin(right) if matches is None else left.join(right, matches)
    kinds = first.schema.types + second.schema.types
    schema = Schema.of((place(at), kind) for at, kind in enumerate(kinds))
    return Held(
        first.spark,
        schema,
        joined.selectExpr(*schema.names, f"{COUNT} * {_OTHER_COUNT} AS {COUNT}"),
        most=first.most * second.most,
        likely=max(first.likely, second.likely) if matches is not None else 0,
        merged=first.merged and second.merged,
        unsigned=first.unsigned and second.unsigned,
        fragile=first.fragile + second.fragile,
        in_one=in_one,
        alike=first.alike | {(a + width, b + width) for a, b in second.alike},
    )


def kept_of(first: Held, second: Held, matches: Column, *, anti: bool = False) -> Held:
    """The rows of the first that some row of the second matches, or, if `anti`, none does.

    Whatever stands in the second counts, so it must be merged or unsigned.
    """
    assert second.merged or second.unsigned
    partners = second.data.selectExpr(*second.numbered_from(len(first.schema)))
    data, stays = first.data, first.in_one
    if _fit_one_task(first, second):
        partners = partners.hint(_IN_PLACE)
    elif second.is_few:
        partners = F.broadcast(partners)
    else:
        stays = False
    kept = data.join(partners, matches, "left_anti" if anti else "left_semi")
    bound = kept.select(*first.schema.names, _count_from_here().alias(COUNT))
    held = first.derived(bound, fragile=first.fragile + second.fragile)
    held.in_one = stays
    return held


def less(first: Held, second: Held) -> Held:
    """Rows as often as the first has them more often than the second; both are unsigned."""
    assert first.unsigned
    assert second.unsigned
    names = first.schema.names
    nothing = F.lit(0).cast("bigint")
    ours = first.data.withColumn(_OTHER_COUNT, nothing)
    theirs = second.data.select(*names, nothing, F.col(COUNT))
    added = (
        ours.union(theirs)
        .groupBy(*names)
        .agg(F.sum(COUNT).alias(COUNT), F.sum(_OTHER_COUNT).alias(_OTHER_COUNT))
    )
    rest = added.select(*names, (F.col(COUNT) - F.col(_OTHER_COUNT)).alias(COUNT))
    left = first.derived(rest.where(F.col(COUNT) > 0), fragile=first.fragile + second.fragile)
    left.merged, left.in_one = True, False
    return left


def _count_from_here() -> Column:
    """The count as something that Spark computes where it stands, and not below the match.

    What may fail is bound to it (`Frame`): a row that has not been matched yet must not meet it.
    """
    return F.when(F.monotonically_increasing_id() >= 0, F.col(COUNT))


def _fit_one_task(first: Held, second: Held) -> bool:
    """Whether one task makes both sides and both are few: then it joins them as well.

    Sending a side to all workers would be a job of its own.
    """
    return first.in_one and second.in_one and first.is_few and second.is_few


def _with_broadcast(
    first: Held, left: DataFrame, second: Held, right: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """Send the smaller side to all of Spark's workers, if it is known to be small."""
    if first.is_few and (first.most < second.most or not second.is_few):
        return F.broadcast(left), right
    return left, F.broadcast(right) if second.is_few else right
