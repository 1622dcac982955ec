"""The update message queue of the PVM paper (UMQ): updates that wait, in order of arrival.

The paper looks through the whole queue for every answer (`isConcurrent`, Figure 14). Here the
updates stand in blocks, and a block indexes what its updates change when it is first asked. So
what the waiting updates change of the rows that join with an answer's is found at a cost that
depends on what is found, not on how much waits.

A queue is a value: appending and taking make a new one, which shares its blocks with the old.
Neighbouring blocks of like size merge, and the first block is halved until what is taken stands
by itself, so blocks are few, and an update is indexed anew only as often as its block doubles or
halves. Two queues are equal if they hold the same updates, however they are divided into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import cached_property
from itertools import chain
from typing import Generic, Protocol, TypeVar

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row

MOST_IN_A_BLOCK = 4096
"""Larger blocks would be fewer, and indexing one a longer pause."""


class QueuedChange(Protocol):
    """What can wait: something that changes relations."""

    @property
    def deltas(self) -> dict[str, Rows]: ...


Waiting = TypeVar("Waiting", bound=QueuedChange)


class UpdateQueue(Generic[Waiting]):
    """Updates in order of arrival, immutable."""

    __slots__ = ("_blocks", "_hash", "_length")

    def __init__(self, waiting: Iterable[Waiting] = ()) -> None:
        items = tuple(waiting)
        self._set(tuple(_blocks_of(items)), len(items))

    def _set(self, blocks: tuple[_Block[Waiting], ...], length: int) -> None:
        self._blocks, self._length = blocks, length
        self._hash: int | None = None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiting]:
        return chain.from_iterable(block.items for block in self._blocks)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, UpdateQueue):
            return NotImplemented
        return self._length == other._length and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self))
        return self._hash

    def __repr__(self) -> str:
        return f"UpdateQueue({list(self)!r})"

    def appended(self, update: Waiting) -> UpdateQueue[Waiting]:
        blocks = self._blocks
        merged, size = len(blocks), 1
        while merged and len(blocks[merged - 1].items) <= min(size, MOST_IN_A_BLOCK - size):
            merged -= 1
            size += len(blocks[merged].items)
        tail = (*chain.from_iterable(block.items for block in blocks[merged:]), update)
        return _queue((*blocks[:merged], _Block(tail)), self._length + 1)

    def take(self, most: int) -> tuple[tuple[Waiting, ...], UpdateQueue[Waiting]]:
        """The first updates, up to so many, and the queue without them."""
        taken: list[Waiting] = []
        left = list(reversed(self._blocks))
        while left and len(taken) < most:
            items = left.pop().items
            if len(items) <= most - len(taken):
                taken += items
            else:
                half = len(items) // 2
                left += [_Block(items[half:]), _Block(items[:half])]
        return tuple(taken), _queue(tuple(reversed(left)), self._length - len(taken))

    def concerning(self, relations: Set[str]) -> tuple[Waiting, ...]:
        """The updates that change one of these relations."""
        found = (block.concerning(relations) for block in self._blocks)
        return tuple(chain.from_iterable(found))

    def changes(self, relation: str, columns: tuple[str, ...], keys: Set[Row]) -> list[Rows]:
        """What the updates change of a relation, in sum, among the rows with one of `keys`.

        `keys` are values of `columns`, without NULL; of no columns the one key `()` is every
        row's. What Arrow or Spark holds is given whole.
        """
        found: list[Rows] = []
        for block in self._blocks:
            if relation in block.by_relation:
                found += block.index(relation, columns).find(keys)
        return found


class _Block(Generic[Waiting]):
    """Updates that stand side by side, with indexes over what they change."""

    def __init__(self, items: tuple[Waiting, ...]) -> None:
        self.items = items
        self._indexes: dict[tuple[str, tuple[str, ...]], _Index] = {}

    @cached_property
    def by_relation(self) -> dict[str, list[Waiting]]:
        found: dict[str, list[Waiting]] = {}
        for item in self.items:
            for relation in item.deltas:
                found.setdefault(relation, []).append(item)
        return found

    def concerning(self, relations: Set[str]) -> Iterable[Waiting]:
        if relations.isdisjoint(self.by_relation):
            return ()
        return (item for item in self.items if not relations.isdisjoint(item.deltas))

    def index(self, relation: str, columns: tuple[str, ...]) -> _Index:
        key = (relation, columns)
        if key not in self._indexes:
            deltas = [item.deltas[relation] for item in self.by_relation[relation]]
            self._indexes[key] = _Index(deltas, columns)
        return self._indexes[key]


class _Index:
    """The sum of changes of one relation, by the values of some columns."""

    def __init__(self, deltas: list[Rows], columns: tuple[str, ...]) -> None:
        self._held = [delta for delta in deltas if delta.rank]
        self._sum = Rows.sum(deltas[0].schema, (delta for delta in deltas if not delta.rank))
        self._by_key: dict[Row, list[Row]] = {}
        positions = [self._sum.schema.positions[name] for name in columns]
        for row in self._sum:
            self._by_key.setdefault(tuple([row[at] for at in positions]), []).append(row)

    def find(self, keys: Set[Row]) -> list[Rows]:
        hits = [row for key in self._by_key.keys() & keys for row in self._by_key[key]]
        if not hits:
            return self._held
        return [Rows(self._sum.schema, {row: self._sum.count(row) for row in hits}), *self._held]


def _queue(blocks: tuple[_Block[Waiting], ...], length: int) -> UpdateQueue[Waiting]:
    queue: UpdateQueue[Waiting] = UpdateQueue.__new__(UpdateQueue)
    queue._set(blocks, length)
    return queue


def _blocks_of(items: tuple[Waiting, ...]) -> Iterator[_Block[Waiting]]:
    for first in range(0, len(items), MOST_IN_A_BLOCK):
        yield _Block(items[first : first + MOST_IN_A_BLOCK])
