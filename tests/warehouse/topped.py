"""Views with a top, made by hand over one table, for the tests of the warehouse."""

from collections.abc import Iterable, Mapping

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.aggregates import aggregate
from headwater.algebra.expressions import ColumnRef
from headwater.algebra.order import Order
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import First, Grouped, Part, Project, Top
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT, Row
from headwater.algebra.views import View
from headwater.warehouse import definition
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

SCHEMA = Schema.of([("g", TEXT), ("v", INT)])
SELECT = "SELECT t.g, t.v FROM shop.t AS t"
RELATION = Relation("shop.t", "shop", SCHEMA)
_PART = Part(SCHEMA.names, SCHEMA)
_V = ColumnRef("v", INT)
_SUM, _MIN = aggregate("sum", _V), aggregate("min", _V)


def _grouped() -> Grouped:
    aggregates = (aggregate("count(*)"), _SUM, _MIN)
    columns = [
        ("g", TEXT),
        *zip(("n", "total", "least"), (a.type for a in aggregates), strict=True),
    ]
    return Grouped(_PART, ("g",), aggregates, Schema.of(columns))


def _shares() -> Project:
    share = call("/", ColumnRef("total", _SUM.type), ColumnRef("least", INT))
    schema = Schema.of([("g", TEXT), ("share", share.type)])
    return Project(_grouped(), (ColumnRef("g", TEXT), share), schema)


TOPS: Mapping[str, Top] = {
    "totals": _grouped(),
    "greatest": First(_PART, (Order("v", descending=True),), 2),
    "shares": _shares(),
}


def view(name: str) -> View:
    plain = parse_view(SELECT, [RELATION], name)
    return View(name, plain.joins, plain.schema, SELECT, TOPS[name])


def read_with_tops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stored definitions of these views be read again with their tops."""

    def parse(sql: str, relations: Iterable[Relation], name: str = "view") -> View:
        found = parse_view(sql, tuple(relations), name)
        return View(name, found.joins, found.schema, sql, TOPS.get(name))

    monkeypatch.setattr(definition, "parse_view", parse)


def rows(counts: Mapping[Row, int]) -> Rows:
    return Rows(SCHEMA, counts)


def vector(number: int, *early: int) -> VersionVector:
    return {"shop": Reached(number, {"n": number}, early)}


def load_of(name: str, contents: Rows, spark: SparkSession | None = None) -> ViewLoad:
    shown = view(name).shown(contents)
    put = (lambda found: local_frame(spark, found)) if spark else (lambda found: found)
    return ViewLoad(
        StoredDefinition.of(view(name)),
        vector(0),
        put(contents),
        "sweep",
        "strong",
        "loader",
        shown=Shown(shown.schema, put(shown)),
    )


def load(warehouse: Warehouse, name: str, contents: Rows) -> ViewTable:
    return warehouse.create(load_of(name, contents))
