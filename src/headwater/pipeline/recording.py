"""What of a source's order is on disk, and what the source may forget: a machine.

Everything that is read is written to the change log, in order and in batches. Only what is on
disk is acknowledged to the source. Threads and files are its driver's (see `feed`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headwater.sources.contract import Broken, Committed, Position, Progressed
from headwater.sources.order import Numbered
from headwater.warehouse.change_records import Break, Change, PositionRecord, Record

ACKNOWLEDGE_S = 0.25
_MOST_ROWS_WAITING = 500_000


class Recording:
    """One source's records on their way to disk, from where its change log ends."""

    def __init__(self, end: int, position: Position | None) -> None:
        self.end = end
        """The number of the last transaction that is on disk."""
        self.position = position
        """The source's position there, or further on without a transaction."""
        self._waiting: deque[Record] = deque()
        self._rows = 0
        self._acknowledged: Position | None = None
        self._acknowledge_at = 0.0

    @property
    def has_room(self) -> bool:
        return self._rows < _MOST_ROWS_WAITING

    @property
    def is_due(self) -> bool:
        """Whether somebody may wait for what is to be written."""
        return any(not isinstance(record, PositionRecord) for record in self._waiting)

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        """What was read next; the first that is numbered is `first`."""
        for item in logged:
            record = record_of(first, item)
            first += not isinstance(item, Progressed)
            self._waiting.append(record)
            self._rows += _rows(record)

    def batch(self) -> Sequence[Record]:
        """What is to be written now, in one step; without progress that something later holds."""
        records = list(self._waiting)
        self._waiting.clear()
        self._rows = 0
        return [r for r in records[:-1] if not isinstance(r, PositionRecord)] + records[-1:]

    def synced(self, end: int, position: Position | None) -> None:
        """The change log is on disk up to here."""
        self.end, self.position = end, position

    def to_acknowledge(self, now: float, at_once: bool = False) -> Position | None:
        """Up to where the source may forget, if it is time to tell it; call `acknowledged` then."""
        if not self.position or self.position == self._acknowledged:
            return None
        return self.position if at_once or now >= self._acknowledge_at else None

    def acknowledged(self, position: Position, now: float) -> None:
        self._acknowledged = position
        self._acknowledge_at = now + ACKNOWLEDGE_S


def _rows(record: Record) -> int:
    if not isinstance(record, Change):
        return 1
    return sum(len(update.delta) for update in record.transaction.updates)


def record_of(number: int, item: Numbered | Progressed) -> Record:
    """What is written of something that was read."""
    match item:
        case Committed(transaction, position, stamp, others):
            return Change(number, transaction, position, stamp, others)
        case Broken(columns, reason, position, broken_stamp):
            return Break(number, columns, reason, position, broken_stamp)
        case Progressed(position):
            return PositionRecord(position)


def numbered_of(record: Change | Break) -> Numbered:
    """What was read, from what is written of it."""
    match record:
        case Change(_, transaction, position, stamp, others):
            return Committed(transaction, position, stamp, others)
        case Break(_, columns, reason, position, broken_stamp):
            return Broken(columns, reason, position, broken_stamp)
