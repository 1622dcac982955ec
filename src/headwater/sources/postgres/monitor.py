"""The monitor of PostgreSQL: reads a replication slot, whole transactions in commit order.

What the caller has acknowledged, and nothing beyond, is reported back to the server, which may
then forget it. After a lost connection the server sends everything since then again; what the
position covers is skipped.
"""

from __future__ import annotations

import select
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg
from psycopg import pq

from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Logged, Position
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.log import Interpreter
from headwater.sources.postgres.pgoutput import lsn_text
from headwater.sources.postgres.snapshot import LogPosition

_MOST_AT_ONCE = 1000
_FEEDBACK_S = 10.0
_EPOCH_2000_S = 946_684_800
_MANY_REQUESTS = 5
_DOING = "read the log"
_IN_USE = b"55006"
_SLOT_WAIT_S = 5.0
_EVICT_AFTER_S = 1.0
_SLOT_PAUSE_S = 0.05
_NOT_READY = b"55000"


class PostgresMonitor:
    """A replication connection. One thread reads; any may acknowledge or close.

    The log is silent about a table that is no longer published, so `watch` looks at the catalog
    from time to time and raises SourceError when something has changed there.
    """

    def __init__(
        self,
        access: Access,
        pgconn: pq.abc.PGconn,
        interpreter: Interpreter,
        watch: Callable[[], object],
        watch_s: float,
    ) -> None:
        self._watch = watch
        self._watch_s = watch_s
        self._next_watch = time.monotonic() + watch_s
        self._access = access
        self._pgconn = pgconn
        self._interpreter = interpreter
        self._lock = threading.Lock()
        self._failure: SourceError | None = None
        self._received = interpreter.at.lsn
        self._acknowledged = 0
        self._reported = 0
        self._next_feedback = time.monotonic() + _FEEDBACK_S
        self._requests: list[float] = []
        self._warning: SourceError | None = None
        pgconn.notice_handler = self._notice

    def start(self, slot: str, publication: str, evict: Callable[[], object]) -> None:
        """Ask the server to send from the position on.

        A reader before us that has gone keeps the slot until the server notices; one that hangs
        on is evicted, if it is ours to evict.
        """
        at = lsn_text(self._interpreter.at.lsn)
        name = publication.replace('"', '""').replace("'", "''")
        command = (
            f"START_REPLICATION SLOT \"{slot}\" LOGICAL {at} (proto_version '1', "
            f"publication_names '\"{name}\"', messages 'true')"
        )
        began = time.monotonic()
        evicted = False
        while True:
            result = self._pgconn.exec_(command.encode())
            if result.status == pq.ExecStatus.COPY_BOTH:
                return
            in_use = result.error_field(pq.DiagnosticField.SQLSTATE) == _IN_USE
            waited = time.monotonic() - began
            if not in_use or waited > _SLOT_WAIT_S:
                raise self._access.result_failure(result, _DOING)
            if waited > _EVICT_AFTER_S and not evicted:
                evict()
                evicted = True
            time.sleep(_SLOT_PAUSE_S)

    def read(self, timeout_s: float) -> Sequence[Logged]:
        deadline = time.monotonic() + timeout_s
        logged: list[Logged] = []
        self._watch_catalog()
        while len(logged) < _MOST_AT_ONCE:
            more = self._step(logged)
            left = deadline - time.monotonic()
            if left <= 0 or (logged and not more):
                break
            if not more:
                self._wait(left)
        return logged

    def _step(self, logged: list[Logged]) -> bool:
        """Read what has arrived. What came before an error is handed over before the error."""
        with self._lock:
            if self._failure is None:
                try:
                    with self._access.errors(_DOING):
                        return self._take(logged)
                except SourceError as error:
                    self._failure = error
            if logged:
                return False
            raise self._failure

    def acknowledge(self, position: Position) -> None:
        lsn = LogPosition.of(position).lsn
        with self._lock:
            self._acknowledged = max(self._acknowledged, lsn)

    def close(self) -> None:
        with self._lock:
            if self._pgconn.status != pq.ConnStatus.OK:
                self._pgconn.finish()
                return
            self._failure = LostConnectionError(
                f"Source {self._access.source}: its monitor was closed."
            )
            try:
                if self._acknowledged > self._reported:
                    self._send_feedback()
            except psycopg.Error:
                pass  # the server sends it again
            finally:
                self._pgconn.finish()

    # With the lock held

    def _take(self, logged: list[Logged]) -> bool:
        """Read what has arrived; whether there may be more."""
        if self._acknowledged > self._reported or time.monotonic() >= self._next_feedback:
            self._send_feedback()
        self._pgconn.consume_input()
        for _ in range(_MOST_AT_ONCE):
            size, data = self._pgconn.get_copy_data(1)
            if self._warning is not None:
                raise self._warning
            if size == 0:
                return False
            if size < 0:
                raise self._ended()
            if (item := self._message(bytes(data))) is not None:
                logged.append(item)
        return True

    def _message(self, data: bytes) -> Logged | None:
        if data[:1] == b"w":
            self._requests.clear()
            start, end = struct.unpack_from("!QQ", data, 1)
            self._received = max(self._received, start, end)
            return self._interpreter.take(data[25:])
        if data[:1] == b"k":
            (end,) = struct.unpack_from("!Q", data, 1)
            self._received = max(self._received, end)
            if data[17]:
                self._send_feedback()
                self._notice_shutdown()
            return self._interpreter.reached(end)
        return None

    def _notice(self, result: pq.abc.PGresult) -> None:
        """From version 18 on the server only warns when the publication is gone."""
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _NOT_READY:
            failure = self._access.result_failure(result, _DOING)
            hint = "Changes have been missed: run setup and load the views again."
            self._warning = SourceError(failure.message, hint)

    def _notice_shutdown(self) -> None:
        """A server that shuts down asks over and over until all is acknowledged, or we go."""
        now = time.monotonic()
        self._requests = [asked for asked in self._requests if asked > now - 1.0] + [now]
        if len(self._requests) > _MANY_REQUESTS:
            raise LostConnectionError(f"Source {self._access.source}: the server shuts down.")

    def _send_feedback(self) -> None:
        clock = int((time.time() - _EPOCH_2000_S) * 1_000_000)
        acknowledged = self._acknowledged
        self._pgconn.put_copy_data(
            struct.pack("!cQQQqB", b"r", self._received, acknowledged, acknowledged, clock, 0)
        )
        self._pgconn.flush()
        self._reported = acknowledged
        self._next_feedback = time.monotonic() + _FEEDBACK_S

    def _ended(self) -> SourceError:
        result = self._pgconn.get_result()
        if result is None or result.status != pq.ExecStatus.FATAL_ERROR:
            return LostConnectionError(f"Source {self._access.source}: the server ended the log.")
        return self._access.result_failure(result, _DOING)

    # Without the lock

    def _watch_catalog(self) -> None:
        if self._failure is not None or time.monotonic() < self._next_watch:
            return
        with suppress(LostConnectionError):  # then the log is lost too, or soon back
            self._watch()
        self._next_watch = time.monotonic() + self._watch_s

    def _wait(self, seconds: float) -> None:
        until_feedback = max(0.0, self._next_feedback - time.monotonic())
        try:
            poll = select.poll()
            poll.register(self._pgconn.socket, select.POLLIN)
            poll.poll(1000 * min(seconds, until_feedback + 0.001))
        except (psycopg.Error, OSError, ValueError):
            return  # closed meanwhile; the next step says so
