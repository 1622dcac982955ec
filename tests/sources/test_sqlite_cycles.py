"""Random statements on SQLite tables that refer to themselves are logged exactly, or as a gap.

In memory and without a monitor, so that many rounds fit into a test. A gap is as good as a view
that is loaded anew; it must not be what happens to statements that need none.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from itertools import count as counting
from pathlib import Path
from random import Random

import pytest

from headwater.sources.contract import Broken, Committed, Logged, Position, Progressed
from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.catalog import describe_all
from headwater.sources.sqlite.setup import setup_statements
from headwater.sources.sqlite.source import SqliteSource
from headwater.sources.sqlite.triggers import DELETED, GAP, INSERTED
from tests.sources.sqlite_schemas import schema, statement

SCHEMAS = 80
STATEMENTS = 25
MOST_STEPS = 30  # of a thousand each: triggers may go on for ever
Rows = Counter[tuple[object, ...]]


class Played:
    """A database in memory, and what the log says that its tables hold."""

    def __init__(self, tables: list[str], made: list[str]) -> None:
        self.writer = sqlite3.connect(":memory:", isolation_level=None)
        for part in made:
            self.writer.execute(part)
        access = Access("s", Path("memory"))
        described, _ = describe_all(access, self.writer, tables, {name: [] for name in tables})
        for part in setup_statements(access, self.writer, described):
            self.writer.execute(part)
        self._log = access.names.log
        self._at = self._head()
        self._names = dict(self.writer.execute(f"SELECT id, name FROM {access.names.relation}"))
        self._slots = {
            number: [
                slot
                for (slot,) in self.writer.execute(
                    f"SELECT slot FROM {access.names.column} WHERE relation = ? ORDER BY slot",
                    (number,),
                )
            ]
            for number in self._names
        }
        self.logged: dict[str, Rows] = {name: Counter() for name in tables}
        self.gaps = 0

    def _head(self) -> int:
        return int(self.writer.execute(f"SELECT max(seq) FROM {self._log}").fetchone()[0])

    def execute(self, text: str) -> str | None:
        """Run a statement, however it ends; what its log gets wrong, if anything."""
        steps = counting(1)
        self.writer.set_progress_handler(lambda: next(steps) > MOST_STEPS, 1000)
        try:
            self.writer.execute(text)
        except (sqlite3.IntegrityError, sqlite3.OperationalError):
            if self.writer.in_transaction:
                self.writer.execute("ROLLBACK")
        finally:
            self.writer.set_progress_handler(None, 1000)
        self._read()
        for name, rows in self.logged.items():
            held = self.held(name)
            if {row: count for row, count in rows.items() if count} != held:
                return f"{name} has {held}, its log has {rows}"
        return None

    def held(self, name: str) -> Rows:
        stored = self.writer.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()
        columns = ", ".join(column for (column,) in stored)  # without those that are generated
        return Counter(self.writer.execute(f"SELECT {columns} FROM {name}").fetchall())

    def is_sound(self) -> bool:
        """Some of these statements make SQLite 3.40 lose entries of indexes, also by itself."""
        return self.writer.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def _read(self) -> None:
        rows = self.writer.execute(
            f"SELECT * FROM {self._log} WHERE seq > ? ORDER BY seq", (self._at,)
        )
        places = {column[0]: at for at, column in enumerate(rows.description)}
        broken = set()
        for row in rows.fetchall():
            self._at, _, number, action = row[:4]
            name = self._names[number]
            if action == GAP:
                broken.add(name)
                continue
            for letter, sign, but in (("o", -1, INSERTED), ("n", 1, DELETED)):
                if action != but:
                    values = tuple(row[places[f"{letter}{at}"]] for at in self._slots[number])
                    self.logged[name][values] += sign
        for name in broken:
            self.logged[name] = self.held(name)
        self.gaps += len(broken)


TREE = (
    "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER UNIQUE, b TEXT UNIQUE, "
    "p INTEGER REFERENCES t (k) ON DELETE CASCADE ON UPDATE CASCADE)"
)


def after(made: str, *statements: str) -> Played:
    played = Played(["t"], [made])
    played.writer.execute("PRAGMA foreign_keys = 1")
    for text in statements:
        assert played.execute(text) is None, text
    return played


def test_a_row_that_goes_with_what_its_own_update_replaced_leaves_a_gap() -> None:
    played = after(
        TREE,
        "INSERT INTO t VALUES (1, 8, 'x', NULL), (2, 6, 'B', NULL), (9, 7, 'y', 2)",
        "UPDATE OR REPLACE t SET a = 8, b = 'B' WHERE k = 9",
        "INSERT INTO t VALUES (1, 8, 'z', NULL)",
    )
    assert played.gaps == 1


def test_an_upsert_that_changes_a_key_which_foreign_keys_follow_is_logged_exactly() -> None:
    played = after(
        TREE,
        "INSERT INTO t VALUES (8, 6, 'B', 8)",
        "INSERT INTO t VALUES (2, 6, 'q', NULL) ON CONFLICT (a) DO UPDATE SET k = excluded.k",
        "UPDATE t SET k = 8",
    )
    assert played.gaps == 0


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL", "SET DEFAULT"])
def test_a_key_that_foreign_keys_follow_after_an_ignored_update_is_logged_exactly(
    action: str,
) -> None:
    played = after(
        f"CREATE TABLE t (k INT NOT NULL PRIMARY KEY, p INT REFERENCES t (k) ON UPDATE {action})",
        "INSERT INTO t VALUES (3, NULL), (4, 4)",
        "UPDATE OR IGNORE t SET k = k + 1",
        "DELETE FROM t",
    )
    assert played.gaps == 0


def test_a_row_that_comes_back_while_its_deletion_is_followed_is_logged_exactly() -> None:
    """A cascade fires the application's trigger before the deletion itself can be logged."""
    played = Played(
        ["t"],
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER)",
            "CREATE TABLE c (p INTEGER REFERENCES t (k) ON DELETE CASCADE)",
            "CREATE TRIGGER x AFTER DELETE ON c BEGIN INSERT INTO t VALUES (OLD.p, 7); END",
            "INSERT INTO c VALUES (1)",
        ],
    )
    played.writer.execute("PRAGMA foreign_keys = 1")
    for text in ("INSERT INTO t VALUES (1, 0)", "DELETE FROM t", "UPDATE t SET a = 8"):
        assert played.execute(text) is None, text
    assert played.gaps == 0
    assert played.held("t") == {(1, 8): 1}


