"""A new view over what a source does not log yet waits for `setup`; the others go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from headwater.embedded.postgres import shared_server
from headwater.errors import SourceError
from tests.cli.commands import quick

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, a int, b int)",
    "CREATE TABLE u (id int PRIMARY KEY, x int)",
    "INSERT INTO t VALUES (1, 2, 3)",
    "INSERT INTO u VALUES (1, 5)",
)
CHANGE = "INSERT INTO t VALUES (2, 4, 6)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id, a FROM shop.t"
LATER = "CREATE MATERIALIZED VIEW w AS SELECT t.id, t.b, u.x FROM shop.t JOIN shop.u ON t.id = u.id"


class Database:
    """A database that is written to by statements, and the settings of a source over it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._path = folder / "shop.db"
        self._name = f"waiting_{kind}"
        self._is_file = kind == "sqlite"
        if self._is_file:
            self.settings = f"kind = 'sqlite'\npath = '{self._path}'"
        else:
            server = shared_server()
            server.execute(f"CREATE DATABASE {self._name}")
            self.settings = (
                f"kind = 'postgres'\ndsn = '{server.dsn(self._name)}'\nchanges = '{kind}'"
            )

    def write(self, *statements: str) -> None:
        if not self._is_file:
            shared_server().execute(*statements, database=self._name)
            return
        connection = sqlite3.connect(self._path, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()


@pytest.mark.parametrize("kind", ["sqlite", "replication", "triggers"])
def test_a_view_over_a_table_that_is_not_logged_yet_stops_no_other(
    tmp_path: Path, kind: str
) -> None:
    database = Database(kind, tmp_path)
    database.write(*TABLES)
    views = tmp_path / "views"
    views.mkdir()
    (tmp_path / "headwater.toml").write_text(f"[sources.shop]\n{database.settings}\n")
    (views / "v.sql").write_text(VIEW)
    project = ("-p", str(tmp_path))
    quick("setup", "shop", *project)
    assert quick("run", "--once", *project).code == 0
    (views / "w.sql").write_text(LATER)
    database.write(CHANGE)
    with pytest.raises(SourceError, match="headwater setup shop"):
        quick("run", "--once", *project)
    assert "2 rows" in quick("sql", "SELECT * FROM v", *project).out
    quick("setup", "shop", *project)
    assert quick("run", "--once", *project).code == 0
    assert quick("verify", *project).code == 0
    quick("teardown", "shop", *project)
