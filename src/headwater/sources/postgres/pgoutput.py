"""Decodes PostgreSQL's logical replication stream: the output plugin pgoutput, protocol 1.

Pure functions from bytes to values. What a message means for Headwater is decided by the
monitor; the layout is in PostgreSQL's manual under "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Missing(Enum):
    """Stands for a large value that an update did not change and that was not sent again."""

    UNCHANGED = "unchanged"


UNCHANGED = Missing.UNCHANGED
Datum: TypeAlias = bytes | Missing | None
"""A value as text, NULL, or left out."""
Tuple: TypeAlias = tuple[Datum, ...]


@dataclass(frozen=True)
class Begin:
    """A transaction starts; `commit_lsn` is where its commit stands in the log."""

    commit_lsn: int
    xid: int
    committed_at: int = 0
    """In microseconds since the year 2000."""


@dataclass(frozen=True)
class Commit:
    """The transaction ends; the log goes on after it at `end_lsn`."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True)
class SentColumn:
    name: str
    type_oid: int
    modifier: int


@dataclass(frozen=True)
class SentRelation:
    """A table as it is at this point of the log; `identity` says what old rows hold."""

    oid: int
    namespace: str
    name: str
    identity: str
    columns: tuple[SentColumn, ...]


@dataclass(frozen=True)
class Insert:
    relation: int
    new: Tuple


@dataclass(frozen=True)
class Update:
    """`old` is None unless the old row or its key was sent; `whole` says which."""

    relation: int
    old: Tuple | None
    whole: bool
    new: Tuple


@dataclass(frozen=True)
class Delete:
    relation: int
    old: Tuple
    whole: bool


@dataclass(frozen=True)
class Truncate:
    relations: tuple[int, ...]


@dataclass(frozen=True)
class Message:
    """What a session wrote into the log by pg_logical_emit_message."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True)
class Other:
    """A type's name or a transaction's origin; of no interest here."""

    kind: str


PgMessage: TypeAlias = (
    Begin | Commit | SentRelation | Insert | Update | Delete | Truncate | Message | Other
)


class MalformedError(ValueError):
    """The bytes are not a message of pgoutput's protocol 1."""


_TWO = struct.Struct("!QQ")


def decode(data: bytes) -> PgMessage:
    """The message that `data` holds; MalformedError if there is none."""
    try:
        return _decode(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise MalformedError(f"cannot read a message of kind {data[:1]!r}: {error}") from None


def _decode(data: bytes) -> PgMessage:
    kind = data[:1]
    if kind == b"I":
        return Insert(_u32(data, 1), _read_tuple(data, 6)[0])
    if kind == b"U":
        return _update(data)
    if kind == b"D":
        return Delete(_u32(data, 1), _read_tuple(data, 6)[0], data[5:6] == b"O")
    if kind == b"B":
        commit_lsn, committed_at = _TWO.unpack_from(data, 1)
        return Begin(commit_lsn, _u32(data, 17), committed_at)
    if kind == b"C":
        return Commit(*_TWO.unpack_from(data, 2))
    if kind == b"R":
        return _relation(data)
    if kind == b"T":
        count = _u32(data, 1)
        return Truncate(struct.unpack_from(f"!{count}I", data, 6))
    if kind == b"M":
        return _message(data)
    if kind in (b"Y", b"O"):
        return Other(kind.decode())
    raise MalformedError("unknown kind")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4])


def _read_tuple(data: bytes, at: int) -> tuple[Tuple, int]:
    """The row that starts at a place, and where it ends."""
    count = int.from_bytes(data[at : at + 2])
    at += 2
    values: list[Datum] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: as text
            end = at + 4 + int.from_bytes(data[at : at + 4])
            values.append(data[at + 4 : end])
            at = end
        elif kind == 0x6E:  # n: NULL
            values.append(None)
        elif kind == 0x75:  # u: unchanged, not sent
            values.append(UNCHANGED)
        else:
            raise MalformedError(f"unknown value format {kind}")
    if at > len(data):
        raise MalformedError("cut off")
    return tuple(values), at


def _update(data: bytes) -> Update:
    relation = _u32(data, 1)
    kind = data[5:6]
    if kind == b"N":
        return Update(relation, None, False, _read_tuple(data, 6)[0])
    old, at = _read_tuple(data, 6)
    return Update(relation, old, kind == b"O", _read_tuple(data, at + 1)[0])


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _relation(data: bytes) -> SentRelation:
    namespace, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    count = int.from_bytes(data[at + 1 : at + 3])
    at += 3
    columns = []
    for _ in range(count):
        column, at = _text(data, at + 1)
        type_oid, modifier = struct.unpack_from("!Ii", data, at)
        columns.append(SentColumn(column, type_oid, modifier))
        at += 8
    # The system's own tables are sent with an empty schema name.
    return SentRelation(_u32(data, 1), namespace or "pg_catalog", name, identity, tuple(columns))


def _message(data: bytes) -> Message:
    (lsn,) = struct.unpack_from("!Q", data, 2)
    prefix, at = _text(data, 10)
    length = _u32(data, at)
    return Message(bool(data[1] & 1), lsn, prefix, bytes(data[at + 4 : at + 4 + length]))


def is_message(data: bytes | memoryview, prefix: str, longest: int) -> bool:
    """Whether this is a message under a prefix and not longer than some bytes; copies nothing."""
    start = prefix.encode() + b"\0"
    end = 10 + len(start)
    return data[10:end] == start and len(data) - end - 4 <= longest


def filled(new: Tuple, old: Sequence[Datum]) -> Tuple:
    """The new row, with values that were not sent taken from the whole old row."""
    if UNCHANGED not in new:
        return new
    return tuple(b if a is UNCHANGED else a for a, b in zip(new, old, strict=True))


def lsn_text(lsn: int) -> str:
    """A place in the log as PostgreSQL writes it: 0/16B3748."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)
