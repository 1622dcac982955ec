"""The change log: every transaction of a source in the channel's order, durable, by number.

One folder for each source, in it segments that are only ever appended to. A segment belongs to
one runner, whose epoch is in its name; the first number of a later segment ends all earlier
ones, so what a replaced runner still writes counts for nothing. A record has its length and
checksum in front: a record that was cut off by a crash is the end of its segment.

A source may forget what is here, and no view commits what is not here yet. So after a crash
the order is still known, whatever the source would say when it is read again, and a view
that is far behind, or a recomputation of an old state, finds the changes here.

Choices: one log for each source rather than one for each relation, because the order between
relations is what has to survive. Rows are stored as Arrow, changes of one relation added up.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow
import pyarrow.ipc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Json, parse_type
from headwater.errors import HeadwaterError
from headwater.frames.columns import arrow_table, rows_of_table
from headwater.protocol.transactions import Transaction, Update

_FRAME = struct.Struct("<II")
_HEADER = struct.Struct("<I")
_SEGMENT_BYTES = 64 << 20
_INDEXED = 128
Place: TypeAlias = dict[str, Json]


@dataclass(frozen=True)
class Change:
    """A transaction with its number, its stamp, and the source's position after it."""

    number: int
    transaction: Transaction
    position: Place
    stamp: int


@dataclass(frozen=True)
class Progress:
    """The source has come this far without a transaction of interest."""

    position: Place


Record: TypeAlias = Change | Progress


@dataclass(frozen=True)
class _Segment:
    path: Path
    epoch: int
    first: int

    @classmethod
    def of(cls, path: Path) -> _Segment:
        epoch, first = path.stem.split("-")
        return cls(path, int(epoch), int(first))


class ChangeLog:
    """One source's log. One thread appends; any, in any process, may read."""

    def __init__(self, folder: Path, source: str) -> None:
        self.source = source
        self._folder = folder / source
        self._file: FileIO | None = None
        self._size = 0
        self._epoch = 0
        self._check: Callable[[], None] = lambda: None
        self.end = 0
        """The number of the last transaction that is durable."""
        self.position: Place | None = None
        """The source's position there, or further on without a transaction."""
        self._index: dict[Path, list[tuple[int, int]]] = {}

    # Reading

    def scan(self) -> None:
        """Find out where the log ends."""
        self.end, self.position = 0, None
        segments = self._segments()
        for segment in reversed(segments):
            limit = self._limit(segment, segments)
            for _, header, _ in _records(segment.path):
                if header.get("number", 0) >= limit:
                    break
                self.end = header.get("number", self.end)
                self.position = header["position"]
            if self.end or self.position is not None:
                self.end = self.end or segment.first - 1
                return

    def read(self, after: int = 0) -> Iterator[Change]:
        """The transactions behind a number, in order."""
        segments = self._segments()
        expected = after + 1
        for at, segment in enumerate(segments):
            limit = self._limit(segment, segments)
            if limit <= expected and at + 1 < len(segments):
                continue
            for offset, header, body in _records(segment.path, self._offset(segment, expected)):
                number = header.get("number", 0)
                if number >= limit:
                    break
                if number >= expected:
                    if number % _INDEXED == 0:
                        self._index.setdefault(segment.path, []).append((number, offset))
                    yield _change(self.source, header, body)
                    expected = number + 1

    @property
    def first(self) -> int:
        """The number of the oldest transaction that is still kept."""
        segments = self._segments()
        return segments[0].first if segments else 1

    @property
    def byte_count(self) -> int:
        """What the log takes on disk."""
        return sum(segment.path.stat().st_size for segment in self._segments())

    def _segments(self) -> tuple[_Segment, ...]:
        found = [_Segment.of(path) for path in self._folder.glob("*-*.log")]
        return tuple(sorted(found, key=lambda s: (s.epoch, s.first)))

    @staticmethod
    def _limit(segment: _Segment, segments: Sequence[_Segment]) -> int:
        """From which number on a segment does not count: where a later one begins."""
        return min((s.first for s in segments[segments.index(segment) + 1 :]), default=1 << 62)

    def _offset(self, segment: _Segment, number: int) -> int:
        """Where to begin to read a segment for a number, from what was read before."""
        known = self._index.get(segment.path, [])
        return max((offset for first, offset in known if first <= number), default=0)

    # Writing

    def open(self, epoch: int, check: Callable[[], None] = lambda: None) -> None:
        """Begin to append, as the runner of this epoch.

        `check` raises once there is a later one. It is called when something has been written
        and before that counts: the later runner looked for the end of the log after it had
        become the runner, so it has seen everything that counts.
        """
        self._check = check
        _make_folder(self._folder)
        self.scan()
        self._epoch = epoch
        self._roll()

    def append(self, records: Sequence[Record]) -> None:
        """Make records durable, all of them, before it returns."""
        if not records:
            return
        assert self._file is not None
        if self._size > _SEGMENT_BYTES:
            self._roll()
        data = b"".join(map(_framed, records))
        _write_all(self._file, data)
        os.fsync(self._file.fileno())
        self._check()
        self._size += len(data)
        for record in records:
            if isinstance(record, Change):
                self.end = record.number
            self.position = record.position

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def release(self, upto: int, older_than_s: float) -> int:
        """Remove segments that hold nothing behind a number and are old; how many."""
        segments = self._segments()
        gone = 0
        for segment in segments[:-1]:
            last = self._limit(segment, segments) - 1
            if last > upto or time.time() - segment.path.stat().st_mtime < older_than_s:
                break
            segment.path.unlink(missing_ok=True)
            self._index.pop(segment.path, None)
            gone += 1
        return gone

    def _roll(self) -> None:
        """Begin a new segment; what it starts with is where the last one ended."""
        self.close()
        path = self._folder / f"{self._epoch:08d}-{self.end + 1:020d}.log"
        self._file = path.open("ab", buffering=0)
        self._size = self._file.tell()
        _sync_folder(self._folder)
        if self.position is not None and not self._size:
            self.append([Progress(self.position)])


