"""Views for the tests of the warehouse, and small ways to change them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, TEXT
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.netting import local_frame
from headwater.warehouse.vectors import Reached, VersionVector
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

SCHEMA = Schema.of([("id", INT), ("name", TEXT)])


def rows(counts: Mapping[Any, int], schema: Schema = SCHEMA) -> Rows:
    return Rows(schema, {schema.row(row): count for row, count in counts.items()})


def vector(number: int) -> VersionVector:
    return {
        "shop": Reached(number, {"lsn": f"0/{number:X}"}, (number + 2,)),
        "crm": Reached(0, {"seq": 0}),
    }


def definition(
    select: str = "SELECT 1", name: str = "orders", schema: Schema = SCHEMA
) -> StoredDefinition:
    return StoredDefinition(name, select, schema)


def load(
    warehouse: Warehouse,
    spark: SparkSession,
    contents: Rows,
    name: str = "orders",
    key: Sequence[str] = (),
) -> ViewTable:
    return warehouse.create(
        ViewLoad(
            definition("SELECT 1", name, contents.schema),
            vector(0),
            local_frame(spark, contents),
            algorithm="strobe",
            level="strong",
            runner="loader",
            key=tuple(key),
        )
    )
