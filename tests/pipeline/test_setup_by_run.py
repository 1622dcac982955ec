"""A source that a runner sets up itself, for the views that there are and for those that come."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater import Project
from headwater.errors import SourceError
from headwater.pipeline.followed import FollowedSources
from headwater.sources.contract import as_it_is
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse
from tests.pipeline.small import AMOUNTS, NOTES, Small, running, wait_until
from tests.sources.postgres_harness import PostgresHarness


def left_to_run(folder: Path) -> Small:
    small = Small(folder, {"amounts": AMOUNTS})
    for source in small.project.sources.values():
        source.teardown()
    settings = folder / "headwater.toml"
    settings.write_text(
        settings.read_text().replace("kind = 'sqlite'", "kind = 'sqlite'\nsetup = 'by run'")
    )
    return small


def test_a_new_view_has_its_columns_logged_by_the_runner_without_a_gap(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = left_to_run(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["amounts"].state == "running", runner.describe)
        small.write("shop", "UPDATE orders SET amount = 11, note = 'x' WHERE id = 1")
        small.view_file("notes").write_text(NOTES)
        wait_until(
            lambda: "notes" in runner.views and runner.views["notes"].state == "running",
            runner.describe,
        )
        small.write("shop", "UPDATE orders SET amount = 12, note = 'y' WHERE id = 1")
        wait_until(lambda: (1, "y") in small.rows("notes"), runner.describe)
        wait_until(lambda: (1, 12) in small.rows("amounts"), runner.describe)
    kinds = [commit.kind for commit in small.warehouse.view("amounts").commits()]
    assert kinds.count("load") == 1


@pytest.mark.parametrize("changes", ["replication", "triggers"])
def test_a_table_and_a_column_of_postgres_that_a_new_view_needs_are_set_up_by_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: str
) -> None:
    harness = PostgresHarness()
    monkeypatch.setenv("SHOP_DSN", harness.dsn)
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, a int, b int)")
        connection.execute("CREATE TABLE u (id int PRIMARY KEY, a int)")
    (tmp_path / "views").mkdir()
    (tmp_path / "headwater.toml").write_text(
        f"[sources.shop]\nkind = 'postgres'\ndsn = '${{SHOP_DSN}}'\nchanges = '{changes}'\n"
        "setup = 'by run'\n"
    )
    view = tmp_path / "views" / "v.sql"
    view.write_text("CREATE MATERIALIZED VIEW v AS SELECT id, a FROM shop.t")
    lease = Lease(Warehouse(tmp_path / "warehouse").internal)
    lease.acquire()

    def read(followed: FollowedSources, project: Project) -> None:
        followed.ask_again(project)
        defined = project.definition("v", followed.relations_of("v")).view.narrowed()
        followed.read("shop", defined)

    project = Project.open(tmp_path)
    followed = FollowedSources(project, Warehouse(project.warehouse), lease, as_it_is)
    try:
        read(followed, project)
        view.write_text(
            "CREATE MATERIALIZED VIEW v AS SELECT t.id, t.b, u.a FROM shop.t, shop.u "
            "WHERE u.id = t.id"
        )
        read(followed, Project.open(tmp_path))
        followed.feeds["shop"].channel.catch_up()
        assert followed.feeds["shop"].channel.trouble is None
        assert (
            not Project.open(tmp_path)
            .sources["shop"]
            .narrowed({"t": ["id", "b"], "u": ["id", "a"]})
            .setup_statements()
        )
    finally:
        followed.close("shop")
        lease.release()
        harness.close()


def test_a_runner_that_may_not_set_up_names_the_command(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = left_to_run(tmp_path)
    source = small.project.sources["shop"]

    def refused(self: object) -> None:
        raise SourceError("Source shop: the role may not.", "Grant it.")

    monkeypatch.setattr(type(source), "setup", refused)
    with pytest.raises(SourceError, match=r"may not\. Grant it\. Or run 'headwater setup shop'"):
        small.run(spark)