def test_a_row_that_an_update_brings_into_a_partial_index_replaces_another() -> None:
    played = Played(
        ["t"],
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b TEXT)",
            "CREATE UNIQUE INDEX i ON t (b) WHERE a > 2",
        ],
    )
    for text in (
        "INSERT INTO t VALUES (1, 1, 'x'), (2, 3, 'x')",
        "UPDATE OR REPLACE t SET a = 4 WHERE k = 1",
    ):
        assert played.execute(text) is None, text
    assert played.gaps == 0
    assert played.held("t") == {(1, 4, "x"): 1}


def test_a_unique_key_that_comes_together_inside_an_update_leaves_a_gap() -> None:
    """SQLite reads again what the statement did not set; who is in the way then is not known."""
    played = Played(
        ["t"],
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b TEXT, UNIQUE (a, b))",
            "CREATE TRIGGER x BEFORE UPDATE OF a ON t "
            "BEGIN UPDATE t SET b = 'B' WHERE k = OLD.k; END",
        ],
    )
    for text in (
        "INSERT INTO t VALUES (5, 0, 'A'), (7, 1, 'B')",
        "UPDATE OR REPLACE t SET a = 1 WHERE k = 5",
        "UPDATE t SET b = 'C'",
    ):
        assert played.execute(text) is None, text
    assert played.gaps == 1


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_a_default_that_a_unique_generated_column_depends_on_leaves_a_gap(kind: str) -> None:
    """SQLite fills it in when the triggers before the change have been fired already."""
    made = f"k INTEGER PRIMARY KEY, a INTEGER NOT NULL DEFAULT 5, g INTEGER AS (-a) {kind} UNIQUE"
    played = Played(["t"], [f"CREATE TABLE t ({made})"])
    for text in (
        "INSERT INTO t (k, a) VALUES (1, 5), (2, 6)",
        "UPDATE OR REPLACE t SET a = 6 WHERE k = 1",
        "INSERT OR REPLACE INTO t (k, a) VALUES (3, 6)",
    ):
        assert played.execute(text) is None, text
    assert played.gaps == 0
    for text in (
        "INSERT OR REPLACE INTO t (k, a) VALUES (1, 5), (2, NULL)",
        "UPDATE OR REPLACE t SET a = NULL WHERE k = 3",
    ):
        assert played.execute(text) is None, text
    assert played.gaps == 2


