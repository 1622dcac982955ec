"""The settings of sources: one typed model for each kind, read from `headwater.toml`.

Texts may name environment variables as `${NAME}`, so that secrets stay out of files. Secrets
are never printed, in errors neither.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from headwater.errors import InputError
from headwater.sources.contract import Source

FILE = "headwater.toml"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _SourceSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

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


class SqliteSettings(_SourceSettings):
    """A SQLite file."""

    kind: Literal["sqlite"]
    path: Annotated[Path, Field(description="The database file, relative to the project.")]

    def open(self, name: str, project: Path) -> Source:
        from headwater.sources.sqlite import SqliteSource

        return SqliteSource(name, project / self.path, self.relations, self.keys)


class PostgresSettings(_SourceSettings):
    """A PostgreSQL database, version 14 or newer."""

    kind: Literal["postgres"]
    dsn: Annotated[
        SecretStr, Field(description="Connection string or URI; use ${NAME} for secrets.")
    ]

    changes: Annotated[
        Literal["replication", "triggers"],
        Field(description="How changes are seen; triggers where replication is not allowed."),
    ] = "replication"

    def open(self, name: str, project: Path) -> Source:
        from headwater.sources.postgres import PostgresSource

        return PostgresSource(
            name,
            self.dsn.get_secret_value(),
            self.relations,
            self.keys,
            replication=self.changes == "replication",
        )


SourceSettings = Annotated[SqliteSettings | PostgresSettings, Field(discriminator="kind")]
_ADAPTER: TypeAdapter[SqliteSettings | PostgresSettings] = TypeAdapter(SourceSettings)
KINDS: dict[str, type[BaseModel]] = {"sqlite": SqliteSettings, "postgres": PostgresSettings}


def load_source(project: Path, name: str) -> Source:
    """One source of a project; the others' settings are not looked at."""
    tables = _tables(project)
    if name in tables:
        return _source(project / FILE, name, tables[name], project)
    close = difflib.get_close_matches(name, tables, 1)
    guess = f"Did you mean '{close[0]}'? " if close else ""
    known = ", ".join(tables) or "none"
    raise InputError(f"There is no source '{name}'.", f"{guess}There are: {known}.")


def load_sources(project: Path) -> dict[str, Source]:
    """Every source of a project; InputError says what is wrong in its file, and where."""
    path = project / FILE
    return {name: _source(path, name, table, project) for name, table in _tables(project).items()}


def _tables(project: Path) -> dict[str, Any]:
    path = project / FILE
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}.", "Is this a project?"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not valid TOML: {error}.") from None
    tables = data.get("sources", {})
    if not isinstance(tables, dict):
        raise InputError(f"{path}: 'sources' must hold tables.", "Write [sources.NAME].")
    return tables


def _source(path: Path, name: str, table: Any, project: Path) -> Source:
    place = f"{path}: sources.{name}"
    if not isinstance(table, dict):
        raise InputError(f"{place}: must be a table.", f"Write [sources.{name}].")
    try:
        return _ADAPTER.validate_python(_with_variables(table, place)).open(name, project)
    except ValidationError as error:
        raise InputError(f"{place}: {_words(error)}", _hint(table)) from None


def _with_variables(value: Any, place: str) -> Any:
    """Texts with `${NAME}` replaced by the environment's value."""
    if isinstance(value, dict):
        return {key: _with_variables(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [_with_variables(item, place) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise InputError(
                f"{place}: the environment variable {match[1]} is not set.",
                f"Set it before you run: export {match[1]}=...",
            )
        return os.environ[match[1]]

    return _VARIABLE.sub(replace, value)


def _words(error: ValidationError) -> str:
    """The first mistake in words; never the value, which may be a secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part not in KINDS)
    return f"{place + ': ' if place else ''}{first['msg'].lower()}."


def _hint(table: dict[str, Any]) -> str:
    kind = table.get("kind")
    if kind not in KINDS:
        return f"The kinds are: {', '.join(KINDS)}."
    return f"The settings are: {', '.join(KINDS[kind].model_fields)}."
