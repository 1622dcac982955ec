"""A warehouse over the log of one source, and the node that publishes it."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.protocol.transactions import Transaction, Update
from headwater.sharing import SharingNode
from headwater.sharing.publishing import PublishedObjects, publish_warehouse
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.identity import owner_of
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import Warehouse

R = Relation("x.r", "x", Schema.of([("k", INT), ("t", TEXT)]), ("k",))
SELECT = "SELECT k, t FROM x.r"


class Home:
    """A warehouse over the log of one source, and its node, in a folder that can be copied."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.folder / "warehouse", durable=False)

    @property
    def node(self) -> SharingNode:
        place = self.folder / "share"
        if not place.exists():
            return SharingNode.create(place, "N", durable=False)
        return SharingNode.open(place, durable=False)

    @property
    def rows(self) -> Rows:
        return self.warehouse.view("v").rows()

    def load(self, rows: Iterable[tuple[int, str]] = ()) -> None:
        view = parse_view(SELECT, [R], "v")
        loaded = Rows.of(R.schema, rows)
        owner_of(self.warehouse.own)  # as every runner does
        self.warehouse.create(
            ViewLoad(
                StoredDefinition.of(view), {"x": Reached(0, {})}, loaded, "sweep", "strong", "t"
            )
        )

    def happen(self, *rows: tuple[int, str]) -> None:
        """A transaction for each of these rows, and then one commit."""
        log = ChangeLog(self.warehouse.changes, "x")
        log.open(1)
        for row in rows:
            number = log.end + 1
            update = (Update("x.r", Rows.of(R.schema, [row])),)
            transaction = Transaction(f"x{number}", update, ("x",), ("x",))
            log.append([Change(number, transaction, {}, number)])
        writer = self.warehouse.view("v").writer("t")
        writer.commit(Rows.of(R.schema, rows), {"x": Reached(log.end, {})}, level="strong")
        writer.close()
        log.close()

    def publish(self, *, anew: bool = False, verify: bool = True) -> PublishedObjects:
        done = publish_warehouse(self.node.catalog, self.warehouse, anew=anew, verify=verify)
        assert not done.refused
        return done

    def copied(self, folder: Path, *parts: str) -> "Home":
        """Another one of the same contents, of these parts only if any are given."""
        for part in parts or ("warehouse", "share"):
            shutil.rmtree(folder / part, ignore_errors=True)
            shutil.copytree(self.folder / part, folder / part)
        return Home(folder)


def peer(folder: Path, home: Home, name: str = "P") -> SharingNode:
    made = SharingNode.create(folder, name, durable=False)
    made.exchange(home.node, fetch_only=True)
    made.hold("v")
    made.advance("v")
    return made


def follows(peer: SharingNode, home: Home) -> bool:
    peer.exchange(home.node, fetch_only=True)
    return peer.advance("v").last == peer.query("v").versions and peer.query("v").rows == home.rows
