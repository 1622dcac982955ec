"""What a Frame holds: signed rows as a DataFrame, materialised at most once.

Columns are addressed by place (`c0`, `c1`, ...) with the count behind them, so that Frames
which only differ in their column names share one `Held`, and what one of them has computed
the others have too. Rows may stand in several places with parts of their count until
something asks for them (`merged`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pyarrow
from pyarrow import compute
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row
from headwater.frames.arrow import COUNT, from_arrow, to_arrow
from headwater.frames.columns import Columns
from headwater.frames.expressions import place
from headwater.frames.failures import SPARK_ERRORS, Fragile, explained
from headwater.frames.local_frames import local_dataframe
from headwater.frames.naming import tell
from headwater.frames.small import SMALL
from headwater.frames.spark_types import spark_schema

FEW_BYTES = 64 * 2**20
"""What is larger is not sent to every worker, nor given to one task, however few rows it has."""

UNKNOWN = 2**62
"""The bound on the size of something that nobody has counted."""

Result = TypeVar("Result")


class Held:
    """Signed rows by place. `size` is exact once they are settled; `most` is a bound always."""

    __slots__ = (
        "_counts", "_data", "_is_checkpoint", "_table", "alike", "fragile", "in_one", "likely",
        "merged", "most", "schema", "size", "spark", "unsigned",
    )  # fmt: skip

    def __init__(
        self,
        spark: SparkSession,
        schema: Schema,
        data: DataFrame | None,
        *,
        most: int = UNKNOWN,
        likely: int = 0,
        merged: bool = False,
        unsigned: bool = False,
        fragile: tuple[Fragile, ...] = (),
        in_one: bool = False,
        alike: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.spark = spark
        self.schema = schema
        self.merged = merged
        """Whether every row stands in one place, with a count that is not zero."""
        self.unsigned = unsigned
        """Whether it is known that no place has a count below one, so that nothing cancels."""
        self.most = min(most, UNKNOWN)
        self.likely = min(likely, self.most)
        """About how many rows there are, by what they are made of; 0 if nobody knows."""
        self.size: int | None = None
        self.fragile = fragile
        """The expressions in the plan that may fail, with what they are applied to."""
        self.in_one = in_one
        """Whether one task makes all of the rows, so that adding them up moves none."""
        self.alike = alike
        """Pairs of places that have the same value in every row."""
        self._data = data
        self._table: pyarrow.Table | None = None
        self._counts: dict[Row, int] | None = None
        self._is_checkpoint = False

    @classmethod
    def of_rows(cls, spark: SparkSession, rows: Rows) -> Held:
        size = len(rows)
        held = cls(spark, positional(rows.schema), None, most=size, likely=size, merged=True)
        held.size = size
        if isinstance(rows, Columns):
            held._table = Columns(held.schema, rows.table, merged=True).table
        else:
            held._counts = dict(rows.items())
            held.unsigned = all(count > 0 for count in held._counts.values())
        return held

    def derived(self, data: DataFrame, fragile: tuple[Fragile, ...] | None = None) -> Held:
        """Some of these rows, or the same with other counts above zero."""
        return Held(
            self.spark,
            self.schema,
            data,
            most=self.most,
            likely=self.likely,
            merged=self.merged,
            unsigned=self.unsigned,
            fragile=self.fragile if fragile is None else fragile,
            in_one=self.in_one,
            alike=self.alike,
        )

    @property
    def data(self) -> DataFrame:
        """The rows as they are now: settled or still a plan."""
        if self._data is None:
            table = self.table()
            self._data = local_dataframe(self.spark, table, spark_schema(self.schema, COUNT))
            self.in_one = table.num_rows <= SMALL and table.nbytes <= FEW_BYTES
            if self.in_one:
                self._data = self._data.coalesce(1)
        return self._data

    @property
    def is_at_hand(self) -> bool:
        """Whether the driver holds the rows."""
        return self.size is not None and (self._table is not None or self._counts is not None)

    @property
    def is_few(self) -> bool:
        """Whether they are known to be so few that every worker can be sent them."""
        table = self._table
        return self.most <= SMALL and (table is None or table.nbytes <= FEW_BYTES)

    def determined_by(self, places: Iterable[int]) -> bool:
        """Whether rows that differ still do with these columns only."""
        known = set(places)
        while (
            more := {b for pair in self.alike for a, b in (pair, pair[::-1]) if a in known} - known
        ):
            known |= more
        return known >= set(range(len(self.schema)))

    def merged_data(self) -> DataFrame:
        """Every row once, with a count that is not zero."""
        if self.merged:
            return self.data
        grouped = self.data.groupBy(*self.schema.names)
        return grouped.agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) != 0)

    def numbered_from(self, first: int) -> list[str]:
        """The columns without the count, in the places from `first` on, as SQL."""
        return [f"{place(at)} AS {place(first + at)}" for at in range(len(self.schema))]

    def counts(self) -> dict[Row, int]:
        """All the rows one by one, brought to the driver once."""
        if self._counts is None:
            self._counts = dict(from_arrow(self.table(), self.schema).items())
        return self._counts

    def table(self) -> pyarrow.Table:
        """All the rows as the driver holds them, or brought there."""
        self.settle()
        if self._table is None and self._counts is not None:
            self._table = to_arrow(Rows(self.schema, self._counts))
        return self._table if self._table is not None else self._run(self.data.toArrow)

    def number(self) -> int:
        """How many rows there are, each as often as it counts."""
        if self.settle() <= SMALL:
            return int(compute.sum(self.table()[COUNT]).as_py() or 0)
        return int(self._run(lambda: self.data.agg(F.sum(COUNT)).collect())[0][0])

    # Materialising

    def settle(self, *, large: bool = False) -> int:
        """Compute the rows, once and for all, and forget how; gives their number.

        Those that are thought to be `large`, or are made of many, are kept by Spark and counted in
        one job. Of others one job brings up to so many as are kept here, which is quicker for
        them; if there are more, they are computed a second time.
        """
        if self.size is None:
            is_large = self.most > SMALL and (large or self.likely > SMALL)
            found = None if is_large else self._brought()
            self.size = self._kept() if found is None else found
            self.merged, self.fragile = True, ()
            self.most = self.likely = self.size
        return self.size

    def _brought(self) -> int | None:
        """Bring the rows here, unless there are too many; how many there are."""
        data = self.merged_data()
        table = self._run((data if self.most <= SMALL else data.limit(SMALL + 1)).toArrow)
        if table.num_rows > SMALL:
            return None
        self._table, self._data = table, None
        return int(table.num_rows)

    def _kept(self) -> int:
        """Let Spark keep the rows, or bring them here if they turn out to be few; their number."""
        data = self._run(lambda: self.merged_data().localCheckpoint(eager=False))
        size: int = self._run(data.count)
        if size <= SMALL:
            self._table, self._data = self._run(data.toArrow), None
            _free(data)
        else:
            self._data, self._is_checkpoint, self.in_one = data, True, False
        return size

    def release(self) -> None:
        """Free what Spark keeps; nothing may use these rows any more."""
        if self._is_checkpoint:
            _free(self.data)
        self._data = self._table = self._counts = None

    def _run(self, job: Callable[[], Result]) -> Result:
        tell(self.spark)
        try:
            return job()
        except SPARK_ERRORS as error:
            raise explained(error, self.fragile) from None


def _free(checkpoint: DataFrame) -> None:
    """Spark frees it when its garbage is collected; only its own objects do it sooner."""
    checkpoint._jdf.queryExecution().logical().rdd().unpersist(False)


def positional(schema: Schema) -> Schema:
    return Schema.of((place(at), kind) for at, kind in enumerate(schema.types))
