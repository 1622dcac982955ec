"""Views that read other views of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.errors import InputError
from headwater.project.project import Project

TOML = '[sources.shop]\nkind = "sqlite"\npath = "shop.db"\nrelations = ["orders"]\n'
ORDERS = Relation(
    "shop.orders", "shop", Schema.of([("id", INT), ("who", TEXT), ("price", INT)]), ("id",)
)
ROWS = Rows.of(ORDERS.schema, [(1, "ann", 5), (2, "ann", 7), (3, "bob", 1)])


def project(folder: Path, **views: str) -> Project:
    (folder / "headwater.toml").write_text(TOML)
    (folder / "views").mkdir()
    for name, select in views.items():
        text = f"CREATE MATERIALIZED VIEW {name} AS {select}"
        (folder / "views" / f"{name}.sql").write_text(text)
    return Project.open(folder)


def test_a_view_over_views_reads_the_tables_below(tmp_path: Path) -> None:
    opened = project(
        tmp_path,
        sums="SELECT who, SUM(price) AS s FROM shop.orders GROUP BY who",
        high="SELECT who FROM sums WHERE s > 5",
        pairs="SELECT a.who, b.who AS other FROM high a JOIN sums b ON a.who < b.who",
    )
    assert opened.needs["pairs"] == ("shop",)
    view = opened.definition("pairs", [ORDERS]).view
    assert set(evaluate_shown(view, {"shop.orders": ROWS})) == {("ann", "bob")}


def test_what_is_kept_of_a_view_over_views_needs_no_other_view(tmp_path: Path) -> None:
    opened = project(
        tmp_path,
        dear="SELECT id, who FROM shop.orders WHERE price > 4",
        names="SELECT DISTINCT who FROM dear",
    )
    stored = opened.definition("names", [ORDERS]).stored
    view = parse_view(stored.select, [ORDERS])
    assert set(evaluate_shown(view, {"shop.orders": ROWS})) == {("ann",)}


def test_a_view_may_have_the_name_of_its_table(tmp_path: Path) -> None:
    opened = project(tmp_path, orders="SELECT id FROM orders WHERE price > 4")
    assert opened.definition("orders", [ORDERS]).view.relations[0].name == "shop.orders"


def test_views_in_a_circle_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in a circle: a reads b reads a"):
        project(tmp_path, a="SELECT id FROM b", b="SELECT id FROM a")


def test_a_circle_is_told_once_whoever_reads_it(tmp_path: Path) -> None:
    views = {"c": "b", "b": "a", "a": "c", "over": "b"}
    with pytest.raises(InputError) as caught:
        project(tmp_path, **{name: f"SELECT id FROM {other}" for name, other in views.items()})
    told = str(caught.value)
    assert "b.sql:1:46: views read each other in a circle: a reads c reads b reads a." in told
    assert told.count(".sql:") == 1


def test_a_view_that_reads_itself_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.sql:1:\d+: the view v reads itself\. A view's own"):
        project(tmp_path, v="SELECT id FROM V")


def test_a_name_that_may_mean_a_view_and_a_table_is_refused(tmp_path: Path) -> None:
    opened = project(
        tmp_path, orders="SELECT id FROM shop.orders", late="SELECT id FROM orders WHERE id > 1"
    )
    with pytest.raises(InputError, match=r"may mean the view orders and the table shop\.orders"):
        opened.definition("late", [ORDERS])


def test_a_mistake_in_a_view_below_is_told_once_where_it_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"views/a.sql:1:\d+: SORT BY is not supported"):
        project(tmp_path, a="SELECT id FROM shop.orders SORT BY id", b="SELECT id FROM a")
