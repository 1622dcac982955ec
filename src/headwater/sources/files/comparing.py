"""What differs between two snapshots: added up in memory when they are small, by Spark when large.

The difference is one of multisets: a row that is there twice and was there once has come once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.frames.arrow import COUNT
from headwater.frames.columns import FEW, Columns
from headwater.frames.small import THRESHOLD
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location


def difference(
    schema: Schema,
    new: Any,
    plain: Sequence[Any],
    signed: Sequence[Any],
) -> Rows:
    """The new table less what there was: plain tables, and signed ones with counts."""
    names = list(schema.names)
    parts: list[Rows] = [Columns.of_plain(schema, new.select(names))]
    parts += [Columns.of_plain(schema, table.select(names)).scaled(-1) for table in plain]
    parts += [Columns(schema, table.select([*names, COUNT])).scaled(-1) for table in signed]
    return few(Rows.sum(schema, parts))


def few(rows: Rows) -> Rows:
    """Held row by row where they are few."""
    return rows if len(rows) > FEW else Rows(rows.schema, dict(rows.items()))


def is_large(rows: int, folder: Location) -> bool:
    """Whether Spark is to compare so many rows; it reads files of this machine."""
    return rows > THRESHOLD and isinstance(folder.storage, LocalStorage)


def difference_on_spark(
    schema: Schema, new: Location, plain: Sequence[Location], signed: Sequence[Location]
) -> Rows:
    """The same of Parquet files, by Spark."""
    from headwater.frames.frame import Frame
    from headwater.frames.naming import named
    from headwater.frames.session import spark_session

    spark = spark_session()

    def frame(file: Location, is_signed: bool) -> Rows:
        columns = [*schema.names, COUNT] if is_signed else list(schema.names)
        data = spark.read.parquet(str(file.local)).select(*(_quoted(c) for c in columns))
        return Frame.of_dataframe(data, schema, is_signed)

    with named("files: compare"):
        parts = [frame(new, False)]
        parts += [frame(file, False).scaled(-1) for file in plain]
        parts += [frame(file, True).scaled(-1) for file in signed]
        total = Rows.sum(schema, parts)
        assert isinstance(total, Frame)
        found = total.in_columns()
        total.release()
    return few(found)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
