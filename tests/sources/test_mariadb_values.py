"""Every type of MariaDB: a row is the same by the log, by a load, and in an answer."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random

import pytest

from headwater.sources.contract import Source
from headwater.sources.mariadb.charsets import decoder, known_charsets
from headwater.sources.mariadb.types import UnreadableError
from tests.sources.mariadb_harness import MariadbHarness, needs_mariadb
from tests.sources.mariadb_tools import (
    answered,
    as_columns,
    committed,
    gaps,
    harness,
    loaded,
    net,
    read_until,
    reading,
)

pytestmark = needs_mariadb
__all__ = ["harness"]

# For each column: its declaration, how a value is written, and what it is here.
COLUMNS: dict[str, tuple[str, str, object]] = {
    "flag": ("tinyint(1)", "1", True),
    "tiny": ("tinyint unsigned", "255", 255),
    "small": ("smallint", "-3", -3),
    "medium": ("mediumint unsigned zerofill", "77", 77),
    "whole": ("int", "-2147483648", -2147483648),
    "big": ("bigint", "-9223372036854775808", -(2**63)),
    "huge": ("bigint unsigned", "18446744073709551615", Decimal(2**64 - 1)),
    "single_f": ("float", "0.1", 0.10000000149011612),
    "cut_f": ("float(7,3)", "1.2345", 1.2339999675750732),
    "double_f": ("double", "0.1", 0.1),
    "cut_d": ("double(10,2)", "1.239", 1.24),
    "price": ("decimal(12,2)", "-12.30", Decimal("-12.30")),
    "exact": ("decimal(65,30)", "-1.5", "-1.500000000000000000000000000000"),
    "year_of": ("year", "2024", 2024),
    "day": ("date", "'2024-02-29'", date(2024, 2, 29)),
    "moment": (
        "datetime(6)",
        "'2024-02-29 23:59:59.000001'",
        datetime(2024, 2, 29, 23, 59, 59, 1),
    ),
    "plain_moment": ("datetime", "'1000-01-01 01:02:03'", datetime(1000, 1, 1, 1, 2, 3)),
    "stamp": (
        "timestamp(3) null",
        "'2024-02-29 23:59:59.123'",
        datetime(2024, 2, 29, 23, 59, 59, 123000, UTC),
    ),
    "clock": ("time(3)", "'-12:13:14.056'", "-12:13:14.056"),
    "long_clock": ("time", "'-838:59:59'", "-838:59:59"),
    "padded": ("char(10)", "'ab  '", "ab"),
    "wide": ("char(255) character set utf8mb4", "repeat('ä', 255)", "ä" * 255),
    "short_text": ("varchar(20) character set latin1", "'€ é '", "€ é "),
    "long_text": ("varchar(300)", "repeat('y', 300)", "y" * 300),
    "free_text": ("mediumtext", "'\U0001f600'", "\U0001f600"),
    "twobyte": ("varchar(9) character set ucs2", "'aé'", "aé"),
    "filled": ("binary(5)", "'ab\\0'", b"ab\0\0\0"),
    "bytes_of": ("varbinary(9)", "'q\\0'", b"q\0"),
    "blob_of": ("blob", "x'00ff'", b"\0\xff"),
    "label": ("enum('x','ä','it''s')", "'ä'", "ä"),
    "labels": ("set('a','b','c')", "'c,a'", "a,c"),
    "bit_one": ("bit(1)", "1", True),
    "bit_some": ("bit(17)", "65537", 65537),
    "bit_all": ("bit(64)", "18446744073709551615", Decimal(2**64 - 1)),
    "json_of": ("json", "'{\"a\": [1, 2.50]}'", '{"a": [1, 2.50]}'),
    "id_of": ("uuid", "'123e4567-e89b-42d3-a456-426614174000'",
              "123e4567-e89b-42d3-a456-426614174000"),
    "id_by_time": ("uuid", "'6ccd780c-baba-1026-9564-5b8c656024db'",
                   "6ccd780c-baba-1026-9564-5b8c656024db"),
    "address": ("inet6", "'2001:db8::1'", "2001:db8::1"),
    "address4": ("inet4", "'1.2.3.0'", "1.2.3.0"),
}  # fmt: skip


@pytest.fixture
def source(harness: MariadbHarness) -> Iterator[Source]:
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())
    harness.execute(f"CREATE TABLE every (id int PRIMARY KEY, {declared}, place point)")
    made = harness.source(["every"])
    made.setup()
    yield made
    made.teardown()


def test_a_value_of_every_type_is_the_same_by_the_log_by_a_load_and_in_an_answer(
    harness: MariadbHarness, source: Source
) -> None:
    written = ", ".join(value for _, value, _ in COLUMNS.values())
    writer = harness.writer()
    writer.execute(f"INSERT INTO every VALUES (1, {written}, point(1, 2))".replace("?", "\\?"))
    with reading(source) as monitor:
        by_log = net(read_until(monitor, lambda found: bool(committed(found))), "every")
    row = as_columns(by_log)
    assert {name: row[name] for name in COLUMNS} == {n: v for n, (_, _, v) in COLUMNS.items()}
    assert row["place"] == bytes.fromhex("00000000" "01" "01000000" "000000000000f03f"
                                         "0000000000000040")  # fmt: skip
    assert loaded(source, "every") == by_log
    assert answered(source, "every") == by_log


@pytest.mark.parametrize("name", COLUMNS)
def test_a_row_is_found_by_a_value_of_every_type(
    harness: MariadbHarness, source: Source, name: str
) -> None:
    from headwater.algebra.rows import Rows
    from headwater.algebra.schema import Relation, Schema
    from headwater.algebra.sql.view import parse_view
    from headwater.algebra.terms import bind_delta, query_of

    harness.execute(f"INSERT INTO every (id, {name}) VALUES (1, {COLUMNS[name][1]}), (2, NULL)")
    described = source.relations()["every"]
    kind = described.schema.columns[described.schema.positions[name]].type
    keys = Relation("e.keys", "e", Schema.of([("v", kind)]))
    view = parse_view(f"SELECT t.id FROM m.every t JOIN e.keys k ON t.{name} = k.v",
                      [described.without_texts(), keys])  # fmt: skip
    (term,) = query_of(view)
    bound = Rows(keys.schema, {(COLUMNS[name][2],): 1})  # type: ignore[dict-item] # it is a value
    wrapper = source.open_wrapper()
    try:
        (answer,) = wrapper.ask([(bind_delta(term, 1, bound),)]).results
    finally:
        wrapper.close()
    assert dict(answer.items()) == {(1,): 1}


def test_random_values_are_the_same_by_the_log_and_in_answers(harness: MariadbHarness) -> None:
    random = Random(7)
    harness.execute(
        "CREATE TABLE drawn (n int PRIMARY KEY, d decimal(38,9), e decimal(9,9), t time(5), "
        "m datetime(4), s timestamp(1) null, a inet6, f float, g double, b bit(33), u uuid)"
    )
    source = harness.source(["drawn"])
    source.setup()
    writer = harness.writer()
    for number in range(200):
        digits = random.randrange(10 ** random.randint(1, 29))
        values = [
            f"{random.choice(['-', ''])}{digits}.{random.randrange(10**9):09}",
            f"{random.choice(['-', ''])}0.{random.randrange(10**9):09}",
            f"'{random.choice(['-', ''])}{random.randint(0, 837)}:{random.randint(0, 59)}:"
            f"{random.randint(0, 59)}.{random.randrange(10**5):05}'",
            f"'{random.randint(1000, 9999)}-{random.randint(1, 12)}-{random.randint(1, 28)} "
            f"{random.randint(0, 23)}:{random.randint(0, 59)}:7.{random.randrange(10**4):04}'",
            f"'{random.randint(1971, 2037)}-07-01 00:00:0{random.randint(0, 9)}.3'",
            f"'{_address(random)}'",
            repr(random.uniform(-1, 1) * 10 ** random.randint(-30, 30)),
            repr(random.uniform(-1, 1) * 10 ** random.randint(-300, 300)),
            str(random.getrandbits(33)),
            f"'{random.getrandbits(32):08x}-{random.getrandbits(16):04x}-4{random.getrandbits(12):03x}"
            f"-a{random.getrandbits(12):03x}-{random.getrandbits(48):012x}'",
        ]
        writer.execute(f"INSERT INTO drawn VALUES ({number}, {', '.join(values)})")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: len(committed(found)) >= 200)
    by_log = net(found, "drawn")
    for other in (answered(source, "drawn"), loaded(source, "drawn", 3)):
        assert (by_log - other).sorted_items() == []


def _address(random: Random) -> str:
    words = [random.choice([0, 0, random.getrandbits(16)]) for _ in range(8)]
    if random.random() < 0.3:
        words[:5] = [0] * 5
        words[5] = random.choice([0, 0xFFFF])
    return ":".join(f"{word:x}" for word in words)


def test_every_known_character_set_is_read_as_the_server_reads_it(harness: MariadbHarness) -> None:
    writer = harness.writer()
    for charset in known_charsets():
        decode = decoder(charset)
        assert decode is not None
        for byte in range(256) if len(_encoded(charset)) == 1 else ():
            with writer.connection.cursor() as cursor:
                cursor.execute(
                    f"SELECT CONVERT(CONVERT(X'{byte:02x}' USING {charset}) USING utf8mb4)"
                )
                ((shown,),) = cursor.fetchall()
            try:
                mine = decode(bytes([byte]))
            except UnicodeDecodeError:
                continue  # told as a value that cannot be read
            if shown != "?" or byte == 0x3F:
                assert mine == shown, (charset, byte)


def _encoded(charset: str) -> bytes:
    names = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ucs2": "utf-16-be",
             "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be"}  # fmt: skip
    return codecs.encode("ä", names[charset]) if charset in names else b"x"


@pytest.mark.parametrize(
    ("declared", "written", "printed"),
    [
        ("date", "'0000-00-00'", "0000-00-00"),
        ("date", "'2024-00-00'", "2024-00-00"),
        ("datetime(2)", "'0000-00-00'", "0000-00-00 00:00:00.00"),
        ("timestamp null", "0", "0000-00-00 00:00:00"),
        ("tinyint(1)", "7", "7"),
    ],
)
def test_a_value_that_has_no_equal_is_a_gap_until_its_column_is_read_as_text(
    harness: MariadbHarness, declared: str, written: str, printed: str
) -> None:
    harness.execute(f"CREATE TABLE odd (id int PRIMARY KEY, v {declared})")
    source = harness.source(["odd"])
    source.setup()
    harness.execute("SET sql_mode = ''", f"INSERT INTO odd VALUES (1, {written})")
    with reading(source) as monitor:
        found = read_until(monitor, lambda found: bool(committed(found)))
    (gap,) = gaps(found)
    assert gap.columns == {"m.odd": frozenset({"v"})}
    assert net(found, "odd").schema.names == ("id",)
    with pytest.raises(UnreadableError, match="as_text"):
        answered(source, "odd")
    with pytest.raises(UnreadableError, match="as_text"):
        loaded(source, "odd")
    harness.execute("SET sql_mode = ''", f"INSERT INTO odd VALUES (2, {written})")
    as_text = harness.source(["odd"], as_text={"odd": ["v"]})
    with reading(as_text) as monitor:
        found = read_until(monitor, lambda found: len(committed(found)) == 2)
    assert gaps(found) == []
    assert net(found, "odd") == answered(as_text, "odd") == loaded(as_text, "odd")
    assert {row[1] for row in answered(as_text, "odd")} == {printed}


def test_what_cannot_be_used_is_left_out_with_a_reason(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE some (id int PRIMARY KEY, twice int AS (id * 2) STORED, "
        "small text COMPRESSED, odd text character set sjis)"
    )
    relation = harness.source(["some"]).relations()["some"]
    assert relation.schema.names == ("id",)
    reasons = dict(relation.unusable)
    assert "`id` * 2" in reasons["twice"]
    assert "COMPRESSED" in reasons["small"]
    assert "sjis" in reasons["odd"]


def test_texts_are_told_apart_that_the_database_takes_for_equal(harness: MariadbHarness) -> None:
    harness.execute(
        "CREATE TABLE words (id int PRIMARY KEY, w varchar(9), INDEX (w))",
        "INSERT INTO words VALUES (1, 'abc'), (2, 'Abc'), (3, 'ABC  '), (4, 'äbc')",
    )
    source = harness.source(["words"])
    source.setup()
    assert set(answered(source, "words", "WHERE w = 'abc'")) == {(1, "abc")}
    (column,) = [c for c in source.relations()["words"].schema.columns if c.name == "w"]
    assert "utf8mb4_general_ci" in column.equality
    source.teardown()
