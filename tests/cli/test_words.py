"""What users write, from view files to queries: names in double quotes, and mistakes in words."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import InputError
from tests.cli.commands import Result, quick

SETTINGS = """
[spark]
master = "local[2]"
[sources.shop]
kind = "sqlite"
path = "shop.db"
relations = ["Orders"]
"""
TABLE = (
    'CREATE TABLE "Orders" '
    '("OrderId" INTEGER PRIMARY KEY, "select" INTEGER, "a""b.c" TEXT, note TEXT, "t`k" INTEGER)'
)
VIEW = """
CREATE MATERIALIZED VIEW by_name AS
SELECT "OrderId", "select", "a""b.c", "t`k", 'it''s "so"' AS "the-note" FROM shop."Orders"
"""
PLAIN = "CREATE MATERIALIZED VIEW plain AS SELECT OrderId AS id, note FROM Orders"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A project whose views are loaded."""
    folder = tmp_path_factory.mktemp("words")
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute(TABLE)
    connection.execute("""INSERT INTO "Orders" VALUES (7, 8, 'x', 'Ann''s', 9)""")
    connection.commit()
    connection.close()
    (folder / "headwater.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "views").mkdir()
    (folder / "views" / "by_name.sql").write_text(VIEW, encoding="utf-8")
    (folder / "views" / "plain.sql").write_text(PLAIN, encoding="utf-8")
    assert quick("setup", "shop", "-p", str(folder)).code == 0
    assert quick("run", "--once", "-p", str(folder)).code == 0
    return folder


def sql(project: Path, query: str) -> Result:
    return quick("sql", query, "--json", "-p", str(project))


def answer(project: Path, query: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in sql(project, query).out.splitlines()]


def mistake(project: Path, query: str) -> str:
    with pytest.raises(InputError) as caught:
        sql(project, query)
    return str(caught.value)


def test_a_view_has_the_columns_that_double_quotes_name(project: Path) -> None:
    assert answer(project, "SELECT * FROM by_name") == [
        {"OrderId": 7, "select": 8, 'a"b.c': "x", "t`k": 9, "the-note": 'it\'s "so"'}
    ]


def test_a_view_with_such_names_is_verified(project: Path) -> None:
    assert quick("verify", "by_name", "-p", str(project)).code == 0


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ('SELECT "OrderId" FROM by_name', {"OrderId": 7}),
        ('SELECT v."select" AS "a ""x""" FROM "by_name" v', {'a "x"': 8}),
        ('SELECT "a""b.c" AS x FROM by_name', {"x": "x"}),
        ("SELECT `OrderId` FROM `by_name`", {"OrderId": 7}),
        ("SELECT orderid AS x FROM BY_NAME", {"x": 7}),
        ("SELECT id FROM plain WHERE note = 'Ann''s';", {"id": 7}),
        ("SELECT '\"' AS x FROM plain", {"x": '"'}),
        ("WITH plain AS (SELECT * FROM plain) SELECT id FROM plain", {"id": 7}),
        ("WITH p AS (SELECT id FROM plain) SELECT id FROM p", {"id": 7}),
        ("SELECT plain.id FROM plain VERSION AS OF 2", {"id": 7}),
        ("SELECT p.id, q.id AS b FROM plain VERSION AS OF 2 p, plain q", {"id": 7, "b": 7}),
        ("SELECT plain.id FROM plain, range(1)", {"id": 7}),
    ],
)
def test_a_query_reads_names_as_views_do(project: Path, query: str, row: dict[str, object]) -> None:
    assert answer(project, query) == [row]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "line 1, column 1: there is no query. Write one SELECT."),
        ("SELEC id FROM plain", "line 1, column "),
        ("SELECT id FRM plain", "line 1, column 15: syntax error at 'plain'"),
        ("SELECT id FROM plain; SELECT 1", "line 1, column 21: there is more than one statement."),
        ("DROP TABLE plain", "line 1, column 1: only a query can be run."),
        ("SELECT id\nFROM plane", "line 2, column 6: there is no view plane. The views are: plain"),
        ('SELECT id FROM "Plain"', "line 1, column 16: there is no view Plain. The views are: pl"),
        ("SELECT id FROM shop.orders", "line 1, column 16: there is no view shop.orders. A query "),
        ("SELECT id FROM parquet.`/x`", "line 1, column 16: there is no view parquet./x. A query"),
        ("SELECT id,\n ide FROM plain", "line 2, column 2: A column, variable, or function param"),
        ('SELECT "the-note" FROM plain', "line 1, column 8: A column, variable, or function para"),
        ("SELECT id, FROM plain", "line 1, column "),
        ("SELECT 1/0 FROM plain", "line 1, column 8: Division by zero."),
        ("SELECT nofunction(id) FROM plain", "line 1, column 8: "),
        ("SELECT id FROM plain WHERE note + 1 > 0", "line 1, column 28: "),
        ("SELECT count(*), id FROM plain", "The query does not include a GROUP BY clause"),
        ("SELECT 'a FROM plain", "line 1, column 8: what ' opens is never closed."),
        ("SELECT * FROM plain VERSION AS OF 99", "version"),
        (
            "SELECT * FROM plain TIMESTAMP AS OF '2020-01-01'",
            "line 1, column 15: plain: only",
        ),
        ("SELECT $1 FROM plain", "line 1, column 8: $ has no meaning here."),
    ],
)
def test_a_query_that_cannot_be_run_is_one_sentence(project: Path, query: str, words: str) -> None:
    said = mistake(project, query)
    assert words in said
    assert "\n" not in said
    for leak in ("SQLSTATE", "== SQL", "Exception", "[", "sqlglot", "Token", "\x1b", "'Project"):
        assert leak not in said.replace("[`", "").replace("`]", "")


