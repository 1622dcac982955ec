"""A project from a program: `Project.run` and `Project.view`."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headwater
from headwater import Project
from headwater.errors import InputError
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.example import make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    make_project(tmp_path / "project")
    found = headwater.Project.open(tmp_path / "project")
    for source in found.sources.values():
        source.setup()
    return found


def names(project: Project, spark: SparkSession, version: int | None = None) -> set[str]:
    rows = project.view("order_lines").df(spark, version).select("name").distinct().collect()
    return {row.name for row in rows}


def test_a_view_is_read_as_it_is_and_as_it_was(project: Project, spark: SparkSession) -> None:
    project.run(once=True, spark=spark)
    loaded = project.view("order_lines").version
    connection = sqlite3.connect(project.folder / "crm.db")
    connection.execute("UPDATE customers SET name = 'Eve' WHERE id = 1")
    connection.commit()
    connection.close()
    project.run(once=True, spark=spark)
    view = project.view("order_lines")
    assert names(project, spark) == {"Eve", "Ben"}
    assert names(project, spark, loaded) == {"Ada", "Ben"}
    assert view.version > loaded
    assert view.verify(spark).holds


def test_a_sum_of_joins_is_loaded_maintained_and_verified(
    project: Project, spark: SparkSession
) -> None:
    (project.folder / "views" / "names.sql").write_text(
        "CREATE MATERIALIZED VIEW names WITH COMPLETE CONSISTENCY AS\n"
        "SELECT c.id, c.name FROM crm.customers c JOIN shop.orders o ON o.customer = c.id\n"
        "UNION ALL SELECT c.id, c.name FROM crm.customers c"
    )
    project = Project.open(project.folder)
    project.run(once=True, spark=spark)
    connection = sqlite3.connect(project.folder / "crm.db")
    connection.execute("UPDATE customers SET name = 'Eve' WHERE id = 1")
    connection.commit()
    connection.close()
    project.run(once=True, spark=spark)
    view = project.view("names")
    rows = [tuple(row) for row in view.df(spark).where("id = 1").collect()]
    assert rows == [(1, "Eve")] * 3
    assert view.verify(spark).holds


def test_a_run_ends_when_it_is_told_to(project: Project, spark: SparkSession) -> None:
    stop = threading.Event()
    stop.set()
    project.run(spark=spark, stop=stop)
    with pytest.raises(InputError, match="There is no view 'nothing'"):
        project.view("nothing")


def test_a_view_whose_sources_never_changed_is_verified_beside_a_runner(
    project: Project, spark: SparkSession
) -> None:
    runner = Runner(project, lambda: spark)
    runner.start()
    try:
        deadline = time.monotonic() + 120
        while not runner.reach({}):
            assert time.monotonic() < deadline, "the views were not loaded in time"
            runner.supervise()
            time.sleep(0.1)
        assert verify_view(project, "order_lines", spark).holds
    finally:
        runner.stop()
