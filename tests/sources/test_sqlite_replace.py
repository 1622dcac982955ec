"""Whatever a statement does to a SQLite table, its log says the same."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import suppress
from itertools import count as counting
from pathlib import Path
from random import Random

import pytest

from headwater.errors import SourceError
from headwater.sources.contract import Broken, Committed, Monitor
from headwater.sources.sqlite.source import SqliteSource
from headwater.testing.harness import local
from tests.sources.sqlite_reading import committed
from tests.sources.sqlite_schemas import schema, statement

SCHEMAS = 40
STATEMENTS = 25
MOST_STEPS = 300  # of a thousand each: triggers may go on for ever


def connect(path: Path, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = OFF", *pragmas):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def execute(writer: sqlite3.Connection, text: str) -> None:
    steps = counting(1)
    writer.set_progress_handler(lambda: next(steps) > MOST_STEPS, 1000)
    try:
        writer.execute(text)
    finally:
        writer.set_progress_handler(None, 1000)


def take_in(monitor: Monitor, logged: dict[str, Counter[tuple[object, ...]]]) -> set[str]:
    """Add what a monitor reports to what is known of the tables; the tables with a gap."""
    broken = set()
    while items := monitor.read(0):
        for item in items:
            if isinstance(item, Committed):
                for relation, delta in local(item.transaction).items():
                    for row, count in delta.items():
                        logged[relation][row] += count
            elif isinstance(item, Broken):
                assert item.columns is not None
                broken |= {name.removeprefix("s.") for name in item.columns}
    return broken


def differences(seed: int, folder: Path) -> list[str]:
    """What one random schema and random statements show: the first difference, or nothing."""
    random = Random(seed)
    path = folder / f"{seed}.db"
    made = schema(random)
    writers = [
        connect(path, f"recursive_triggers = {recursive}", f"foreign_keys = {keys}")
        for recursive, keys in ((0, 1), (random.choice([0, 1]), random.choice([0, 1])))
    ]
    for part in made:
        writers[0].execute(part)
    source = SqliteSource("s", path, ["t", "u"], {"t": [], "u": []})
    source.setup()
    monitor = source.open_monitor(None)
    logged: dict[str, Counter[tuple[object, ...]]] = {"t": Counter(), "u": Counter()}
    done: list[str] = []
    try:
        for _ in range(STATEMENTS):
            writer = random.choice(writers)
            done.append(f"{writers.index(writer)}: {statement(random)}")
            with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                execute(writer, done[-1][3:])
            broken = take_in(monitor, logged)
            for table, rows in logged.items():
                held = Counter(writer.execute(f"SELECT k, a, b, p FROM {table}").fetchall())
                if table in broken:
                    logged[table] = rows = held
                if {row: n for row, n in rows.items() if n} != held:
                    return [*made, *done, f"{table} has {held}", f"its log has {rows}"]
    finally:
        monitor.close()
        for writer in writers:
            writer.close()
        path.unlink()
    return []


def test_random_statements_inside_others_are_logged_exactly(tmp_path: Path) -> None:
    for seed in range(SCHEMAS):
        assert differences(seed, tmp_path) == [], seed


@pytest.mark.stress
def test_thousands_of_random_schemas_are_logged_exactly(tmp_path: Path) -> None:
    for seed in range(SCHEMAS, 5000):
        assert differences(seed, tmp_path) == [], seed


CASCADE = "p INTEGER REFERENCES t (k) ON DELETE CASCADE"
DIRECTED = {
    "a row that refers to the replaced one goes with it": (
        [f"CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, {CASCADE})"],
        [
            "INSERT INTO t VALUES (1, 1, 'x', NULL), (2, 2, 'y', 1)",
            "INSERT OR REPLACE INTO t VALUES (3, 1, 'z', NULL)",
        ],
    ),
    "a trigger updates the table before the insertion": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, p INTEGER)",
            "CREATE TRIGGER x BEFORE INSERT ON t BEGIN UPDATE t SET b = 'touched', p = 1; END",
        ],
        ["INSERT INTO t VALUES (1, 1, 'x', 0)", "INSERT OR REPLACE INTO t VALUES (1, 2, 'y', 0)"],
    ),
    "a trigger brings a row into the way": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, p INTEGER)",
            "CREATE TRIGGER x BEFORE INSERT ON t BEGIN UPDATE t SET a = NEW.a WHERE k = 1; END",
        ],
        ["INSERT INTO t VALUES (1, 1, 'x', 0)", "INSERT OR REPLACE INTO t VALUES (2, 2, 'y', 0)"],
    ),
    "a cascade into another table whose trigger updates this one": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, p INTEGER)",
            f"CREATE TABLE c ({CASCADE})",
            "CREATE TRIGGER x AFTER DELETE ON c BEGIN UPDATE t SET b = 'touched'; END",
        ],
        [
            "INSERT INTO t VALUES (1, 1, 'x', 0), (2, 2, 'y', 0)",
            "INSERT INTO c VALUES (1)",
            "INSERT OR REPLACE INTO t VALUES (1, 3, 'z', 0)",
        ],
    ),
    "a trigger touches the row that was just put in place of another": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, p INTEGER)",
            "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET p = 1 WHERE k = NEW.k; END",
        ],
        ["INSERT INTO t VALUES (1, 1, 'x', 0)", "INSERT OR REPLACE INTO t VALUES (1, 1, 'x', 0)"],
    ),
    "a trigger changes the row before its own change": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT, p INTEGER)",
            "CREATE TRIGGER x BEFORE UPDATE ON t WHEN NEW.p <> 9 "
            "BEGIN UPDATE t SET p = 9 WHERE k = OLD.k; END",
            "CREATE TRIGGER y BEFORE DELETE ON t BEGIN UPDATE t SET b = 'z' WHERE k = OLD.k; END",
        ],
        [
            "INSERT INTO t VALUES (1, 1, 'x', 0), (2, 2, 'x', 0)",
            "UPDATE t SET b = 'y' WHERE k = 1",
            "DELETE FROM t WHERE k = 2",
        ],
    ),
    "uniqueness of expressions and of some rows": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b TEXT, p INTEGER)",
            "CREATE UNIQUE INDEX one ON t (lower(b), a)",
            "CREATE UNIQUE INDEX two ON t (a) WHERE p IS NULL",
        ],
        [
            "INSERT INTO t VALUES (1, 1, 'x', 0), (2, 2, 'y', NULL)",
            "INSERT OR REPLACE INTO t VALUES (3, 1, 'X', 0), (4, 2, 'z', NULL)",
        ],
    ),
    "a row number that is written": (
        ["CREATE TABLE t (k INTEGER, a INTEGER, b TEXT, p INTEGER)"],
        [
            "INSERT INTO t (rowid, k) VALUES (7, 1), (8, 2)",
            "INSERT OR REPLACE INTO t (rowid, k) VALUES (7, 3)",
            "UPDATE OR REPLACE t SET rowid = 8 WHERE k = 3",
        ],
    ),
    "a NULL that becomes a default": (
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER NOT NULL DEFAULT 5 UNIQUE, b TEXT, "
            "p INTEGER)"
        ],
        ["INSERT INTO t (k, a) VALUES (1, 5)", "INSERT OR REPLACE INTO t (k, a) VALUES (2, NULL)"],
    ),
}


@pytest.mark.parametrize("name", DIRECTED)
@pytest.mark.parametrize("recursive", [0, 1])
def test_what_a_replace_removes_is_logged_when(tmp_path: Path, name: str, recursive: int) -> None:
    tables, statements = DIRECTED[name]
    path = tmp_path / "a.db"
    writer = connect(path, "foreign_keys = 1", f"recursive_triggers = {recursive}")
    for part in tables:
        writer.execute(part)
    source = SqliteSource("s", path, ["t"])
    source.setup()
    for part in statements:
        writer.execute(part)
    logged: Counter[tuple[object, ...]] = Counter()
    for item in committed(source):
        delta = local(item.transaction).get("t")
        for row, count in delta.items() if delta else ():
            logged[row] += count
    held = Counter(writer.execute("SELECT k, a, b, p FROM t").fetchall())
    assert {row: count for row, count in logged.items() if count} == held
    writer.close()


def test_a_unique_index_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    writer = connect(tmp_path / "a.db")
    writer.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER)")
    writer.execute("CREATE UNIQUE INDEX one ON t ((a = '1'))")
    with pytest.raises(SourceError, match=r"unique index over \(a = '1'\), which compares"):
        SqliteSource("s", tmp_path / "a.db", ["t"]).setup()
    writer.execute("INSERT INTO t VALUES (1, 1)")
    writer.close()


def test_a_bulk_statement_that_ignores_conflicts_is_not_slow(tmp_path: Path) -> None:
    """Each ignored row leaves one aside; a search among them must not read them all."""
    writer = connect(tmp_path / "a.db")
    writer.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, a TEXT UNIQUE)")
    source = SqliteSource("s", tmp_path / "a.db", ["t"])
    source.setup()
    series = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {}) "
    writer.execute(series.format(20_000) + "INSERT INTO t SELECT 2 * x, 'a' || (2 * x) FROM n")
    steps = counting(1)
    writer.set_progress_handler(lambda: next(steps) > 20_000, 1000)
    writer.execute(series.format(40_000) + "INSERT OR IGNORE INTO t SELECT x, 'a' || x FROM n")
    writer.set_progress_handler(None, 1000)
    assert sum(len(item.transaction.updates) for item in committed(source)) == 40_000
    writer.close()
