"""Rows are said to differ only where they do, whatever lies under a NULL."""

from __future__ import annotations

from datetime import date
from random import Random

import pyarrow
import pytest

from headwater.frames.arrow import COUNT, to_arrow
from headwater.frames.distinctness import differ
from tests.frames.typed import SCHEMA, random_rows


@pytest.mark.parametrize("seed", range(30))
def test_rows_that_stand_twice_are_never_said_to_differ(seed: int) -> None:
    random = Random(seed)
    table = to_arrow(random_rows(random, SCHEMA, 20)).drop_columns([COUNT])
    chosen = [name for name in table.column_names if random.random() < 0.7]
    table = table.select(chosen or table.column_names[:1])
    again = table.slice(random.randrange(table.num_rows), 1)
    assert not differ(pyarrow.concat_tables([table, again]))


def test_one_key_tells_rows_apart() -> None:
    keys = pyarrow.array(range(1000))
    assert differ(pyarrow.table({"t": ["same"] * 1000, "k": keys}))
    assert not differ(pyarrow.table({"t": list(map(str, range(1000)))})), "texts are not looked at"


@pytest.mark.parametrize(
    "kind", [pyarrow.int64(), pyarrow.decimal128(9, 2), pyarrow.date32(), pyarrow.timestamp("us")]
)
def test_what_lies_under_a_null_makes_no_difference(kind: pyarrow.DataType) -> None:
    width = 16 if pyarrow.types.is_decimal(kind) else kind.bit_width // 8
    under = pyarrow.py_buffer(bytes(range(1, 1 + 2 * width)))
    nulls = pyarrow.Array.from_buffers(kind, 2, [pyarrow.py_buffer(b"\0"), under])
    assert nulls.null_count == 2
    assert not differ(pyarrow.table({"c": nulls}))


def test_rows_without_columns_are_all_alike() -> None:
    two = pyarrow.table({"d": [date(2024, 1, 1)] * 2})
    assert not differ(two)
    assert differ(two.slice(0, 1))
