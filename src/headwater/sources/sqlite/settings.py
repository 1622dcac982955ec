"""The settings of a SQLite source, as `headwater.toml` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from headwater.sources.contract import Position, Retained, Source
from headwater.sources.settings import LocalPath, SourceSettings, parse_size, too_large


def _rows_or_size(value: object) -> object:
    if isinstance(value, str):
        parse_size(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValueError(
            "is neither a number of rows, such as 1000000, nor a size, such as '500 MB'"
        )
    return value


RowsOrSize = Annotated[int | str, BeforeValidator(_rows_or_size)]
"""A number of rows, or a size as it was written."""


class SqliteSettings(SourceSettings):
    """A SQLite file."""

    kind: Annotated[Literal["sqlite"], Field(description="The kind of database.")]
    path: Annotated[LocalPath, Field(description="The database file, relative to the project.")]

    retain: Annotated[
        RowsOrSize | None,
        Field(
            description="How many changed rows may wait in its log to be read, or how much, such "
            "as '500 MB'; 'headwater trim' gives up more.",
        ),
    ] = None

    def excess(self, kept: Retained) -> str:
        if isinstance(self.retain, str):
            return too_large(kept, parse_size(self.retain))
        if self.retain is None or (kept.rows or 0) <= self.retain:
            return ""
        return f"{kept.rows:,} changed rows wait there, and retain allows {self.retain:,}"

    def position_text(self, position: Position) -> str:
        return str(position.get("seq", ""))

    def written(self, within: str, name: str) -> str:
        return str(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.listed)

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.sqlite.source import SqliteSource

        return SqliteSource(name, project / self.path, self.listed, self.keys, owner=owner)
