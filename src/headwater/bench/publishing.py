"""What publishing a batch of many small transactions takes: as one updategram, or one for each.

A view of one relation, whose transactions insert a row each; so many of them are in a commit. The
node has published the state before, as a runner's has. Reading the change log and the commits,
encoding, judging, signing and bringing objects to the disk are all in it. The floor is what only
signing and writing as many files of that size takes, durable, many at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.protocol.transactions import Transaction, Update
from headwater.sharing.encoding import address_of
from headwater.sharing.node import SharingNode
from headwater.sharing.policies import Granularity
from headwater.sharing.publishing import publish_warehouse
from headwater.sharing.signatures import Signer
from headwater.sharing.store import Envelope, ObjectStore
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_ORDERS = Relation(
    "shop.orders", "shop", Schema.of([("id", INT), ("name", TEXT), ("amount", INT)]), ("id",)
)
_AT_ONCE = 100
"""So many transactions are written to the change log together."""


@dataclass(frozen=True)
class Batch:
    """One publication of so many transactions."""

    granularity: Granularity
    transactions: int
    objects: int
    seconds: float
    processor_seconds: float
    floor_seconds: float
    """What signing and writing as many files takes."""


def measure(transactions: int, in_a_commit: int, rounds: int) -> Iterator[Batch]:
    """By either granularity; of some rounds the quickest, the first of which does not count."""
    granularities: tuple[Granularity, ...] = ("run", "transaction")
    for granularity in granularities:
        with TemporaryDirectory() as folder:
            shop = _Shop(Path(folder))
            found = [shop.batch(granularity, transactions, in_a_commit) for _ in range(rounds + 1)]
            shop.close()
        yield min(found[1:], key=lambda batch: batch.processor_seconds)


class _Shop:
    """A warehouse with one view, and its node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._warehouse = Warehouse(folder / "warehouse", durable=False)
        view = parse_view("SELECT id, name, amount FROM shop.orders", [_ORDERS], "orders")
        definition, empty = StoredDefinition.of(view), Rows.empty(view.shown_schema)
        load = ViewLoad(definition, {"shop": Reached(0, {})}, empty, "sweep", "strong", "bench")
        self._table: ViewTable = self._warehouse.create(load)
        self._log = ChangeLog(self._warehouse.changes, "shop")
        self._log.open(1)
        self._writer = self._table.writer("bench")
        self._node = SharingNode.create(folder / "node", "bench")
        publish_warehouse(self._node.catalog, self._warehouse)

    def close(self) -> None:
        self._writer.close()
        self._log.close()

    def batch(self, granularity: Granularity, transactions: int, in_a_commit: int) -> Batch:
        """Let so much happen, and publish it."""
        self._happen(transactions, in_a_commit)
        each, before = granularity == "transaction", len(self._node.catalog.addresses())
        took = _timed(
            lambda: publish_warehouse(self._node.catalog, self._warehouse, each_transaction=each)
        )
        objects = len(self._node.catalog.addresses()) - before
        some = next(iter(self._node.catalog.updategrams(_ORDERS.name)))
        size = self._node.catalog.store.path(some.address).stat().st_size if each else 1
        floor, _ = _timed(lambda: _write(self._folder / "floor", objects, size))
        return Batch(granularity, transactions, objects, *took, floor)

    def _happen(self, transactions: int, in_a_commit: int) -> None:
        first = self._log.end + 1
        for at in range(first, first + transactions, _AT_ONCE):
            self._log.append(
                [_change(n) for n in range(at, min(at + _AT_ONCE, first + transactions))]
            )
        for at in range(first, first + transactions, in_a_commit):
            last = min(at + in_a_commit, first + transactions) - 1
            rows = Rows.of(self._table.schema, map(_row, range(at, last + 1)))
            self._writer.commit(rows, {"shop": Reached(last, {})}, level="strong")
        self._table.compact(at_least=2)


def _row(number: int) -> tuple[int, str, int]:
    return number, f"name {number}", 3 * number


def _change(number: int) -> Change:
    update = Update(_ORDERS.name, Rows.of(_ORDERS.schema, [_row(number)]))
    return Change(number, Transaction(f"t{number}", (update,), ("shop",), ("shop",)), {}, number)


def _write(folder: Path, files: int, size: int) -> None:
    """Sign so many statements, and bring so many files to the disk."""
    store, signer = ObjectStore(folder), Signer()
    store.make()
    start = time.time_ns()
    objects = []
    for number in range(files):
        content = f"{start + number}".encode().ljust(size, b".")
        envelope = Envelope("bench", "bench", address_of(content))
        objects.append((Envelope(*_names(envelope), signer.sign(envelope.statement)), content))
    store.add_all(objects)


def _names(envelope: Envelope) -> tuple[str, str, str]:
    return envelope.system, envelope.maker, envelope.address


def _timed(do: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and those of a processor."""
    wall, processor = time.perf_counter(), time.process_time()
    do()
    return time.perf_counter() - wall, time.process_time() - processor
