"""Whatever a statement does to a SQLite table, its log says the same."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import suppress
from itertools import count as counting
from pathlib import Path
from random import Random

import pytest

from headwater.sources.sqlite import SqliteSource
from tests.sources.harness import local
from tests.sources.sqlite_reading import drain
from tests.sources.sqlite_schemas import schema, statement

SCHEMAS = int(os.environ.get("HEADWATER_SCHEMAS", "300"))
STATEMENTS = 25
MOST_STEPS = 300  # of a thousand each: triggers may go on for ever


def connect(path: Path, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = OFF", *pragmas):
        connection.execute(f"PRAGMA {pragma}")
    return connection


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
            steps = counting(1)
            writer.set_progress_handler(lambda steps=steps: next(steps) > MOST_STEPS, 1000)
            with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                writer.execute(done[-1][3:])
            writer.set_progress_handler(None, 1000)
            for item in drain(monitor):
                for relation, delta in local(item.transaction).items():
                    for row, count in delta.items():
                        logged[relation][row] += count
            for table, rows in logged.items():
                held = Counter(writer.execute(f"SELECT k, a, b, p FROM {table}").fetchall())
                if {row: n for row, n in rows.items() if n} != held:
                    return [*made, *done, f"{table} has {held}", f"its log has {rows}"]
    finally:
        monitor.close()
        for writer in writers:
            writer.close()
        path.unlink()
    return []


@pytest.mark.parametrize("part", range(4))
def test_random_statements_inside_others_are_logged_exactly(tmp_path: Path, part: int) -> None:
    for seed in range(part, SCHEMAS, 4):
        assert differences(seed, tmp_path) == [], seed


@pytest.mark.stress
def test_thousands_of_random_schemas_are_logged_exactly(tmp_path: Path) -> None:
    for seed in range(SCHEMAS, SCHEMAS + 5000):
        assert differences(seed, tmp_path) == [], seed
