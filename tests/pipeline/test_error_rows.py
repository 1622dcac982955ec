"""A view of joins in which an expression fails, through the running pipeline."""

import json
import threading
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from headwater.errors import ExpressionError, HeadwaterError, SqlError
from headwater.pipeline import api
from headwater.pipeline.queries import query_views
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.inspection import inspect
from headwater.project.project import Project
from tests.cli.commands import failing, quick
from tests.pipeline.small import Small

VIEWS = {
    "quotients": "AS SELECT c.name, 100 / o.amount AS q FROM crm.customers c "
    "JOIN shop.orders o ON o.id = c.id",
    "numbered": "WITH COMPLETE CONSISTENCY AS SELECT c.id, o.note FROM crm.customers c "
    "JOIN shop.orders o ON o.id = c.id WHERE CAST(o.state AS INT) > 1",
}


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    texts = {name: f"CREATE MATERIALIZED VIEW {name} {text}" for name, text in VIEWS.items()}
    small = Small(tmp_path / "project", texts)
    small.write("shop", "UPDATE orders SET state = '7'")
    return small


def run_once(small: Small) -> dict[str, set[tuple[object, ...]]]:
    api.keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())
    return {name: small.rows(name) for name in VIEWS}


def held_back(small: Small) -> dict[str, set[tuple[object, ...]]]:
    """What readers see after a run that says why they see an earlier state."""
    with pytest.raises(HeadwaterError, match="Readers keep the last state before this"):
        run_once(small)
    return {name: small.rows(name) for name in VIEWS}


def told_of(small: Small, view: str) -> str:
    found = json.loads(quick("status", "--json", *small.arguments).out)
    return str(found["views"][view].get("message"))


def test_an_error_is_named_while_commits_go_on_and_correcting_its_row_heals(small: Small) -> None:
    loaded = {"quotients": {("Ada", 10.0)}, "numbered": {(1, "a")}}
    assert run_once(small) == loaded
    small.write("shop", "UPDATE orders SET amount = 0, state = 'x' WHERE id = 1")
    assert held_back(small) == loaded
    small.write("crm", "INSERT INTO customers VALUES (2, 'Bo')")
    assert held_back(small) == loaded
    number = small.warehouse.view("quotients").latest().number
    assert "fails for o.amount = 0. Correct the row" in told_of(small, "quotients")
    assert "CAST(o.state AS int) > 1 fails for o.state = 'x'" in told_of(small, "numbered")
    small.write("shop", "UPDATE orders SET amount = 50, state = '3' WHERE id = 1")
    healed = {"quotients": {("Ada", 2.0), ("Bo", 5.0)}, "numbered": {(1, "a"), (2, "b")}}
    assert run_once(small) == healed
    assert small.warehouse.view("quotients").latest().number > number
    for name in VIEWS:
        assert told_of(small, name) == "None"
        assert verify_view(small.project, name, no_spark).holds
        small.warehouse.view(name).fold(no_spark, "f")
        assert set(small.warehouse.view(name).at().plain_rows()) == healed[name]


def test_a_state_with_an_error_is_verified_by_its_error(small: Small) -> None:
    run_once(small)
    small.write("shop", "UPDATE orders SET amount = 0 WHERE id = 1")
    held_back(small)
    with pytest.raises(ExpressionError, match=r"fails for o\.amount = 0"):
        verify_view(small.project, "quotients", no_spark)


def test_a_load_on_spark_names_the_row_that_fails_and_is_the_view_when_none_does(
    tmp_path: Path, spark: SparkSession
) -> None:
    text = f"CREATE MATERIALIZED VIEW quotients {VIEWS['quotients']}"
    small = Small(tmp_path / "project", {"quotients": text})
    small.write("shop", "UPDATE orders SET amount = 0 WHERE id = 1")
    with pytest.raises(HeadwaterError, match=r"fails for o\.amount = 0\. Correct the row"):
        small.run(spark)
    small.write("shop", "UPDATE orders SET amount = 25 WHERE id = 1")
    small.run(spark)
    assert small.rows("quotients") == {("Ada", 4.0)}
    assert verify_view(small.project, "quotients", spark).holds


def test_a_run_that_ends_says_of_which_views_readers_see_an_earlier_state(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_once(small)
    small.write("shop", "UPDATE orders SET amount = 0 WHERE id = 1")
    done = failing(monkeypatch, capsys, "run", "--once", *small.arguments)
    assert done.code == 1
    assert "✓ numbered: " in done.out
    assert "✗ quotients: 1 commits, 2 changed rows; readers see an earlier state" in done.out
    assert "quotients: Readers keep the last state before this: 100.0 / " in done.err
    told = failing(monkeypatch, capsys, "run", "--once", "--json", *small.arguments)
    stopped = json.loads(told.out.splitlines()[-1])
    assert (told.code, stopped["event"]) == (1, "stopped")
    assert stopped["views"]["quotients"]["message"].startswith("Readers keep the last state")


def test_a_file_with_a_mistake_keeps_no_query_from_other_views(
    small: Small, spark: SparkSession
) -> None:
    run_once(small)
    small.view_file("bad").write_text("CREATE MATERIALIZED VIEW bad AS SELEC 1")
    small.view_file("worse").write_text("CREATE VIEW worse")
    opened = Project.open(small.folder, only=())
    assert query_views(opened, lambda: spark, "SELECT q FROM quotients", 9)[1] == [(10.0,)]
    with pytest.raises(SqlError, match=r"no view bad\. Its file has a mistake: .*bad\.sql:1:33"):
        query_views(opened, no_spark, "SELECT * FROM bad", 9)
    with pytest.raises(SqlError, match=r"no view other\. Some files of views have mistakes"):
        query_views(opened, no_spark, "SELECT * FROM other", 9)


def test_check_tells_mistakes_of_all_kinds_in_all_views_at_once(small: Small) -> None:
    small.view_file("header").write_text("CREATE VIEW header")
    small.view_file("words").write_text("CREATE MATERIALIZED VIEW words AS SELEC 1")
    small.view_file("tables").write_text("CREATE MATERIALIZED VIEW t AS SELECT id FROM nowhere")
    small.view_file("columns").write_text("CREATE MATERIALIZED VIEW c AS SELECT no FROM orders")
    found = inspect(small.folder)
    assert {view.name for view in found.views} == set(VIEWS)
    told = sorted(str(problem).rpartition("/")[2].partition(":")[0] for problem in found.problems)
    assert told == ["columns.sql", "header.sql", "tables.sql", "words.sql"]
