"""The settings of a PostgreSQL source, as `headwater.toml` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from headwater.algebra.sql.text import QuotedName
from headwater.sources.contract import Position, Retained, Source
from headwater.sources.naming import called, split_name, written
from headwater.sources.settings import Size, SourceSettings, WholeNumber, too_large


class PostgresSettings(SourceSettings):
    """A PostgreSQL database, version 14 or newer."""

    kind: Annotated[Literal["postgres"], Field(description="The kind of database.")]
    dsn: Annotated[
        SecretStr, Field(description="Connection string or URI; use ${NAME} for secrets.")
    ]

    changes: Annotated[
        Literal["replication", "triggers"],
        Field(description="How changes are seen; triggers where replication is not allowed."),
    ] = "replication"
    as_text: Annotated[
        dict[str, list[str]],
        Field(
            description="Columns of tables that are read as the text that the database prints, for "
            "values that their type has no room for here."
        ),
    ] = {}  # noqa: RUF012 (pydantic gives each object its own)
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
        return "" if self.retain is None else too_large(kept, self.retain)

    @property
    def merges(self) -> str:
        from headwater.sources.postgres.source import CAPTURES

        return CAPTURES[self.changes].limits

    def position_text(self, position: Position) -> str:
        """A place in the server's log, or the snapshot up to which that of triggers was read."""
        return str(position.get("lsn") or position.get("snapshot", ""))

    def written(self, within: str, name: str) -> str:
        """Names that are not in double quotes mean lower-case ones, as PostgreSQL reads them."""
        parts = (p if isinstance(p, QuotedName) else p.lower() for p in (within, name) if p)
        return ".".join(map(written, parts))

    @property
    def names(self) -> tuple[str, ...]:
        """Without the schema, unless it is the second of its name."""
        return tuple(called(self.listed))

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(split_name(relation)[0] or "" for relation in self.listed)

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        from headwater.sources.postgres.source import PostgresSource

        return PostgresSource(
            name,
            self.dsn.get_secret_value(),
            self.listed,
            self.keys,
            publication=self.publication,
            slot=self.slot,
            limit_s=self.limit_s,
            changes=self.changes,
            owner=owner,
            as_text=self.as_text,
        )
