"""WITH RECURSIVE: where a query may read itself, and where a recursion ends.

What it means is compared with DuckDB and on Spark with all other features.
"""

import sqlite3
from random import Random

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import normalised, parse_view, tables_of, unfolded
from headwater.algebra.values import INT
from headwater.errors import ExpressionError, SqlError

E = Relation("e", "x", Schema.of([("a", INT), ("b", INT)]))
CLOSURE = (
    "WITH RECURSIVE p AS (SELECT a, b FROM e UNION SELECT p.a, e.b FROM p JOIN e ON p.b = e.a) "
    "SELECT a, b FROM p"
)
PATHS = (
    "WITH RECURSIVE p{limit} AS (SELECT a, b FROM e UNION ALL SELECT p.a, e.b FROM p JOIN e "
    "ON p.b = e.a) SELECT a, b FROM p"
)
REFUSED = {
    "SELECT p.a FROM p UNION SELECT a FROM e": "p reads itself, and is no UNION whose first part",
    "SELECT a FROM p": "p reads itself, and is no UNION",
    "SELECT a FROM e INTERSECT SELECT a FROM p": "p reads itself, and is no UNION",
    "SELECT a FROM e UNION SELECT x.a FROM p x JOIN p y ON x.a = y.a": "reads p more than once",
    "SELECT a FROM e UNION SELECT e.a FROM e LEFT JOIN p ON p.a = b": "an outer join fills up",
    "SELECT a FROM e UNION SELECT e.a FROM p RIGHT JOIN e ON p.a = b": "an outer join fills up",
    "SELECT a FROM e UNION SELECT e.a FROM p FULL JOIN e ON p.a = b": "an outer join fills up",
    "SELECT a FROM e UNION SELECT e.a FROM (p FULL JOIN e ON p.a = b)": "an outer join fills up",
    "SELECT a FROM e UNION SELECT e.a FROM e LEFT ANTI JOIN p ON p.a = b": "a ANTI JOIN looks for",
    "SELECT a FROM e UNION SELECT a FROM e WHERE a IN (SELECT a FROM p)": "a subquery beside FROM",
    "SELECT a FROM e UNION SELECT a FROM e WHERE NOT EXISTS (SELECT 1 FROM p)": "beside FROM",
    "SELECT a FROM e UNION SELECT (SELECT MAX(a) FROM p) FROM e": "under an aggregate",
    "SELECT a FROM e UNION SELECT MAX(a) FROM p": "under an aggregate",
    "SELECT a FROM e UNION SELECT a FROM p GROUP BY a": "under an aggregate",
    "SELECT a FROM e UNION SELECT RANK() OVER (ORDER BY a) FROM p": "under a window function",
    "SELECT a FROM e UNION (SELECT a FROM e EXCEPT SELECT a FROM p)": "under EXCEPT or INTERSECT",
    "SELECT a FROM e UNION (SELECT a FROM p ORDER BY a LIMIT 3)": "under a LIMIT",
    "SELECT a FROM e UNION SELECT a FROM p LIMIT 3": "a WITH, an ORDER BY or a LIMIT",
    "SELECT a FROM e UNION WITH k AS (SELECT a FROM p) SELECT a FROM k": "in a WITH of its own",
    "SELECT a FROM e UNION SELECT x.a FROM e, LATERAL (SELECT a FROM p) x": "beside FROM",
    "SELECT a FROM e UNION SELECT CAST(a AS DECIMAL(9,1)) FROM p": "step is of type decimal.* CAST",
    "SELECT a FROM e UNION SELECT a, a FROM p": "a step has 2 columns",
    "SELECT NULL AS a FROM e UNION SELECT a FROM p": "column a is always NULL at the start",
}  # fmt: skip


def _state(pairs: list[tuple[int, int]]) -> dict[str, Rows]:
    return {"e": Rows.of(E.schema, pairs)}


def _chain(length: int) -> dict[str, Rows]:
    return _state([(at, at + 1) for at in range(length)])


@pytest.mark.parametrize("query", REFUSED)
def test_where_a_step_could_take_back_what_was_found_it_is_refused(query: str) -> None:
    with pytest.raises(SqlError, match=REFUSED[query]):
        parse_view(f"WITH RECURSIVE p AS ({query}) SELECT * FROM p", [E])


def test_queries_that_read_each_other_are_refused() -> None:
    both = "p AS (SELECT a FROM q), q AS (SELECT a FROM e UNION SELECT a FROM p)"
    with pytest.raises(SqlError, match="line 1, column 36: p reads q, which WITH names behind it"):
        parse_view(f"WITH RECURSIVE {both} SELECT * FROM p", [E])


def test_what_it_reads_is_stored_and_it_is_computed_whole() -> None:
    view = parse_view(CLOSURE, [E])
    assert view.top is not None
    assert keying(view.top) is None
    assert [[o.relation.name for o in join.occurrences] for join in view.joins] == [["e"]]
    assert {table.name for table in tables_of(CLOSURE)} == {"e"}


@pytest.mark.parametrize("seed", range(30))
def test_a_closure_is_what_sqlite_says(seed: int) -> None:
    chance = Random(seed)
    pairs = [(chance.randrange(6), chance.randrange(6)) for _ in range(chance.randrange(9))]
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE e (a, b)")
    database.executemany("INSERT INTO e VALUES (?, ?)", pairs)
    theirs = database.execute(CLOSURE).fetchall()
    view = parse_view(CLOSURE, [E])
    assert evaluate_shown(view, _state(pairs)) == Rows.of(view.shown_schema, theirs)


def test_a_recursion_that_does_not_end_fails_and_says_what_helps() -> None:
    view = parse_view(PATHS.format(limit=""), [E])
    assert len(evaluate_shown(view, _chain(100))) == 5050
    with pytest.raises(ExpressionError, match=r"p has not ended after 100 steps .* write UNION"):
        evaluate_shown(view, _state([(1, 2), (2, 1)]))
    with pytest.raises(ExpressionError, match="MAX RECURSION LEVEL 1000"):
        evaluate_shown(view, _chain(101))


def test_a_recursion_may_be_given_more_steps() -> None:
    query = PATHS.format(limit=" MAX RECURSION LEVEL 200")
    view = parse_view(query, [E])
    assert len(evaluate_shown(view, _chain(150))) == 150 * 151 // 2
    assert parse_view(normalised(query), [E]).top == view.top
    with pytest.raises(SqlError, match="MAX RECURSION LEVEL is no number above zero"):
        parse_view(PATHS.format(limit=" MAX RECURSION LEVEL 0"), [E])


def test_rows_that_grow_and_grow_end_it_before_the_steps_do() -> None:
    query = "WITH RECURSIVE p AS (SELECT a FROM e UNION ALL SELECT p.a FROM p, e) SELECT * FROM p"
    with pytest.raises(ExpressionError, match="1,000,000 rows"):
        evaluate_shown(parse_view(query, [E]), _chain(10))


def test_a_view_over_views_may_be_recursive() -> None:
    """The view that it reads has the name of a table, which it means by that name."""
    whole = unfolded(CLOSURE, {"e": "SELECT a, b FROM e WHERE a < 3"})
    shown = evaluate_shown(parse_view(whole, [E]), _chain(5))
    assert shown == evaluate_shown(parse_view(CLOSURE, [E]), _chain(3))
