"""A view of one project is a source of another, which is cautioned."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from pyspark.sql import SparkSession

from headwater import Project
from headwater.pipeline.runner import Runner
from headwater.project.inspection import inspect
from headwater.warehouse.warehouse import Warehouse
from tests.pipeline.world import wait_for


def project(folder: Path, sources: str, view: str) -> Project:
    (folder / "views").mkdir(parents=True)
    settings = '[warehouse]\npath = "warehouse"\npublish_every = "50 milliseconds"\n'
    (folder / "headwater.toml").write_text(settings + sources)
    (folder / "views" / f"{view.split()[3]}.sql").write_text(view)
    return Project.open(folder)


def add_join(project: Project) -> None:
    """A view that joins the table with the database that it is made from."""
    settings = project.folder / "headwater.toml"
    shop = f'[sources.shop]\nkind = "sqlite"\npath = "{project.folder.parent}/shop.db"\n'
    settings.write_text(settings.read_text() + shop)
    (project.folder / "views" / "both.sql").write_text(
        "CREATE MATERIALIZED VIEW both AS SELECT l.id FROM lake.large AS a JOIN shop.lines AS l "
        "ON l.id = a.id"
    )


def test_a_view_of_one_project_is_a_source_of_another(tmp_path: Path, spark: SparkSession) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    shop.execute("CREATE TABLE lines (id INTEGER PRIMARY KEY, qty INTEGER)")
    shop.execute("INSERT INTO lines VALUES (1, 2), (2, 3)")
    first = project(
        tmp_path / "first",
        f'[sources.shop]\nkind = "sqlite"\npath = "{tmp_path}/shop.db"\n',
        "CREATE MATERIALIZED VIEW large AS SELECT id, qty FROM shop.lines WHERE qty > 2",
    )
    for source in first.sources.values():
        source.setup()
    one = Runner(first, lambda: spark)
    one.start()
    try:
        wait_for(one, lambda: (tmp_path / "first/warehouse/large/_delta_log").exists())
        second = project(
            tmp_path / "second",
            '[sources.lake]\nkind = "delta"\npath = "../first/warehouse"\n',
            "CREATE MATERIALIZED VIEW total AS SELECT id, qty * 10 AS tens FROM lake.large",
        )
        (lake,) = second.sources.values()
        lake.setup()
        (caution,) = lake.cautions()
        assert "large is the view large of a warehouse, over its shop" in caution
        assert [table.name for table in lake.discover()] == ["large"]
        add_join(second)
        found = {view.name: view for view in inspect(tmp_path / "second").views}
        assert str(found["total"].level) == "strong"
        assert str(found["both"].level) == "weak"
        assert "no aligned vectors" in found["both"].reason
        two = Runner(second, lambda: spark)
        two.start()
        try:
            view = Warehouse(second.warehouse)
            wait_for(two, lambda: "total" in view.view_names())
            shop.execute("INSERT INTO lines VALUES (3, 7)")
            shop.execute("UPDATE lines SET qty = 1 WHERE id = 2")
            until = time.monotonic() + 120
            while dict(view.view("total").rows().items()) != {(3, 70): 1}:
                one.supervise()
                two.supervise()
                assert time.monotonic() < until
                time.sleep(0.05)
        finally:
            two.stop()
    finally:
        one.stop()
        shop.close()
