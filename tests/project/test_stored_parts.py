"""What `check` says about what is stored of a view."""

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.project.stored_parts import describe_parts

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
