"""What a view cannot be is refused with a sentence that leads to what was meant."""

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import DATE, INT, TEXT
from headwater.errors import SqlError
from tests.hanging import hang_limit

R = Relation("r", "x", Schema.of([("id", INT), ("k", TEXT), ("a", INT), ("day", DATE)]), ("id",))
STATE = {
    "r": Rows.of(R.schema, [[1, "p", 5, None], [2, "p", None, None], [3, "q", 1, None]]),
}
BACKWARDS = (
    "ROWS BETWEEN CURRENT ROW AND 1 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED PRECEDING",
    "ROWS 2 FOLLOWING",
    "RANGE BETWEEN 1 PRECEDING AND 2 PRECEDING",
    "RANGE BETWEEN 2 FOLLOWING AND CURRENT ROW",
)
REFUSED = {
    "SELECT k FROM r WHERE SUM(a) > 1": "column 23: the aggregate SUM cannot stand .*HAVING",
    "SELECT k FROM r WHERE RANK() OVER (ORDER BY a) = 1": r"window function \(OVER\).* QUALIFY",
    "SELECT k FROM r GROUP BY k HAVING RANK() OVER (ORDER BY k) = 1": "HAVING has a .* QUALIFY",
    "SELECT k, RANK() OVER (ORDER BY k) AS n FROM r GROUP BY k HAVING n = 1": "HAVING has a window",
    "SELECT id, SUM(a) IGNORE NULLS OVER (ORDER BY id) AS x FROM r": "SUM has no IGNORE NULLS. LAG",
    "SELECT id FROM r ORDER BY a FETCH FIRST 3 ROWS WITH TIES": "WITH TIES is not .* QUALIFY RANK",
    "SELECT id FROM r ORDER BY a FETCH FIRST 3 PERCENT ROWS ONLY": "PERCENT of rows is not",
    "SELECT CUONT(*) AS n FROM r": "CUONT is not a function .* Did you mean COUNT",
    "SELECT LAG(a) AS n FROM r": r"LAG is computed over a window.* OVER \(ORDER BY",
    "SELECT ROW_NUMBER() AS n FROM r": "ROW_NUMBER is computed over a window",
    "SELECT id FROM r WHERE LEAD(a) > 1": "LEAD is computed over a window",
    "SELECT MAX(a, id) AS n FROM r": r"column 8: MAX takes 1 argument\(s\)",
    "SELECT MODE(a, id) AS n FROM r": "MODE takes 1 argument",
    "SELECT COUNT_IF(a > 1, id) AS n FROM r": "COUNT_IF takes 1 argument",
    "SELECT every(a > 1, id) AS n FROM r": "EVERY takes 1 argument",
    "SELECT ARRAY_AGG(a, id) AS n FROM r": "ARRAY_AGG takes 1 argument",
    "SELECT SUM(a) AS s, MAX_BY(a, id, 2) AS n FROM r": "column 21: MAX_BY takes 2 argument",
    "SELECT PERCENTILE(a, 0.5, 2) AS n FROM r": "PERCENTILE takes 2 argument",
    "SELECT PERCENTILE_CONT(0.5, 2) WITHIN GROUP (ORDER BY a) AS n FROM r": "(?i)argument",
    "SELECT RANK(a) OVER (ORDER BY id) AS n FROM r": "RANK takes 0 argument",
    "SELECT ROW_NUMBER(a) OVER (ORDER BY id) AS n FROM r": "ROW_NUMBER takes 0 argument",
    "SELECT NTH_VALUE(a, 1, 2) OVER (ORDER BY id) AS n FROM r": "NTH_VALUE takes 2 argument",
    "SELECT MAX(a, id) OVER (ORDER BY id) AS n FROM r": "MAX takes 1 argument",
    "SELECT every() AS n FROM r": "(?i)every|bool_and|argument",
    "SELECT RNAK() OVER (ORDER BY id) AS n FROM r": "RNAK is not a window .* Did you mean RANK",
}
ACCEPTED: dict[str, set[tuple[object, ...]]] = {
    "SELECT id, MAX_BY(id, a) OVER (ORDER BY id) AS x FROM r": {(1, 1), (2, 1), (3, 1)},
    "SELECT MODE() WITHIN GROUP (ORDER BY a DESC) AS x FROM r": {(5,)},
    "SELECT MODE() WITHIN GROUP (ORDER BY a) AS x FROM r": {(1,)},
    "SELECT k, SUM(a) AS x FROM r GROUP BY k HAVING x > 1": {("p", 5)},
    "SELECT k AS g, SUM(a) + 1 AS x FROM r GROUP BY k HAVING g < 'q' AND x > 1": {("p", 6)},
    "SELECT k, SUM(a) AS a FROM r GROUP BY k HAVING a > 1": {("p", 5)},
    "SELECT UPPER(k) AS k, COUNT(*) AS n FROM r GROUP BY k HAVING k = 'p'": {("P", 2)},
    "SELECT k AS a, SUM(id) AS x FROM r GROUP BY k HAVING MAX(a) > 3": {("p", 3)},
    "SELECT id, LAG(a, 1, 0) IGNORE NULLS OVER (ORDER BY id) AS x FROM r": {(1, 0), (2, 5), (3, 5)},
    "SELECT id, LAG(a, 1, 0) RESPECT NULLS OVER (ORDER BY id) AS x FROM r": {
        (1, 0),
        (2, 5),
        (3, None),
    },
}


