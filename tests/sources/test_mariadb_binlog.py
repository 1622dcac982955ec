"""Events as bytes: those of a MySQL server that was recorded, and those that no server here sends.

`recorded/mysql-5.6.binlog` was written by MySQL 5.6.14 with GTIDs. That version does not log the
names of columns yet; where rows are to be read they are put in, in the form that MySQL 8 has.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.errors import BrokenLogError
from headwater.sources.contract import Broken, Committed, Logged
from headwater.sources.mariadb import binlog
from headwater.sources.mariadb.binlog import Header
from headwater.sources.mariadb.log import Interpreter
from headwater.sources.mariadb.meanings import Declared, form_of
from headwater.sources.mariadb.places import LogPosition, Place, PlaceSnapshot
from headwater.sources.mariadb.types import Table, TableColumn

RECORDED = Path(__file__).parent / "recorded" / "mysql-5.6.binlog"
NAMES = ("id", "name", "price", "made", "b", "extra")
DECLARED = {
    "id": "int", "name": "varchar(20)", "price": "decimal(10,2)", "made": "datetime(3)",
    "b": "bigint unsigned",
}  # fmt: skip


def recorded() -> Iterator[tuple[Header, bytes]]:
    """The events of the file, without their checksums."""
    data, at = RECORDED.read_bytes(), 4
    while at < len(data):
        header = Header.of(data[at:])
        event = data[at : at + header.size]
        is_right = zlib.crc32(event[:-4]) == int.from_bytes(event[-4:], "little")
        assert is_right or header.type == 15  # which says that the file is still written
        yield header, event[binlog.HEADER.size : -4 if header.type != 15 else None]
        at += header.size


def described(header: Header, body: bytes) -> bytes:
    """A table's description with what MySQL 8 adds: which numbers have no sign, and names."""
    if header.type != 19:
        return body
    event = binlog.decode(header, memoryview(body))
    assert isinstance(event, binlog.TableMap)
    names = b"".join(bytes([len(name)]) + name.encode() for name in NAMES[: len(event.columns)])
    signs = bytes([1, 1, 0b00100000])  # of id, price and b the last one
    return body + signs + bytes([4, len(names)]) + names


def interpreter(source: str = "m") -> Interpreter:
    columns = tuple(
        TableColumn(name, shown, form_of(Declared(shown.split("(")[0].split()[0], shown,
                                                  "utf8mb4", "", "mysql")))
        for name, shown in DECLARED.items()
    )  # fmt: skip
    table = Table("shop", "items", columns, ("id",), "items", frozenset(DECLARED))
    at = LogPosition(Place("rec.000001", 4), "log")
    name = ("shop", "items")
    return Interpreter(source, {"items": table}, {}, {name: ["items"]}, ("shop", "own"), at)


def take_all(machine: Interpreter, *, with_names: bool = True) -> list[Logged]:
    found: list[Logged] = []
    for header, body in recorded():
        data = described(header, body) if with_names else body
        found += machine.take(header, memoryview(data))
    return found


def test_a_recorded_log_of_mysql_gives_its_transactions() -> None:
    found = take_all(interpreter())
    transactions = [item for item in found if isinstance(item, Committed)]
    (insert, update, delete) = [t.transaction.updates[0].delta for t in transactions]
    moment = datetime(2024, 2, 29, 1, 2, 3, 45000)
    first = (1, "ä", Decimal("1.50"), moment, Decimal(2**64 - 1))
    second = (2, None, Decimal("-2.25"), None, Decimal(0))
    assert dict(insert.items()) == {first: 1, second: 1}
    assert dict(update.items()) == {first: -1, (*first[:2], Decimal("2.50"), *first[3:]): 1}
    assert dict(delete.items()) == {second: -1}
    assert transactions[0].transaction.id.endswith(":3@rec.000001:855")


def test_statements_in_a_recorded_log_of_mysql_are_seen() -> None:
    found = take_all(interpreter())
    (gap,) = [item for item in found if isinstance(item, Broken)]
    assert gap.columns == {"m.items": None}
    assert "TRUNCATE" in gap.reason
    assert interpreter().at.at.position == 4


def test_rows_without_names_of_columns_are_a_gap() -> None:
    found = take_all(interpreter(), with_names=False)
    assert any("binlog_row_metadata" in g.reason for g in found if isinstance(g, Broken))
    for item in found:
        if isinstance(item, Committed):
            assert item.transaction.updates == ()


def test_reading_goes_on_in_the_middle_of_a_recorded_log_and_knows_it_again() -> None:
    whole = [item for item in take_all(interpreter()) if isinstance(item, Committed)]
    second = interpreter()
    second.at = LogPosition.of(whole[0].position)
    assert second.at.last is not None
    again = Interpreter(
        "m", second._tables, {}, {("shop", "items"): ["items"]}, ("shop", "own"), second.at
    )
    found: list[Logged] = []
    for header, body in recorded():
        if header.end > second.at.last.start.position:
            found += again.take(header, memoryview(described(header, body)))
    assert [item for item in found if isinstance(item, Committed)] == whole[1:]
    other = replace(second.at, last=replace(second.at.last, checksum=1))
    wrong = Interpreter(
        "m", second._tables, {}, {("shop", "items"): ["items"]}, ("shop", "own"), other
    )
    events = ((h, b) for h, b in recorded() if h.end > other.begin.position)
    with pytest.raises(BrokenLogError, match="headwater repair m"):
        _take_each(wrong, events)


