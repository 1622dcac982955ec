"""Queries over views through Spark: each view by its name, as it is now or at a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from headwater.errors import InputError
from headwater.frames.session import named
from headwater.pipeline.project import Project
from headwater.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def query_views(
    project: Project, spark: SparkSession, query: str, limit: int
) -> tuple[list[str], list[tuple[object, ...]], bool]:
    """Column names, at most `limit` rows, and whether there are more."""
    from pyspark.errors import PySparkException

    statement = _parsed(query)
    _register(Warehouse(project.warehouse), spark, statement)
    try:
        with named(spark, "sql"):
            found = spark.sql(statement.sql("spark"))
            rows = [tuple(row) for row in found.limit(limit + 1).collect()]
    except PySparkException as error:
        text = str(error).splitlines()
        raise InputError(text[0] if text else "Spark cannot run this query.") from None
    return found.columns, rows[:limit], len(rows) > limit


def _parsed(query: str) -> exp.Query:
    try:
        statement = sqlglot.parse_one(query, read="spark")
    except ParseError as error:
        place = error.errors[0] if error.errors else {}
        raise InputError(
            f"line {place.get('line', 1)}, column {place.get('col', 1)}: "
            f"{place.get('description', 'this is not SQL')}.",
            "Write one SELECT.",
        ) from None
    if not isinstance(statement, exp.Query):
        raise InputError("Only a query can be run.", "Write one SELECT.")
    return statement


def _register(warehouse: Warehouse, spark: SparkSession, statement: exp.Query) -> None:
    """Make every view that the query names known to Spark."""
    inner = {cte.alias_or_name.lower() for cte in statement.find_all(exp.CTE)}
    for table in list(statement.find_all(exp.Table)):
        if table.name.lower() in inner:
            continue
        number = _version(table)
        view = warehouse.view(table.name)
        known = table.name if number is None else f"{table.name}__version_{number}"
        view.dataframe(spark, number).createOrReplaceTempView(known)
        if number is not None:
            alias = table.alias or table.name
            table.replace(exp.to_table(known).as_(alias, table=True))


def _version(table: exp.Table) -> int | None:
    version = table.args.get("version")
    if version is None:
        return None
    if version.name.upper() != "VERSION" or not version.expression.name.isdecimal():
        raise InputError(
            f"{table.name}: only VERSION AS OF a number is known.",
            "'headwater status' shows the versions of views.",
        )
    return int(version.expression.name)
