"""What a warehouse has, published: change logs, views' commits, and boosters from answers."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater import Project
from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT, from_json
from headwater.errors import HeadwaterError, InputError
from headwater.project.example import make_project
from headwater.protocol.transactions import Transaction, Update
from headwater.sharing import SharingError, SharingNode, Versions
from headwater.sharing.entries import RelationEntry, ViewEntry
from headwater.sharing.publishing import publish_warehouse
from headwater.sharing.shared_views import SharedView
from headwater.warehouse.change_records import Break, Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import quick

R = Relation("x.r", "x", Schema.of([("k", INT), ("t", TEXT), ("unused", INT)]), ("k",))
S = Relation("y.s", "y", Schema.of([("k", INT), ("v", INT)]))
SELECT = "SELECT r.k, t, v FROM x.r AS r JOIN y.s AS s ON r.k = s.k"
VIEW = Schema.of([("k", INT), ("t", TEXT), ("v", INT)])
LOGGED = {"x": R.schema.only(["k", "t"]), "y": S.schema}


class World:
    """A warehouse whose sources are only logs: x changes r, y changes s."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.warehouse = Warehouse(folder / "warehouse", durable=False)
        self.numbers = {"x": 0, "y": 0}
        self.table: ViewTable = self.warehouse.create(
            ViewLoad(
                StoredDefinition.of(parse_view(SELECT, [R, S], "v")),
                self.vector(),
                local_frame(spark, Rows.of(VIEW, [(1, "a", 10)])),
                algorithm="pvm",
                level="strong",
                runner="test",
            )
        )
        self.logs = {name: ChangeLog(self.warehouse.changes, name) for name in self.numbers}
        for log in self.logs.values():
            log.open(1)
        self.writer = self.table.writer("test")

    def second_view(self, spark: SparkSession) -> None:
        """One of y alone, w, which nothing but its load has changed."""
        view = parse_view("SELECT k, v FROM y.s", [S], "w")
        vector = {"y": Reached(0, {})}
        rows = local_frame(spark, Rows.of(S.schema, [(1, 10)]))
        load = ViewLoad(StoredDefinition.of(view), vector, rows, "sweep", "strong", "test")
        self.warehouse.create(load)

    def close(self) -> None:
        self.writer.close()
        for log in self.logs.values():
            log.close()

    def vector(self, early: dict[str, tuple[int, ...]] | None = None) -> dict[str, Reached]:
        early = early or {}
        return {n: Reached(number, {}, early.get(n, ())) for n, number in self.numbers.items()}

    def log(self, source: str, plus: Iterable[object] = (), minus: Iterable[object] = ()) -> None:
        """A transaction, which the view does not reflect yet."""
        log, schema = self.logs[source], LOGGED[source]
        delta = Rows.of(schema, plus) + Rows.of(schema, minus, sign=-1)  # type: ignore[arg-type]
        name = {"x": "x.r", "y": "y.s"}[source]
        number = log.end + 1
        transaction = Transaction(f"{source}{number}", (Update(name, delta),), (source,), (source,))
        log.append([Change(number, transaction, {}, number)])

    def commit(
        self, plus: Iterable[object] = (), minus: Iterable[object] = (), **early: tuple[int, ...]
    ) -> None:
        delta = Rows.of(VIEW, plus) + Rows.of(VIEW, minus, sign=-1)  # type: ignore[arg-type]
        self.writer.commit(delta, self.vector(early), level="strong")


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession) -> Iterator[World]:
    made = World(tmp_path, spark)
    yield made
    made.close()


def changes(world: World) -> None:
    """r(2) comes and goes; s has 20, then 30 for 1; the second is committed before the first."""
    world.log("x", plus=[(2, "b")])
    world.log("x", minus=[(2, "b")])
    world.log("y", plus=[(1, 20)])
    world.log("y", plus=[(1, 30)])
    world.numbers["x"] = 2
    world.commit(plus=[(1, "a", 30)], y=(2,))
    world.numbers["y"] = 2
    world.commit(plus=[(1, "a", 20)])


def test_commits_and_transactions_become_updategrams(world: World, tmp_path: Path) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    changes(world)
    done = publish_warehouse(node.catalog, world.warehouse)
    assert done.counts == {"relation": 2, "view": 1, "contents": 1, "updategram": 3}
    newest = Versions({"x.r": 2, "y.s": 2})
    assert done.vectors == {"v": newest}
    assert node.query("v") == node.query("v", newest)
    assert node.query("v").rows == world.table.rows()
    assert node.query("v", {"x.r": 0, "y.s": 0}).rows == Rows.of(VIEW, [(1, "a", 10)])
    (of_r,) = map(node.catalog.load_updategram, node.catalog.updategrams("x.r"))
    assert (set(of_r.touched), bool(of_r.net)) == ({(2, "b")}, False)
    assert node.catalog.relation("x.r").relation.schema.names == ("k", "t"), "as it was logged"


