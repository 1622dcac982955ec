"""A load: all that a view's tables are made from, new ones or those that replace others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.views import View
from headwater.storage.location import Location
from headwater.warehouse.columns import check_change, check_columns, check_name
from headwater.warehouse.commits import FoldedBase, LogLine, ViewCommit
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.files import write_contents, write_counted
from headwater.warehouse.table_versions import DataFile, TableVersion
from headwater.warehouse.tables import log_table, plain_table, stored_table
from headwater.warehouse.vectors import VersionVector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Guard: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What is entered while something is made to count."""


@dataclass(frozen=True)
class Shown:
    """The columns and the rows that a view with a top shows."""

    schema: Schema
    contents: Rows | DataFrame

    @classmethod
    def of(cls, view: View, stored: Rows) -> Shown | None:
        """What the top of a view shows of these rows; None without a top."""
        return None if view.top is None else cls(view.shown_schema, view.shown(stored))


@dataclass(frozen=True)
class ViewLoad:
    """A view's contents at a vector: rows, or a DataFrame of its columns and `_count`.

    Of a view with a top these are what is stored, and `shown` is what the top makes of them.
    `key` has columns that identify every row, if there are any: reading is cheaper then.
    `guard` is entered when everything is written and nothing counts yet; it may raise.
    """

    definition: StoredDefinition
    vector: VersionVector
    contents: Rows | DataFrame
    algorithm: str
    level: str
    runner: str
    key: tuple[str, ...] = ()
    guard: Guard = nullcontext
    shown: Shown | None = None
    split: tuple[str, ...] = ()
    """The global transactions of which the contents have a part and lack others."""

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def has_stored(self) -> bool:
        """Whether what is stored has a table of its own: not if the plain table tells it."""
        return self.shown is not None and self.definition.error_column is None

    @property
    def is_group(self) -> bool:
        """Whether it is of a group: `contents` is what is stored, and members follow it."""
        return bool(self.definition.members)

    @property
    def plain(self) -> Shown:
        """What the plain table holds."""
        return self.shown or Shown(self.definition.schema, self.contents)

    def write_plain(self, folder: Location, staging: Location) -> list[DataFile]:
        """New files of the plain table; that of a group holds what is stored, with counts."""
        write = write_counted if self.is_group else write_contents
        return write(self.plain.contents, self.plain.schema, folder, staging)

    def plain_table(self, before: TableVersion | None = None) -> list[LogLine]:
        """The actions that make the plain table, or give it other columns."""
        make = stored_table if self.is_group else plain_table
        return make(self.name, self.plain.schema, before)

    def check(self) -> None:
        """Refuse what a table cannot hold."""
        schema = self.definition.schema
        check_name(self.name)
        check_columns(self.name, schema)
        check_change(self.name, schema, self.contents)
        if self.shown is not None:
            check_columns(self.name, self.shown.schema)
            check_change(self.name, self.shown.schema, self.shown.contents)

    def commit(self, number: int, base: FoldedBase, rows: int, version: int) -> ViewCommit:
        return ViewCommit(
            self.name,
            number,
            "load",
            self.runner,
            self.vector,
            base,
            algorithm=self.algorithm,
            level=self.level,
            rows=rows,
            version=version,
            split=self.split,
        )

    def log_table(self, before: TableVersion | None = None) -> list[LogLine]:
        """The actions that make the signed log, or give one other columns and a definition."""
        return log_table(self.definition, list(self.vector), self.key, before)