@pytest.mark.parametrize("frame", BACKWARDS)
def test_a_frame_that_ends_before_it_starts_is_refused(frame: str) -> None:
    with pytest.raises(SqlError, match="line 1, column 8: the frame ends before it starts"):
        parse_view(f"SELECT SUM(a) OVER (ORDER BY id {frame}) AS x FROM r", [R])


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_a_frame_of_days_is_refused_if_it_ends_before_it_starts(first: int, second: int) -> None:
    frame = f"RANGE BETWEEN INTERVAL {first} DAY PRECEDING AND INTERVAL {second} DAYS PRECEDING"
    query = f"SELECT SUM(a) OVER (ORDER BY day {frame}) AS x FROM r"
    if first > second:
        assert parse_view(query, [R]).top is not None
        return
    with pytest.raises(SqlError, match="ends before it starts"):
        parse_view(query, [R])


@pytest.mark.parametrize("query", REFUSED)
def test_a_refusal_leads_to_what_was_meant(query: str) -> None:
    with pytest.raises(SqlError, match=REFUSED[query]):
        parse_view(query, [R])


@pytest.mark.parametrize("query", ACCEPTED)
def test_what_spark_takes_means_the_same_here(query: str) -> None:
    assert set(evaluate_shown(parse_view(query, [R]), STATE)) == ACCEPTED[query]


def test_all_names_that_mean_nothing_are_told_at_once() -> None:
    query = (
        "SELECT k AS g, idd, UPER(k) AS u, SUM(a) AS s, TRANSFORM(ARRAY(a), x -> x + b) AS t,\n"
        "  (SELECT MAX(q.c) FROM r q WHERE q.id = r.id) AS m\n"
        "FROM r WHERE c > 1 GROUP BY g HAVING s > d ORDER BY u LIMIT 1"
    )
    with pytest.raises(SqlError) as caught:
        parse_view(query, [R])
    places = [(each.line, each.column) for each in caught.value.problems]
    assert places == [(1, 16), (1, 21), (1, 77), (3, 14), (3, 42)]


def test_mistakes_of_a_subquery_and_around_it_are_told_together() -> None:
    with pytest.raises(SqlError) as caught:
        parse_view("SELECT (SELECT MAX(q.c) FROM r q WHERE q.b = r.id) AS m, x FROM r", [R])
    assert [each.column for each in caught.value.problems] == [20, 40, 58]


@pytest.mark.parametrize("kind", ["LEFT", "FULL"])
def test_many_outer_joins_are_read_in_the_time_of_few(kind: str) -> None:
    tables = [f"{kind} JOIN r AS r{n} ON r{n}.id = r{n - 1}.a" for n in range(1, 25)]
    with hang_limit():
        view = parse_view(f"SELECT r0.id FROM r AS r0 {' '.join(tables)}", [R])
        assert view.top is not None
        keying(view.top)
        assert view.compact is None


@pytest.mark.parametrize(
    "query",
    [
        " UNION ".join(f"SELECT a + {n} AS a FROM r" for n in range(400)),
        f"SELECT {' + '.join(['a'] * 3000)} AS a FROM r",
    ],
    ids=["sets", "a sum"],
)
def test_a_query_that_is_nested_too_deeply_is_told_so(query: str) -> None:
    with pytest.raises(SqlError, match="nested too deeply"):
        parse_view(query, [R])