def drop_changes(folder: Path, source: str) -> None:
    """Remove a source's whole log."""
    for path in (folder / source).glob("*-*.log"):
        path.unlink(missing_ok=True)


# Records


def _framed(record: Record) -> bytes:
    header: dict[str, Any] = {"position": record.position}
    bodies: list[bytes] = []
    if isinstance(record, Change):
        deltas = record.transaction.deltas
        bodies = [_packed(rows) for rows in deltas.values()]
        header |= {
            "number": record.number,
            "id": record.transaction.id,
            "stamp": record.stamp,
            "relations": [
                [name, [[c.name, str(c.type)] for c in rows.schema.columns], len(body)]
                for (name, rows), body in zip(deltas.items(), bodies, strict=True)
            ],
        }
    head = json.dumps(header, separators=(",", ":")).encode()
    payload = b"".join([_HEADER.pack(len(head)), head, *bodies])
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _packed(rows: Rows) -> bytes:
    table = arrow_table(rows)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _records(path: Path, offset: int = 0) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    """Each whole record's offset, header and body; stops where one is cut off or damaged."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        while len(frame := file.read(_FRAME.size)) == _FRAME.size:
            size, checksum = _FRAME.unpack(frame)
            payload = file.read(size)
            if len(payload) < size or zlib.crc32(payload) != checksum:
                return
            (length,) = _HEADER.unpack_from(payload)
            start = _HEADER.size + length
            yield offset, json.loads(payload[_HEADER.size : start]), payload[start:]
            offset += _FRAME.size + size


def _change(source: str, header: Mapping[str, Any], body: bytes) -> Change:
    updates, at = [], 0
    for name, columns, size in header["relations"]:
        schema = Schema.of((column, parse_type(kind)) for column, kind in columns)
        with pyarrow.ipc.open_stream(body[at : at + size]) as reader:
            updates.append(Update(name, rows_of_table(reader.read_all(), schema)))
        at += size
    transaction = Transaction(header["id"], tuple(updates), (source,), (source,))
    return Change(header["number"], transaction, header["position"], header["stamp"])


def _write_all(file: FileIO, data: bytes) -> None:
    """Write without a buffer, so that a failure leaves nothing to be written later."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def between(log: ChangeLog, after: int, upto: int) -> Iterator[Change]:
    """The transactions behind one number up to another; an error if one is missing."""
    expected = after + 1
    for change in islice(log.read(after), upto - after):
        if change.number != expected:
            break
        yield change
        expected += 1
    if expected != upto + 1:
        raise HeadwaterError(
            f"The change log of {log.source} has no transaction {expected} any more.",
            "It is kept for the time that 'retention' in headwater.toml says.",
        )