@pytest.mark.parametrize("key", ["k INTEGER PRIMARY KEY", "k INTEGER UNIQUE"])
def test_a_vacuum_after_an_upsert_leaves_no_gap(key: str) -> None:
    played = Played(["t"], [f"CREATE TABLE t ({key}, a INTEGER)"])
    upsert = "INSERT INTO t VALUES (7, 1) ON CONFLICT DO UPDATE SET a = a + 1"
    for text in ("INSERT INTO t VALUES (5, 0), (7, 0)", upsert, "VACUUM", upsert, "DELETE FROM t"):
        assert played.execute(text) is None, text
    assert played.gaps == 0


TOUCHES = {
    "the row": "UPDATE t SET a = a + 1 WHERE k = {row}.k",
    "its removal": "DELETE FROM t WHERE k = {row}.k",
    "all rows": "UPDATE t SET a = a + 1",
    "all keys": "UPDATE OR REPLACE t SET k = k + 1",
}


@pytest.mark.parametrize("touch", TOUCHES)
@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "DELETE"])
@pytest.mark.parametrize("moment", ["BEFORE", "AFTER"])
def test_a_trigger_that_fires_before_ours_is_followed_or_leaves_a_gap(
    moment: str, event: str, touch: str
) -> None:
    """A writer's own TEMP triggers fire first, and the file does not show them."""
    body = TOUCHES[touch].format(row="OLD" if event == "DELETE" else "NEW")
    played = Played(
        ["t"],
        [
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER)",
            f"CREATE TEMP TRIGGER x {moment} {event} ON main.t BEGIN {body}; END",
        ],
    )
    for text in (
        "INSERT INTO t VALUES (5, 0), (7, 1)",
        "UPDATE t SET a = a + 1 WHERE k = 5",
        "UPDATE t SET k = 9 WHERE k = 5",
        "INSERT OR REPLACE INTO t VALUES (9, 3)",
        "UPDATE OR REPLACE t SET k = 9 WHERE k = 7",
        "DELETE FROM t",
    ):
        assert played.execute(text) is None, text
    assert moment == "AFTER" or played.gaps == 0


def test_a_tree_that_is_written_in_the_usual_ways_has_no_gap() -> None:
    played = after(
        TREE,
        "INSERT INTO t VALUES (1, 1, 'a', NULL), (2, 2, 'b', 1), (3, 3, 'c', 2), (4, 4, 'd', 4)",
        "INSERT OR IGNORE INTO t VALUES (1, 9, 'i', NULL), (6, 6, 'f', 1)",
        "INSERT INTO t VALUES (7, 2, 'g', 1) ON CONFLICT (a) DO UPDATE SET b = excluded.b",
        "UPDATE OR IGNORE t SET a = a + 1",
        "INSERT OR REPLACE INTO t VALUES (3, 3, 'h', 1)",
        "UPDATE OR REPLACE t SET a = 6 WHERE k = 3",
        "UPDATE t SET k = k + 100",
        "UPDATE t SET p = NULL WHERE k = 103",
        "DELETE FROM t WHERE k = 101",
    )
    assert played.gaps == 0