def test_publishing_again_goes_on_where_it_ended(
    world: World, tmp_path: Path, spark: SparkSession
) -> None:
    """Whether the log's small files were merged, or folded into the plain table, meanwhile."""
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    publish_warehouse(node.catalog, world.warehouse)
    changes(world)
    world.table.compact(at_least=2)
    assert publish_warehouse(node.catalog, world.warehouse).counts == {"updategram": 3}
    assert publish_warehouse(node.catalog, world.warehouse).counts == {}
    world.log("y", minus=[(1, 10)])
    world.numbers["y"] = 3
    world.commit(minus=[(1, "a", 10)])
    assert world.table.fold(spark, "test") is not None
    again = publish_warehouse(SharingNode.open(tmp_path / "n").catalog, world.warehouse)
    assert again.counts == {"updategram": 2}, "x.r has not moved"
    peer = SharingNode.create(tmp_path / "p", "P", durable=False)
    peer.exchange(SharingNode.open(tmp_path / "n"))
    peer.hold("v")
    assert peer.query("v").rows == world.table.rows()


def test_each_transaction_can_be_published_by_itself(world: World, tmp_path: Path) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    changes(world)
    publish_warehouse(node.catalog, world.warehouse, each_transaction=True)
    steps = {(u.first["x.r"], u.last["x.r"]) for u in node.catalog.updategrams("x.r")}
    assert steps == {(0, 1), (1, 2)}
    with pytest.raises(SharingError, match=r"needs a booster of y\.s for x\.r 1 to 2"):
        node.query("v", {"x.r": 1, "y.s": 1})


def test_what_cannot_be_published_is_refused(world: World, tmp_path: Path) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    with pytest.raises(InputError, match="no view 'w'"):
        publish_warehouse(node.catalog, world.warehouse, ["w"])
    with pytest.raises(InputError, match="has no views"):
        publish_warehouse(node.catalog, Warehouse(tmp_path / "empty"))
    world.writer.commit(Rows.of(VIEW, [(9, "z", 9)]), world.vector(), level="convergent")
    with pytest.raises(SharingError, match="convergent"):
        publish_warehouse(node.catalog, world.warehouse)
    assert {listed.kind for listed in node.catalog} == {"node"}


def test_a_view_whose_select_has_changed_is_no_reason_to_leave_the_others(
    world: World, tmp_path: Path, spark: SparkSession
) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    world.second_view(spark)
    relations = [R.only(["k", "t"]), S]
    node.catalog.add_all([RelationEntry(relation, "N") for relation in relations])
    node.catalog.add(ViewEntry(SharedView.parse("v", f"{SELECT} WHERE v > 0", relations)))
    steps: list[str] = []
    done = publish_warehouse(node.catalog, world.warehouse, report=steps.append)
    assert steps == ["publishing v", "publishing w"]
    assert list(done.vectors) == ["w"]
    assert str(done.refused["v"]).startswith("View v was published with another SELECT.")
    anew = SharingNode.create(tmp_path / "anew", "N", durable=False)
    assert list(publish_warehouse(anew.catalog, world.warehouse).vectors) == ["v", "w"]


def test_a_gap_in_a_log_is_no_reason_to_leave_views_of_other_relations(
    world: World, tmp_path: Path, spark: SparkSession
) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    world.second_view(spark)
    publish_warehouse(node.catalog, world.warehouse)
    world.numbers["x"] += 1
    world.logs["x"].append([Break(world.numbers["x"], {"x.r": None}, "TRUNCATE x.r", {})])
    world.writer.commit(Rows.empty(VIEW), world.vector(), kind="vector", level="strong")
    done = publish_warehouse(node.catalog, world.warehouse)
    assert (list(done.vectors), list(done.refused)) == (["w"], ["v"])


def test_transactions_that_are_gone_from_the_change_log_are_missed(
    world: World, tmp_path: Path
) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    publish_warehouse(node.catalog, world.warehouse)
    changes(world)
    for path in (world.warehouse.changes.local / "y").glob("*.log"):
        path.unlink()
    before = node.catalog.addresses()
    with pytest.raises(HeadwaterError, match="no transaction 1 any more"):
        publish_warehouse(node.catalog, world.warehouse)
    assert SharingNode.open(tmp_path / "n").catalog.addresses() == before


