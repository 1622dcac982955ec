"""Views with a top over one table, for the tests of the warehouse."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT, Row
from headwater.algebra.views import View
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

SCHEMA = Schema.of([("g", TEXT), ("v", INT)])
RELATION = Relation("shop.t", "shop", SCHEMA)
SELECTS = {
    "totals": "SELECT g, count(*) AS n, sum(v) AS total, min(v) AS least FROM shop.t GROUP BY g",
    "sums": "SELECT g, count(*) AS n, sum(v) AS total, avg(v) AS mean FROM shop.t GROUP BY g",
    "greatest": "SELECT g, v FROM shop.t ORDER BY v DESC LIMIT 2",
    "shares": "SELECT g, sum(v) / min(v) AS share FROM shop.t GROUP BY g",
}


def view(name: str) -> View:
    return parse_view(SELECTS[name], [RELATION], name)


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
        put(view(name).stored(contents)),
        "sweep",
        "strong",
        "loader",
        shown=Shown(shown.schema, put(shown)),
    )


def load(warehouse: Warehouse, name: str, contents: Rows) -> ViewTable:
    return warehouse.create(load_of(name, contents))
