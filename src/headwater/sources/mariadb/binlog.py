"""Events of a binary log, decoded from their bytes; no connection, and no meaning of values.

The format is that of version 4, which MariaDB and MySQL share but for how they name transactions.
A kind of event that is not known here is `Other`: whoever reads decides what may be passed over.

Choices: a decoder of our own, see docs/decisions/0040-a-binlog-decoder.md.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

HEADER = struct.Struct("<IBIIIH")
_CRC_BYTES = 4
_ARTIFICIAL = 0x20
_MOST_BYTES = 1 << 32


class CorruptEventError(ValueError):
    """Bytes that are no event."""


@dataclass(frozen=True, slots=True)
class Header:
    """What every event begins with; `end` has its lower 32 bits only."""

    timestamp: int
    type: int
    server: int
    size: int
    end: int
    is_artificial: bool

    @classmethod
    def of(cls, data: bytes | memoryview) -> Header:
        if len(data) < HEADER.size:
            raise CorruptEventError("an event is shorter than its header")
        timestamp, kind, server, size, end, flags = HEADER.unpack_from(data)
        return cls(timestamp, kind, server, size, end, bool(flags & _ARTIFICIAL) or not end)


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log goes on in another file."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Format:
    """How the events behind it are written."""

    has_checksums: bool


@dataclass(frozen=True, slots=True)
class Gtid:
    """A group of events begins; `id` is empty where it has no name.

    Of one that `has_end` an event ends it; any other says by its first statement whether it has.
    """

    id: str
    has_end: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it was given, with the database that was in use."""

    database: str
    text: str
    is_certain: bool = True
    """Whether its text is what the session meant: as UTF-8, with backslashes that escape."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The group ends, and its transaction is committed."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The group ends, and its transaction waits for another group to commit it."""

    xid: str
    is_committed: bool


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column as the log describes it.

    `meta` is what its type needs to be read; `labels` are those of an enumeration or a set, as
    bytes in its character set; `collation` is a number that the server knows.
    """

    name: str
    type: int
    meta: int
    is_unsigned: bool = False
    collation: int = 0
    labels: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMap:
    """What rows with a number are of, from here on; without `is_described` columns lack names."""

    number: int
    database: str
    table: str
    columns: tuple[WireColumn, ...]
    is_described: bool


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows that came, went, or were changed; the images say which columns are there.

    `before` and `after` have a bit for each column, or are None where there is no such image.
    Without `data` the event has a form that cannot be read.
    """

    number: int
    before: int | None
    after: int | None
    width: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing has happened."""


@dataclass(frozen=True, slots=True)
class Incident:
    """The server says that something is missing here."""


@dataclass(frozen=True, slots=True)
class Other:
    """Something else, of this kind."""

    type: int


Event: TypeAlias = (
    Rotate
    | Format
    | Gtid
    | Statement
    | Commit
    | Prepared
    | TableMap
    | RowChanges
    | Heartbeat
    | Incident
    | Other
)

_WRITE, _UPDATE, _DELETE = (20, 23, 30, 166, 169), (24, 31, 167, 170), (25, 32, 168, 171)
_SECOND_VERSION = (30, 31, 32, 39, 169, 170, 171)
_COMPRESSED = (165, 166, 167, 168, 169, 170, 171)
PARTIAL_UPDATE = 39
PASSED_OVER = frozenset({3, 5, 13, 14, 28, 29, 35, 36, 37, 160, 161, 163, 164})
"""Kinds without effect on rows: ends, variables of statements, notes, lists of names."""


def name_of(header: Header, body: memoryview) -> tuple[str, str]:
    """The database and the name of a table that an event describes."""
    try:
        database, at = _short_name(body, 8)
        return database, _short_name(body, at)[0]
    except (IndexError, UnicodeDecodeError) as error:
        raise CorruptEventError(f"an event of kind {header.type} cannot be read: {error}") from None


def decode(header: Header, body: memoryview) -> Event:
    """What an event says; `body` is without header and checksum."""
    try:
        return _decode(header, body)
    except (IndexError, struct.error, UnicodeDecodeError, zlib.error) as error:
        raise CorruptEventError(f"an event of kind {header.type} cannot be read: {error}") from None


def _decode(header: Header, body: memoryview) -> Event:
    kind = header.type
    match kind:
        case 4:
            return Rotate(bytes(body[8:]).decode(), int.from_bytes(body[:8], "little"))
        case 15:
            return Format(body[-5] == 1 and len(body) > 80)
        case 162:
            return _mariadb_gtid(body)
        case 33 | 42:
            return Gtid(_mysql_gtid(body) if kind == 33 else "")
        case 34:
            return Gtid("")
        case 2 | 165:
            return _statement(body, kind == 165)
        case 17 | 18:
            return Statement("", "LOAD DATA")
        case 16:
            return Commit()
        case 38:
            return _prepared(body)
        case 19:
            return _table_map(body)
        case 27 | 41:
            return Heartbeat()
        case 26:
            return Incident()
        case 39:
            return RowChanges(int.from_bytes(body[:6], "little"), 0, 0, 0, None)
    if kind in _WRITE or kind in _UPDATE or kind in _DELETE:
        return _row_changes(kind, body)
    return Other(kind)


_STANDALONE = 1


def _mariadb_gtid(body: memoryview) -> Gtid:
    number, domain, flags = struct.unpack_from("<QIB", body)
    return Gtid(f"{domain}-{number}", not flags & _STANDALONE)


def _mysql_gtid(body: memoryview) -> str:
    """The identifier of a server and a number."""
    server = bytes(body[1:17]).hex()
    (number,) = struct.unpack_from("<Q", body, 17)
    return f"{server}:{number}"


def _statement(body: memoryview, is_compressed: bool) -> Statement:
    _, _, length, _, status = struct.unpack_from("<IIBHH", body)
    at = 13 + status
    database = bytes(body[at : at + length]).decode("utf-8", "replace")
    text = bytes(body[at + length + 1 :])
    if is_compressed:
        text = uncompressed(text)
    mode, client = _session(bytes(body[13:at]))
    is_certain = (text.isascii() or _is_utf8(client)) and not (b"\\" in text and mode & _BARE)
    return Statement(database, text.decode("utf-8", "replace"), is_certain)


_BARE = 4 | 1 << 20
"""`sql_mode`s in which a backslash in double quotes, or everywhere, is no more than that."""
_STATUS_BYTES = {0: 4, 1: 8, 3: 4, 4: 6}
"""The first of what a session was like, in the order in which both servers write it."""
_CATALOG = 6
_SQL_MODE, _CLIENT = 1, 4


def _session(status: bytes) -> tuple[int, int | None]:
    """The `sql_mode` and the collation of the client of a statement; None if that is not told."""
    at, mode, client = 0, 0, None
    while at < len(status):
        code = status[at]
        size = 1 + status[at + 1] if code == _CATALOG else _STATUS_BYTES.get(code)
        if size is None:
            break
        value = status[at + 1 : at + 1 + size]
        if code == _SQL_MODE:
            mode = int.from_bytes(value, "little")
        elif code == _CLIENT:
            client = int.from_bytes(value[:2], "little")
        at += 1 + size
    return mode, client


def _is_utf8(collation: int | None) -> bool:
    """Whether a client spoke UTF-8: the numbers of its collations, those of MariaDB 10.10 too."""
    return collation is not None and (
        collation in (33, 45, 46, 83)
        or 192 <= collation <= 247
        or 576 <= collation <= 578
        or 608 <= collation <= 611
        or 2048 <= collation <= 2559
    )


def uncompressed(data: bytes) -> bytes:
    """What MariaDB has compressed: a byte that says how, the length, and the rest."""
    how = data[0]
    if not how & 0x80 or how & 0x70:
        raise CorruptEventError("it is compressed in a way that is not known")
    size = how & 7
    length = int.from_bytes(data[1 : 1 + size], "big")
    if length >= _MOST_BYTES:
        raise CorruptEventError("it is too long")
    return zlib.decompress(data[1 + size :])


def _prepared(body: memoryview) -> Prepared:
    at_once, form, first, second = struct.unpack_from("<Biii", body)
    name = bytes(body[13 : 13 + first + second]).hex()
    return Prepared(f"X'{name[: 2 * first]}',X'{name[2 * first :]}',{form}", bool(at_once))


def _row_changes(kind: int, body: memoryview) -> RowChanges:
    number = int.from_bytes(body[:6], "little")
    at = 8
    if kind in _SECOND_VERSION:
        at += int.from_bytes(body[8:10], "little")
    width, at = _packed(body, at)
    size = (width + 7) // 8
    first = int.from_bytes(body[at : at + size], "little")
    at += size
    before = after = None
    if kind in _WRITE:
        after = first
    else:
        before = first
    if kind in _UPDATE:
        after = int.from_bytes(body[at : at + size], "little")
        at += size
    data = bytes(body[at:])
    return RowChanges(
        number, before, after, width, uncompressed(data) if kind in _COMPRESSED else data
    )


# Tables

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, VARCHAR, BIT = 10, 11, 12, 13, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
JSON, NEWDECIMAL, ENUM, SET, BLOB, VAR_STRING, STRING, GEOMETRY = (
    245, 246, 247, 248, 252, 253, 254, 255,
)  # fmt: skip
_META_BYTES = {
    **dict.fromkeys((FLOAT, DOUBLE, TIMESTAMP2, DATETIME2, TIME2, BLOB, JSON, GEOMETRY), 1),
    **dict.fromkeys((VARCHAR, VAR_STRING, BIT, NEWDECIMAL, STRING, ENUM, SET), 2),
    BLOB_COMPRESSED: 1,
    VARCHAR_COMPRESSED: 2,
}
_KNOWN = frozenset(
    (TINY, SHORT, LONG, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, 14, *_META_BYTES)
)
_NUMERIC = (TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL)
_CHARACTERS = (STRING, VAR_STRING, VARCHAR, BLOB, BLOB_COMPRESSED, VARCHAR_COMPRESSED, GEOMETRY)
_BIG_ENDIAN_META = (STRING, ENUM, SET, NEWDECIMAL)


def _table_map(body: memoryview) -> TableMap:
    number = int.from_bytes(body[:6], "little")
    database, at = _short_name(body, 8)
    table, at = _short_name(body, at)
    count, at = _packed(body, at)
    types = bytes(body[at : at + count])
    if not _KNOWN.issuperset(types):
        return TableMap(number, database, table, (), False)
    size, at = _packed(body, at + count)
    metas = _metas(types, bytes(body[at : at + size]))
    at += size + (count + 7) // 8
    types, metas = _real_types(types, metas)
    told = _optional(body, at)
    names = _names(told.get(4, b""))
    columns = _columns(types, metas, names, told)
    return TableMap(number, database, table, columns, len(names) == count)


def _metas(types: bytes, data: bytes) -> list[int]:
    found, at = [], 0
    for kind in types:
        size = _META_BYTES.get(kind, 0)
        order = "big" if kind in _BIG_ENDIAN_META else "little"
        found.append(int.from_bytes(data[at : at + size], order))  # type: ignore[arg-type] # it is one of both
        at += size
    return found


def _real_types(types: bytes, metas: Sequence[int]) -> tuple[bytes, list[int]]:
    """Enumerations and sets are described as strings, and the length of long ones is spread."""
    kinds, lengths = bytearray(types), list(metas)
    for at, (kind, meta) in enumerate(zip(types, metas, strict=True)):
        if kind != STRING:
            continue
        real, length = meta >> 8, meta & 0xFF
        if real & 0x30 != 0x30:
            length |= ((real & 0x30) ^ 0x30) << 4
            real |= 0x30
        kinds[at] = real if real in (ENUM, SET) else STRING
        lengths[at] = length
    return bytes(kinds), lengths


def _optional(body: memoryview, at: int) -> dict[int, bytes]:
    """What is told of columns beyond what it takes to step over them, by its kind."""
    found = {}
    while at < len(body):
        kind = body[at]
        size, at = _packed(body, at + 1)
        found[kind] = bytes(body[at : at + size])
        at += size
    return found


def _columns(
    types: bytes, metas: Sequence[int], names: Sequence[str], told: dict[int, bytes]
) -> tuple[WireColumn, ...]:
    numeric = [at for at, kind in enumerate(types) if kind in _NUMERIC]
    bits = told.get(1, b"")
    unsigned = {
        at for n, at in enumerate(numeric) if n // 8 < len(bits) and bits[n // 8] << n % 8 & 0x80
    }
    texts = [at for at, kind in enumerate(types) if kind in _CHARACTERS]
    chosen = [at for at, kind in enumerate(types) if kind in (ENUM, SET)]
    collations = {
        **_collations(texts, told.get(2), told.get(3)),
        **_collations(chosen, told.get(10), told.get(11)),
    }
    labels = {
        **dict(
            zip((a for a in chosen if types[a] == SET), _labels(told.get(5, b"")), strict=False)
        ),
        **dict(
            zip((a for a in chosen if types[a] == ENUM), _labels(told.get(6, b"")), strict=False)
        ),
    }
    return tuple(
        WireColumn(
            names[at] if at < len(names) else "",
            kind,
            metas[at],
            at in unsigned,
            collations.get(at, 0),
            labels.get(at, ()),
        )
        for at, kind in enumerate(types)
    )


def _collations(places: Sequence[int], default: bytes | None, each: bytes | None) -> dict[int, int]:
    if each is not None:
        return dict(zip(places, _numbers(each), strict=False))
    if default is None:
        return {}
    first, *others = _numbers(default)
    found = dict.fromkeys(places, first)
    for index, collation in zip(others[::2], others[1::2], strict=True):
        found[places[index]] = collation
    return found


def _numbers(data: bytes) -> list[int]:
    found, at, view = [], 0, memoryview(data)
    while at < len(data):
        number, at = _packed(view, at)
        found.append(number)
    return found


def _strings(data: bytes, count: int, at: int) -> tuple[list[bytes], int]:
    found, view = [], memoryview(data)
    for _ in range(count):
        size, at = _packed(view, at)
        found.append(data[at : at + size])
        at += size
    return found, at


def _names(data: bytes) -> list[str]:
    found, at = [], 0
    while at < len(data):
        (name,), at = _strings(data, 1, at)
        found.append(name.decode())
    return found


def _labels(data: bytes) -> list[tuple[bytes, ...]]:
    found, at = [], 0
    while at < len(data):
        count, at = _packed(memoryview(data), at)
        labels, at = _strings(data, count, at)
        found.append(tuple(labels))
    return found


def _short_name(body: memoryview, at: int) -> tuple[str, int]:
    size = body[at]
    return bytes(body[at + 1 : at + 1 + size]).decode(), at + size + 2


def _packed(data: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
