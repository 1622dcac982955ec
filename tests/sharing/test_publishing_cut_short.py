"""A publication that is cut short anywhere, or of which a loss of power takes some: the next one
leaves nothing out, and contradicts nothing."""

from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.protocol.transactions import Transaction, Update
from headwater.sharing import SharingNode, Versions
from headwater.sharing.owed import read_owed
from headwater.sharing.peers import NODE_FILE
from headwater.sharing.publishing import publish_warehouse
from headwater.sharing.store import ObjectStore
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import Warehouse

R = Relation("x.r", "x", Schema.of([("k", INT), ("t", TEXT)]), ("k",))
S = Relation("x.s", "x", Schema.of([("k", INT)]), ("k",))
SELECT = "SELECT r.k, t FROM x.r AS r JOIN x.s AS s ON r.k = s.k"


class Cut(BaseException):
    """The process ends here."""


class Place:
    """A warehouse over the log of one source, and its node. s never changes and has every k."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse(folder / "warehouse", durable=False)
        view = parse_view(SELECT, [R, S], "v")
        self.schema = view.shown_schema
        self.table = self.warehouse.create(
            ViewLoad(
                StoredDefinition.of(view),
                {"x": Reached(0, {})},
                Rows.empty(self.schema),
                "sweep",
                "strong",
                "test",
            )
        )
        self.log = ChangeLog(self.warehouse.changes, "x")
        self.log.open(1)
        self.writer = self.table.writer("test")
        self.folder = folder / "node"
        SharingNode.create(self.folder, "N", durable=False)
        self.rows: list[Rows] = [Rows.empty(self.schema)]
        """The view at every version."""

    def happen(self, transactions: int) -> None:
        """So many transactions, every other of which undoes the one before; then one commit."""
        before = self.rows[-1]
        for _ in range(transactions):
            number = self.log.end + 1
            row, sign = ((number - 1) // 2, "t"), 1 if number % 2 else -1
            delta = Rows.of(R.schema, [row], sign)
            update = (Update("x.r", delta),)
            self.log.append(
                [Change(number, Transaction(f"x{number}", update, ("x",), ("x",)), {}, 0)]
            )
            self.rows.append(self.rows[-1] + delta)
        vector = {"x": Reached(self.log.end, {})}
        self.writer.commit(self.rows[-1] - before, vector, level="strong")

    def publish(self, each: bool) -> None:
        node = SharingNode.open(self.folder, durable=False)
        publish_warehouse(
            node.catalog, self.warehouse, each_transaction=each, boosted=lambda view: True
        )

    def check(self) -> None:
        """Whether what is published leads from the first version to the last, all of it right."""
        catalog = SharingNode.open(self.folder, durable=False).catalog
        for subject in ("x.r", "v"):
            for listed in catalog.updategrams(subject):
                first, last = listed.first["x.r"], listed.last["x.r"]
                found = catalog.load_updategram(listed)
                if subject == "v":
                    assert found.net == self.rows[last] - self.rows[first]
            reached = {0}
            for listed in sorted(catalog.updategrams(subject), key=lambda u: u.first["x.r"]):
                assert listed.first["x.r"] in reached, f"{subject} has a hole"
                reached.add(listed.last["x.r"])
            assert max(reached) == self.log.end
        owed = [o for o in read_owed(catalog.store) if o.changed == "x.r"]
        covered = sorted((o.first, o.last) for o in owed)
        assert covered[0][0] == 0
        assert max(last for _, last in covered) == self.log.end
        assert all(two[0] <= one[1] for one, two in pairwise(covered)), "something is not owed"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.writer.close()
    made.log.close()


def cut_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """The process ends before its step of that number: a file that it would have written."""
    numbers = count(1)
    put, write = ObjectStore._put, ObjectStore.write

    def cut() -> None:
        if next(numbers) == step:
            raise Cut

    def cut_put(store: ObjectStore, part: str, files: dict[str, bytes]) -> None:
        cut()
        put(store, part, files)

    def cut_write(store: ObjectStore, name: str, content: bytes) -> None:
        cut()
        write(store, name, content)

    monkeypatch.setattr(ObjectStore, "_put", cut_put)
    monkeypatch.setattr(ObjectStore, "write", cut_write)


@pytest.mark.parametrize("each", [False, True])
def test_a_publication_that_is_cut_short_anywhere_is_made_up_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    place.happen(2)
    place.publish(each)
    for step in count(1):
        place.happen(3)
        with monkeypatch.context() as patch:
            cut_at(patch, step)
            try:
                place.publish(each)
                break
            except Cut:
                pass
        place.happen(2)
        place.publish(each)
        place.check()
    assert step > 3, "what is owed, objects, and how far it came are written one after the other"
    place.check()


@pytest.mark.parametrize("each", [False, True])
def test_what_a_loss_of_power_has_taken_of_a_publication_is_published_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, each: bool
) -> None:
    """Of objects any, and how far everything is there. What is written before them, is there."""
    random = Random(1)
    place.happen(2)
    place.publish(each)
    write, said = ObjectStore.write, []

    def noted(store: ObjectStore, name: str, content: bytes) -> None:
        said.append((store.folder / NODE_FILE).read_bytes())
        write(store, name, content)

    monkeypatch.setattr(ObjectStore, "write", noted)
    for _ in range(10):
        before = SharingNode.open(place.folder, durable=False).catalog.addresses()
        place.happen(4)
        place.publish(each)
        (place.folder / NODE_FILE).write_bytes(said[-1])
        catalog = SharingNode.open(place.folder, durable=False).catalog
        lost = {listed.address for listed in catalog if listed.kind != "publication"} - before
        for address in sorted(lost):
            if random.random() < 0.5:
                catalog.store.path(address).unlink()
        place.happen(3)
        place.publish(each)
        place.check()


def test_a_booster_that_is_owed_while_a_version_stands_still_is_owed_once(place: Place) -> None:
    for _ in range(5):
        place.happen(2)
        place.publish(each=False)
    (owed,) = read_owed(SharingNode.open(place.folder).catalog.store)[:1]
    assert owed.of == "x.s"
    assert Versions({owed.of: owed.version}) == Versions({"x.s": 2})
