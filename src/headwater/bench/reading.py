"""The newest state behind a tail, read by Spark, beside a plain scan of the plain table.

Views over made-up rows, in a warehouse of their own: a join whose rows have a key, one without a
key whose rows stand there more than once, and sums by group. What is measured takes turns, round by
round; every round commits a little more first, so that the first query is of a version that nobody
has read before.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import FLOAT, INT, TEXT, Row, decimal_type
from headwater.algebra.views import View
from headwater.bench.processes import spark_processor_s
from headwater.errors import InputError
from headwater.frames.frame import Frame
from headwater.frames.session import spark_session
from headwater.terminal.output import print_json, print_table
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_writer import ViewWriter
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = Schema.of(
    [
        ("order_id", INT),
        ("line", INT),
        ("customer", INT),
        ("name", TEXT),
        ("price", decimal_type(12, 2)),
        ("weight", FLOAT),
    ]
)
_RELATION = Relation("shop.lines", "shop", _SCHEMA)
_COMMIT_ROWS = 500
_SCATTERED = 7_368_787
"""A prime, by which rows are scattered over the files."""
_TABLE = "FROM shop.lines"


@dataclass(frozen=True)
class Kind:
    """A kind of view, and what is asked of it."""

    select: str
    few: tuple[str, ...]
    """One column, summed."""
    many: tuple[str, ...]
    """Several columns."""
    key: tuple[str, ...] = ()
    copies: int = 1


KINDS = {
    "with a key": Kind(
        f"SELECT order_id, line, customer, name, price, weight {_TABLE}",
        ("sum(weight)",),
        ("sum(weight)", "sum(price)", "max(name)", "max(line)"),
        ("order_id", "line", "customer"),
    ),
    "without a key": Kind(
        f"SELECT line, customer, name, price, weight {_TABLE}",
        ("sum(weight)",),
        ("sum(weight)", "sum(price)", "max(name)", "max(line)"),
        copies=2,
    ),
    "by group": Kind(
        f"SELECT order_id, line, count(*) AS n, sum(price) AS total {_TABLE} "
        "GROUP BY order_id, line",
        ("sum(n)",),
        ("sum(n)", "sum(total)", "max(order_id)", "max(line)"),
    ),
}
QUERIES = ("first", "again", "more columns")
"""The first query of a version, the same once more, and one of several columns."""


@dataclass
class Cost:
    """What runs of one query took: seconds of the clock, of Spark's processors, of Python's."""

    wall: list[float] = field(default_factory=list)
    spark: list[float] = field(default_factory=list)
    python: list[float] = field(default_factory=list)

    def run(self, query: Callable[[], object]) -> None:
        spark, python, began = spark_processor_s(), time.process_time(), time.perf_counter()
        query()
        self.wall.append(time.perf_counter() - began)
        self.python.append(time.process_time() - python)
        self.spark.append(spark_processor_s() - spark)

    @property
    def wall_s(self) -> float:
        return statistics.median(self.wall)

    @property
    def spark_s(self) -> float:
        """On average: the kernel counts in ticks of a hundredth of a second."""
        return statistics.fmean(self.spark)

    @property
    def both_s(self) -> float:
        return self.spark_s + statistics.fmean(self.python)


@dataclass
class Figures:
    """One query of one view, beside the plain scan that computes the same."""

    view: str
    query: str
    plain: Cost
    newest: Cost

    def as_json(self) -> dict[str, Any]:
        plain, newest = self.plain, self.newest
        return {
            "view": self.view,
            "query": self.query,
            "plain_ms": round(1000 * plain.wall_s, 1),
            "newest_ms": round(1000 * newest.wall_s, 1),
            "ratio": _ratio(newest.wall_s, plain.wall_s),
            "plain_spark_ms": round(1000 * plain.spark_s, 1),
            "newest_spark_ms": round(1000 * newest.spark_s, 1),
            "spark_ratio": _ratio(newest.spark_s, plain.spark_s),
            "plain_both_ms": round(1000 * plain.both_s, 1),
            "newest_both_ms": round(1000 * newest.both_s, 1),
            "both_ratio": _ratio(newest.both_s, plain.both_s),
        }


def _ratio(newest_s: float, plain_s: float) -> float:
    return round(newest_s / max(plain_s, 0.001), 2)


def reading(rows: int, tail: int, rounds: int, kinds: Sequence[str] | None, as_json: bool) -> None:
    """Measure and show; see `headwater bench reading --help`."""
    if unknown := [name for name in kinds or () if name not in KINDS]:
        raise InputError(f"There is no view {unknown[0]}.", f"There are {', '.join(KINDS)}.")
    found = [each.as_json() for each in measure(rows, tail, rounds, kinds or list(KINDS))]
    if as_json:
        for each in found:
            print_json({"rows": rows, "tail": tail, **each})
        return
    print_table(
        f"{rows:,} rows with a tail of {tail:,}: ms of a plain scan → of the newest state",
        ["view", "query", "clock", "×", "Spark", "×", "and Python", "×"],
        (
            [
                f["view"],
                f["query"],
                _pair(f, "plain_ms", "newest_ms"),
                f"{f['ratio']:.2f}",
                _pair(f, "plain_spark_ms", "newest_spark_ms"),
                f"{f['spark_ratio']:.2f}",
                _pair(f, "plain_both_ms", "newest_both_ms"),
                f"{f['both_ratio']:.2f}",
            ]
            for f in found
        ),
    )


def _pair(figures: Mapping[str, Any], *names: str) -> str:
    return " → ".join(f"{figures[name]:.0f}" for name in names)


def measure(rows: int, tail: int, rounds: int, kinds: Sequence[str]) -> list[Figures]:
    """All queries of each kind of view."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        memory = {"spark.driver.memory": "4g"}
        spark = spark_session(memory, log=Path(folder) / "spark.log")
        warehouse = Path(folder) / "warehouse"
        found = [_of_view(name, warehouse, spark, rows, tail, rounds) for name in kinds]
        return [each for figures in found for each in figures]


