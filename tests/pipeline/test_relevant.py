"""What a transaction means to a view, and what is said where it lacks something."""

from __future__ import annotations

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT, Row
from headwater.errors import HeadwaterError
from headwater.pipeline.relevant import relevant
from headwater.protocol.transactions import Transaction, Update
from headwater.sources.contract import as_it_is
from headwater.sources.subscription import Delivery


def test_a_view_that_names_a_column_which_is_gone_is_to_be_changed_first() -> None:
    relation = Relation("u.rn", "u", Schema.of([("id", INT), ("a", TEXT)]), ("id",))
    view = parse_view("SELECT id, a FROM rn", {"rn": relation})
    delta = Rows.of(Schema.of([("id", INT)]), [(1,)])
    transaction = Transaction("u:4", (Update("u.rn", delta),), ("u",), ("u",))
    with pytest.raises(HeadwaterError) as raised:
        relevant(view, transaction, Delivery("u", None, None, 4), as_it_is)
    said = str(raised.value)
    assert "needs a of u.rn, which transaction 4 of u was logged without" in said
    assert "If u.rn has no a any more (it was renamed or dropped), change the view first." in said


def test_rows_that_the_view_rules_out_mean_nothing_to_it() -> None:
    schema = Schema.of([("id", INT), ("a", TEXT)])
    relation = Relation("u.r", "u", schema, ("id",))
    view = parse_view(
        "SELECT x.id FROM r AS x, r AS y WHERE x.a = 'p' AND y.id > 5", {"r": relation}
    )
    counts: dict[Row, int] = {(1, "o"): 1, (2, "p"): -1, (7, "o"): 1, (8, "p"): 1}
    transaction = Transaction("u:4", (Update("u.r", Rows(schema, counts)),), ("u",), ("u",))
    found = relevant(view, transaction, Delivery("u", None, None, 4), as_it_is)
    del counts[1, "o"]  # neither condition lets it in
    assert found.deltas == {"u.r": Rows(schema, counts)}


def test_a_transaction_of_such_rows_is_none() -> None:
    schema = Schema.of([("id", INT), ("a", TEXT)])
    view = parse_view("SELECT id FROM r WHERE a = 'p'", {"r": Relation("u.r", "u", schema)})
    updates = (Update("u.r", Rows(schema, {(1, "o"): -1, (1, "q"): 1})),)
    transaction = Transaction("u:4", updates, ("u",), ("u",))
    assert not relevant(view, transaction, Delivery("u", None, None, 4), as_it_is).updates
