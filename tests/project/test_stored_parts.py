"""What `check` says about what is stored of a view."""

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.project.stored_parts import describe_parts, told_of_pairs

ORDERS = Relation(
    "shop.orders", "shop", Schema.of([("id", INT), ("state", TEXT), ("amount", INT)]), ("id",)
)


def _told(select: str) -> str:
    return describe_parts(parse_view(select, [ORDERS], "v"))


def test_a_plain_join_stores_what_it_shows() -> None:
    assert _told("SELECT id FROM shop.orders") == ""


def test_sums_are_told_with_what_they_are_for() -> None:
    select = "SELECT state, AVG(amount) AS a, COUNT(*) AS n FROM shop.orders GROUP BY state"
    assert _told(select) == (
        "v stores the number of rows, the number of orders.amount, the sum of orders.amount for "
        "each orders.state, of shop.orders; what is shown is computed by orders.state."
    )


def test_rows_that_are_needed_are_told_as_rows() -> None:
    select = "SELECT state, MAX(amount) AS m FROM shop.orders GROUP BY state"
    assert _told(select) == (
        "v stores orders.state, orders.amount of every row of shop.orders; "
        "what is shown is computed by orders.state."
    )


LINES = Relation("shop.lines", "shop", Schema.of([("number", TEXT), ("price", INT)]))


def test_parts_that_read_alike_are_told_once() -> None:
    select = "SELECT id FROM orders WHERE id > 1 EXCEPT SELECT id FROM orders WHERE amount > 2"
    assert _told(select).count("of shop.orders") == 1


def _pairs(condition: str) -> tuple[str, ...]:
    select = f"SELECT o.id, l.price FROM orders o LEFT JOIN lines l ON {condition}"
    return told_of_pairs(parse_view(select, [ORDERS, LINES], "v"))


def test_a_condition_that_may_fail_and_alone_joins_tables_is_told_of() -> None:
    (told,) = _pairs("o.id = CAST(l.number AS INT)")
    assert "every row of shop.orders with every row of shop.lines, since o.id = CAST(l" in told
    assert "TRY_CAST" in told


def test_a_condition_that_does_not_fail_or_not_alone_joins_tables_is_not_told_of() -> None:
    assert _pairs("o.id = TRY_CAST(l.number AS INT)") == ()
    assert _pairs("o.state = l.number AND o.id = CAST(l.number AS INT)") == ()
    assert _pairs("o.state = l.number AND CAST(l.number AS INT) > 1") == ()
