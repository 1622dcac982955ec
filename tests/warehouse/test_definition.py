"""What a view was loaded with is written and read in one form, whatever release wrote it."""

from dataclasses import replace
from typing import Any

import pytest

from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.errors import EngineError
from headwater.project.choice import as_stored
from headwater.project.differences import describe_difference
from headwater.warehouse.definition import StoredDefinition

ORDERS = Relation(
    "shop.orders",
    "shop",
    Schema.of([("id", INT), ("price", decimal_type(9, 2)), ("note", TEXT)]),
    ("id",),
)
VIEW = parse_view("select id, price from shop.orders -- all", [ORDERS], "v")
WRITTEN: dict[str, Any] = {
    "view": "v",
    "select": "SELECT id, price FROM shop.orders",
    "columns": [["id", "int"], ["price", "decimal(9,2)"]],
    "relations": {
        "shop.orders": {
            "columns": [["id", "int"], ["price", "decimal(9,2)"], ["note", "text"]],
            "key": ["id"],
            "used": ["id", "price"],
        }
    },
}


def test_a_definition_is_written_as_it_always_was() -> None:
    assert StoredDefinition.of(VIEW).to_json() == WRITTEN


def test_a_definition_is_read_as_it_was_written() -> None:
    found = StoredDefinition.from_json(WRITTEN)
    assert found == StoredDefinition.of(VIEW)
    assert found.view.relations == (ORDERS,)
    assert found.view.used_columns == VIEW.used_columns


def test_a_view_of_json_is_read_as_it_was_written_with_what_its_source_calls_json() -> None:
    """What is text here and `jsonb` there never fails to be JSON, so that less is stored."""
    column = Column("data", TEXT, printed="jsonb")
    events = Relation("app.events", "app", Schema((Column("id", INT), column)), ("id",))
    sql = "SELECT id, CAST(data ->> 'n' AS INT) AS n FROM app.events WHERE data ->> 'k' = 'a'"
    written = StoredDefinition.of(parse_view(sql, [events], "v"))
    assert StoredDefinition.from_json(written.to_json()).view.schema == written.view.schema


def test_a_definition_of_before_columns_were_told_apart_uses_all_of_them() -> None:
    shape = dict(WRITTEN["relations"]["shop.orders"])
    del shape["used"]
    found = StoredDefinition.from_json(WRITTEN | {"relations": {"shop.orders": shape}})
    assert found.relations[0].used == ("id", "price", "note")


@pytest.mark.parametrize(
    "member",
    [
        {"view": 3},
        {"select": None},
        {"columns": [["id", "int"], ["id", "int"]]},
        {"columns": [["id", "money"]]},
        {"columns": [["id"]]},
        {"columns": 3},
        {"relations": []},
        {"relations": {"shop.orders": {"columns": [], "key": [1]}}},
    ],
)
def test_a_definition_that_is_damaged_is_refused(member: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # words are of no concern: the table is named
        StoredDefinition.from_json(WRITTEN | member)


def test_a_select_that_is_damaged_is_told_with_the_view() -> None:
    damaged = StoredDefinition.from_json(WRITTEN | {"select": "SELECT ("})
    with pytest.raises(EngineError, match=r"What view v was loaded with .*headwater reload v"):
        _ = damaged.view


GROUPED = parse_view("SELECT note, sum(price) AS s FROM shop.orders GROUP BY note", [ORDERS], "v")


def test_a_definition_with_a_top_is_read_again_with_it() -> None:
    found = StoredDefinition.from_json(StoredDefinition.of(GROUPED).to_json())
    assert found == StoredDefinition.of(GROUPED)
    assert (found.view.top, found.view.schema) == (GROUPED.top, GROUPED.schema)


def test_parts_that_are_stored_otherwise_now_are_named_with_the_remedy() -> None:
    now = StoredDefinition.of(GROUPED)
    before = replace(now, layout="0" * 64)
    with pytest.raises(EngineError, match=r"another form .* Run headwater reload v\."):
        _ = before.view
    told = describe_difference(before, now)
    assert told is not None
    assert "has another form in this release" in told
    assert told.endswith("Run headwater reload v.")


LINES = Relation("shop.lines", "shop", Schema.of([("line", INT), ("of", INT)]), ("line",))
PRICES = "SELECT price FROM shop.orders JOIN shop.lines ON id = of"
TOTALS = "SELECT note, sum(price) AS total FROM shop.orders GROUP BY note"


@pytest.mark.parametrize("select", [PRICES, TOTALS])
def test_what_is_stored_for_an_algorithm_that_looks_rows_up_is_read_as_it_was_written(
    select: str,
) -> None:
    view = as_stored(parse_view(select, [ORDERS, LINES], "v"), "t-strobe", keep_keys=True)
    found = StoredDefinition.from_json(StoredDefinition.of(view).to_json())
    assert found == StoredDefinition.of(view)
    assert (found.view.schema, found.view.kept) == (view.schema, "keys")
    assert found.view.compact is None


def test_rows_may_be_kept_without_hidden_keys() -> None:
    view = as_stored(parse_view(TOTALS, [ORDERS], "v"), "eca-local", keep_keys=True)
    found = StoredDefinition.from_json(StoredDefinition.of(view).to_json())
    assert (found.view.kept, found.view.schema) == ("rows", view.schema)


def test_another_algorithm_that_stores_something_else_asks_for_a_reload() -> None:
    view = parse_view(PRICES, [ORDERS, LINES], "v")
    by_key = StoredDefinition.of(as_stored(view, "t-strobe", keep_keys=True))
    told = describe_difference(by_key, StoredDefinition.of(view))
    assert told == (
        "View v now stores nothing that is looked up by key, for its algorithm, and stored hidden "
        "keys when it was loaded. Run headwater reload v."
    )
    other = StoredDefinition.of(as_stored(view, "c-t-strobe", keep_keys=True))
    assert describe_difference(by_key, other) is None


def test_a_key_that_is_gone_is_named_where_it_was_kept_out_of_sight() -> None:
    view = as_stored(parse_view(PRICES, [ORDERS, LINES], "v"), None, keep_keys=True)
    keyless = replace(LINES, key=())
    now = as_stored(parse_view(PRICES, [ORDERS, keyless], "v"), None, keep_keys=True)
    assert describe_difference(StoredDefinition.of(view), StoredDefinition.of(now)) == (
        "shop.lines has no key any more, and view v kept it out of sight when it was loaded. "
        "Run headwater reload v."
    )


def test_what_a_later_release_may_keep_is_refused() -> None:
    with pytest.raises(ValueError, match="keeps what this release does not know"):
        StoredDefinition.from_json(WRITTEN | {"kept": "copies"})
