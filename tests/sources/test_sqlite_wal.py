"""SQLite's write-ahead log as it may lie there: torn, changed, or something else than a file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.sources.sqlite.wal import Borders, _only_integer
from tests.fuzz.mutations import noise

HEAD = 70_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A database with a head that three transactions have moved, and the page of the head."""
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE head (number INTEGER NOT NULL, other INTEGER)")
    connection.execute("INSERT INTO head VALUES (1, 2)")
    for number in (7, 300, HEAD):
        connection.execute("UPDATE head SET number = ?", (number,))
    (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'head'")
    yield path, page[0]
    connection.close()


def beside(database: Path, content: bytes) -> Path:
    """A path whose write-ahead log has these bytes."""
    copy = database.with_name("copy.db")
    copy.with_name("copy.db-wal").write_bytes(content)
    return copy


def log_of(database: Path) -> bytes:
    return database.with_name("shop.db-wal").read_bytes()


def test_a_sound_log_has_the_borders(database: tuple[Path, int]) -> None:
    path, page = database
    assert Borders(beside(path, log_of(path))).upto(HEAD, page) == [1, 7, 300, HEAD]


def test_torn_logs_are_read_without_a_fault(database: tuple[Path, int]) -> None:
    path, page = database
    sound = log_of(path)
    for seed in range(2000):
        random = Random(seed)
        copy = beside(path, noise(random, sound))
        assert isinstance(Borders(copy).upto(HEAD, page), list), seed


def test_torn_pages_have_no_number_or_some_number() -> None:
    page = bytearray(512)
    page[:10] = bytes([13, 0, 0, 0, 1, 1, 250, 0, 1, 250])
    page[506:] = bytes([4, 1, 2, 2, 1, 0])
    assert _only_integer(bytes(page)) == 256
    for seed in range(20_000):
        random = Random(seed)
        spoilt = page.copy()
        for _ in range(random.randint(1, 4)):
            spoilt[random.choice([8, 9, *range(506, 512)])] = random.randrange(256)
        found = _only_integer(bytes(spoilt[: random.choice([512, 511, 508, 9])]))
        assert found is None or isinstance(found, int), seed


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_plain_file_is_not_read(database: tuple[Path, int], kind: str) -> None:
    path, page = database
    copy = path.with_name("copy.db")
    log = path.with_name("copy.db-wal")
    if kind == "pipe":
        os.mkfifo(log)
    elif kind == "link":
        log.symlink_to(path.with_name("shop.db-wal"))
    else:
        log.mkdir()
    assert Borders(copy).upto(HEAD, page) == []