def _take_each(machine: Interpreter, events: Iterable[tuple[Header, bytes]]) -> None:
    for header, body in events:
        machine.take(header, memoryview(described(header, body)))


# Events that are made by hand, as the manual of MySQL 8 describes them


def event(kind: int, body: bytes, end: int) -> tuple[Header, memoryview]:
    return Header(0, kind, 1, len(body) + binlog.HEADER.size, end, False), memoryview(body)


class Log:
    """Hands events to a machine, one behind the other."""

    def __init__(self) -> None:
        self.machine = interpreter()
        self.end = 4

    def take(self, kind: int, body: bytes) -> list[Logged]:
        self.end += len(body) + binlog.HEADER.size
        return list(self.machine.take(*event(kind, body, self.end)))

    def statement(self, text: str, kind: int = 2) -> list[Logged]:
        head = struct.pack("<IIBHH", 0, 0, 4, 0, 0)
        return self.take(kind, head + b"shop\0" + text.encode())


GTID = b"\0" + bytes(16) + struct.pack("<Q", 7)


def test_a_statement_of_mysql_is_a_group_of_its_own_with_and_without_a_name() -> None:
    for kind, body in ((33, GTID), (34, GTID)):
        log = Log()
        log.take(kind, body)
        (gap,) = log.statement("DROP TABLE items")
        assert isinstance(gap, Broken)
        assert log.machine.reached == Place("rec.000001", log.end).stamp


def test_an_xa_transaction_of_mysql_is_committed_by_another_group() -> None:
    items = [(h, described(h, b)) for h, b in recorded() if h.type in (19, 30)]
    log = Log()
    log.take(33, GTID)
    log.statement("XA START X'6f6e65',X'',1")
    for header, body in items[:2]:
        log.take(header.type, body)
    log.statement("XA END X'6f6e65',X'',1")
    assert log.take(38, struct.pack("<Biii", 0, 1, 3, 0) + b"one") == []
    assert log.machine.at.prepared
    log.take(33, GTID)
    (done,) = log.statement("XA COMMIT X'6f6e65',X'',1")
    assert isinstance(done, Committed)
    assert len(done.transaction.updates[0].delta) == 2
    assert not log.machine.at.prepared


def test_a_group_that_has_no_end_when_the_server_dies_never_was() -> None:
    items = [(h, described(h, b)) for h, b in recorded() if h.type in (19, 30)]
    log = Log()
    log.take(33, GTID)
    log.statement("BEGIN")
    for header, body in items[:2]:
        log.take(header.type, body)
    rotate = struct.pack("<Q", 4) + b"rec.000002"
    log.machine.take(Header(0, 4, 1, len(rotate) + 19, 0, True), memoryview(rotate))
    log.end = 4
    log.take(33, GTID)
    log.statement("BEGIN")
    assert log.take(16, bytes(8)) == []


def test_what_cannot_be_read_of_mysql_stops_with_a_remedy() -> None:
    log = Log()
    log.take(33, GTID)
    with pytest.raises(BrokenLogError, match="binlog_transaction_compression = OFF"):
        log.take(40, b"\0")
    with pytest.raises(BrokenLogError, match="kind 99"):
        Log().take(99, b"")


def test_parts_of_json_values_are_a_gap() -> None:
    items = [(h, described(h, b)) for h, b in recorded() if h.type == 19]
    log = Log()
    log.take(33, GTID)
    log.statement("BEGIN")
    log.take(19, items[0][1])
    log.take(39, items[0][1][:6] + bytes(20))
    (gap,) = log.take(16, bytes(8))
    assert isinstance(gap, Broken)
    assert "binlog_row_value_options" in gap.reason


def test_an_incident_is_a_gap_of_everything() -> None:
    (gap,) = Log().take(26, b"\x01\0\0")
    assert isinstance(gap, Broken)
    assert gap.columns == {"m.items": None}


def test_bytes_that_are_no_event_are_told_as_such() -> None:
    with pytest.raises(binlog.CorruptEventError):
        binlog.decode(*event(19, b"\1\2", 30))
    with pytest.raises(binlog.CorruptEventError):
        Header.of(b"short")


def test_places_have_one_order_over_files_and_snapshots_hold_what_ends_before_them() -> None:
    first, second = Place("b.000009", 1 << 40), Place("b.000010", 4)
    assert first.stamp < second.stamp
    assert Place.parse(str(first)) == first
    snapshot = PlaceSnapshot(second.stamp, "17")
    assert snapshot.includes(first.stamp)
    assert not snapshot.includes(second.stamp + 1)
    assert PlaceSnapshot.parse(str(snapshot)) == snapshot


def test_an_event_that_cannot_be_decoded_is_the_end_and_not_a_lost_connection() -> None:
    reader = interpreter()
    for header, body in recorded():
        if header.type == 19:
            break
        reader.take(header, memoryview(body))
    with pytest.raises(
        BrokenLogError, match=r"an event behind rec\.000001:\d+ that cannot be read"
    ):
        reader.take(header, memoryview(body[:9]))
