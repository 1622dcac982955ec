"""TPC-H through the pipeline: all 22 queries as views over three servers, while orders come and go.

Refresh streams as TPC-H has them: new orders with their lines in one transaction, old ones deleted
with theirs; customers, suppliers and offers change beside. Views are verified at their own vectors
while that goes on, and at the end each is what Spark answers over the tables as they are then.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import psycopg
import pytest
import sqlglot
from pyspark.sql import SparkSession
from sqlglot import exp

from headwater import Project
from headwater.embedded.postgres import PostgresServer
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from tests.tpch.queries import QUERIES

SOURCES = {
    "crm": ("customer", "nation", "region"),
    "shop": ("orders", "lineitem"),
    "depot": ("part", "partsupp", "supplier"),
}
HOME = {table: source for source, tables in SOURCES.items() for table in tables}
KEYS = {"lineitem": "l_orderkey, l_linenumber", "partsupp": ""}
"""Of so few suppliers some offer a part twice."""
ROUNDS = 6


class Shops:
    """The three databases, and who writes into them."""

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer()
        self.data = duckdb.connect()
        tool = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(tool), "parquet", "-s", "0.001", "--output-dir", str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            for source in SOURCES:
                connection.execute(f"CREATE DATABASE {source}")
        self.connections = {s: psycopg.connect(self.server.dsn(s)) for s in SOURCES}
        for table in HOME:
            self.data.execute(f"CREATE TABLE {table} AS SELECT * FROM '{folder}/{table}.parquet'")
            self._fill(table)
        self._random = Random(7)
        self._next = 1_000_000

    def _fill(self, table: str) -> None:
        columns = self.data.execute(f"DESCRIBE {table}").fetchall()
        key = KEYS.get(table, str(columns[0][0]))
        defined = ", ".join(f"{c[0]} {str(c[1]).replace('VARCHAR', 'TEXT')}" for c in columns)
        with self.connections[HOME[table]].transaction():
            cursor = self.connections[HOME[table]].cursor()
            primary = f", PRIMARY KEY ({key})" if key else ""
            cursor.execute(f"CREATE TABLE {table} ({defined}{primary})")
            marks = ", ".join(["%s"] * len(columns))
            rows = self.data.execute(f"SELECT * FROM {table}").fetchall()
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def refresh(self) -> None:
        """New orders like old ones, old orders away, and some other changes."""
        shop = self.connections["shop"]
        for _ in range(3):
            with shop.transaction():
                (old,) = self._some("SELECT o_orderkey FROM orders")
                self._next += 1
                shop.execute(
                    "INSERT INTO orders SELECT (jsonb_populate_record(o, jsonb_build_object("
                    "'o_orderkey', %s::bigint))).* FROM orders o WHERE o_orderkey = %s",
                    [self._next, old],
                )
                shop.execute(
                    "INSERT INTO lineitem SELECT (jsonb_populate_record(l, jsonb_build_object("
                    "'l_orderkey', %s::bigint, 'l_quantity', l.l_quantity %% 50 + 1))).* "
                    "FROM lineitem l WHERE l_orderkey = %s",
                    [self._next, old],
                )
            with shop.transaction():
                (gone,) = self._some("SELECT o_orderkey FROM orders")
                for table, column in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
                    shop.execute(f"DELETE FROM {table} WHERE {column} = %s", [gone])
        crm, depot = self.connections["crm"], self.connections["depot"]
        with crm.transaction():
            crm.execute(
                "UPDATE customer SET c_mktsegment = 'BUILDING', c_acctbal = c_acctbal + 10 "
                "WHERE c_custkey = %s",
                [self._random.randrange(1, 150)],
            )
        with depot.transaction():
            depot.execute(
                "UPDATE partsupp SET ps_supplycost = ps_supplycost * 0.9, "
                "ps_availqty = ps_availqty + 5 WHERE ps_partkey = %s",
                [self._random.randrange(1, 200)],
            )

    def _some(self, query: str) -> Any:
        rows = self.connections["shop"].execute(f"{query} ORDER BY 1").fetchall()
        return self._random.choice(rows)

    def show(self, spark: SparkSession) -> None:
        """The tables as they are, for Spark."""
        for table, source in HOME.items():
            described = self.data.execute(f"DESCRIBE {table}").fetchall()
            schema = ", ".join(
                f"{c[0]} {str(c[1]).replace('VARCHAR', 'STRING')}" for c in described
            )
            found = self.connections[source].execute(f"SELECT * FROM {table}").fetchall()
            self.connections[source].rollback()
            spark.createDataFrame(found, schema).createOrReplaceTempView(table)

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.server.stop()


def _over_sources(query: str) -> str:
    tree = sqlglot.parse_one(query, dialect="spark")
    named = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name in HOME and table.name not in named:
            table.set("db", exp.to_identifier(HOME[table.name]))
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
    return tree.sql("spark")


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    found = Shops(tmp_path_factory.mktemp("tpch"))
    yield found
    found.close()


def _project(folder: Path, shops: Shops) -> Project:
    (folder / "views").mkdir(parents=True)
    sources = "".join(
        f'[sources.{source}]\nkind = "postgres"\ndsn = "{shops.server.dsn(source)}"\n'
        for source in SOURCES
    )
    (folder / "headwater.toml").write_text(f'[warehouse]\npath = "warehouse"\n[spark]\n{sources}')
    for name, query in QUERIES.items():
        text = f"CREATE MATERIALIZED VIEW {name.lower()} AS {_over_sources(query)}"
        (folder / "views" / f"{name.lower()}.sql").write_text(text)
    return Project.open(folder)


@pytest.mark.stress
def test_every_query_of_tpch_follows_its_refresh_streams(
    tmp_path: Path, shops: Shops, spark: SparkSession
) -> None:
    project = _project(tmp_path / "project", shops)
    for source in project.sources.values():
        source.setup()
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            api.keep_running(Runner(project, lambda: spark), once=False, stop=stop)
        except BaseException as error:
            errors.append(error)

    api.keep_running(Runner(project, lambda: spark), once=True, stop=threading.Event())
    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(ROUNDS):
            shops.refresh()
            assert verify_view(project, Random().choice(list(QUERIES)).lower(), spark).holds
    finally:
        stop.set()
        thread.join(600)
    assert not errors
    api.keep_running(Runner(project, lambda: spark), once=True, stop=threading.Event())
    shops.show(spark)
    for name, query in QUERIES.items():
        theirs = Counter(map(tuple, spark.sql(query).collect()))
        ours = Counter(map(tuple, project.view(name.lower()).df(spark).collect()))
        assert ours == theirs, name
        assert verify_view(project, name.lower(), spark).holds, name
