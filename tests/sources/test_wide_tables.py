"""A table of 200 columns of which views use three: what is logged and read of it.

`pytest --log-cli-level=INFO` shows the figures that docs/measurements.md has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.sources.contract import Source
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.sqlite_harness import SqliteHarness

WIDE = Schema.of([("id", INT), *((f"c{at}", TEXT) for at in range(1, 200))])
THREE = {"wide": ["id", "c1", "c2"]}
ROWS = 300
Harness = PostgresHarness | SqliteHarness


def by_triggers() -> PostgresHarness:
    return PostgresHarness(changes="triggers")


def read_bytes(source: Source) -> int:
    load = source.open_load(["wide"], 1)
    try:
        parts = range(load.parts("wide"))
        return sum(batch.nbytes for part in parts for batch in load.read("wide", part))
    finally:
        load.close()


def figures(make: Callable[[], Harness], narrow: bool) -> tuple[int, int | None]:
    """The bytes of a load, and of the log of an update of every row, where the source tells."""
    harness = make()
    try:
        harness.create_table("wide", WIDE, ["id"])
        writer, chance = harness.writer(), Random(0)
        for at in range(ROWS):
            texts = ", ".join(f"'{chance.getrandbits(80):020x}'" for _ in range(1, 200))
            writer.execute(f"INSERT INTO wide VALUES ({at}, {texts})")
        source = harness.source(["wide"])
        source = source.narrowed(THREE) if narrow else source
        source.setup()
        read = read_bytes(source)
        writer.execute("UPDATE wide SET c1 = 'x' || c1")
        kept = source.retained()
        return read, None if kept is None else kept.size_bytes
    finally:
        harness.close()


@pytest.mark.parametrize("make", [by_triggers, SqliteHarness])
def test_of_200_columns_three_are_logged_and_read(make: Callable[[], Harness]) -> None:
    all_read, all_logged = figures(make, narrow=False)
    read, logged = figures(make, narrow=True)
    told = "%s: read %s, then %s bytes; logged %s, then %s bytes"
    logging.info(told, make.__name__, all_read, read, all_logged, logged)
    assert read * 40 < all_read
    assert all_logged is not None
    assert logged is not None
    assert logged * 10 < all_logged
