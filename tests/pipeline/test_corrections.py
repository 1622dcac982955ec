"""What is taken back and added to rows that were read, from a log whose columns have changed."""

from types import SimpleNamespace
from typing import cast

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import HeadwaterError
from headwater.pipeline.verify import corrections
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import Load
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.vectors import Reached

WIDE = Schema.of([("id", INT), ("x", TEXT), ("a", INT)])
NARROW = Schema.of([("id", INT), ("a", INT)])
LOGGED = [Rows(WIDE, {(8, "x", 3): 1}), Rows(NARROW, {(2, 3): 1}), Rows(WIDE, {(3, "y", 3): 1})]


def correct(schema: Schema) -> Rows:
    """What is to be done to rows that have all that was logged, for a view that has nothing."""
    changes = [
        Change(at, Transaction(f"T{at}", (Update("s.t", rows),), ("s",), ("s",)), {}, at)
        for at, rows in enumerate(LOGGED, 1)
    ]
    log = SimpleNamespace(source="s", first=1, read=lambda after: changes)
    load = SimpleNamespace(snapshot=SimpleNamespace(includes=lambda stamp: True))
    found, count = corrections(
        cast("Load", load), cast("ChangeLog", log), Reached(0, None), "v", {"s.t": schema}
    )
    assert count == len(LOGGED)
    return found["s.t"]


def test_a_column_that_was_away_for_a_while_shifts_no_other() -> None:
    assert correct(NARROW) == Rows(NARROW, {(8, 3): -1, (2, 3): -1, (3, 3): -1})


def test_a_view_whose_column_was_not_logged_is_told_what_to_do() -> None:
    told = r"View v needs x of s\.t, which transaction 2 of s was logged without\. Load it anew"
    with pytest.raises(HeadwaterError, match=told):
        correct(WIDE)
