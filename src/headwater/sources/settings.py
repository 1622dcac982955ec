"""The settings of sources: one typed model for each kind, as `headwater.toml` has them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from headwater.sources.contract import Retained, Source

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def _local(value: object) -> object:
    """A path of this machine; what would only look like one is refused."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        raise ValueError("is empty: write a path")
    if _SCHEME.match(value):
        raise ValueError(
            "is an address, and only paths of this machine are supported: write the path alone, "
            "such as '/data/lake'; a remote store can be mounted there"
        )
    if value.startswith("~"):
        raise ValueError("starts with ~, which is not replaced here: write ${HOME} for it")
    return value


LocalPath = Annotated[Path, BeforeValidator(_local)]
"""A path of this machine."""


_UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def _size(value: object) -> int:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].upper() not in _UNITS or not float(match[1]):
        raise ValueError("is not a size: write a number and MB, GB or TB, such as '10 GB'")
    return int(float(match[1]) * _UNITS[match[2].upper()])


Size = Annotated[int, BeforeValidator(_size)]
"""Bytes; written as a number and a unit."""


def _no_boolean(value: object) -> object:
    """Python takes true for 1; whoever writes it means something else."""
    if isinstance(value, bool):
        raise ValueError("is true or false, and should be a whole number")
    return value


WholeNumber = Annotated[int, BeforeValidator(_no_boolean), Field(lt=2**31)]
"""A number of something, without a fraction."""


def _rows_or_size(value: object) -> object:
    if isinstance(value, str):
        _size(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**63:
        raise ValueError(
            "is neither a number of rows, such as 1000000, nor a size, such as '500 MB'"
        )
    return value


RowsOrSize = Annotated[int | str, BeforeValidator(_rows_or_size)]
"""A number of rows, or a size as it was written."""


class _SourceSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    relations: Annotated[
        list[str],
        Field(
            min_length=1, description="The tables that views may use, schema-qualified if need be."
        ),
    ]
    keys: Annotated[
        dict[str, list[str]],
        Field(description="Keys of tables whose key the database does not know."),
    ] = {}

    def excess(self, kept: Retained) -> str:
        """What is kept beyond the limit that is set, in words; empty if nothing is."""
        return ""

    @property
    def merges(self) -> str:
        """Why no view over it can show every transaction by itself; empty if views can."""
        return ""

    @field_validator("keys")
    @classmethod
    def _of_relations(
        cls, keys: dict[str, list[str]], info: ValidationInfo
    ) -> dict[str, list[str]]:
        relations = info.data.get("relations", keys)
        known = {*relations, *(name.rpartition(".")[2].strip('"') for name in relations)}
        for name in keys:
            if name not in known:
                close = get_close_matches(name, known, 1)
                meant = f"; did you mean '{close[0]}'?" if close else ""
                raise ValueError(f"has a table that is not in relations: {name}{meant}")
        return keys


def _too_large(kept: Retained, most_bytes: int) -> str:
    if (kept.size_bytes or 0) <= most_bytes:
        return ""
    return f"{kept.size_bytes:,} bytes of log wait there, and retain allows {most_bytes:,}"


class SqliteSettings(_SourceSettings):
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
            return _too_large(kept, _size(self.retain))
        if self.retain is None or (kept.rows or 0) <= self.retain:
            return ""
        return f"{kept.rows:,} changed rows wait there, and retain allows {self.retain:,}"

    @property
    def names(self) -> tuple[str, ...]:
        """What its relations are called in views."""
        return tuple(self.relations)

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.sqlite import SqliteSource

        return SqliteSource(name, project / self.path, self.relations, self.keys, owner=owner)


class PostgresSettings(_SourceSettings):
    """A PostgreSQL database, version 14 or newer."""

    kind: Annotated[Literal["postgres"], Field(description="The kind of database.")]
    dsn: Annotated[
        SecretStr, Field(description="Connection string or URI; use ${NAME} for secrets.")
    ]

    changes: Annotated[
        Literal["replication", "triggers"],
        Field(description="How changes are seen; triggers where replication is not allowed."),
    ] = "replication"
    limit_s: Annotated[
        WholeNumber,
        Field(gt=0, le=2_000_000, description="How many seconds one statement may take."),
    ] = 3600
    retain: Annotated[
        Size | None,
        Field(
            description="How much log may wait there to be read, such as '10 GB'; "
            "'headwater trim' gives up more."
        ),
    ] = None
    slot: Annotated[
        str | None,
        Field(description="The replication slot; by default one named for the warehouse."),
    ] = None
    publication: Annotated[
        str | None,
        Field(description="The publication; by default one named for the warehouse."),
    ] = None

    def excess(self, kept: Retained) -> str:
        return "" if self.retain is None else _too_large(kept, self.retain)

    @property
    def merges(self) -> str:
        from headwater.sources.postgres.triggers.units import MERGED

        return MERGED if self.changes == "triggers" else ""

    @property
    def names(self) -> tuple[str, ...]:
        """What its relations are called in views: their names without the schema."""
        from headwater.sources.postgres.catalog import split_name

        return tuple(split_name(relation)[1] for relation in self.relations)

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.postgres import PostgresSource

        return PostgresSource(
            name,
            self.dsn.get_secret_value(),
            self.relations,
            self.keys,
            publication=self.publication,
            slot=self.slot,
            limit_s=self.limit_s,
            replication=self.changes == "replication",
            owner=owner,
        )


SourceSettings = Annotated[SqliteSettings | PostgresSettings, Field(discriminator="kind")]
KINDS: dict[str, type[BaseModel]] = {"sqlite": SqliteSettings, "postgres": PostgresSettings}
