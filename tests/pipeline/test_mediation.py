"""Views over a mediated schema, beside writers to the two databases that are described by it.

Each version of each view is judged by a query over the databases' own tables that was written by
hand, at the version's own vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headwater.algebra.sql.view import parse_view
from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.embedded.postgres import PostgresServer
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.choice import usable
from headwater.protocol.managers import Need
from tests.cli.commands import quick
from tests.pipeline.orders import BOTH, Orders, kept, maintained, write
from tests.pipeline.small import NAMES, Small, supervised, wait_until
from tests.pipeline.world import Oracle, wait_for
from tests.warehouse.test_small import no_spark

SCHEMA = """
-- A person may have bought something, of which there may be several pieces.
CREATE TABLE people (id BIGINT, name STRING, credit BIGINT, PRIMARY KEY (id));
CREATE TABLE bought (number BIGINT, person BIGINT, amount BIGINT,
                     FOREIGN KEY (person) REFERENCES people);
CREATE TABLE pieces (number BIGINT, item BIGINT, qty BIGINT);

CREATE SOURCE VIEW crm.customers AS SELECT id, name, credit FROM people;
CREATE SOURCE VIEW shop.orders (id, customer, amount) AS SELECT number, person, amount FROM bought;
CREATE SOURCE VIEW shop.lines (order_id, item, qty) AS
SELECT b.number, p.item, p.qty FROM bought b JOIN pieces p ON p.number = b.number
"""
JOINED = (
    "SELECT p.name, b.number, b.amount FROM mediated.people p "
    "JOIN mediated.bought b ON b.person = p.id",
    "SELECT c.name, o.id AS number, o.amount FROM crm.customers c "
    "JOIN shop.orders o ON o.customer = c.id",
)
"""Over mediated relations, and by hand."""
OTHERS = {
    "everybody": (
        "SELECT id FROM mediated.people",
        "SELECT id FROM crm.customers UNION "
        "SELECT customer FROM shop.orders WHERE customer IS NOT NULL",
    ),
    "numbers": (
        "SELECT number FROM mediated.bought",
        "SELECT id AS number FROM shop.orders UNION SELECT order_id FROM shop.lines",
    ),
    "pieces_bought": (
        "SELECT p.number, p.item FROM mediated.pieces p "
        "JOIN mediated.bought b ON b.number = p.number",
        "SELECT DISTINCT order_id AS number, item FROM shop.lines",
    ),
    "whose": (
        "SELECT p.id, i.item FROM mediated.people p JOIN mediated.bought b ON b.person = p.id "
        "JOIN mediated.pieces i ON i.number = b.number",
        "SELECT DISTINCT o.customer AS id, l.item FROM shop.orders o "
        "JOIN shop.lines l ON l.order_id = o.id WHERE o.customer IS NOT NULL",
    ),
}
WITH_GROUPS = (
    "SELECT p.name, COUNT(*) AS n, SUM(b.amount) AS amount FROM joined_sweep b "
    "JOIN crm.customers p ON p.name = b.name GROUP BY p.name",
    "SELECT p.name, COUNT(*) AS n, SUM(o.amount) AS amount FROM crm.customers c "
    "JOIN shop.orders o ON o.customer = c.id JOIN crm.customers p ON p.name = c.name "
    "GROUP BY p.name",
)
"""A view over one that is certain."""


def texts() -> dict[str, tuple[str, str, Level]]:
    """Of each view its file, what it is by hand, and its level."""
    found = {}
    for name in usable(Level.CONVERGENT, BOTH):
        level = kept(name, BOTH)
        words = "CONVERGENCE" if level == Level.CONVERGENT else str(level).upper()
        keys = "KEEP KEYS" if Need.KEYS in ALGORITHMS[name].needs else ""
        view = f"joined_{name.replace('-', '_')}"
        header = f"CREATE MATERIALIZED VIEW {view} WITH {words} USING {name} {keys}"
        found[view] = (f"{header} AS {JOINED[0]}", JOINED[1], level)
    for view, (select, by_hand) in OTHERS.items():
        header = f"CREATE MATERIALIZED VIEW {view} WITH COMPLETE CONSISTENCY"
        found[view] = (f"{header} AS {select}", by_hand, Level.COMPLETE)
    text = f"CREATE MATERIALIZED VIEW sums AS {WITH_GROUPS[0]}"
    found["sums"] = (text, WITH_GROUPS[1], Level.STRONG)
    return found


VIEWS = texts()


class ByHand(Oracle):
    """What views are by queries over tables, whatever the schema says."""

    def view(self, name: str) -> View:
        return parse_view(VIEWS[name][1], self.relations, name).narrowed()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    found = PostgresServer()
    yield found
    found.stop()


@pytest.mark.parametrize(
    "transactions", [20, pytest.param(500, marks=pytest.mark.stress, id="many")]
)
def test_every_version_is_what_is_certain_at_its_vector(
    tmp_path: Path, server: PostgresServer, transactions: int
) -> None:
    (tmp_path / "schema").mkdir()
    (tmp_path / "schema" / "people.sql").write_text(SCHEMA)
    shop = Orders(tmp_path, server, {name: text for name, (text, _, _) in VIEWS.items()})
    try:
        with maintained(shop) as runner:
            for writer in write(shop, 0.05, transactions, seed=1):
                writer.join()
                assert writer.failure is None
            targets = runner.targets()
            wait_for(runner, partial(runner.reach, targets))
            for name in VIEWS:
                assert verify_view(shop.project, name, no_spark).holds, name
    finally:
        shop.teardown()
    oracle = ByHand(shop)
    oracle.check_log()
    for name, (_, _, level) in VIEWS.items():
        oracle.check_reached_the_end(name)
        table = shop.warehouse.view(name)
        assert table.rows() == oracle.at_vector(oracle.view(name), table.latest().vector), name
        if level > Level.CONVERGENT:
            commits = oracle.check_view(name)
            assert len(commits) > 1, name
            if level == Level.COMPLETE:
                oracle.check_complete(name, commits)
    assert set(shop.warehouse.view("numbers").latest().vector) == {"shop"}


PEOPLE = """
CREATE TABLE people (id BIGINT, name STRING);
CREATE SOURCE VIEW crm.customers AS SELECT id, name FROM people
"""
MORE = "CREATE VIEW people AS SELECT id, note AS name FROM shop.orders"


def test_a_schema_that_changes_under_a_runner_stops_the_views_that_it_makes_others(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "project"
    schema = folder / "schema"
    schema.mkdir(parents=True)
    (schema / "people.sql").write_text(PEOPLE)
    (schema / "more.sql").write_text(MORE)
    everybody = "CREATE MATERIALIZED VIEW everybody AS SELECT id, name FROM mediated.people"
    small = Small(folder, {"everybody": everybody, "names": NAMES})
    with supervised(Runner(small.project, no_spark)) as runner:

        def state(view: str) -> str:
            return str(runner.describe()["views"][view]["state"])

        wait_until(lambda: state("everybody") == state("names") == "running")
        assert small.rows("everybody") == {(1, "Ada"), (1, "a"), (2, "b")}

        (schema / "typo.sql").write_text("CREATE TABL more (id INT)")
        small.write("crm", "INSERT INTO customers VALUES (2, 'Bob')")
        wait_until(lambda: (2, "Bob") in small.rows("everybody") & small.rows("names"))
        wait_until(lambda: "typo.sql:1:1" in str(runner.describe()))
        (schema / "typo.sql").unlink()

        (schema / "more.sql").write_text(MORE + " WHERE amount > 10")
        wait_until(lambda: state("everybody") == "stopped")
        small.write("crm", "INSERT INTO customers VALUES (3, 'Cy')")
        wait_until(lambda: (3, "Cy") in small.rows("names"))
        assert (3, "Cy") not in small.rows("everybody")
        assert "has changed since it was loaded" in str(runner.describe()["views"]["everybody"])
        assert quick("reload", "everybody", *small.arguments).code == 0
        wait_until(lambda: state("everybody") == "running")
    assert small.rows("everybody") == {(1, "Ada"), (2, "Bob"), (3, "Cy"), (2, "b")}
