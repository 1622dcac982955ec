from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.postgres import pgoutput
from headwater.sources.postgres.pgoutput import UNCHANGED, Datum, MalformedError, decode, filled
from headwater.sources.postgres.position import LogPosition
from headwater.sources.postgres.snapshot import XidSnapshot, full_xid


def sent(values: tuple[Datum, ...]) -> bytes:
    """A row as the server writes it."""
    parts = [struct.pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, bytes):
            parts.append(b"t" + struct.pack("!I", len(value)) + value)
        else:
            parts.append(b"u")
    return b"".join(parts)


ROWS = st.lists(st.one_of(st.none(), st.just(UNCHANGED), st.binary()), max_size=5).map(tuple)
OIDS = st.integers(0, 2**32 - 1)


@given(OIDS, ROWS, ROWS, st.sampled_from([b"K", b"O"]))
def test_changes_of_rows_are_read_as_they_were_written(
    oid: int, old: tuple[Datum, ...], new: tuple[Datum, ...], kind: bytes
) -> None:
    relation = struct.pack("!I", oid)
    whole = kind == b"O"
    assert decode(b"I" + relation + b"N" + sent(new)) == pgoutput.Insert(oid, new)
    assert decode(b"D" + relation + kind + sent(old)) == pgoutput.Delete(oid, old, whole)
    update = b"U" + relation + kind + sent(old) + b"N" + sent(new)
    assert decode(update) == pgoutput.Update(oid, old, whole, new)
    plain = b"U" + relation + b"N" + sent(new)
    assert decode(plain) == pgoutput.Update(oid, None, False, new)


def test_the_frame_of_a_transaction_is_read() -> None:
    assert decode(b"B" + struct.pack("!QQI", 7, 0, 9)) == pgoutput.Begin(7, 9)
    assert decode(b"C\0" + struct.pack("!QQQ", 7, 8, 0)) == pgoutput.Commit(7, 8)
    assert decode(b"T" + struct.pack("!IBII", 2, 0, 5, 6)) == pgoutput.Truncate((5, 6))
    message = b"M\1" + struct.pack("!Q", 3) + b"headwater\0" + struct.pack("!I", 2) + b"ab"
    assert decode(message) == pgoutput.Message(True, 3, "headwater", b"ab")
    assert decode(b"O" + bytes(8) + b"origin\0") == pgoutput.Other("O")
    assert decode(b"Y" + bytes(4) + b"public\0kind\0") == pgoutput.Other("Y")


def test_a_table_is_read_with_its_columns() -> None:
    column = (
        b"\1id\0" + struct.pack("!Ii", 20, -1) + b"\0pr\xc3\xbcfung\0" + struct.pack("!Ii", 25, 9)
    )
    data = b"R" + struct.pack("!I", 4) + b"sales\0lines\0f" + struct.pack("!H", 2) + column
    columns = (pgoutput.SentColumn("id", 20, -1), pgoutput.SentColumn("prüfung", 25, 9))
    assert decode(data) == pgoutput.SentRelation(4, "sales", "lines", "f", columns)


@given(st.binary(max_size=40))
def test_damaged_bytes_are_refused_or_read_but_never_fail_otherwise(data: bytes) -> None:
    try:
        decode(data)
    except MalformedError:
        return


def test_a_row_that_was_cut_off_is_refused() -> None:
    whole = b"I" + struct.pack("!I", 1) + b"N" + sent((b"abc", None))
    for size in range(len(whole) - 1):
        with pytest.raises(MalformedError):
            decode(whole[:size])


def test_values_that_were_not_sent_come_from_the_old_row() -> None:
    assert filled((b"1", UNCHANGED, None), (b"0", b"large", b"x")) == (b"1", b"large", None)


@given(st.integers(0, 2**63), st.integers(-(2**31) + 1, 2**31 - 1))
def test_a_number_of_64_bits_is_found_from_its_lower_32(near: int, distance: int) -> None:
    full = near + distance
    if full >= 0:
        assert full_xid(full % 2**32, near) == full


def test_a_snapshot_holds_what_it_says() -> None:
    snapshot = XidSnapshot.parse("10:20:12,15")
    assert [x for x in range(25) if not snapshot.includes(x)] == [12, 15, 20, 21, 22, 23, 24]
    assert XidSnapshot.parse(str(snapshot)) == snapshot
    assert XidSnapshot.parse("10:10:") == XidSnapshot(10, 10, frozenset())


def test_a_position_after_a_load_covers_what_the_load_saw() -> None:
    position = LogPosition(100, XidSnapshot.parse("10:20:12"), 200)
    assert LogPosition.of(position.json()) == position
    assert position.covers(99, 12)
    assert position.covers(150, 11)
    assert not position.covers(150, 12)
    assert not position.covers(200, 11)
    assert position.moved(150).covers(160, 11)
    assert position.moved(200) == LogPosition(200)
