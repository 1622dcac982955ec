"""What a change log holds, and its form on the disk: segments of records with checksums.

A segment begins with its format's number. Records that are made durable together are a batch:
each is framed by a mark, its length, its checksum, and the place where its batch begins. A
batch is begun only when the one before it is on the disk. So what a crash has cut off or left
out is the last batch, and counts for nothing; a whole record of a later batch behind
something that cannot be read shows that this was once whole, and is damaged.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any, TypeAlias

import pyarrow
import pyarrow.ipc
from pydantic import TypeAdapter

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Json
from headwater.frames.columns import arrow_table, rows_of_table
from headwater.protocol.transactions import Tag, Transaction, Update
from headwater.reading import format_problem, parse_json
from headwater.storage.bucket import StoreError
from headwater.storage.location import Location
from headwater.warehouse.forms import BREAK, CHANGE, POSITION, has_form
from headwater.warehouse.own_files import store_trouble

FORMAT = 1
_MAGIC = b"headwlog"
_START = struct.Struct("<8sI")
_MARK = b"\xa9hw\n"
_FRAME = struct.Struct("<4sIIQ")
_HEADER = struct.Struct("<I")
_NOTHING = Rows.empty(Schema.of(()))
SEGMENT_START = _START.pack(_MAGIC, FORMAT)
Position: TypeAlias = dict[str, Json]
_Bytes: TypeAlias = bytes | memoryview


@dataclass(frozen=True)
class Change:
    """A transaction with its number, its stamp, and the source's position after it.

    Where the source could not tell several transactions apart, `others` has further stamps.
    """

    number: int
    transaction: Transaction
    position: Position
    stamp: int
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class Break:
    """A gap in the source's log, numbered like a transaction: what became of `columns` is unknown.

    They are given by relation, None for a whole one; None for everything of the source.
    """

    number: int
    columns: Mapping[str, frozenset[str] | None] | None
    reason: str
    position: Position
    stamp: int | None = None


@dataclass(frozen=True)
class PositionRecord:
    """The source has come this far without a transaction of interest."""

    position: Position


NumberedRecord: TypeAlias = Change | Break
Record: TypeAlias = Change | Break | PositionRecord


@dataclass(frozen=True)
class StoredRecord:
    """A record as it lies in a segment, from `offset` up to `end`."""

    offset: int
    end: int
    batch: int
    header: Mapping[str, Any]
    body: bytes

    @property
    def number(self) -> int | None:
        """None for progress, which has no number."""
        found: int | None = self.header.get("number")
        return found

    @property
    def position(self) -> Position:
        found: Position = self.header["position"]
        return found

    def record(self, source: str) -> NumberedRecord:
        return self._opened(source, self.body)

    def head(self, source: str) -> NumberedRecord:
        """The record without changed rows; which relations it changes is told."""
        return self._opened(source, None)

    def _opened(self, source: str, body: bytes | None) -> NumberedRecord:
        if "reason" in self.header:
            return _break(self.header)
        try:
            return _change(source, self.header, body)
        except (KeyError, OSError, OverflowError, TypeError, ValueError, pyarrow.ArrowException):
            raise DamageError(self.offset) from None


class FormatError(Exception):
    """A segment begins otherwise than one of this format does."""


class DamageError(Exception):
    """A segment cannot be read at `offset`, and not because a crash has cut it off there."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"damaged at byte {offset}")
        self.offset = offset


# Writing


def batch_of(records: Sequence[Record], offset: int) -> bytes:
    """Records as they are appended to a segment whose end is at `offset`."""
    return b"".join(part for record in records for part in _framed(_payload(record), offset))


def _framed(payload: Sequence[_Bytes], batch: int) -> Sequence[_Bytes]:
    size = sum(len(part) for part in payload)
    return [_FRAME.pack(_MARK, size, _checksum(payload, batch), batch), *payload]


def _checksum(payload: Sequence[_Bytes], batch: int) -> int:
    found = batch & 0xFFFFFFFF
    for part in payload:
        found = zlib.crc32(part, found)
    return found


def _payload(record: Record) -> Sequence[_Bytes]:
    """A record in parts: of a large one no second copy is made to put it together."""
    header: dict[str, Any] = {"position": record.position}
    bodies: list[_Bytes] = []
    match record:
        case Change():
            deltas = record.transaction.deltas
            bodies = [_packed(rows) for rows in deltas.values()]
            header |= {
                "number": record.number,
                "id": record.transaction.id,
                "stamp": record.stamp,
                "relations": [
                    [name, rows.schema.to_json(), len(body)]
                    for (name, rows), body in zip(deltas.items(), bodies, strict=True)
                ],
            }
            if record.others:
                header["others"] = record.others
            if record.transaction.tags:
                touched = {update.relation for update in record.transaction.updates}
                header["tags"] = [[t.id, t.parts, t.mistake] for t in record.transaction.tags]
                header["touched"] = sorted(touched - deltas.keys())
        case Break():
            header |= {
                "number": record.number,
                "reason": record.reason,
                "stamp": record.stamp,
                "columns": None if record.columns is None else _listed(record.columns),
            }
    head = json.dumps(header, separators=(",", ":")).encode()
    return [_HEADER.pack(len(head)), head, *bodies]


def _listed(columns: Mapping[str, frozenset[str] | None]) -> dict[str, list[str] | None]:
    return {name: None if found is None else sorted(found) for name, found in columns.items()}


def _packed(rows: Rows) -> memoryview:
    table = arrow_table(rows)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())


# Reading


