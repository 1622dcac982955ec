"""What a view knows about itself: its key, and the columns that it looks at."""

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.algebra.views import View

ORDERS = Relation(
    "x.orders",
    "x",
    Schema.of([("id", INT), ("customer", INT), ("note", TEXT), ("amount", INT)]),
    ("id",),
)
LINES = Relation(
    "y.lines",
    "y",
    Schema.of([("order_id", INT), ("line", INT), ("price", INT)]),
    ("order_id", "line"),
)
KEYED = "SELECT o.id, l.line, l.price FROM x.orders o, y.lines l WHERE l.order_id = o.id"


def view(sql: str) -> View:
    return parse_view(sql, [ORDERS, LINES], "v")


def test_a_view_that_shows_every_key_has_their_columns_as_its_key() -> None:
    assert view(KEYED).key == ("id", "line")


def test_a_view_that_hides_a_key_has_none() -> None:
    assert view("SELECT l.price FROM x.orders o, y.lines l WHERE l.order_id = o.id").key == ()


def test_columns_of_conditions_and_outputs_are_used_and_no_others() -> None:
    assert view(KEYED + " AND o.amount > 3").used_columns == {
        "x.orders": ("id", "amount"),
        "y.lines": ("order_id", "line", "price"),
    }


def test_a_relation_that_only_multiplies_keeps_one_column() -> None:
    assert view("SELECT l.price FROM x.orders o, y.lines l").used_columns["x.orders"] == ("id",)


def test_narrowed_it_gives_the_same_rows() -> None:
    whole = view(KEYED + " AND o.amount > 3")
    state = {
        "x.orders": Rows.of(ORDERS.schema, [(1, 7, "a", 4), (2, 7, "b", 5), (3, 8, "c", 1)]),
        "y.lines": Rows.of(LINES.schema, [(1, 1, 10), (1, 2, 20), (3, 1, 30)]),
    }
    narrow = whole.narrowed()
    less = {r.name: state[r.name].only(r.schema) for r in narrow.relations}
    assert narrow.used_columns == whole.used_columns
    assert narrow.relations[0].schema.names == ("id", "amount")
    assert evaluate_view(narrow, less) == evaluate_view(whole, state)


def test_columns_that_follow_from_others_are_no_part_of_the_key() -> None:
    customers = Relation("z.customers", "z", Schema.of([("id", INT), ("name", INT)]), ("id",))
    orders = Relation("x.orders", "x", Schema.of([("id", INT), ("customer", INT)]), ("id",))
    sql = """SELECT c.id AS customer, o.id, l.line FROM z.customers c, x.orders o, y.lines l
             WHERE o.customer = c.id AND l.order_id = o.id"""
    assert parse_view(sql, [customers, orders, LINES], "v").key == ("id", "line")


def test_without_a_condition_every_key_is_needed() -> None:
    sql = "SELECT o.id, l.order_id, l.line FROM x.orders o, y.lines l"
    assert view(sql).key == ("id", "order_id", "line")


# Keys kept out of sight

HIDDEN = "SELECT l.price FROM x.orders o, y.lines l WHERE l.order_id = o.id"


def test_with_keys_the_missing_ones_stand_behind_the_views_own_columns() -> None:
    wider = view(HIDDEN).with_keys()
    assert wider.schema.names == ("price", "o_id", "l_line")
    assert wider.key == ("o_id", "l_line")


def test_with_keys_a_view_that_shows_them_stays_as_it_is() -> None:
    assert view(KEYED).with_keys() == view(KEYED)


def test_with_keys_no_column_gets_a_name_that_is_taken() -> None:
    wider = view(HIDDEN.replace("l.price", "l.price AS o_id")).with_keys()
    assert wider.schema.names == ("o_id", "_o_id", "l_line")


def test_without_the_kept_keys_the_rows_are_the_views_with_duplicates() -> None:
    state = {
        "x.orders": Rows.of(ORDERS.schema, [(1, 7, "a", 4), (2, 7, "b", 5)]),
        "y.lines": Rows.of(LINES.schema, [(1, 1, 10), (1, 2, 10), (2, 1, 10), (2, 2, 5)]),
    }
    plain = view(HIDDEN)
    kept = evaluate_view(plain.with_keys(), state)
    assert (len(kept), kept.only(plain.schema)) == (4, evaluate_view(plain, state))


def test_a_relation_without_a_key_has_none_to_keep() -> None:
    bag = Relation("z.bag", "z", Schema.of([("id", INT)]))
    wider = parse_view("SELECT b.id FROM z.bag b", [bag], "v").with_keys()
    assert wider.schema.names == ("id",)
