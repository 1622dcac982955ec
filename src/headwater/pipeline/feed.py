"""One source in the running system: its channel, and the change log that it fills.

Everything that the channel reads is written to the change log by a thread of its own, in
batches beside the work of the views, and the source is told afterwards that it may forget it:
only what is on disk, and only by the present runner. A view waits for the log before it
commits a transaction.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice

from headwater.errors import HeadwaterError
from headwater.sources.channel import Channel
from headwater.sources.contract import (
    Broken,
    Committed,
    Lift,
    Position,
    Progressed,
    Reader,
    Source,
    as_it_is,
)
from headwater.sources.order import Numbered, Stamps, stamps_of
from headwater.warehouse.changes import Break, Change, ChangeLog, Progress, Record
from headwater.warehouse.lease import Lease

_PROGRESS_S = 0.5
_ACKNOWLEDGE_S = 0.25
_MOST_ROWS_WAITING = 500_000


class Feed:
    """A source's channel with its change log."""

    def __init__(self, source: Source, log: ChangeLog, lease: Lease, lift: Lift = as_it_is) -> None:
        self.log = log
        self._lease = lease
        self._changed = threading.Condition()
        self._waiting: deque[Record] = deque()
        self._waiting_rows = 0
        self._stopping = False
        self._failure: HeadwaterError | None = None
        self._acknowledged: Position | None = None
        self._acknowledge_at = 0.0
        self._progress_at = 0.0
        log.open(lease.epoch, lease.check)
        self.channel = Channel(
            source,
            log.position or None,
            end=log.end,
            history=self,
            lift=lift,
            ask_limit_s=120.0,
            reader=Reader(lease.warehouse, lease.epoch),
        )
        self._writer = threading.Thread(
            target=self._write, name=f"change log {source.name}", daemon=True
        )

    @property
    def name(self) -> str:
        return self.channel.source.name

    def start(self) -> None:
        self._writer.start()
        self.channel.start()

    def close(self) -> None:
        self.channel.close()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._writer.is_alive():
            self._writer.join()
        self.log.close()

    @property
    def failure(self) -> HeadwaterError | None:
        """Why the change log cannot go on, if that is so."""
        return self._failure

    def wait_durable(self, number: int) -> None:
        """Return when a transaction is in the change log."""
        with self._changed:
            self._changed.wait_for(
                lambda: self.log.end >= number or self._failure is not None or self._stopping
            )
            if self._failure is not None:
                raise self._failure
        if self.log.end < number:
            raise HeadwaterError(f"The change log of {self.name} was closed.")

    def wait_begun(self) -> None:
        """Return when it is known, and will be after a crash, which log is read."""
        with self._changed:
            while not self.log.position:
                if trouble := self._failure or self.channel.trouble:
                    raise trouble
                if self._stopping:
                    raise HeadwaterError(f"The change log of {self.name} was closed.")
                self._changed.wait(_PROGRESS_S)

    # The channel's history

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        records: list[Record] = []
        for item in logged:
            records.append(_record(first, item))
            first += not isinstance(item, Progressed)
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._waiting_rows < _MOST_ROWS_WAITING
                    or self._failure is not None
                    or self._stopping
                )
            )
            self._waiting += records
            self._waiting_rows += sum(map(_rows, records))
            self._changed.notify_all()

    def recall(self, after: int, most: int) -> Sequence[Numbered]:
        return [_numbered(record) for record in islice(self.log.read(after), most)]

    def stamps(self, after: int, most: int) -> Sequence[Stamps]:
        return [stamps_of(_numbered(record)) for record in islice(self.log.heads(after), most)]

    def holds(self, number: int) -> bool:
        return self.log.end >= number

    @property
    def first(self) -> int:
        return self.log.first

    # The thread that writes

    def _write(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(self._is_due, _PROGRESS_S)
                    records = list(self._waiting)
                    self._waiting.clear()
                    self._waiting_rows = 0
                    stopping = self._stopping
                self._store(_condensed(records))
                self._acknowledge(at_once=stopping)
                if stopping:
                    return
        except (HeadwaterError, OSError) as error:
            self._fail(error)
        except Exception as error:
            failure = HeadwaterError(
                f"The change log of {self.name} stopped: {type(error).__name__}: {error}.",
                "This is a fault of Headwater; nothing that was committed is lost.",
            )
            failure.__cause__ = error
            self._fail(failure)

    def _is_due(self) -> bool:
        return self._stopping or any(not isinstance(r, Progress) for r in self._waiting)

    def _store(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self.log.append(records)
        with self._changed:
            self._changed.notify_all()

    def _acknowledge(self, at_once: bool) -> None:
        position = self.log.position
        now = time.monotonic()
        if not position or position == self._acknowledged:
            return
        if now < self._acknowledge_at and not at_once:
            return
        with self._lease.guard():
            self.channel.acknowledge(position)
        self._acknowledged = position
        self._acknowledge_at = now + _ACKNOWLEDGE_S

    def _fail(self, error: HeadwaterError | OSError) -> None:
        if isinstance(error, OSError):
            error = HeadwaterError(
                f"The change log of {self.name} cannot be written: {error.strerror}.",
                "Look at the disk of the warehouse; nothing that was committed is lost.",
            )
        with self._changed:
            self._failure = error
            self._changed.notify_all()


def _condensed(records: Sequence[Record]) -> list[Record]:
    """Without progress that something later contains."""
    return [r for r in records[:-1] if not isinstance(r, Progress)] + list(records[-1:])


def _rows(record: Record) -> int:
    if not isinstance(record, Change):
        return 1
    return sum(len(update.delta) for update in record.transaction.updates)


def _record(number: int, item: Numbered | Progressed) -> Record:
    match item:
        case Committed(transaction, position, stamp, others):
            return Change(number, transaction, position, stamp, others)
        case Broken(columns, reason, position, broken_stamp):
            return Break(number, columns, reason, position, broken_stamp)
        case Progressed(position):
            return Progress(position)


def _numbered(record: Change | Break) -> Numbered:
    match record:
        case Change(_, transaction, position, stamp, others):
            return Committed(transaction, position, stamp, others)
        case Break(_, columns, reason, position, broken_stamp):
            return Broken(columns, reason, position, broken_stamp)