def test_a_gap_comes_before_the_transaction_that_it_is_in(tmp_path: Path) -> None:
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("PRAGMA foreign_keys = 1")
    writer.execute(TREE)
    writer.execute("INSERT INTO t VALUES (1, 8, 'x', NULL), (2, 6, 'B', NULL), (9, 7, 'y', 2)")
    source = SqliteSource("s", tmp_path / "a.db", ["t"])
    source.setup()
    (first, *_) = opened(source, None)
    writer.execute("UPDATE OR REPLACE t SET a = 8, b = 'B' WHERE k = 9")
    assert isinstance(first, Progressed)
    gap, unit = opened(source, first.position)
    assert isinstance(gap, Broken)
    assert isinstance(unit, Committed)
    assert gap.columns == {"s.t": None}
    assert gap.position == first.position
    assert gap.stamp is not None
    assert gap.stamp <= unit.stamp
    assert "its own UPDATE OR REPLACE" in gap.reason
    writer.close()


def test_a_statement_that_ended_in_the_middle_of_a_change_is_a_gap_at_once(tmp_path: Path) -> None:
    """RAISE(FAIL) leaves what was done: a replaced row is gone, and nothing is in its place."""
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("PRAGMA foreign_keys = 1")
    for made in (
        "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER)",
        "CREATE TABLE c (p INTEGER REFERENCES t (k) ON DELETE CASCADE)",
        "CREATE TRIGGER x AFTER DELETE ON c BEGIN SELECT RAISE(FAIL, 'no'); END",
        "INSERT INTO t VALUES (1, 0)",
        "INSERT INTO c VALUES (1)",
    ):
        writer.execute(made)
    source = SqliteSource("s", tmp_path / "a.db", ["t"])
    source.setup()
    monitor = source.open_monitor(None)
    monitor.read(0)
    with pytest.raises(sqlite3.IntegrityError, match="no"):
        writer.execute("INSERT OR REPLACE INTO t VALUES (1, 9)")
    assert writer.execute("SELECT count(*) FROM t").fetchone() == (0,)
    (gap,) = monitor.read(0)
    assert isinstance(gap, Broken)
    assert gap.columns == {"s.t": None}
    assert "in the middle of a change" in gap.reason
    assert monitor.read(0) == []
    monitor.close()
    writer.close()


def opened(source: SqliteSource, after: Position | None) -> list[Logged]:
    monitor = source.open_monitor(after)
    found: list[Logged] = []
    try:
        while items := monitor.read(0):
            found += items
    finally:
        monitor.close()
    return found


def differences(seed: int) -> tuple[list[str], int]:
    """What one random schema shows: the first difference, if any, and how many gaps there were."""
    random = Random(seed)
    made = schema(random)
    while not any(f"REFERENCES {table} " in made[0] for table in "tu"):
        made = schema(random)
    played = Played(["t", "u"], made)
    done: list[str] = []
    try:
        for _ in range(STATEMENTS):
            for pragma, chance in (("foreign_keys", 0.8), ("recursive_triggers", 0.3)):
                done.append(f"PRAGMA {pragma} = {int(random.random() < chance)}")
                played.writer.execute(done[-1])
            done.append(statement(random))
            wrong = played.execute(done[-1])
            if not played.is_sound():
                break
            if wrong is not None:
                return [*made, *done, wrong], played.gaps
    except sqlite3.DatabaseError as error:
        assert error.sqlite_errorname.startswith("SQLITE_CORRUPT"), done  # noqa: PT017
    finally:
        played.writer.close()
    return [], played.gaps


def test_random_statements_are_logged_exactly_or_as_a_gap() -> None:
    gaps = 0
    for seed in range(SCHEMAS):
        found, more = differences(seed)
        assert found == [], seed
        gaps += more
    assert gaps < SCHEMAS * STATEMENTS / 200


@pytest.mark.stress
def test_many_thousand_random_schemas_are_logged_exactly_or_as_a_gap() -> None:
    for seed in range(SCHEMAS, 50_000):
        assert differences(seed)[0] == [], seed
