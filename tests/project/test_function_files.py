"""Functions of one's own: files of a project, unfolded in the views that call them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.tops import evaluate_top
from headwater.algebra.values import INT, TEXT
from headwater.errors import InputError
from headwater.project.differences import describe_difference
from headwater.project.project import Project, file_signature

TOML = '[sources.shop]\nkind = "sqlite"\npath = "shop.db"\nrelations = ["orders"]\n'
ORDERS = Relation(
    "shop.orders", "shop", Schema.of([("id", INT), ("who", TEXT), ("price", INT)]), ("id",)
)
ROWS = Rows.of(ORDERS.schema, [(1, "ann", 5), (2, "ann", 7), (3, "bob", 1)])
TAXED = "CREATE FUNCTION taxed(price INT, percent INT DEFAULT 20) RETURNS INT\n  RETURN {};\n"
PLUS = "price + price * percent DIV 100"
DEAR = """-- Orders above a price.
CREATE FUNCTION dear(least INT) RETURNS TABLE (id BIGINT, who STRING)
  RETURN SELECT id, who FROM shop.orders WHERE price >= least
"""


def project(folder: Path, functions: dict[str, str], **views: str) -> Project:
    (folder / "headwater.toml").write_text(TOML)
    (folder / "views").mkdir(exist_ok=True)
    (folder / "functions").mkdir(exist_ok=True)
    for name, text in functions.items():
        (folder / "functions" / f"{name}.sql").write_text(text)
    for name, select in views.items():
        text = f"CREATE MATERIALIZED VIEW {name} AS {select}"
        (folder / "views" / f"{name}.sql").write_text(text)
    return Project.open(folder)


def shown(opened: Project, name: str) -> set[tuple[object, ...]]:
    """What a view shows; the same as what is kept of it when it is loaded."""
    definition = opened.definition(name, [ORDERS])
    found = evaluate_shown(definition.view, {"shop.orders": ROWS})
    assert found == evaluate_shown(definition.stored.view, {"shop.orders": ROWS})
    return set(found)


def test_a_view_calls_functions_of_the_project(tmp_path: Path) -> None:
    functions = {"prices": TAXED.format(PLUS), "orders": DEAR}
    opened = project(
        tmp_path,
        functions,
        prices="SELECT id, taxed(price) AS t, taxed(percent => 50, price => 3.9) AS u FROM orders",
        names="SELECT COUNT(*) AS n, who FROM dear(5) GROUP BY who",
    )
    assert shown(opened, "prices") == {(1, 6, 4), (2, 8, 4), (3, 1, 4)}
    assert shown(opened, "names") == {(2, "ann")}
    assert opened.needs["names"] == ("shop",)
    assert opened.view_files["names"].called == ("dear",)


def test_names_in_a_function_never_mean_what_stands_around_a_call(tmp_path: Path) -> None:
    """Neither a column of the view, nor one of another function, nor a variable of a lambda."""
    functions = {
        "a": "CREATE FUNCTION half(id INT) RETURNS INT RETURN id DIV 2;"
        "CREATE FUNCTION halves(price INT) RETURNS INT RETURN half(price) * 10 + price",
        "b": "CREATE FUNCTION dear(price INT) RETURNS TABLE (id INT, least INT) "
        "RETURN SELECT id, dear.price FROM shop.orders WHERE price > 4",
    }
    opened = project(
        tmp_path,
        functions,
        v="SELECT half(price) AS h, halves(id) AS i FROM orders",
        w="WITH orders AS (SELECT 1 AS id) SELECT * FROM dear(2)",
    )
    assert shown(opened, "v") == {(2, 1), (3, 12), (0, 13)}
    assert shown(opened, "w") == {(1, 2), (2, 2)}


def test_a_function_reads_views_and_a_view_over_views_calls_functions(tmp_path: Path) -> None:
    functions = {
        "f": "CREATE FUNCTION rich() RETURNS TABLE RETURN SELECT who FROM sums WHERE twice(s) > 20;"
        "CREATE FUNCTION twice(x INT) RETURNS INT RETURN x * 2",
    }
    opened = project(
        tmp_path,
        functions,
        sums="SELECT who, SUM(price) AS s FROM shop.orders GROUP BY who",
        names="SELECT who FROM rich()",
        both="SELECT n.who, twice(s) AS s FROM names n JOIN sums USING (who), rich() AS r",
    )
    assert shown(opened, "names") == {("ann",)}
    assert shown(opened, "both") == {("ann", 24)}
    assert opened.view_files["both"].called == ("twice", "rich")
    assert opened.view_files["names"].read_views == ("sums",)


def test_members_of_a_group_call_functions_and_recursive_ones_too(tmp_path: Path) -> None:
    steps = (
        "CREATE OR REPLACE FUNCTION steps(most INT) RETURNS TABLE (n INT) RETURN WITH RECURSIVE "
        "x(n) AS (SELECT price FROM orders UNION SELECT n + 1 FROM x WHERE n < most) "
        "SELECT n FROM x"
    )
    (tmp_path / "views").mkdir()
    for name, select in {
        "a": "SELECT n FROM steps(7)",
        "b": "SELECT half(id) AS h FROM orders",
    }.items():
        text = f"CREATE MATERIALIZED VIEW {name} IN GROUP g AS {select}"
        (tmp_path / "views" / f"{name}.sql").write_text(text)
    half = "CREATE FUNCTION half(x INT) RETURNS INT RETURN x DIV 2"
    definition = project(tmp_path, {"f": steps, "g": half}).definition("g", [ORDERS])
    for view in (definition.view, definition.stored.view):
        stored = evaluate_view(view, {"shop.orders": ROWS})
        first, second = (evaluate_top(member.top, stored) for member in view.members)
        assert set(first) == {(n,) for n in range(1, 8)}
        assert dict(second.items()) == {(0,): 1, (1,): 2}


MISTAKES = {
    "CREATE FUNCTION f(x INT) RETURNS INT\nRETURN x + y": "f.sql:2:12: there is no column y in f",
    "CREATE FUNCTION f(x INT) RETURNS DATE RETURN x": "f.sql:1:46: CAST from int to date",
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN NOW()": "NOW depends on time, chance",
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN f(x)": "1:45: functions call .* f calls f.",
    "CREATE FUNCTION f() RETURNS INT RETURN g();\nCREATE FUNCTION g() RETURNS INT RETURN f()": (
        "f.sql:2:40: functions call each other in a circle: f calls g calls f."
    ),
    "CREATE FUNCTION upper(x INT) RETURNS INT RETURN x": "1:17: there is a function upper already",
    "CREATE FUNCTION max(x INT) RETURNS INT RETURN x": "there is a function max already",
    "CREATE FUNCTION now(x INT) RETURNS INT RETURN x": "there is a function now already",
    "CREATE FUNCTION f(x INT) RETURNS INT RETURN 'a": "f.sql:1:45: what ' opens is never closed",
    "CREATE FUNCTION f(x) RETURNS INT RETURN x": "f.sql:1:19: x has no type",
    "CREATE FUNCTION f(x INT, X INT) RETURNS INT RETURN x": "two arguments have one name",
    "CREATE FUNCTION f(x INT DEFAULT 1, y INT) RETURNS INT RETURN x": "behind a DEFAULT",
    "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS 'x'": "no function with a RETURN",
    "CREATE FUNCTION f(x MAP<INT, INT>) RETURNS INT RETURN 1": "MAP",
    "CREATE FUNCTION f() RETURNS INT RETURN (SELECT MAX(id) FROM shop.orders)": "has a subquery",
    "CREATE FUNCTION f() RETURNS INT RETURN 1; CREATE FUNCTION F() RETURNS INT RETURN 2": (
        "f.sql:1:43: function F is defined in .*f.sql already"
    ),
    "SELECT 1": "f.sql:1:1: a function starts with CREATE FUNCTION",
    "-- later": "f.sql: there is no function in this file",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_a_function_is_told_where_it_is(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=MISTAKES[text]) as caught:
        project(tmp_path, {"f": text}, v="SELECT id FROM orders")
    assert len(str(caught.value).splitlines()) == 1


CALLS = {
    "SELECT taxed() AS t FROM orders": r"v.sql:1:38: taxed is not given price. It is taxed\(price",
    "SELECT taxed(1, 2, 3) AS t FROM orders": "v.sql:1:38: taxed takes no such argument",
    "SELECT taxed(1, price => 3) AS t FROM orders": "taxed is given price twice",
    "SELECT taxed(DATE '2024-01-01') AS t FROM orders": "price of taxed: CAST from date to int",
    "SELECT taxt(1) AS t FROM orders": "TAXT is not a function",
    "SELECT * FROM taxed(1)": "v.sql:1:45: taxed gives one value, and no rows",
    "SELECT dear(1) AS d FROM orders": "v.sql:1:38: dear gives rows",
    "SELECT o.id FROM orders o, dear(o.price)": "an argument of dear names a column",
    "SELECT * FROM nowhere(1)": r"no function NOWHERE that gives rows. .*functions/\*.sql",
    "CREATE FUNCTION f() RETURNS INT RETURN 1; SELECT f() AS f FROM orders": "view is no function",
    "SELECT * FROM wrong()": r"g.sql:1:53: there is no column nam in orders",
}


@pytest.mark.parametrize("select", CALLS)
def test_a_mistake_in_a_call_is_told_where_it_is(tmp_path: Path, select: str) -> None:
    wrong = "CREATE FUNCTION wrong() RETURNS TABLE RETURN SELECT nam FROM shop.orders"
    functions = {"f": TAXED.format(PLUS), "d": DEAR, "g": wrong}
    with pytest.raises(InputError, match=CALLS[select]):
        project(tmp_path, functions, v=select).definition("v", [ORDERS])


def test_a_view_that_its_own_function_reads_is_a_circle(tmp_path: Path) -> None:
    functions = {"f": "CREATE FUNCTION f() RETURNS TABLE RETURN SELECT id FROM v"}
    with pytest.raises(InputError, match=r"v.sql:1:46: views read each other .*: v reads v\."):
        project(tmp_path, functions, v="SELECT id FROM f()")


def test_a_change_of_a_function_is_a_change_of_the_views_that_call_it(tmp_path: Path) -> None:
    views = {
        "prices": "SELECT id, taxed(price) AS t FROM orders",
        "over": "SELECT t FROM prices",
        "names": "SELECT DISTINCT who FROM orders",
    }
    before = project(tmp_path, {"f": TAXED.format(PLUS)}, **views)
    signature = file_signature(tmp_path)
    after = project(tmp_path, {"f": TAXED.format(f"{PLUS} + 1")}, **views)
    assert file_signature(tmp_path) != signature
    told = {
        name: describe_difference(
            before.definition(name, [ORDERS]).stored, after.definition(name, [ORDERS]).stored
        )
        for name in views
    }
    assert told["names"] is None
    for name in ("prices", "over"):
        words = f"The SELECT of view {name} has changed since it was loaded. Run headwater reload"
        assert str(told[name]).startswith(words)


def test_blanks_comments_and_functions_that_are_not_called_do_not_count(tmp_path: Path) -> None:
    views = {"prices": "SELECT id, taxed(price) AS t FROM orders"}
    before = project(tmp_path, {"f": TAXED.format(PLUS)}, **views)
    text = TAXED.format(PLUS).replace("RETURNS", "-- in all\nreturns")
    after = project(tmp_path, {"f": text, "g": DEAR}, **views)
    was, now = (each.definition("prices", [ORDERS]).stored for each in (before, after))
    assert was == now