def _of_view(
    name: str, folder: Path, spark: SparkSession, rows: int, tail: int, rounds: int
) -> list[Figures]:
    kind = KINDS[name]
    sys.stderr.write(f"{name}: {rows:,} rows are made up\n")
    warehouse = Warehouse(folder)
    made_up = _MadeUp(parse_view(kind.select, [_RELATION], name.replace(" ", "_")), kind, rows)
    table = warehouse.create(made_up.load(spark))

    def newest() -> DataFrame:
        return Warehouse(folder).view(table.name).dataframe(spark)  # as `project.view(...).df` does

    def plain() -> DataFrame:
        return table.at().plain_frame(spark)

    def asked(frame: Callable[[], DataFrame], what: Sequence[str]) -> Callable[[], object]:
        return lambda: frame().selectExpr(*what).collect()

    with table.writer("bench") as writer:
        while table.tail().rows < tail:
            made_up.commit(writer, min(_COMMIT_ROWS, tail - table.tail().rows))
        for count in (-(-rounds // 2), rounds):  # first to warm up
            few, many = Cost(), Cost()
            costs = {query: Cost() for query in QUERIES}
            for _ in range(count):
                made_up.commit(writer, 2)
                costs["first"].run(asked(newest, kind.few))
                few.run(asked(plain, kind.few))
                costs["again"].run(asked(newest, kind.few))
                many.run(asked(plain, kind.many))
                costs["more columns"].run(asked(newest, kind.many))
    plains = {"more columns": many}
    return [Figures(name, query, plains.get(query, few), cost) for query, cost in costs.items()]


class _MadeUp:
    """The rows of a view, each told by its number, and what is changed of them."""

    def __init__(self, view: View, kind: Kind, rows: int) -> None:
        self._view = view
        self._kind = kind
        self._rows = rows
        self._number = 1
        self._random = Random(1)
        self._changed: dict[int, int] = {}
        """How often a row was changed, by its number."""

    def load(self, spark: SparkSession) -> ViewLoad:
        """The first contents, scattered: rows that belong together lie in many places."""
        frame = spark.range(self._rows, numPartitions=1).selectExpr(
            f"id * {_SCATTERED} % {self._rows} AS at"
        )
        frame = frame.selectExpr(f"at DIV {self._kind.copies} AS at").selectExpr(
            "at DIV 4 AS order_id",
            "at % 4 AS line",
            "at * 31 % 150000 AS customer",
            "concat('customer ', at * 31 % 150000) AS name",
            "CAST(CAST(at % 100000 AS DECIMAL(12, 0)) / 100 AS DECIMAL(12, 2)) AS price",
            "CAST(at % 1000 AS DOUBLE) / 8 AS weight",
        )
        found = Frame.of_dataframe(
            frame.selectExpr(*(f"`{name}`" for name in self._base.names)), self._base, signed=False
        )
        stored = self._view.stored(found)
        assert isinstance(stored, Frame)
        shown = Shown.of(self._view, found)
        if shown is not None:
            assert isinstance(shown.contents, Frame)
            shown = Shown(shown.schema, shown.contents.dataframe)
        return ViewLoad(
            StoredDefinition.of(self._view),
            _vector(0),
            stored.dataframe,
            "sweep",
            "strong",
            "bench",
            key=self._kind.key,
            shown=shown,
        )

    def commit(self, writer: ViewWriter, signed_rows: int) -> None:
        """One commit that changes the price of some rows: each goes, and comes anew."""
        counts: dict[Row, int] = {}
        while len(counts) + 2 <= max(2, signed_rows):
            at = self._random.randrange(self._rows // self._kind.copies)
            before = self._changed.get(at, 0)
            self._changed[at] = before + 1
            for version, count in ((before, -1), (before + 1, 1)):
                row = self._row(at, version)
                counts[row] = counts.get(row, 0) + count
        change = Rows(self._base, {row: count for row, count in counts.items() if count})
        self._number += 1
        writer.commit(self._view.condensed(change), _vector(self._number))

    @property
    def _base(self) -> Schema:
        """The columns of what is made up: those of the view's rows over base relations."""
        return self._view.joins[0].schema if self._view.top is not None else self._view.schema

    def _row(self, at: int, version: int) -> Row:
        row = {
            "order_id": at // 4,
            "line": at % 4,
            "customer": at * 31 % 150000,
            "name": f"customer {at * 31 % 150000}",
            "price": Decimal(at % 100000 + 1000 * version).scaleb(-2),
            "weight": at % 1000 / 8,
        }
        return self._base.row(tuple(row[name] for name in self._base.names))


def _vector(number: int) -> VersionVector:
    return {"shop": Reached(number, {"seq": number})}