def test_a_relation_is_not_published_across_a_gap_in_its_log(world: World, tmp_path: Path) -> None:
    node = SharingNode.create(tmp_path / "n", "N", durable=False)
    publish_warehouse(node.catalog, world.warehouse)
    changes(world)
    world.numbers["y"] += 1
    world.logs["y"].append([Break(world.numbers["y"], {"y.s": None}, "TRUNCATE y.s", {})])
    world.writer.commit(Rows.empty(VIEW), world.vector(), kind="vector", level="strong")
    with pytest.raises(SharingError, match=r"has a gap at number \d+: TRUNCATE y\.s"):
        publish_warehouse(node.catalog, world.warehouse)


# A project, its sources asked for boosters


@pytest.fixture
def project(tmp_path: Path) -> Project:
    make_project(tmp_path / "orders")
    found = headwater.Project.open(tmp_path / "orders")
    for source in found.sources.values():
        source.setup()
    return found


def change(project: Project, database: str, *statements: str) -> None:
    connection = sqlite3.connect(project.folder / f"{database}.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def state(project: Project, relations: Iterable[Relation]) -> dict[str, Rows]:
    found = {}
    for relation in relations:
        connection = sqlite3.connect(project.folder / f"{relation.source}.db")
        columns = ", ".join(relation.schema.names)
        rows = connection.execute(f"SELECT {columns} FROM {relation.short_name}").fetchall()
        connection.close()
        found[relation.name] = Rows.of(relation.schema, [_fitted(relation, row) for row in rows])
    return found


def _fitted(relation: Relation, row: tuple[object, ...]) -> list[object]:
    return [
        from_json(str(value) if kind.name in ("date", "decimal") else value, kind)  # type: ignore[arg-type]
        for value, kind in zip(row, relation.schema.types, strict=True)
    ]


def test_a_peer_follows_a_project_by_what_it_publishes(
    project: Project, tmp_path: Path, spark: SparkSession
) -> None:
    publish = ("share", "publish", "-p", str(project.folder), "--node", "W", "--json")
    with pytest.raises(HeadwaterError, match="No runner is at work"):
        quick(*publish, "--refresh")
    laptop, share = str(tmp_path / "laptop"), str(project.folder / "share")
    project.run(once=True, spark=spark)
    assert quick(*publish, "--boosters", "*").code == 0
    meet = ("share", "exchange", share, "-c", laptop, "--node", "laptop", "--json")
    assert quick(*meet).code == 0
    peer = SharingNode.open(laptop)
    definition = peer.catalog.view("order_lines")
    states = {0: state(project, definition.known)}
    change(project, "crm", "UPDATE customers SET name = 'Eve' WHERE id = 1")
    change(
        project,
        "shop",
        "INSERT INTO orders VALUES (103, 2, '2024-06-01')",
        "INSERT INTO lines VALUES (103, 1, 'milk', 3)",
        "DELETE FROM lines WHERE article = 'cups'",
    )
    states[1] = state(project, definition.known)
    project.run(once=True, spark=spark)
    change(project, "shop", "DELETE FROM orders WHERE id = 101")
    change(project, "crm", "DELETE FROM customers WHERE id = 1")
    done = json.loads(quick(*publish).out)
    assert done["published"]["booster"] == 8
    assert done["views"]["order_lines"] == {"crm.customers": 1, "shop.lines": 1, "shop.orders": 1}
    quick(*meet)
    advanced = json.loads(quick("share", "advance", "order_lines", "-c", laptop, "--json").out)
    assert advanced["last"] == done["views"]["order_lines"]
    own = definition.sql.replace("> 0", "> 4")
    SharingNode.open(laptop).define("dear", own)
    peer = SharingNode.open(laptop)
    dear = peer.catalog.view("dear")
    start = Versions(dict.fromkeys(dear.relations, 0))
    peer.hold("dear", start, evaluate_view(dear.view, states[0]))
    for crm, shop in product((0, 1), (0, 1)):
        at = Versions({"crm.customers": crm, "shop.orders": shop, "shop.lines": shop})
        base = {r.name: states[at[r.name]][r.name] for r in definition.known}
        assert peer.query("order_lines", at).rows == evaluate_view(definition.view, base)
        assert peer.query("dear", at).rows == evaluate_view(dear.view, base)
