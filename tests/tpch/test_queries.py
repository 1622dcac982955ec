"""TPC-H: all 22 queries are views, and show what DuckDB answers, rounding of averages apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import DATE, INT, TEXT, Type, decimal_type
from tests.tpch.queries import QUERIES

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
KEYS = {
    "customer": 1,
    "lineitem": 0,
    "nation": 1,
    "orders": 1,
    "part": 1,
    "partsupp": 2,
    "region": 1,
    "supplier": 1,
}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """A small TPC-H, made anew: its customers, orders and parts fit into memory."""
    folder = tmp_path_factory.mktemp("tpch")
    tool = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(tool), "parquet", "-s", "0.001", "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    found = duckdb.connect()
    for table in TABLES:
        found.execute(f"CREATE TABLE {table} AS SELECT * FROM '{folder}/{table}.parquet'")
    return found


@pytest.fixture(scope="module")
def state(database: duckdb.DuckDBPyConnection) -> dict[str, Rows]:
    found = {}
    for table in TABLES:
        rows = database.execute(f"SELECT * FROM {table}").fetchall()
        described = database.execute(f"DESCRIBE {table}").fetchall()
        schema = Schema.of([(str(column[0]), _type(str(column[1]))) for column in described])
        found[table] = Rows.of(schema, rows)
    return found


def _type(name: str) -> Type:
    if name.startswith("DECIMAL"):
        precision, scale = name.removeprefix("DECIMAL(").removesuffix(")").split(",")
        return decimal_type(int(precision), int(scale))
    return {"BIGINT": INT, "INTEGER": INT, "DATE": DATE}.get(name, TEXT)


def _comparable(rows: Sequence[tuple[object, ...]], floats: set[int]) -> list[tuple[object, ...]]:
    """Rows in order; columns that DuckDB has as floats (averages, quotients) to five digits."""
    rounded = [
        tuple(
            float(f"{float(str(v)):.5g}") if at in floats and v is not None else v
            for at, v in enumerate(row)
        )
        for row in rows
    ]
    return sorted(rounded, key=str)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_tpch_is_a_view(
    name: str, database: duckdb.DuckDBPyConnection, state: dict[str, Rows]
) -> None:
    relations = [
        Relation(table, "shop", rows.schema, rows.schema.names[: KEYS[table]])
        for table, rows in state.items()
    ]
    view = parse_view(QUERIES[name], relations)
    shown = [row for row, n in evaluate_shown(view, state).items() for _ in range(n)]
    theirs = database.execute(QUERIES[name]).fetchall()
    floats = {at for row in theirs for at, v in enumerate(row) if isinstance(v, float)}
    assert _comparable(shown, floats) == _comparable(theirs, floats)
