"""Queries that are the same but for names and order are recognised, and no others."""

import pytest

from headwater.algebra.evaluate import evaluate
from headwater.algebra.likeness import MOST_ROWS, as_asked, likeness
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, bind_delta, negated, query_of, substitute
from headwater.algebra.values import INT

R = Relation("s.r", "s", Schema.of([("a", INT), ("b", INT), ("c", INT)]), ("a",))
S = Relation("s.s", "s", Schema.of([("b", INT), ("d", INT)]), ("d",))
STATE = {
    "s.r": Rows.of(R.schema, [(1, 2, 0), (3, 2, 1), (4, 5, 1), (6, 5, 1)]),
    "s.s": Rows.of(S.schema, [(2, 7), (5, 8), (5, 9), (6, 1)]),
}
WRITTEN = "SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1"


def query(select: str) -> Query:
    return query_of(parse_view(select, [R, S]))


def bound(select: str, relation: str, rows: Rows) -> Query:
    """Over relations that have only the columns which it looks at, as a view has them."""
    view = parse_view(select, [R, S]).narrowed()
    (known,) = (r for r in view.relations if r.name == relation)
    return substitute(query_of(view), {relation: rows.only(known.schema)})


@pytest.mark.parametrize(
    "select",
    [
        "SELECT p.a, q.d FROM r p JOIN s q ON p.b = q.b WHERE p.a > 1",
        "SELECT x.a AS one, y.d AS two FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1",
        "SELECT x.a, y.d FROM s y JOIN r x ON x.b = y.b WHERE x.a > 1",
        "SELECT x.a, y.d FROM r x JOIN s y ON x.a > 1 WHERE y.b = x.b",
        "SELECT y.d, x.a FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1",
        "SELECT y.d AS a, x.a AS d FROM s y, r x WHERE x.a > 1 AND y.b = x.b",
    ],
)
def test_names_and_order_do_not_count(select: str) -> None:
    one, other = query(WRITTEN), query(select)
    given, wanted = likeness(one), likeness(other)
    assert given.key == wanted.key
    schema = other[0].join.schema
    assert as_asked(evaluate(one, STATE), given, wanted, schema) == evaluate(other, STATE)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b WHERE x.a > 2",
        "SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b",
        "SELECT x.a, y.b FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1",
        "SELECT x.c, y.d FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1",
        "SELECT x.a FROM r x JOIN s y ON x.b = y.b WHERE x.a > 1",
        "SELECT x.a, y.d FROM r x JOIN s y ON x.c = y.b WHERE x.a > 1",
        "SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b JOIN s z ON z.b = y.b WHERE x.a > 1",
    ],
)
def test_what_means_something_else_is_unlike(select: str) -> None:
    assert likeness(query(WRITTEN)).key != likeness(query(select)).key


def test_rows_that_are_bound_count_and_their_other_columns_do_not() -> None:
    select = "SELECT x.a, x.c, y.d FROM r x JOIN s y ON x.b = y.b"  # every column is used
    other = "SELECT q.d, p.c, p.a FROM s q JOIN r p ON q.b = p.b"
    rows = Rows.of(R.schema, [(1, 2, 0), (8, 5, 1)])
    one, same = bound(select, "s.r", rows), bound(other, "s.r", rows)
    assert likeness(one).key == likeness(same).key
    found = as_asked(evaluate(one, STATE), likeness(one), likeness(same), same[0].join.schema)
    assert found == evaluate(same, STATE)
    assert likeness(one).key != likeness(bound(other, "s.r", rows.scaled(2))).key
    assert likeness(one).key != likeness(negated(same)).key
    assert likeness(one).key != likeness(query(select)).key
    (term,) = query_of(parse_view("SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b", [R, S]))
    wide = (bind_delta(term, 0, rows),)  # with a column that nothing looks at
    narrow = bound("SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b", "s.r", rows)
    assert likeness(wide).key == likeness(narrow).key


def test_the_terms_of_a_sum_may_come_in_any_order() -> None:
    select = "SELECT x.a, y.d FROM r x JOIN s y ON x.b = y.b"
    deltas = {"s.r": Rows.of(R.schema, [(1, 2, 0)]), "s.s": Rows.of(S.schema, [(2, 3)])}
    whole = substitute(query_of(parse_view(select, [R, S])), deltas)
    assert len(whole) == 3
    assert likeness(whole).key == likeness(whole[::-1]).key
    assert likeness(whole).key != likeness(whole[1:]).key


def test_many_rows_are_not_compared() -> None:
    rows = Rows.of(R.schema, [(number, 2, 0) for number in range(MOST_ROWS + 1)])
    one = bound(WRITTEN, "s.r", rows)
    assert likeness(one).key != likeness(one).key