def stored_in(path: Location, offset: int = 0) -> Iterator[StoredRecord]:
    """The whole records of a segment from an offset on, up to what a crash has cut off.

    What another process appends meanwhile may be there or not.
    """
    with path.open() as file:
        if not _check_start(file):
            return
        batch = None if offset > _START.size else 0
        offset = max(offset, _START.size)
        file.seek(offset)
        while frame := file.read(_FRAME.size):
            found = _stored(frame, file, offset)
            if found is None:
                if not _is_appended_to(path, offset):
                    return
                file.seek(offset)
                continue
            if found.batch != offset and found.batch != batch and batch is not None:
                raise DamageError(offset)  # something before it is missing, or was not there
            yield found
            offset, batch = found.end, found.batch


def surviving_numbers(path: Location) -> Iterator[int]:
    """The numbers of all records in a segment that can still be read, damaged or not."""
    try:
        with path.open() as file:
            data = file.read()
    except StoreError as error:
        raise store_trouble(error) from None
    except OSError:
        data = b""
    return (found.number for found in _all_in(data, 0) if found.number is not None)


def _check_start(file: IO[bytes]) -> bool:
    """Whether there is a start; one that a crash has cut off, or left zeros of, ends the segment.

    Nothing is written behind it before it is on the disk.
    """
    start = file.read(_START.size)
    if start == SEGMENT_START:
        return True
    torn = all(byte in (0, ours) for byte, ours in zip(start, SEGMENT_START, strict=False))
    if torn and next(_all_in(file.read(), len(start)), None) is None:
        return False
    magic, number = _START.unpack(start.ljust(_START.size, b"\0"))
    problem = format_problem(number, FORMAT) if magic == _MAGIC else None
    raise FormatError(problem or "begins with something else than a format number")


def _is_appended_to(path: Location, offset: int) -> bool:
    """Whether what could not be read can be read by now; DamageError if it never will.

    False if nothing counts behind it. What is read here is a state that the file has had, unless
    its owner has just cut off what a failed append left: then it differs at the second look.
    """
    for last in (False, True):
        with path.open() as file:
            file.seek(offset)
            rest = file.read()
        found = next(_all_in(rest, offset), None)
        if found is not None and found.offset == offset:
            return True
        later = (stored for stored in _all_in(rest, offset) if stored.batch > offset)
        if next(later, None) is None:
            return False
        if last:
            raise DamageError(offset)
    raise AssertionError


def _all_in(data: bytes, start: int) -> Iterator[StoredRecord]:
    """All whole records in a part of a segment that begins at `start`, whatever is between."""
    at = data.find(_MARK)
    while at >= 0:
        try:
            found = _stored_at(data, at, start + at)
        except DamageError:
            found = None
        yield from [found] if found else []
        at = data.find(_MARK, found.end - start if found else at + 1)


def _stored_at(data: bytes, at: int, offset: int) -> StoredRecord | None:
    frame = data[at : at + _FRAME.size]
    if len(frame) < _FRAME.size:
        return None
    _, size, _, _ = _FRAME.unpack(frame)
    return _opened(frame, data[at + _FRAME.size : at + _FRAME.size + size], offset)


def _stored(frame: bytes, file: IO[bytes], offset: int) -> StoredRecord | None:
    if len(frame) < _FRAME.size or not frame.startswith(_MARK):
        return None
    _, size, _, _ = _FRAME.unpack(frame)
    at = file.tell()
    left = file.seek(0, 2) - at
    file.seek(at)
    return _opened(frame, file.read(min(size, max(left, 0))), offset)


def _opened(frame: bytes, payload: bytes, offset: int) -> StoredRecord | None:
    mark, size, checksum, batch = _FRAME.unpack(frame)
    if mark != _MARK or len(payload) < size or _checksum([payload], batch) != checksum:
        return None
    try:
        (length,) = _HEADER.unpack_from(payload)
        start = _HEADER.size + length
        header = parse_json(payload[_HEADER.size : start])
    except (struct.error, ValueError):
        raise DamageError(offset) from None
    if not has_form(_form(header), header):
        raise DamageError(offset)
    return StoredRecord(offset, offset + _FRAME.size + size, batch, header, payload[start:])


def _form(header: object) -> TypeAdapter[Any]:
    """What a record has to look like; what it is, is told by its members."""
    if not isinstance(header, dict) or "number" not in header:
        return POSITION
    return BREAK if "reason" in header else CHANGE


def _change(source: str, header: Mapping[str, Any], body: bytes | None) -> Change:
    """What a header says, with the rows that are in a body, or without any."""
    updates, at = [], 0
    for name, columns, size in header["relations"]:
        schema = _schema(tuple(map(tuple, columns)))
        rows = Rows.empty(schema) if body is None else _rows(body[at : at + size], schema)
        updates.append(Update(name, rows))
        at += size
    updates += [Update(name, _NOTHING) for name in header.get("touched", ())]
    return Change(
        header["number"],
        Transaction(header["id"], tuple(updates), (source,), (source,), (), _tags(header)),
        header["position"],
        header["stamp"],
        tuple(header.get("others", ())),
    )


def _tags(header: Mapping[str, Any]) -> tuple[Tag, ...]:
    """Logs that were written before there were tags have none."""
    return tuple(Tag(*found) for found in header.get("tags", ()))


def _rows(packed: bytes, schema: Schema) -> Rows:
    with pyarrow.ipc.open_stream(packed) as reader:
        table = reader.read_all()
    table.validate(full=True)
    return rows_of_table(table, schema)


@lru_cache(maxsize=256)
def _schema(columns: tuple[tuple[str, str], ...]) -> Schema:
    return Schema.from_json(columns)


def _break(header: Mapping[str, Any]) -> Break:
    columns = header["columns"]
    return Break(
        header["number"],
        None
        if columns is None
        else {name: None if found is None else frozenset(found) for name, found in columns.items()},
        header["reason"],
        header["position"],
        header["stamp"],
    )
