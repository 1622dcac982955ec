"""What a file may say that looks like a value, or like another one: it is refused, not guessed."""

from __future__ import annotations

import io
import struct
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import (
    BOOL,
    DATE,
    FLOAT,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Type,
    decimal_type,
    struct_type,
)
from headwater.sources.files.csv_files import Dialect
from headwater.sources.files.formats import Format
from headwater.sources.files.misfits import MisfitError

MONEY = decimal_type(10, 2)


def read(
    content: bytes | str, kind: Type = TEXT, ending: str = "csv", **dialect: Any
) -> list[object]:
    data = content.encode() if isinstance(content, str) else content
    schema = Schema.of([("a", kind)])
    found = Format("", Dialect(**dialect)).read(f"f.{ending}", data, schema)
    return list(found.column("a").to_pylist())


def refused(*args: Any, **settings: Any) -> str:
    with pytest.raises(MisfitError) as raised:
        read(*args, **settings)
    return str(raised.value)


def parquet(array: Any) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"a": array}), content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2024-01-01T00:00:00.1234567", TIMESTAMP),
        ("2024-01-01T00:00:00.1234567Z", TIMESTAMP_TZ),
        ("1e400", FLOAT),
        ("0000-01-01", DATE),
    ],
)
def test_a_value_that_would_lose_something_is_refused(text: str, kind: Type) -> None:
    assert "is not a value of type" in refused(f"a\n{text}\n", kind)
    assert "is not a value of type" in refused(f'{{"a": "{text}"}}\n', kind, "jsonl")


def test_digits_that_say_nothing_are_no_loss() -> None:
    found = datetime(2024, 1, 1, 0, 0, 0, 123456)
    assert read("a\n2024-01-01T00:00:00.123456000\n", TIMESTAMP) == [found]


def test_there_is_one_zero() -> None:
    for found in (
        read("a\n-0.0\n", FLOAT),
        read('{"a": -0.0}\n', FLOAT, "jsonl"),
        read(parquet(pyarrow.array([-0.0])), FLOAT, "parquet"),
    ):
        assert struct.pack("d", found[0]) == struct.pack("d", 0.0)


# CSV


@pytest.mark.parametrize(
    "content",
    [
        'a\n"say \\"hi\\""\n',
        'a\n"x\\""\n"y\\""\n',
        'a,b\n"5\n2,"6\n',
        'a\n"one"two\n',
    ],
    ids=["escaped by backslashes", "at the end", "not closed", "behind a field"],
)
def test_quotes_that_are_not_doubled_are_refused(content: str) -> None:
    assert "follows the quote" in refused(content)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('a\n"x ""y"" z"\n""""\n', ['x "y" z', '"']),
        ('a\n5" pipe, 6" pipe\n'.replace(", ", " and "), ['5" pipe and 6" pipe']),
        ('a\n"x\ny"\n""\n', ["x\ny", ""]),
        ('"a"\r\n"x"\r\n', ["x"]),
    ],
    ids=["doubled", "within a field without quotes", "over lines", "with other ends"],
)
def test_quotes_that_say_one_thing_are_read(content: str, found: list[object]) -> None:
    assert read(content) == found


def test_what_is_no_text_at_all_is_told_by_what_it_is() -> None:
    assert "compressed (gzip)" in refused(b"\x1f\x8b\x08rest")
    assert "begins as UTF-16" in refused("a\nx\n".encode("utf-16"))


def test_a_mark_at_the_beginning_is_none_of_a_name_in_any_encoding() -> None:
    assert read("\ufeffa\nx\n".encode("utf-16-le"), encoding="utf-16-le") == ["x"]


# JSON lines


def test_a_member_that_is_there_twice_is_refused() -> None:
    assert "has the member 'a' twice" in refused('{"a": 1, "a": 2}\n', INT, "jsonl")


def test_an_object_as_a_text_keeps_its_digits() -> None:
    written = '{"x": 1.50, "y": [12345678901234567890, "é", true, null]}'
    assert read(f'{{"a": {written}}}\n', TEXT, "jsonl") == [written]


def test_an_array_is_no_struct() -> None:
    assert "is not a value" in refused('{"a": [1]}\n', struct_type([("x", INT)]), "jsonl")


# Parquet


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pyarrow.array([2]), BOOL),
        (pyarrow.array([1]), TEXT),
        (pyarrow.array([1]), TIMESTAMP),
        (pyarrow.array([1.005]), MONEY),
        (pyarrow.array([datetime(2024, 1, 1, 5)]), DATE),
        (pyarrow.array([datetime(2024, 1, 1, 5)]), TIMESTAMP_TZ),
        (pyarrow.array([{"x": 1}]), struct_type([("x", INT), ("y", INT)])),
    ],
    ids=lambda found: str(getattr(found, "type", found)),
)
def test_a_column_that_is_of_another_type_later_is_refused(array: Any, kind: Type) -> None:
    assert "and was of type" in refused(parquet(array), kind, "parquet")


@pytest.mark.parametrize(
    ("array", "kind", "found"),
    [
        (pyarrow.array([1, None], pyarrow.int8()), INT, [1, None]),
        (pyarrow.array([1.0, None]), INT, [1, None]),
        (pyarrow.nulls(1), INT, [None]),
        (pyarrow.array([Decimal("1.500")]), MONEY, [Decimal("1.50")]),
    ],
    ids=["narrower", "as pandas has it", "nothing", "more digits"],
)
def test_a_column_that_has_the_same_values_in_another_type_is_read(
    array: Any, kind: Type, found: list[object]
) -> None:
    assert read(parquet(array), kind, "parquet") == found


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pyarrow.array([2**62], pyarrow.timestamp("us")), TIMESTAMP),
        (pyarrow.array([10**8], pyarrow.date32()), DATE),
    ],
    ids=["timestamp", "date"],
)
def test_a_day_that_there_is_not_here_is_refused(array: Any, kind: Type) -> None:
    assert "outside of the years 1 to 9999" in refused(parquet(array), kind, "parquet")


def test_bytes_that_are_no_text_are_refused() -> None:
    buffers = [None, pyarrow.py_buffer(struct.pack("ii", 0, 1)), pyarrow.py_buffer(b"\xff")]
    array = pyarrow.Array.from_buffers(pyarrow.string(), 1, buffers)
    assert "none of UTF-8" in refused(parquet(array), TEXT, "parquet")


def test_two_columns_of_one_name_are_refused() -> None:
    content = io.BytesIO()
    twice = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["a", "a"])
    pyarrow.parquet.write_table(twice, content)
    assert "has the column 'a' twice" in refused(content.getvalue(), INT, "parquet")
