"""The settings of MariaDB and MySQL sources, as `headwater.toml` has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field, SecretStr, model_validator

from headwater.sources.contract import Position, Retained, Source
from headwater.sources.naming import called, split_name, written
from headwater.sources.settings import SourceSettings, WholeNumber


class _ServerSettings(SourceSettings):
    """What both kinds of servers have in common."""

    dsn: Annotated[
        SecretStr | None,
        Field(
            description="Connection string: mariadb://account@host:3306/database?ssl_ca=ca.pem; "
            "use ${NAME} for secrets. Or the parts of one, below."
        ),
    ] = None
    host: Annotated[str, Field(description="The server, without a dsn.")] = "localhost"
    port: Annotated[WholeNumber, Field(gt=0, lt=65536, description="Its port.")] = 3306
    user: Annotated[str, Field(description="The account.")] = ""
    password: Annotated[SecretStr, Field(description="Its password; use ${NAME}.")] = SecretStr("")
    database: Annotated[str, Field(description="The database.")] = ""

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

    @model_validator(mode="after")
    def _is_reached_in_one_way(self) -> _ServerSettings:
        if (self.dsn is None) == (not (self.user or self.database)):
            raise ValueError("needs either dsn, or user, password, host and database")
        return self

    def excess(self, kept: Retained) -> str:
        return ""

    def position_text(self, position: Position) -> str:
        return str(position.get("at", ""))

    def written(self, within: str, name: str) -> str:
        return ".".join(map(written, filter(None, (within, name))))

    @property
    def names(self) -> tuple[str, ...]:
        """Without the database, unless it is the second of its name."""
        return tuple(called(self.listed))

    @property
    def places(self) -> tuple[str, ...]:
        return tuple(split_name(relation)[0] or "" for relation in self.listed)

    def _dsn(self) -> str:
        if self.dsn is not None:
            return self.dsn.get_secret_value()
        parts = [self.user, self.password.get_secret_value()]
        account = ":".join(quote(part, safe="") for part in parts if part)
        return f"{self.kind}://{account}@{self.host}:{self.port}/{quote(self.database, safe='')}"

    def _opened(self, name: str, owner: str, snapshots: str) -> Source:
        from headwater.sources.mariadb.source import MariadbSource

        return MariadbSource(
            name,
            self._dsn(),
            self.listed,
            self.keys,
            kind=self.kind,
            snapshots=snapshots,
            limit_s=self.limit_s,
            owner=owner,
            as_text=self.as_text,
        )


class MariadbSettings(_ServerSettings):
    """A MariaDB server, version 10.5 or newer."""

    kind: Annotated[Literal["mariadb"], Field(description="The kind of database.")]

    snapshots: Annotated[
        Literal["status", "lock"],
        Field(
            description="How the place of a snapshot in the log is known: as the server's status "
            "tells, or by holding back writers for a moment, which XA transactions need."
        ),
    ] = "status"

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        return self._opened(name, owner, self.snapshots)


class MysqlSettings(_ServerSettings):
    """A MySQL server, version 8.0.14 or newer."""

    kind: Annotated[Literal["mysql"], Field(description="The kind of database.")]

    def open(self, name: str, project: Path, owner: str = "") -> Source:
        return self._opened(name, owner, "lock")
