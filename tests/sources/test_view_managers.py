"""The lab's view managers on real sources: the level is proved on the recorded run."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algorithms.registry import algorithm, make_manager
from headwater.check.certificate import certify
from headwater.check.levels import Level
from headwater.embedded.postgres import PostgresServer
from headwater.sources.contract import Source
from headwater.testing.harness import Harness
from headwater.testing.workload import ITEMS, LINES, BusyWriter, create_tables, fill, stop_all
from tests.sources.driver import Driver
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.sqlite_harness import SqliteHarness

COMMITS = 25
"""Transactions of each writer."""


@pytest.fixture
def harnesses() -> Iterator[list[Harness]]:
    """Two PostgreSQL servers and a SQLite file, with rows in them."""
    made: list[Harness] = []
    another = PostgresServer()
    try:
        made += [PostgresHarness(), PostgresHarness(another), SqliteHarness()]
        for harness in made:
            create_tables(harness)
            writer = harness.writer()
            fill(writer)
            writer.close()
        yield made
    finally:
        for harness in made:
            harness.close()
        another.stop()


def one_table(harness: Harness, name: str, table: str, schema: Schema) -> tuple[Source, str, Rows]:
    """A source over one table, set up, with the name and the contents of its relation."""
    source = harness.source([table], name=name)
    source.setup()
    return source, f"{source.name}.{table}", Rows(schema, harness.contents(table))


@pytest.mark.parametrize("name", ["sweep", "pvm-cc"])
def test_view_over_three_databases_is_complete(harnesses: list[Harness], name: str) -> None:
    used = [("items", ITEMS), ("items", ITEMS), ("lines", LINES)]
    prepared = [
        one_table(harness, f"db{number}", table, schema)
        for number, (harness, (table, schema)) in enumerate(zip(harnesses, used, strict=True))
    ]
    sources = [source for source, _, _ in prepared]
    base = {relation: rows for _, relation, rows in prepared}
    a, b, c = (relation for _, relation, _ in prepared)
    view = parse_view(
        f"""SELECT a.id AS a_id, b.id AS b_id, b."Name", c.qty
            FROM {a} a JOIN {b} b ON a.grp = b.grp JOIN {c} c ON c.item = b.id""",
        [r for source in sources for r in source.relations().values()],
    )
    driver = Driver(
        make_manager(algorithm(name), view, {}), sources, evaluate_view(view, base), base
    )
    writers = [BusyWriter(h, n, most=COMMITS) for n, h in enumerate(harnesses)]
    try:
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            driver.step(0.01)
        stop_all(writers)
        expected = {
            relation: Rows(schema, harness.contents(table))
            for (_, relation, _), harness, (table, schema) in zip(
                prepared, harnesses, used, strict=True
            )
        }
        deadline = time.monotonic() + 60
        while driver.view != evaluate_view(view, expected) or driver.step(0.3):
            assert time.monotonic() < deadline, "the view does not get there"
            driver.step(0.3)
    finally:
        for writer in writers:
            writer.stopping.set()
        driver.close()
        for source in sources:
            source.teardown()
    certificate = certify(driver.history(), driver.claims)
    changes = len({claim.view for claim in driver.claims})
    sys.stdout.write(
        f"\n{name}: {len(driver.claims)} steps of the view, {changes} different states, "
        f"{driver.questions} questions, {certificate.level}\n"
    )
    assert certificate.broken is None
    assert certificate.level == Level.COMPLETE
    assert changes > 5
