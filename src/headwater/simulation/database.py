"""Simulated databases: what they commit, what they log, and what is visible of it.

Transactions are logged in one order and become visible in another where no row tells the
difference. A monitor that has lost its connection may find several transactions reported as one.
What was acknowledged is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from random import Random

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.values import Row
from headwater.errors import BrokenLogError
from headwater.protocol.effects import Ask
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Committed, Logged, Marked, Position, Reply

Columns = Mapping[str, frozenset[str]]
"""Of each relation, by its short name, the columns that are read."""


@dataclass(frozen=True)
class Seen:
    """A snapshot: the transactions in it, by their stamps."""

    stamps: frozenset[int]

    def includes(self, stamp: int) -> bool:
        return stamp in self.stamps


class Database:
    """A source. Transactions are known by their place in its log, from 1 on: their stamp."""

    def __init__(
        self, name: str, initial: Mapping[str, Rows], to_come: Sequence[Transaction]
    ) -> None:
        self.name = name
        self.initial = initial
        self.transactions: list[Transaction] = []
        """What has been committed."""
        self.forgotten = 0
        """The log goes on behind the transaction with this stamp."""
        self._to_come = list(reversed(to_come))
        self._log: list[int | str] = []
        """Stamps of transactions, and markers."""
        self._visible: set[int] = set()

    # What happens by itself

    @property
    def is_quiet(self) -> bool:
        return not self._to_come and len(self._visible) == len(self.transactions)

    def happen(self, random: Random) -> None:
        """Commit something, or let something be seen."""
        hidden = list(self._may_appear())
        if self._to_come and (not hidden or random.random() < 0.5):
            self.transactions.append(self._to_come.pop())
            self._log.append(len(self.transactions))
        elif hidden:
            self._visible.add(random.choice(hidden))

    def show(self) -> None:
        """Let everything be seen: nothing stays hidden for long."""
        self._visible = set(range(1, len(self.transactions) + 1))

    def _may_appear(self) -> Iterator[int]:
        """What is not visible yet, and has no row in common with what comes before it."""
        passed: set[tuple[str, Row]] = set()
        for stamp, transaction in enumerate(self.transactions, 1):
            if stamp not in self._visible:
                deltas = transaction.deltas
                changed = {(name, row) for name, delta in deltas.items() for row in delta}
                if not changed & passed:
                    yield stamp
                passed |= changed

    # The log

    def open(self, position: Position | None) -> int:
        """Where in the log a monitor goes on: behind the transaction of its position."""
        stamp = int(str(position["at"])) if position else self.forgotten
        if stamp < self.forgotten:
            raise BrokenLogError(self.name, f"what follows {stamp} is gone.")
        return self._log.index(stamp) + 1 if stamp else 0

    def read(self, cursor: int, columns: Columns, random: Random) -> tuple[list[Logged], int]:
        """Some of what follows, with the columns that are read, and where it goes on."""
        found: list[Logged] = []
        upto = random.randint(cursor, len(self._log))
        while cursor < upto:
            item = self._log[cursor]
            if isinstance(item, str):
                found.append(Marked(item))
                cursor += 1
                continue
            most = random.choice([1, 1, 1, 2, 3])
            ahead = takewhile(lambda item: isinstance(item, int), self._log[cursor:upto])
            stamps = [stamp for stamp in islice(ahead, most) if isinstance(stamp, int)]
            cursor += len(stamps)
            found.append(
                Committed(
                    self.unit(stamps, columns), {"at": stamps[-1]}, stamps[-1], tuple(stamps[:-1])
                )
            )
        return found, cursor

    def is_read(self, cursor: int) -> bool:
        return cursor == len(self._log)

    def unit(self, stamps: Sequence[int], columns: Columns | None = None) -> Transaction:
        """Several transactions as one; all columns if they are not said."""
        deltas: dict[str, Rows] = {}
        for stamp in stamps:
            for name, delta in self.transactions[stamp - 1].deltas.items():
                deltas[name] = deltas[name] + delta if name in deltas else delta
        updates = [Update(name, _narrowed(name, delta, columns)) for name, delta in deltas.items()]
        where = (self.name,)
        return Transaction(f"{stamps[-1]}", tuple(u for u in updates if u.delta), where, where)

    def acknowledge(self, position: Position) -> None:
        self.forgotten = max(self.forgotten, int(str(position["at"])))

    # Questions and loads

    def snapshot(self, marker: str) -> tuple[Seen, dict[str, Rows]]:
        """What is visible now; the marker comes by in the log behind what is committed."""
        self._log.append(marker)
        return Seen(frozenset(self._visible)), self.state(self._visible)

    def answer(self, ask: Ask, marker: str, relations: Iterable[Relation]) -> Reply:
        """An answer over relations that have only the columns which a view looks at."""
        seen, state = self.snapshot(marker)
        narrow = {r.name: state[r.name].only(r.schema) for r in relations if r.name in state}
        return Reply(tuple(evaluate(query, narrow) for query in ask.queries), seen, marker)

    def state(self, stamps: set[int] | frozenset[int]) -> dict[str, Rows]:
        """The relations with these transactions in."""
        found = dict(self.initial)
        for stamp in sorted(stamps):
            for name, delta in self.transactions[stamp - 1].deltas.items():
                found[name] = found[name] + delta
        return found


def _narrowed(relation: str, delta: Rows, columns: Columns | None) -> Rows:
    if columns is None:
        return delta
    wanted = columns.get(relation.partition(".")[2], frozenset())
    schema = delta.schema
    kept = [name for name in schema.names if name in wanted] or [schema.names[0]]
    return delta.only(schema.only(kept))
