"""Who is told that a top fails is told it in the words of the query, with the group or the row."""

from itertools import pairwise

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import evaluate_top, nodes_of
from headwater.algebra.values import INT, INT_MAX, TEXT
from headwater.errors import ExpressionError
from tests.algebra.sql_features import FEATURES, RELATIONS

R = Relation("r", "x", Schema.of([("id", INT), ("k", TEXT), ("a", INT)]), ("id",))
S = Relation("s", "x", Schema.of([("id", INT), ("rid", INT), ("t", TEXT)]), ("id",))
STATE = {
    "r": Rows.of(R.schema, [[1, "p", 5], [2, "w", INT_MAX], [3, "w", 5], [4, "z", 0]]),
    "s": Rows.of(S.schema, [[1, 1, "7"], [2, 1, "bad"]]),
}
TOO_LARGE = "the sum is outside the range of int (64 bits)"
FAILING = {
    "SELECT k, SUM(a) AS x FROM r GROUP BY k": f"SUM(r.a) fails for r.k = 'w': {TOO_LARGE}.",
    "SELECT k, SUM(10 / a) AS x FROM r GROUP BY k": "SUM(10.0 / r.a) fails for r.k = 'z': it",
    "SELECT k, SUM(DISTINCT a) AS x FROM r GROUP BY k": "SUM(DISTINCT r.a) fails for r.k = 'w': ",
    "SELECT k, 9 / MAX(a) AS x FROM r GROUP BY k": (
        "9.0 / MAX(r.a) fails for MAX(r.a) = 0, r.k = 'z': division by zero."
    ),
    "SELECT k FROM r GROUP BY k HAVING 1 < 9 / MIN(a)": "9.0 / MIN(r.a)) fails for MIN(r.a) = 0, r",
    "SELECT SUM(a) AS x FROM r": f"SUM(r.a) fails: {TOO_LARGE}.",
    "SELECT r.id, (SELECT t FROM s WHERE s.rid = r.id) AS t FROM r": (
        "(SELECT s.t ...) fails for s.rid = 1: a subquery that stands for one value has more than"
    ),
    "SELECT id, SUM(a) OVER (PARTITION BY k) AS x FROM r": "SUM(r.a) fails for r.k = 'w': the sum",
    "SELECT id, SUM(a) OVER (PARTITION BY k ORDER BY id RANGE BETWEEN 2 PRECEDING AND 2 FOLLOWING)"
    " AS x FROM r": "SUM(r.a) fails for r.k = 'w': the sum",
    "SELECT r.id, 9 / a AS x, t FROM r LEFT JOIN s ON s.rid = r.id": (
        "9.0 / r.a fails for r.a = 0.0, r.id = 4"
    ),
    "SELECT DISTINCT CAST(t AS INT) AS n FROM s": "CAST(s.t AS int) fails for s.t = 'bad'",
}


@pytest.mark.parametrize("query", FAILING)
def test_a_failure_names_expression_and_group_as_they_were_written(query: str) -> None:
    view = parse_view(query, [R, S])
    assert view.stored_top is not None
    with pytest.raises(ExpressionError) as caught:
        evaluate_top(view.stored_top, view.stored(evaluate_view(view, STATE)))
    assert FAILING[query] in str(caught.value)


@pytest.mark.parametrize("query", [query for feature in FEATURES for query in feature.queries])
def test_no_column_of_a_top_has_a_name_that_nobody_wrote(query: str) -> None:
    view = parse_view(query, RELATIONS)
    names = {name for node in nodes_of(view.top) for name in node.schema.names} if view.top else ()
    assert not [name for name in names if name.startswith(("#", "key ", "value ", "aggregate "))]
    assert view.shown_schema.names == (view.top.schema if view.top else view.schema).names


def test_long_labels_end_somewhere() -> None:
    names = [f"x{at}" for at in range(12)]
    steps = [f"{b} AS (SELECT {a}.n * {a}.n AS n FROM {a})" for a, b in pairwise(names)]
    query = f"WITH x0 AS (SELECT COUNT(*) AS n FROM r), {', '.join(steps)} SELECT n FROM x11"
    top = parse_view(query, [R, S]).top
    assert top is not None
    assert max(len(name) for node in nodes_of(top) for name in node.schema.names) < 300
