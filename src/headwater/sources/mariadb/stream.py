"""A connection over which a server sends its binary log, event by event.

The driver lets us in; from then on its socket is read here, since a reader has to be able to wait
for a while only.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import SystemRandom

import pymysql
from pymysql.constants import COMMAND

from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.mariadb import binlog
from headwater.sources.mariadb.binlog import CorruptEventError, Header
from headwater.sources.mariadb.connect import Access, close, run, text_literal

_DOING = "read the log"
_HEARTBEAT_S = 5
_SILENT_S = 4 * _HEARTBEAT_S
_READ_BYTES = 1 << 18
_WHOLE_PACKET = 0xFFFFFF
_CANNOT_READ = 1236
_FIRST_NUMBER, _LAST_NUMBER = 1 << 31, (1 << 32) - 1
_CAPABILITY = 4


@dataclass(frozen=True, slots=True)
class Raw:
    """One event as it was sent, its checksum looked at and left out."""

    header: Header
    body: memoryview


class Stream:
    """Sends itself what a server logs behind a place; used by one thread, closed by any."""

    def __init__(self, access: Access, file: str, position: int) -> None:
        self._access = access
        self._connection = access.connect_plainly()
        self._buffer = bytearray()
        self._has_checksums = False
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._is_closed = False
        self._guard = threading.Lock()
        """Held while the pipe is used or closed: its numbers may be another file's afterwards."""
        self.silent_s = 0.0
        self._has_begun = False
        """Whether anything of the log has come, and not only what describes it."""
        try:
            with access.errors(_DOING):
                self._begin(file, position)
        except BaseException:
            self.close()
            raise

    def read(self, timeout_s: float) -> Iterator[Raw]:
        """The events that have come, after waiting for the first one for a while."""
        if self._wait(timeout_s):
            self._receive()
        while (packet := self._packet()) is not None:
            yield self._event(packet)

    def wake(self) -> None:
        """Let whoever waits look at once."""
        with self._guard:
            if not self._is_closed:
                with suppress(BlockingIOError):  # then there are more than enough
                    os.write(self._waker, b"x")

    def close(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            with suppress(OSError, AttributeError):
                self._connection._sock.shutdown(socket.SHUT_RDWR)
            close(self._connection)
            for end in (self._wake, self._waker):
                os.close(end)

    def _begin(self, file: str, position: int) -> None:
        """Ask for everything from a place on, with checksums as they are in the log."""
        connection = self._connection
        run(connection, "SET @master_binlog_checksum = @@global.binlog_checksum")
        run(connection, "SET @source_binlog_checksum = @@global.binlog_checksum")
        run(connection, f"SET @mariadb_slave_capability = {_CAPABILITY}")
        for name in ("master", "source"):
            run(connection, f"SET @{name}_heartbeat_period = {_HEARTBEAT_S * 10**9}")
        run(connection, f"SET @slave_uuid = {text_literal(os.urandom(16).hex())}")
        run(connection, "SET NAMES utf8mb4")
        run(connection, f"SET SESSION net_write_timeout = {3600}")
        ((told,),) = run(connection, "SELECT @@global.binlog_checksum")
        self._has_checksums = _shown(told) == "CRC32"
        number = SystemRandom().randrange(_FIRST_NUMBER, _LAST_NUMBER)
        asked = struct.pack("<IHI", position & 0xFFFFFFFF, 0, number) + file.encode()
        connection._execute_command(COMMAND.COM_BINLOG_DUMP, asked)
        connection._sock.settimeout(None)

    def _wait(self, timeout_s: float) -> bool:
        """Whether there is something to receive."""
        sock = self._sock()
        if getattr(sock, "pending", int)():
            return True
        poll = select.poll()
        try:
            poll.register(sock, select.POLLIN)
            poll.register(self._wake, select.POLLIN)
            ready = {number for number, _ in poll.poll(1000 * max(0.0, timeout_s))}
            if self._wake in ready:
                self._woken()
        except (OSError, ValueError):
            raise self._lost("it was closed") from None
        if sock.fileno() in ready:
            self.silent_s = 0.0
            return True
        if not ready:
            self.silent_s += timeout_s
            if self.silent_s > _SILENT_S:
                raise self._lost("the server has said nothing for long")
        return False

    def _woken(self) -> None:
        with self._guard:
            if not self._is_closed:
                os.read(self._wake, 4096)

    def _sock(self) -> socket.socket:
        sock = self._connection._sock
        if sock is None or self._is_closed:
            raise self._lost("it was closed")
        return sock  # type: ignore[no-any-return] # the driver has no types

    def _receive(self) -> None:
        try:
            data = self._sock().recv(_READ_BYTES)
        except (OSError, ValueError) as error:
            raise self._lost(str(error)) from None
        if not data:
            raise self._lost("the server ended it")
        self._buffer += data

    def _packet(self) -> bytes | None:
        """The next packet if all of it is here, put together where it was sent in parts."""
        parts, at = list[slice](), 0
        while True:
            size = int.from_bytes(self._buffer[at : at + 3], "little")
            if len(self._buffer) < at + 4 or len(self._buffer) < at + 4 + size:
                return None
            parts.append(slice(at + 4, at + 4 + size))
            at += 4 + size
            if size < _WHOLE_PACKET:
                packet = b"".join([self._buffer[part] for part in parts])
                del self._buffer[:at]
                return packet

    def _event(self, packet: bytes) -> Raw:
        if not packet:
            raise self._lost("the server sent nothing")
        if packet[0] == 0xFF:
            raise self._refused(packet)
        if packet[0] == 0xFE:
            raise self._lost("the server ended it")
        event = memoryview(packet)[1:]
        try:
            header = Header.of(event)
            body = event[binlog.HEADER.size :]
            self._has_begun |= not header.is_artificial and header.type != 15
            if header.type == 15:
                described = binlog.decode(header, body)
                assert isinstance(described, binlog.Format)
                self._has_checksums = described.has_checksums
                return Raw(header, body)
            if self._has_checksums:
                self._check(header, event)
                body = body[:-4]
            return Raw(header, body)
        except CorruptEventError as error:
            raise self._lost(str(error)) from None

    @staticmethod
    def _check(header: Header, event: memoryview) -> None:
        told = int.from_bytes(event[-4:], "little")
        if zlib.crc32(event[:-4]) != told and not header.is_artificial:
            raise CorruptEventError("the checksum of an event is wrong")

    def _refused(self, packet: bytes) -> SourceError:
        code = int.from_bytes(packet[1:3], "little")
        text = packet[9:].decode("utf-8", "replace") if packet[3:4] == b"#" else repr(packet[3:])
        is_too_large = "max_allowed_packet" in text.partition(";")[0]
        if code == _CANNOT_READ and not (self._has_begun and is_too_large):
            return BrokenLogError(
                self._access.source,
                "the server does not have the log from where it was read last; it was purged, "
                f"reset or restored: {self._access.scrubbed(text).rstrip('.')}.",
            )
        return self._access.failure(pymysql.err.OperationalError(code, text), _DOING)

    def _lost(self, reason: str) -> LostConnectionError:
        return LostConnectionError(
            f"Source {self._access.source}: the connection was lost while trying to {_DOING}: "
            f"{reason}."
        )


def _shown(told: object) -> str:
    return told.decode() if isinstance(told, bytes) else str(told)
