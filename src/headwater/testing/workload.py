"""Writers as applications have them: transactions over two tables, in every shape.

Rows come and go, keys change, NULLs and large values occur, transactions and savepoints are
undone. Only portable SQL, so that every kind of source can run it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from random import Random

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.testing.harness import Harness, Writer

ITEMS = Schema.of([("id", INT), ("grp", INT), ("Name", TEXT), ("note", TEXT)])
LINES = Schema.of([("item", INT), ("qty", INT), ("price", decimal_type(10, 2))])


class UndoneError(Exception):
    """Raised by a writer to undo what it has done."""


def create_tables(harness: Harness) -> None:
    harness.create_table("items", ITEMS, key=["id"])
    harness.create_table("lines", LINES)


def fill(writer: Writer) -> None:
    with writer.transaction():
        for number in range(5):
            insert_item(writer, number, number % 3, f"item {number}", None)
            insert_line(writer, number, 1)


def insert_item(
    writer: Writer, key: int, grp: int | None, name: str | None, note: str | None
) -> None:
    writer.execute(
        'INSERT INTO items (id, grp, "Name", note) VALUES (?, ?, ?, ?)', (key, grp, name, note)
    )


def insert_line(writer: Writer, item: int | None, qty: int) -> None:
    writer.execute("INSERT INTO lines (item, qty, price) VALUES (?, ?, 1.25)", (item, qty))


KEYS_EACH = 10_000_000
MOST_LIVE = 40
"""A writer keeps about this many items, however long it runs."""


class BusyWriter(threading.Thread):
    """Writes until told to stop; each writer has rows of its own in shared tables."""

    def __init__(self, harness: Harness, number: int, most: int = 10**9) -> None:
        super().__init__(name=f"writer {number}", daemon=True)
        self.random = Random(number)
        self.harness = harness
        self.base = KEYS_EACH * (number + 1)
        self.own_qty = 100 + number
        self.live: list[int] = []
        self.next = 0
        self.most = most
        self.commits = 0
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            writer = self.harness.writer()
            try:
                while not self.stopping.is_set() and self.commits < self.most:
                    self._one(writer)
            finally:
                writer.close()
        except BaseException as error:
            self.error = error

    def _one(self, writer: Writer) -> None:
        before = list(self.live)
        try:
            with writer.transaction():
                for _ in range(self.random.randint(1, 4)):
                    self._change(writer)
                if self.random.random() < 0.15:
                    raise UndoneError
            self.commits += 1
        except UndoneError:
            self.live = before

    def _change(self, writer: Writer) -> None:
        chance = self.random.random()
        if chance < 0.1:
            self._undone_inside(writer)
        elif not self.live or (chance < 0.5 and len(self.live) < MOST_LIVE):
            self._insert(writer)
        elif chance < 0.6:
            old = self.live.pop(self.random.randrange(len(self.live)))
            writer.execute("UPDATE items SET id = ? WHERE id = ?", (self._key(), old))
        elif chance < 0.75:
            item = self.random.choice(self.live)
            grp = self.random.choice([None, 0, 1, 2])
            writer.execute("UPDATE items SET grp = ? WHERE id = ?", (grp, item))
            writer.execute("UPDATE lines SET qty = qty + 1 WHERE item = ?", (item,))
        else:
            item = self.live.pop(self.random.randrange(len(self.live)))
            writer.execute("DELETE FROM items WHERE id = ?", (item,))
            if self.random.random() < 0.7:
                writer.execute("DELETE FROM lines WHERE item = ?", (item,))
            else:
                self._tidy(writer)

    def _tidy(self, writer: Writer) -> None:
        """Delete lines without an item; only one's own, so that writers never deadlock."""
        writer.execute(
            "DELETE FROM lines WHERE item BETWEEN ? AND ? AND item NOT IN (SELECT id FROM items)",
            (self.base, self.base + KEYS_EACH - 1),
        )
        writer.execute("DELETE FROM lines WHERE item IS NULL AND qty = ?", (self.own_qty,))

    def _undone_inside(self, writer: Writer) -> None:
        live = list(self.live)
        try:
            with writer.savepoint():
                self._insert(writer)
                raise UndoneError
        except UndoneError:
            self.live = live

    def _insert(self, writer: Writer) -> None:
        key = self._key()
        note = "x" * 20_000 if self.random.random() < 0.05 else None
        grp = self.random.choice([None, 0, 1, 2])
        insert_item(writer, key, grp, self.random.choice(["a", "A", "a ", None]), note)
        for _ in range(self.random.randint(0, 2)):
            insert_line(writer, key, self.random.randint(1, 3))
        if self.random.random() < 0.2:
            insert_line(writer, None, self.own_qty)

    def _key(self) -> int:
        self.next += 1
        key = self.base + self.next
        self.live.append(key)
        return key


def stop_all(writers: Iterable[BusyWriter]) -> None:
    """Stop every writer; then raise what went wrong in one of them, if anything did."""
    writers = list(writers)
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join()
    for writer in writers:
        if writer.error is not None:
            raise writer.error
