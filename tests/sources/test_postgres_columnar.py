"""Read by columns or row by row, the log and the answers of PostgreSQL say the same."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.algebra.values import BOOL, DATE, INT, TEXT, Row, decimal_type
from headwater.errors import SourceError
from headwater.frames.columns import Columns
from headwater.sources.contract import Broken, Committed, Logged
from headwater.sources.postgres.columnar import MANY, rows_of_csv, rows_of_messages
from headwater.sources.postgres.log import Interpreter
from headwater.sources.postgres.pgoutput import UNCHANGED, Datum
from headwater.sources.postgres.position import LogPosition
from headwater.sources.postgres.sight import Sight
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.types import Table, TableColumn
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import answered, committed, read_log
from tests.sources.test_postgres_decoder import sent

COLUMNS = (
    TableColumn("id", 20, -1, "bigint", 0, INT),
    TableColumn("unused", 17, -1, "bytea", 0, TEXT),
    TableColumn("sure", 16, -1, "boolean", 0, BOOL),
    TableColumn("price", 1700, 0, "numeric(12,2)", 0, decimal_type(12, 2)),
    TableColumn("code", 1042, 9, "char(5)", 0, TEXT, "padded"),
    TableColumn("note", 25, -1, "text", 0, TEXT),
    TableColumn("day", 1082, -1, "date", 0, DATE),
)
TABLE = Table(
    7, "public", "t", "f", COLUMNS, ("id",),
    used=frozenset(column.name for column in COLUMNS if column.name != "unused"),
)  # fmt: skip
OID = struct.pack("!I", TABLE.oid)
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
IMAGES = st.tuples(
    st.integers(0, 3).map(lambda n: str(n).encode()),
    st.none() | st.binary(max_size=3),
    st.none() | st.sampled_from([b"t", b"f"]),
    st.none() | st.sampled_from([b"0.00", b"-1.50", b"9999999999.99"]),
    st.none() | st.sampled_from([b"a    ", b"     ", "äö   ".encode()]),
    st.none() | _TEXT.map(str.encode),
    st.none() | st.sampled_from([b"1970-01-01", b"0001-01-01", b"9999-12-31"]),
)
MESSAGES = st.one_of(
    IMAGES.map(lambda new: b"I" + OID + b"N" + sent(new)),
    IMAGES.map(lambda old: b"D" + OID + b"O" + sent(old)),
    st.tuples(IMAGES, IMAGES).map(
        lambda pair: b"U" + OID + b"O" + sent(pair[0]) + b"N" + sent(pair[1])
    ),
)


def interpreter() -> Interpreter:
    return Interpreter("s", {"t": TABLE}, {}, "slot", LogPosition(0), 0, Nothing())


class Nothing:
    """A catalog in which nothing is to be seen."""

    def look(self, including: int | None = None) -> Sight:
        return Sight(XidSnapshot(3, 3, frozenset()), 0, {})

    def columns(self, oid: int) -> Sequence[str]:
        return ()


def described() -> bytes:
    """The message that says which columns rows have."""
    columns = b"".join(
        b"\0" + column.name.encode() + b"\0" + struct.pack("!Ii", column.oid, column.modifier)
        for column in TABLE.columns
    )
    label = TABLE.schema.encode() + b"\0" + TABLE.name.encode() + b"\0"
    return b"R" + OID + label + b"f" + struct.pack("!H", len(TABLE.columns)) + columns


def row_by_row(messages: list[bytes]) -> Rows:
    return interpreter()._row_by_row(messages, TABLE)


@given(st.lists(MESSAGES, max_size=8))
def test_messages_mean_the_same_by_columns_and_row_by_row(messages: list[bytes]) -> None:
    assert rows_of_messages(messages, TABLE) == row_by_row(messages)


def image(**changed: Datum) -> tuple[Datum, ...]:
    usual: dict[str, Datum] = {
        "id": b"1", "unused": None, "sure": b"t", "price": b"1.00", "code": b"a    ",
        "note": b"n", "day": b"2024-02-29",
    }  # fmt: skip
    return tuple((usual | changed).values())


@pytest.mark.parametrize(
    "message",
    [
        b"I" + OID + b"N" + sent(image(day=b"infinity")),
        b"I" + OID + b"N" + sent(image(price=b"NaN")),
        b"I" + OID + b"N" + sent(image(day=b"0044-03-15 BC")),
        b"I" + OID + b"N" + sent(image()[:-1]),
        b"U" + OID + b"O" + sent(image()) + b"N" + sent(image(note=UNCHANGED)),
        b"U" + OID + b"N" + sent(image()),
        b"D" + OID + b"K" + sent(image()),
    ],
)
def test_what_columns_cannot_hold_is_left_to_the_reader_of_rows(message: bytes) -> None:
    assert rows_of_messages([message], TABLE) is None


def test_an_answer_is_read_in_blocks_however_large_their_rows_are() -> None:
    note = TABLE.by_name["note"]
    schema = Schema.of([("note", TEXT)])
    found = rows_of_csv([b"x\n", b"y" * 10_000_000 + b"\n" + b"x\n", b'"a\nb"\n'], [note], schema)
    assert found == Rows(schema, {("x",): 2, ("y" * 10_000_000,): 1, ("a\nb",): 1})


def test_an_answer_that_columns_cannot_hold_is_received_to_its_end() -> None:
    """Else the connection would still be copying when the next statement comes."""
    blocks = iter([b"2024-01-01\n", b"4713-01-01 BC\n", b"2024-01-02\n"])
    day = TABLE.by_name["day"]
    assert rows_of_csv(blocks, [day], Schema.of([("day", DATE)])) is None
    assert next(blocks, None) is None


KINDS = Schema.of(
    [
        ("id", INT), ("sure", BOOL), ("price", decimal_type(12, 2)), ("note", TEXT), ("day", DATE),
    ]
)  # fmt: skip
NOTES = ["", " ", "a,b", 'say "so"', "line\nline\r\n", "\\.", "\\N", "NULL", "ü€🙂", None]


def rows(count: int) -> list[Row]:
    return [
        (
            at,
            (True, False, None)[at % 3],
            (Decimal("-0.10"), Decimal("9999999999.99"), None)[at % 3],
            NOTES[at % len(NOTES)],
            (date(1, 1, 1), date(9999, 12, 31), None)[at % 3],
        )
        for at in range(count)
    ]


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    yield harness
    harness.close()


def written(harness: PostgresHarness, count: int) -> None:
    """One transaction with so many rows."""
    writer = harness.writer()
    with writer.transaction():
        for row in rows(count):
            writer.execute("INSERT INTO kinds VALUES (?, ?, ?, ?, ?)", row)


def test_a_large_transaction_and_a_large_answer_hold_what_was_written(
    harness: PostgresHarness,
) -> None:
    harness.create_table("kinds", KINDS, ["id"])
    source = harness.source(["kinds"])
    source.setup()
    monitor = source.open_monitor(None)
    written(harness, MANY + 5)
    expected = Counter(rows(MANY + 5))
    (item,) = read_log(monitor, 1)
    delta = local(item.transaction)["kinds"]
    assert isinstance(delta, Columns)
    assert dict(delta.items()) == expected
    relations = source.relations()
    view = parse_view("SELECT * FROM kinds", relations)
    assert answered(source, query_of(view)) == [expected]
    pairs = parse_view(
        "SELECT a.*, b.note AS other FROM kinds a JOIN kinds b ON a.id = b.id",
        relations,
    )
    (term,) = query_of(pairs)
    bound = bind_delta(term, 0, delta)
    wanted = {(*row, row[3]): 1 for row in expected}
    assert answered(source, (bound,)) == [wanted]
    monitor.close()


def test_a_value_that_no_date_can_hold_is_named_in_a_large_transaction_and_answer(
    harness: PostgresHarness,
) -> None:
    harness.create_table("kinds", KINDS, ["id"])
    source = harness.source(["kinds"])
    source.setup()
    monitor = source.open_monitor(None)
    writer = harness.writer()
    writer.execute(
        "INSERT INTO kinds SELECT n, true, 1, 'x', CASE n WHEN 700 THEN 'infinity'::date END "
        f"FROM generate_series(1, {MANY + 5}) n"
    )
    problem = r"column day: the value infinity cannot be represented"
    logged: list[Logged] = []
    while not committed(logged):
        logged += monitor.read(60)
    (gap,) = [item for item in logged if isinstance(item, Broken)]
    assert gap.columns == {"pg.kinds": frozenset({"day"})}
    assert re.search(problem, gap.reason)
    view = parse_view("SELECT * FROM kinds", source.relations())
    with pytest.raises(SourceError, match=problem):
        answered(source, query_of(view))
    monitor.close()


def test_a_very_large_transaction_is_read_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.sources.postgres.log._MOST_UNREAD", 2)
    reader = interpreter()
    reader.take(b"B" + struct.pack("!QQI", 9, 0, 5))
    reader.take(described())
    for number in (b"1", b"2", b"3"):
        reader.take(b"I" + OID + b"N" + sent(image(id=number)))
    reader.take(b"D" + OID + b"O" + sent(image(id=b"1")))
    (done,) = reader.take(b"C\0" + struct.pack("!QQQ", 9, 10, 0))
    assert isinstance(done, Committed)
    (update,) = done.transaction.updates
    assert sorted(row[0] for row in update.delta) == [2, 3]  # type: ignore[type-var]
