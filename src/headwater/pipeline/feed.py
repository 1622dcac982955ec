"""One source in the running system: its channel, and the change log that it fills.

Everything that the channel reads is written to the change log by a thread of its own, in
batches beside the work of the views, and the source is told afterwards that it may forget it:
only what is on disk, and only by the present runner. A view waits for the log before it
commits a transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import islice

from headwater.errors import HeadwaterError
from headwater.pipeline.known_parts import KnownParts
from headwater.pipeline.recording import Recording, numbered_of
from headwater.sources.channel import Channel
from headwater.sources.contract import Lift, Position, Progressed, Reader, Source, as_it_is
from headwater.sources.order import Numbered
from headwater.storage.bucket import StoreError
from headwater.warehouse.change_records import Change, Record
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import Lease
from headwater.warehouse.own_files import store_trouble

_PROGRESS_S = 0.5
_LOOK_BACK = 10_000
"""How far before what views have yet to receive parts of global transactions are looked for."""


class Feed:
    """A source's channel with its change log."""

    def __init__(
        self,
        source: Source,
        log: ChangeLog,
        lease: Lease,
        lift: Lift = as_it_is,
        parts: KnownParts | None = None,
        needed: int | None = None,
    ) -> None:
        """`parts` learns where parts of global transactions are: of those in the log, from a bit
        before the first number that is `needed` on."""
        self.log = log
        self._parts = parts
        self._lease = lease
        self._changed = threading.Condition()
        self._stopping = False
        self._failure: HeadwaterError | None = None
        log.open(lease.epoch, lease.check, lease.guard)
        self._recording = Recording(log.end, log.position)
        if parts is not None:
            self._learn_again(parts, log.end if needed is None else needed)
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

    @property
    def durable(self) -> tuple[int, Position | None]:
        """The last number that is on disk, and where the source stands there or further on."""
        with self._changed:
            return self._recording.end, self._recording.position

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

    def _learn_again(self, parts: KnownParts, needed: int) -> None:
        """Know where the parts are that an earlier runner has read."""
        for record in self.log.heads(max(needed - _LOOK_BACK, self.log.first - 1, 0)):
            if isinstance(record, Change) and record.transaction.tags:
                parts.learn(self.log.source, record.number, [numbered_of(record)])

    # The channel's history

    def record(self, first: int, logged: Sequence[Numbered | Progressed]) -> None:
        if self._parts is not None:  # before a view receives it
            numbered = [item for item in logged if not isinstance(item, Progressed)]
            self._parts.learn(self.name, first, numbered)
        with self._changed:
            self._changed.wait_for(
                lambda: self._recording.has_room or self._failure is not None or self._stopping
            )
            self._recording.record(first, logged)
            self._changed.notify_all()

    def recall(self, after: int, most: int) -> Sequence[Numbered]:
        return [numbered_of(record) for record in islice(self.log.read(after), most)]

    def heads(self, after: int, most: int) -> Sequence[Numbered]:
        return [numbered_of(record) for record in islice(self.log.heads(after), most)]

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
                    self._changed.wait_for(
                        lambda: self._stopping or self._recording.is_due, _PROGRESS_S
                    )
                    records = self._recording.batch()
                    stopping = self._stopping
                self._store(records)
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

    def _store(self, records: Sequence[Record]) -> None:
        if not records:
            return
        self.log.append(records)
        with self._changed:
            self._recording.synced(self.log.end, self.log.position)
            self._changed.notify_all()

    def _acknowledge(self, at_once: bool) -> None:
        now = time.monotonic()
        position = self._recording.to_acknowledge(now, at_once)
        if position is None:
            return
        with self._lease.guard():
            self.channel.acknowledge(position)
        self._recording.acknowledged(position, now)

    def _fail(self, error: HeadwaterError | OSError) -> None:
        if isinstance(error, StoreError):
            error = store_trouble(error)
        elif isinstance(error, OSError):
            error = HeadwaterError(
                f"The change log of {self.name} cannot be written: {error.strerror}.",
                "Look at the disk of the warehouse; nothing that was committed is lost.",
            )
        with self._changed:
            self._failure = error
            self._changed.notify_all()
