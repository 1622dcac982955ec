"""Small projects are loaded, maintained and verified without Spark, with the same results."""

import sqlite3
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames import small
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.project.project import Project
from headwater.warehouse.warehouse import Warehouse

VALUES = """
CREATE TABLE things (id INTEGER PRIMARY KEY, owner INTEGER, price DECIMAL(9,2), weight DOUBLE,
                     made TIMESTAMP, day DATE, title TEXT, raw BLOB, is_new BOOLEAN);
INSERT INTO things VALUES
  (1, 1, 2.50, 0.5, '2024-03-31 02:30:00', '1582-10-10', 'Ångström 水', x'00ff', 1),
  (2, 1, 2.50, -0.0, NULL, NULL, 'Ångström 水', NULL, 0),
  (3, 2, -9999999.99, 9e999, '9999-12-31 23:59:59.999999', '9999-12-31', '', x'', NULL),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO owners VALUES (1, 'Ada'), (2, 'Ben'), (3, NULL);
"""
VIEWS = {
    "everything": "SELECT t.*, o.name FROM db.things t JOIN db.owners o ON t.owner = o.id",
    "duplicates": "SELECT t.title, t.price * 2 AS twice FROM db.things t WHERE t.id < 4",
    "pairs": "SELECT t.id, o.id AS other FROM db.things t, db.owners o WHERE t.id <> o.id",
    "both": "SELECT o.name FROM db.owners o UNION ALL SELECT t.title FROM db.things t",
}
CHANGES = [
    "UPDATE things SET owner = 2, weight = 0.25 WHERE id = 1",
    "DELETE FROM things WHERE id = 2",
    "INSERT INTO things (id, owner, title) VALUES (9, 3, 'new')",
]


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def write(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "db.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    for statement in statements:
        connection.executescript(statement)
    connection.close()


def make(folder: Path, engine: str) -> Project:
    (folder / "views").mkdir(parents=True)
    write(folder, VALUES)
    (folder / "headwater.toml").write_text(
        f'[spark]\nengine = "{engine}"\n[sources.db]\nkind = "sqlite"\npath = "db.sqlite"\n'
        'relations = ["things", "owners"]\n'
    )
    for name, select in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(
            f"CREATE MATERIALIZED VIEW {name} AS {select}"
        )
    project = Project.open(folder)
    for source in project.sources.values():
        source.setup()
    return project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make(tmp_path / "auto", "auto")


def run_once(project: Project, spark: Any) -> dict[str, Rows]:
    api.keep_running(Runner(project, spark), once=True, stop=threading.Event())
    warehouse = Warehouse(project.warehouse)
    return {name: warehouse.view(name).rows() for name in VIEWS}


def test_small_tables_are_loaded_maintained_folded_and_verified_without_spark(
    project: Project,
) -> None:
    loaded = run_once(project, no_spark)
    assert len(loaded["everything"]) == 3
    write(project.folder, *CHANGES)
    changed = run_once(project, no_spark)
    assert changed["everything"] != loaded["everything"]
    for name in VIEWS:
        table = Warehouse(project.warehouse).view(name)
        assert table.fold(no_spark, "f") is not None
        found = verify_view(project, name, no_spark)
        assert found.holds
        assert found.rows == sum(count for _, count in changed[name].items())


def test_both_engines_load_the_same(tmp_path: Path, project: Project, spark: SparkSession) -> None:
    other = make(tmp_path / "spark", "spark")
    assert run_once(project, no_spark) == run_once(other, lambda: spark)
    for name in VIEWS:
        ours, sparks = (Warehouse(p.warehouse).view(name) for p in (project, other))
        assert ours.schema == sparks.schema
        assert ours.latest().vector.keys() == sparks.latest().vector.keys()
        assert ours.latest().rows == sparks.latest().rows


def test_what_memory_has_loaded_spark_verifies_and_the_other_way_round(
    tmp_path: Path, project: Project, spark: SparkSession
) -> None:
    run_once(project, no_spark)
    assert all(verify_view(project, name, spark).holds for name in VIEWS)
    other = make(tmp_path / "spark", "spark")
    run_once(other, lambda: spark)
    assert all(verify_view(other, name, no_spark).holds for name in VIEWS)


def test_verification_in_memory_shows_the_rows_that_differ(project: Project) -> None:
    run_once(project, no_spark)
    table = Warehouse(project.warehouse).view("both")
    with table.writer("intruder") as writer:
        change = Rows(table.schema, {("Ada",): -1, ("Eve",): 2})
        writer.commit(change, table.latest().vector)
    found = verify_view(project, "both", no_spark)
    assert not found.holds
    assert dict(found.missing.items()) == {("Ada",): 1}
    assert dict(found.extra.items()) == {("Eve",): 2}


@pytest.mark.parametrize("bound", ["ROWS", "BYTES"])
def test_what_is_not_small_is_left_to_spark(
    project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(small, bound, 3)
    asked = []

    def start() -> SparkSession:
        asked.append(bound)
        return spark

    run_once(project, start)
    assert asked
    assert verify_view(project, "everything", start).holds


def test_a_join_that_would_be_large_is_left_to_spark(
    project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few rows can make many: what `pairs` reads is small, and what it joins is not."""
    monkeypatch.setattr(small, "ROWS", 10)
    asked = []

    def start() -> SparkSession:
        asked.append(threading.current_thread().name)
        return spark

    loaded = run_once(project, start)
    assert asked.count("loads") == 1, "the others are loaded in memory"
    assert len(loaded["pairs"]) == 9


def test_engine_spark_does_nothing_in_memory(tmp_path: Path) -> None:
    """All work that may be small is given the session itself."""
    project = make(tmp_path / "spark", "spark")
    with pytest.raises(AssertionError, match="without Spark"):
        Runner(project, no_spark).engine.for_small  # noqa: B018 (it starts the session)
