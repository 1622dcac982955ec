"""Views that are more than a join are shared by what readers see of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import HeadwaterError
from headwater.pipeline.share import open_node, publish_project
from headwater.sharing import SharingNode
from headwater.sharing.errors import PreconditionError, VersionGapError
from headwater.sharing.grouping import GroupingBooster, shown
from headwater.sharing.policies import Boosters, Policy
from tests.pipeline.small import Small

TOTALS = (
    "CREATE MATERIALIZED VIEW totals AS "
    "SELECT state, SUM(amount) AS total, COUNT(*) AS orders FROM shop.orders GROUP BY state"
)
TWICE = (
    "CREATE MATERIALIZED VIEW twice AS "
    "SELECT id FROM shop.orders UNION ALL SELECT id FROM crm.customers"
)
RATIO = (
    "CREATE MATERIALIZED VIEW ratio AS "
    "SELECT state, 100 / MIN(amount) AS share FROM shop.orders GROUP BY state"
)
BY_SPARK = (
    "CREATE MATERIALIZED VIEW sounds AS "
    "SELECT SOUNDEX(note) AS sound, COUNT(*) AS orders FROM shop.orders GROUP BY SOUNDEX(note)"
)
IN_GROUP = {
    "counted": "CREATE MATERIALIZED VIEW counted IN GROUP book AS "
    "SELECT state, COUNT(*) AS orders FROM shop.orders GROUP BY state",
    "listed": "CREATE MATERIALIZED VIEW listed IN GROUP book AS SELECT id, amount FROM shop.orders",
}


class Shared:
    """A small project that publishes, and a peer that takes what it publishes."""

    def __init__(self, folder: Path, spark: SparkSession, views: dict[str, str]) -> None:
        self.small = Small(folder / "p", views)
        self.peer = SharingNode.create(folder / "peer", "peer", "shared", durable=False)
        self._spark = spark
        self.follow()
        for view in views:
            self.peer.hold(view)

    def follow(self, *statements: str) -> None:
        """Let the project and then the peer know of a transaction."""
        if statements:
            self.small.write("shop", *statements)
        with suppress(HeadwaterError):  # told of a view whose readers are held back
            self.small.run(self._spark)
        node = open_node(self.small.project)
        publish_project(self.small.project, node)
        self.peer.exchange(node)

    def at_peer(self, view: str) -> Rows:
        self.peer.advance(view)
        held = self.peer.held(view)
        assert held is not None
        return held.rows

    def here(self, view: str) -> Rows:
        shown = self.small.warehouse.view(view).dataframe(self._spark)
        held = self.peer.held(view)
        assert held is not None
        return Rows.of(held.rows.schema, map(tuple, shown.collect()))


@pytest.mark.parametrize(
    "views", [{"totals": TOTALS}, {"twice": TWICE}, {"sounds": BY_SPARK}, IN_GROUP]
)
def test_a_peer_follows_a_view_by_its_own_updategrams(
    tmp_path: Path, spark: SparkSession, views: dict[str, str]
) -> None:
    shared = Shared(tmp_path, spark, views)
    shared.follow(
        "UPDATE orders SET amount = 15, state = 'paid' WHERE id = 1",
        "INSERT INTO orders VALUES (3, 7, 'c', 'paid')",
    )
    for view in views:
        assert shared.at_peer(view) == shared.here(view)
    shared.follow("DELETE FROM orders WHERE state = 'paid'")
    for view in views:
        assert shared.at_peer(view) == shared.here(view)


def test_a_state_on_which_the_top_fails_is_published_when_it_has_been_put_right(
    tmp_path: Path, spark: SparkSession
) -> None:
    shared = Shared(tmp_path, spark, {"ratio": RATIO})
    before = shared.at_peer("ratio")
    shared.follow("UPDATE orders SET amount = 0 WHERE id = 1")
    assert shared.at_peer("ratio") == before
    shared.follow("UPDATE orders SET amount = 50 WHERE id = 1")
    assert shared.at_peer("ratio") == shared.here("ratio") != before


def test_what_is_stored_of_it_is_published_where_boosters_are_and_no_source_is_asked(
    tmp_path: Path, spark: SparkSession
) -> None:
    shared = Shared(tmp_path, spark, {"totals": TOTALS})
    node = open_node(shared.small.project)
    node.set_policy(Policy(boosters=Boosters(("*",))))
    shared.follow("UPDATE orders SET amount = 11 WHERE id = 1")
    node = open_node(shared.small.project)
    (listed,) = [found for found in node.catalog.stored() if not found.by]
    part = node.catalog.load(listed.address)
    assert isinstance(part, GroupingBooster)
    assert shown(part.view, part.rows) == shared.at_peer("totals") == shared.here("totals")
    assert not list(node.catalog.boosters("shop.orders"))
    assert node.boost(["totals"]) == []
    definition = shared.peer.catalog.view("totals")
    with pytest.raises(PreconditionError, match="is more than a join"):
        definition.join  # noqa: B018


def test_where_its_own_updategrams_do_not_lead_it_says_what_would(
    tmp_path: Path, spark: SparkSession
) -> None:
    shared = Shared(tmp_path, spark, {"totals": TOTALS})
    with pytest.raises(VersionGapError, match=r"or rows of all its relations: here are none of"):
        shared.peer.advance("totals", {"shop.orders": 99})


def test_a_node_that_has_the_rows_computes_it_anew(tmp_path: Path) -> None:
    node = SharingNode.create(tmp_path / "n", "n", durable=False)
    node.own("t", {"k": "text", "n": "int"}, [("a", 1), ("a", 2)], version=1, publish=True)
    node.define("v", "SELECT k, SUM(n) AS total FROM t GROUP BY k")
    node.hold("v")
    node.update("t", inserted=[("b", 5)], deleted=[("a", 2)])
    node.advance("v", {"t": 2})
    held = node.held("v")
    assert held is not None
    assert set(held.rows) == {("a", 1), ("b", 5)}