HIDDEN = (
    " -- \\\nSELECT 1 AS x /*\nINSERT OVERWRITE DIRECTORY '{folder}' USING csv "
    "SELECT 'written' AS p -- */"
)
"""To Spark the first line goes on with the second, so that it would see the INSERT alone."""


def test_spark_gets_what_was_understood_and_no_comments(project: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    assert answer(project, HIDDEN.format(folder=written)) == [{"x": 1}]
    assert not written.exists()
    assert answer(
        project, "SELECT /*+ BROADCAST(p) */ /*+ x ' */ id -- \\\n+ 1 AS x FROM plain"
    ) == [{"x": 8}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')",
            "line 1, column 15: there is no view text./etc/passwd.",
        ),
        ("SELECT * FROM IDENTIFIER('te' || 'xt')", "line 1, column "),
        ("SELECT IDENTIFIER('reflect')('java.lang.System', 'exit')", "line 1, column "),
        ("SELECT 1,\n java_method('java.lang.System', 'getenv')", "line 2, column 2: java_method "),
        ("SELECT `reflect`('java.lang.System', 'getenv')", "reflect may not be called"),
        ("SELECT system.builtin.reflect('a', 'b')", "reflect may not be called"),
        ("SELECT * FROM VALUES (Reflect('a', 'b')) AS v(x)", "Reflect may not be called"),
        ("SELECT (SELECT max(try_reflect('a', 'b')) FROM plain)", "try_reflect may not be called"),
        ("WITH c AS (SELECT reflect('a', 'b')) SELECT 1", "reflect may not be called"),
        (
            "SELECT sum(id) OVER w FROM plain WINDOW w AS (ORDER BY reflect('a', 'b'))",
            "reflect may not be called",
        ),
        ("SELECT from_xml(note, 'a INT', map()) FROM plain", "from_xml may not be called"),
        ("SELECT TRANSFORM(id) USING 'touch x' AS (b) FROM plain", "line 1, column 22: "),
        ("SELECT * FROM python_worker_logs()", "line 1, column 15: python_worker_logs may not be"),
        ("SELECT (SELECT count(*) FROM text.`/etc/passwd`)", "there is no view text./etc/passwd"),
        ("TABLE text.`/etc/passwd`", "line 1, column "),
        ("FROM plain INSERT OVERWRITE DIRECTORY 'x' USING csv SELECT *", "line 1, column "),
        ("WITH c AS (SELECT 1) INSERT INTO plain SELECT * FROM c", "line 1, column "),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "line 1, column 1: "),
        ("BEGIN SELECT 1; END", "line 1, column "),
        ("AS", "line 1, column 1: the query cannot be read."),
    ],
)
def test_a_query_can_only_read_views(project: Path, query: str, words: str) -> None:
    assert words in mistake(project, query)


def test_a_dollar_in_a_text_is_a_dollar(project: Path) -> None:
    assert answer(project, "SELECT '${env:HOME}' AS x") == [{"x": "${env:HOME}"}]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT note, count(*) OVER w AS n FROM plain WINDOW w AS (PARTITION BY note) LIMIT 1",
        "WITH p(k) AS (SELECT id FROM plain), q AS (TABLE p) SELECT k FROM q WHERE k > 0",
        "SELECT id FROM plain WHERE id IN (SELECT id FROM plain) AND EXISTS (SELECT 1 FROM plain)",
        "SELECT * FROM plain LATERAL VIEW explode(array(id)) t AS x",
        "SELECT p.id, t.* FROM plain p, LATERAL (SELECT p.id + 1) t(x)",
        "SELECT * FROM plain CROSS JOIN VALUES (1, 2) AS t(a, b) ORDER BY a",
        "SELECT id, sum(id) FROM plain GROUP BY GROUPING SETS ((id)) HAVING id > 0",
        "SELECT id FROM plain UNION SELECT id FROM plain INTERSECT SELECT 7 EXCEPT SELECT 8",
        "SELECT * FROM plain PIVOT (count(*) FOR id IN (7, 8))",
        "SELECT DISTINCT id FROM plain p NATURAL JOIN plain q ORDER BY ALL",
        "SELECT * FROM explode(array(1))",
        "SELECT transform(array(id), x -> x + 1) AS y FROM plain",
        "WITH RECURSIVE t(n) AS (SELECT 9 UNION ALL SELECT n FROM t WHERE n < 9) SELECT n FROM t",
    ],
)
def test_a_query_may_be_any_question_about_views(project: Path, query: str) -> None:
    assert len(answer(project, query)) == 1


def test_check_refuses_a_column_that_a_table_cannot_have(project: Path, tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    settings = SETTINGS.replace("shop.db", str(project / "shop.db"))
    (tmp_path / "headwater.toml").write_text(settings, encoding="utf-8")
    text = 'CREATE MATERIALIZED VIEW v AS\nSELECT note AS "the note" FROM shop."Orders"'
    (tmp_path / "views" / "v.sql").write_text(text, encoding="utf-8")
    found = quick("check", "-p", str(tmp_path))
    assert found.code == 2
    assert f"{tmp_path}/views/v.sql:2:1: The column 'the note' of the view v has a" in found.err
