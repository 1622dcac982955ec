"""Recursive views, and views that call functions, through the running pipeline."""

import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from tests.cli.commands import quick
from tests.pipeline.small import Small

HEAD = "CREATE MATERIALIZED VIEW"
VIEWS = {
    "below": f"{HEAD} below WITH COMPLETE CONSISTENCY AS WITH RECURSIVE p AS (SELECT id AS a, "
    "amount AS b FROM shop.orders UNION SELECT p.a, o.amount FROM p JOIN shop.orders o "
    "ON p.b = o.id) "
    "SELECT a, b, name FROM p LEFT JOIN crm.customers c ON c.id = p.b",
    "paths": f"{HEAD} paths AS WITH RECURSIVE p MAX RECURSION LEVEL 5 AS (SELECT id AS a, amount "
    "AS b FROM shop.orders UNION ALL SELECT p.a, o.amount FROM p JOIN shop.orders o ON p.b = o.id) "
    "SELECT a, COUNT(*) AS n FROM p GROUP BY a",
    "labels": f"{HEAD} labels AS SELECT o.id, label(o.note, o.state) AS l FROM named(1) o",
}
LABEL = (
    "CREATE FUNCTION label(note STRING, state STRING DEFAULT 'old') RETURNS STRING\n"
    "  RETURN CONCAT(note, '{}', state);\n"
)
NAMED = (
    "-- Orders of customers from a number on.\n"
    "CREATE FUNCTION named(least INT) RETURNS TABLE (id BIGINT, note STRING, state STRING)\n"
    "  RETURN SELECT o.id, o.note, o.state FROM shop.orders o JOIN crm.customers c USING (id)\n"
    "  WHERE o.id >= least"
)
LOADED = {
    "below": {(1, 10, None), (2, 20, None)},
    "paths": {(1, 1), (2, 1)},
    "labels": {(1, "a-new")},
}
CHANGED = {
    "below": {(1, 2, None), (1, 3, "Cy"), (1, 5, None), (2, 3, "Cy"), (2, 5, None), (3, 5, None)},
    "paths": {(1, 3), (2, 2), (3, 1)},
    "labels": {(1, "a-new"), (3, "c-new")},
}


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    folder = tmp_path / "project"
    (folder / "functions").mkdir(parents=True)
    (folder / "functions" / "labels.sql").write_text(LABEL.format("-"))
    (folder / "functions" / "named.sql").write_text(NAMED)
    return Small(folder, VIEWS)


def run_once(small: Small, spark: Any) -> dict[str, set[tuple[object, ...]]]:
    api.keep_running(Runner(small.project, spark), once=True, stop=threading.Event())
    return {name: small.rows(name) for name in VIEWS}


def change(small: Small) -> None:
    small.write("shop", "UPDATE orders SET amount = 2 WHERE id = 1")
    small.write("shop", "UPDATE orders SET amount = 3 WHERE id = 2")
    small.write("shop", "INSERT INTO orders VALUES (3, 5, 'c', 'new')")
    small.write("crm", "INSERT INTO customers VALUES (3, 'Cy')")


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_recursions_and_functions_are_loaded_maintained_folded_and_verified(
    small: Small, spark: SparkSession, engine: str
) -> None:
    if engine == "spark":
        settings = small.folder / "headwater.toml"
        settings.write_text(settings.read_text().replace("[spark]", "[spark]\nengine = 'spark'"))
    session: Any = no_spark if engine == "auto" else lambda: spark
    assert run_once(small, session) == LOADED
    change(small)
    assert run_once(small, session) == CHANGED
    given = no_spark if engine == "auto" else spark
    for name in VIEWS:
        assert verify_view(small.project, name, given).holds
        table = small.warehouse.view(name)
        table.fold(given, "f")
        assert set(table.at().plain_rows()) == CHANGED[name]


def test_a_recursion_that_does_not_end_leaves_readers_where_they_are_and_heals(
    small: Small,
) -> None:
    run_once(small, no_spark)
    change(small)
    run_once(small, no_spark)
    small.write("shop", "UPDATE orders SET amount = 1 WHERE id = 3")
    with pytest.raises(HeadwaterError, match=r"paths: Readers keep .* has not ended after 5 steps"):
        run_once(small, no_spark)
    assert small.rows("paths") == CHANGED["paths"]
    assert {(a, b) for a, b, _ in small.rows("below")} == {
        (a, b) for a in (1, 2, 3) for b in (1, 2, 3)
    }
    small.write("shop", "UPDATE orders SET amount = 5 WHERE id = 3")
    assert run_once(small, no_spark) == CHANGED


def test_a_function_that_has_changed_asks_for_a_reload_of_the_views_that_call_it(
    small: Small,
) -> None:
    run_once(small, no_spark)
    (small.folder / "functions" / "labels.sql").write_text(LABEL.format("+"))
    with pytest.raises(HeadwaterError, match=r"SELECT of view labels has changed .* reload labels"):
        run_once(small, no_spark)
    assert quick("reload", "labels", *small.arguments).code == 0
    assert run_once(small, no_spark) == {**LOADED, "labels": {(1, "a+new")}}


def test_explain_and_check_tell_of_recursions_and_functions(small: Small) -> None:
    told = quick("explain", "below", "labels", *small.arguments).out
    assert "Calls the functions label, named, unfolded to what they return." in told
    assert "p, step by step, each row once, at most 100 steps" in told
    assert "what the last step of p has found" in told
    assert "evaluated whole" in told
    (small.folder / "functions" / "named.sql").write_text(NAMED.replace("o.note,", "o.nota,"))
    checked = quick("check", *small.arguments)
    assert checked.code != 0
    assert "functions/named.sql:3:23: there is no column nota in o" in checked.out + checked.err
