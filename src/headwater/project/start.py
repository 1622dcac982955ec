"""`headwater init --from`: a project that starts from a database that is there.

The settings name no tables, since views do, and no password: the connection string stays in an
environment variable. One view is written, over a table that can be used, to go on from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headwater.algebra.sql.text import is_keyword
from headwater.errors import InputError
from headwater.project.settings import FILE
from headwater.sources.contract import Source
from headwater.sources.discovered import DiscoveredTable

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_PART = re.compile(r'"(?:[^"]|"")*"|[^."]+')
_MOST_COLUMNS = 5
_SETTINGS = """[warehouse]
path = "warehouse"

[sources.{name}]
kind = "{kind}"
{place}
# All tables that views name; 'headwater tables {name}' shows which there are.
"""
_VIEW = """CREATE MATERIALIZED VIEW {view}
WITH STRONG CONSISTENCY
AS
SELECT {columns}
FROM {table};
"""


@dataclass(frozen=True)
class Started:
    """What was written, and the environment variable that settings name, if there is one."""

    source: str
    files: tuple[str, ...]
    variable: str = ""


def start_project(folder: Path, database: str) -> Started:
    """Write a project for a database: a server's connection string, or a SQLite file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not an empty folder.", "Name one that is not there yet.")
    path = Path(database)
    if path.is_file():
        name, variable = _name(path.stem), ""
        kind, place = "sqlite", f"path = {_quoted(str(path.absolute()))}"
        found = _opened(name, kind, database).discover()
    else:  # its name is taken only from a connection string that is known to be one
        kind = next((k for k in ("mariadb", "mysql") if database.startswith(f"{k}://")), "postgres")
        found = _opened("database", kind, database).discover()
        name = _name(_database_name(kind, database))
        variable = f"{name.upper()}_DSN"
        place = f'dsn = "${{{variable}}}"'
    texts = {
        FILE: _SETTINGS.format(name=name, kind=kind, place=place),
        "views/first.sql": _view(name, found),
    }
    try:
        (folder / "views").mkdir(parents=True)
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}.", "Name another folder."
        ) from None
    return Started(name, tuple(texts), variable)


def _opened(name: str, kind: str, database: str) -> Source:
    if kind == "sqlite":
        from headwater.sources.sqlite.source import SqliteSource

        return SqliteSource(name, Path(database), [])
    if kind in ("mariadb", "mysql"):
        from headwater.sources.mariadb.source import MariadbSource

        return MariadbSource(name, database, [], kind=kind)
    from headwater.sources.postgres.source import PostgresSource

    return PostgresSource(name, database, [])


def _database_name(kind: str, dsn: str) -> str:
    if kind != "postgres":
        return unquote(urlsplit(dsn).path.strip("/")) or "database"
    from psycopg import Error
    from psycopg.conninfo import conninfo_to_dict

    try:
        return str(conninfo_to_dict(dsn).get("dbname") or "database")
    except Error:
        raise InputError(
            "--from is neither a file nor a connection string of a database.",
            "Write it like postgresql://role@host:5432/database or "
            "mariadb://account@host:3306/database, or name a SQLite file.",
        ) from None


def _name(text: str) -> str:
    """A source's name: letters, digits and underscores, a letter first."""
    found = re.sub(r"\W|[^\x00-\x7f]", "_", text)
    return found if found[:1].isalpha() else f"source_{found}"


def _view(source: str, tables: Sequence[DiscoveredTable]) -> str:
    usable = [table for table in tables if not table.problem and _columns(table)]
    if not usable:
        raise InputError(
            "No table of this database can be used, by this role at least.",
            "'headwater tables' says why, in a project that names the database as a source.",
        )
    chosen = max(usable, key=lambda table: (bool(table.key), table.rows or 0))
    parts = _PART.findall(chosen.name)
    return _VIEW.format(
        view="first",
        columns=", ".join(map(_written, _columns(chosen))),
        table=".".join([source, *map(_written, parts)]),
    )


def _written(name: str) -> str:
    """A name as a view has it: in quotes, unless it is an ordinary word."""
    is_plain = name.startswith('"') or (_PLAIN.fullmatch(name) and not is_keyword(name))
    return name if is_plain else '"' + name + '"'


def _columns(table: DiscoveredTable) -> list[str]:
    names = [c.name for c in table.columns if c.type and _PLAIN.fullmatch(c.name)]
    return sorted(names, key=lambda name: name not in table.key)[:_MOST_COLUMNS]


def _quoted(text: str) -> str:
    """A text as TOML has it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
