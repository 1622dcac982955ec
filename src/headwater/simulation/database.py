"""Simulated databases: what they commit, what they log, and what is visible of it.

Transactions are logged in one order and become visible in another where no row tells the
difference. A monitor that has lost its connection may find several transactions reported as one.
What was acknowledged is forgotten. Somebody may change a table behind the log's back, which then
has a gap; and the database may be put back to an earlier state, which ends its log for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, takewhile
from random import Random
from typing import TypeAlias

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.algebra.values import Row
from headwater.errors import BrokenLogError
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.sources.contract import (
    Broken,
    Committed,
    Logged,
    Marked,
    Position,
    Progressed,
    Reply,
)

Columns = Mapping[str, frozenset[str]]
"""Of each relation, by its short name, the columns that are read."""
Unwatched = Mapping[str, frozenset[str] | None]
"""Of each relation the columns of which the log does not tell what became; None for all."""


@dataclass(frozen=True)
class Seen:
    """A snapshot: the transactions in it, by their stamps."""

    stamps: frozenset[int]

    def includes(self, stamp: int) -> bool:
        return stamp in self.stamps


@dataclass(frozen=True)
class Change:
    """What an application does; `unwatched` if the log will not tell it."""

    updates: tuple[Update, ...]
    unwatched: Unwatched | None = None
    tags: tuple[Tag, ...] = ()


Application: TypeAlias = Callable[[Mapping[str, Rows]], Change]
"""What is done next to relations that are like this."""


@dataclass(frozen=True)
class Cursor:
    """Where a monitor stands: in which log, and how far."""

    log: int
    at: int


class Database:
    """A source. Transactions are known by when they were committed, from 1 on: their stamp.

    It has one log after the other: each begins when the database is set up, with what was
    committed before, and ends when the database is put back to an earlier state.
    """

    def __init__(
        self,
        name: str,
        initial: Mapping[str, Rows],
        application: Application,
        to_come: int,
        owed: Sequence[Tag] = (),
    ) -> None:
        self.name = name
        self.initial = initial
        self.transactions: list[Transaction] = []
        """Everything that was ever committed."""
        self.line: list[int] = []
        """The stamps of what was committed and is still so, in the order of the log."""
        self.before: list[frozenset[int]] = [frozenset()]
        """For each log what was committed before it began."""
        self.forgotten = 0
        """How far the present log has been acknowledged."""
        self._application = application
        self._to_come = to_come
        self.owed = owed
        """The parts of global transactions that are still to be committed here."""
        self._unwatched: dict[int, Unwatched] = {}
        self._log: list[int | str] = []
        """Stamps of transactions, and markers."""
        self._visible: set[int] = set()
        self._is_over = False

    # What happens by itself

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is to come, and everything can be seen and is logged."""
        return not (self._to_come or self.owed or self._is_over) and self.is_shown

    def happen(self, random: Random) -> None:
        """Commit something, or let something be seen."""
        if (self._to_come or self.owed) and (self.is_shown or random.random() < 0.5):
            self._to_come = max(0, self._to_come - 1)
            self._commit(self._application(self.state(set(self.line))))
        else:
            self.appear(random)

    def appear(self, random: Random) -> None:
        """Let something be seen, if anything is hidden."""
        if hidden := list(self._may_appear()):
            self._visible.add(random.choice(hidden))

    @property
    def is_shown(self) -> bool:
        return len(self._visible) == len(self.line)

    def _commit(self, change: Change) -> None:
        where = (self.name,)
        self.transactions.append(Transaction("", change.updates, where, where, tags=change.tags))
        stamp = len(self.transactions)
        if change.unwatched is not None:
            self._unwatched[stamp] = change.unwatched
        self.line.append(stamp)
        self._log.append(stamp)

    def show(self) -> None:
        """Let everything be seen: nothing stays hidden for long."""
        self._visible = set(self.line)

    def restore(self, random: Random) -> None:
        """Be as some time ago. Nobody can tell from the log what has become undone."""
        del self.line[random.randint(0, len(self.line)) :]
        self.show()
        self._is_over = True

    def set_up_again(self) -> None:
        """Begin a new log."""
        self.show()
        self.before.append(frozenset(self.line))
        self.forgotten = 0
        self._log = []
        self._is_over = False

    def _may_appear(self) -> Iterator[int]:
        """What is not visible yet, and has no row in common with what comes before it."""
        passed: set[tuple[str, Row]] = set()
        for stamp in self.line:
            if stamp not in self._visible:
                deltas = self.transactions[stamp - 1].deltas
                changed = {(name, row) for name, delta in deltas.items() for row in delta}
                if not changed & passed:
                    yield stamp
                passed |= changed

    # The log

    def open(self, position: Position | None) -> Cursor:
        """Where a monitor goes on; BrokenLogError if that is not to be had any more."""
        newest = len(self.before) - 1
        cursor = Cursor(newest, self.forgotten)
        if position:
            cursor = Cursor(int(str(position["log"])), int(str(position["at"])))
        if cursor.log != newest or self._is_over or cursor.at < self.forgotten:
            raise BrokenLogError(self.name, f"what follows {position} is gone.")
        return cursor

    def read(self, cursor: Cursor, columns: Columns, random: Random) -> tuple[list[Logged], Cursor]:
        """Some of what follows, with the columns that are read, and where it goes on."""
        if cursor.log != len(self.before) - 1 or self._is_over:
            raise BrokenLogError(self.name, "its log has ended.")
        log, at = cursor.log, cursor.at
        found: list[Logged] = [Progressed({"log": log, "at": at})] if not at else []
        upto = random.randint(at, len(self._log))
        while at < upto:
            item = self._log[at]
            if isinstance(item, str):
                found.append(Marked(item))
                at += 1
                continue
            if item in self._unwatched:
                at += 1
                lost = self._unwatched[item]
                found.append(Broken(lost, "nobody watched.", {"log": log, "at": at}, item))
                continue
            stamps = self._together(at, upto, random.choice([1, 1, 1, 2, 3]))
            at += len(stamps)
            unit = self.unit(stamps, columns)
            others = tuple(stamps[:-1])
            found.append(Committed(unit, {"log": log, "at": at}, stamps[-1], others))
        return found, Cursor(log, at)

    def _together(self, at: int, upto: int, most: int) -> list[int]:
        """The stamps of at most so many transactions that may be reported as one."""
        ahead = takewhile(
            lambda item: isinstance(item, int) and item not in self._unwatched, self._log[at:upto]
        )
        return [stamp for stamp in islice(ahead, most) if isinstance(stamp, int)]

    def is_read(self, cursor: Cursor) -> bool:
        return cursor == Cursor(len(self.before) - 1, len(self._log)) and not self._is_over

    def unit(self, stamps: Sequence[int], columns: Columns | None = None) -> Transaction:
        """Several transactions as one; all columns if they are not said."""
        deltas: dict[str, Rows] = {}
        for stamp in stamps:
            for name, delta in self.transactions[stamp - 1].deltas.items():
                deltas[name] = deltas[name] + delta if name in deltas else delta
        updates = [Update(name, _narrowed(name, delta, columns)) for name, delta in deltas.items()]
        where = (self.name,)
        tags = tuple(tag for stamp in stamps for tag in self.transactions[stamp - 1].tags)
        kept = tuple(update for update in updates if update.delta or tags)
        return Transaction(f"{stamps[-1:]}", kept, where, where, tags=tags)

    def acknowledge(self, position: Position) -> None:
        if position["log"] == len(self.before) - 1:
            self.forgotten = max(self.forgotten, int(str(position["at"])))

    # Questions and loads

    def snapshot(self, marker: str) -> tuple[Seen, dict[str, Rows]]:
        """What is visible now; the marker comes by in the log behind what is committed."""
        self._log.append(marker)
        return Seen(frozenset(self._visible)), self.state(self._visible)

    def answer(self, queries: Iterable[Query], marker: str) -> Reply:
        """Answers from one snapshot, over relations that have only the columns of their query."""
        seen, state = self.snapshot(marker)
        return Reply(tuple(_evaluated(query, state) for query in queries), seen, marker)

    def state(self, stamps: Set[int]) -> dict[str, Rows]:
        """The relations with these transactions in."""
        found = dict(self.initial)
        for stamp in sorted(stamps):
            for name, delta in self.transactions[stamp - 1].deltas.items():
                found[name] = found[name] + delta
        return found


def _evaluated(query: Query, state: Mapping[str, Rows]) -> Rows:
    read = [term.occurrence(at).relation for term in query for at in term.base]
    return evaluate(query, {each.name: state[each.name].only(each.schema) for each in read})


def _narrowed(relation: str, delta: Rows, columns: Columns | None) -> Rows:
    if columns is None:
        return delta
    wanted = columns.get(relation.partition(".")[2], frozenset())
    schema = delta.schema
    kept = [name for name in schema.names if name in wanted] or [schema.names[0]]
    return delta.only(schema.only(kept))
