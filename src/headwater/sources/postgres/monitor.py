"""The monitor of PostgreSQL: reads a replication slot, whole transactions in commit order.

What the caller has acknowledged is reported back to the server, which may then forget it: all
before the last transaction that was read. After a lost connection the server sends that one and
what followed again, so that it can be seen whether it is still the same log; what the position
covers is skipped. Where nothing of interest happens for long, a post is put into the log, a
transaction without changes, to be that last one.
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

from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.contract import Broken, Logged, Marked, Position
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.log import PREFIX, Interpreter
from headwater.sources.postgres.pgoutput import lsn_text
from headwater.sources.postgres.position import LogPosition
from headwater.sources.postgres.watch import CatalogWatch

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
_GONE = (_NOT_READY, b"42704")
_POST_BYTES = 16 << 20
"""After so much log without a transaction of interest a post is put into it."""


class PostgresMonitor:
    """A replication connection. One thread reads; any may acknowledge or close.

    `watch` looks at the catalog every `watch_s`, and when somebody has asked for it by
    `is_asked` before the next marker is passed on.
    """

    def __init__(
        self,
        access: Access,
        pgconn: pq.abc.PGconn,
        interpreter: Interpreter,
        watch: CatalogWatch,
        watch_s: float,
        is_asked: threading.Event,
        first: Sequence[Logged],
    ) -> None:
        self._watch = watch
        self._watch_s = watch_s
        self._next_watch = time.monotonic() + watch_s
        self._is_asked = is_asked
        self._access = access
        self._pgconn = pgconn
        self._interpreter = interpreter
        self._lock = threading.Lock()
        self._failure: SourceError | None = None
        self._first = first
        self._received = interpreter.at.start
        self._acknowledging = threading.Lock()
        self._acknowledged = 0
        self._reported = 0
        self._posted_at = -1
        self._next_feedback = time.monotonic() + _FEEDBACK_S
        self._requests: list[float] = []
        self._warning: SourceError | None = None
        pgconn.notice_handler = self._notice

    def start(self, slot: str, publication: str, evict: Callable[[], object]) -> None:
        """Ask the server to send from the position on.

        A reader before us that has gone keeps the slot until the server notices; one that hangs
        on is evicted, if it is ours to evict.
        """
        at = lsn_text(self._interpreter.at.start)
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
            state = result.error_field(pq.DiagnosticField.SQLSTATE)
            waited = time.monotonic() - began
            if state != _IN_USE or waited > _SLOT_WAIT_S:
                failure = self._access.result_failure(result, _DOING)
                raise self._broken(failure) if state in _GONE else failure
            if waited > _EVICT_AFTER_S and not evicted:
                evict()
                evicted = True
            time.sleep(_SLOT_PAUSE_S)

    def read(self, timeout_s: float) -> Sequence[Logged]:
        deadline = time.monotonic() + timeout_s
        logged: list[Logged] = [*self._first, *self._watch_catalog()]
        self._first = ()
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
        last = LogPosition.of(position).last
        if last is not None:
            with self._acknowledging:
                self._acknowledged = max(self._acknowledged, last.commit_lsn)

    def close(self) -> None:
        with self._lock:
            self._watch.close()
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
            for item in self._message(memoryview(data)):
                if isinstance(item, Marked) and self._is_asked.is_set():
                    logged += self._asked_look()
                logged.append(item)
        return True

    def _asked_look(self) -> Sequence[Broken]:
        """Whoever asked has read the database since; what it saw must not come after its mark."""
        self._is_asked.clear()
        return self._interpreter.look()

    def _message(self, data: memoryview) -> Sequence[Logged]:
        kind = bytes(data[:1])
        if kind == b"w":
            self._requests.clear()
            start, end = struct.unpack_from("!QQ", data, 1)
            self._received = max(self._received, start, end)
            return self._interpreter.take(data[25:])
        if kind == b"k":
            (end,) = struct.unpack_from("!Q", data, 1)
            self._received = max(self._received, end)
            if data[17]:
                self._send_feedback()
                self._notice_shutdown()
            return self._interpreter.reached(end)
        return ()

    def _notice(self, result: pq.abc.PGresult) -> None:
        """From version 18 on the server only warns when the publication is gone."""
        if result.error_field(pq.DiagnosticField.SQLSTATE) == _NOT_READY:
            self._warning = self._broken(self._access.result_failure(result, _DOING))

    def _broken(self, failure: SourceError) -> BrokenLogError:
        """A failure that no trying again repairs: the slot or the publication is gone."""
        said = failure.message.removeprefix(f"Source {self._access.source}: ")
        return BrokenLogError(self._access.source, said)

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
        failure = self._access.result_failure(result, _DOING)
        gone = result.error_field(pq.DiagnosticField.SQLSTATE) in _GONE
        return self._broken(failure) if gone else failure

    # Without the lock

    def _watch_catalog(self) -> Sequence[Broken]:
        """What has changed in the catalog, from time to time, and a post where one is due."""
        if self._failure is not None:
            return ()
        with suppress(LostConnectionError):  # then the log is lost too, or soon back
            if self._is_post_due():
                self._watch.post(PREFIX)
            if time.monotonic() >= self._next_watch:
                self._next_watch = time.monotonic() + self._watch_s
                return self._interpreter.look()
        return ()

    def _is_post_due(self) -> bool:
        """Whether the last transaction, which the server has to keep, is far back; told once."""
        at = self._interpreter.at
        last = 0 if at.last is None else at.last.commit_lsn
        if last == self._posted_at or (last and self._received - last < _POST_BYTES):
            return False
        self._posted_at = last
        return True

    def _wait(self, seconds: float) -> None:
        until_feedback = max(0.0, self._next_feedback - time.monotonic())
        try:
            poll = select.poll()
            poll.register(self._pgconn.socket, select.POLLIN)
            poll.poll(1000 * min(seconds, until_feedback + 0.001))
        except (psycopg.Error, OSError, ValueError):
            return  # closed meanwhile; the next step says so
