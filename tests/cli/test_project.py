"""`headwater init` makes a project that `headwater check` finds sound; and what check says."""

from __future__ import annotations

import json
import os
import sqlite3
import tomllib
from pathlib import Path

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from tests.cli.commands import failing, headwater, quick
from tests.sources.postgres_harness import PostgresHarness

BAD = "CREATE MATERIALIZED VIEW bad AS SELECT idd FROM shop.orders"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    assert quick("init", str(tmp_path / "p")).code == 0
    return tmp_path / "p"


def objects(project: Path) -> tuple[int, list[dict[str, object]]]:
    done = quick("check", "-p", str(project), "--json")
    return done.code, [json.loads(line) for line in done.out.splitlines()]


def of_kind(found: list[dict[str, object]], kind: str) -> list[dict[str, object]]:
    return [item for item in found if kind in item]


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_the_example_is_sound(project: Path) -> None:
    done = quick("check", "-p", str(project))
    assert (done.code, done.err) == (0, "")
    assert "headwater setup crm" in done.out
    assert "everything is sound" in done.out
    code, found = objects(project)
    assert code == 0
    chosen = {v["view"]: (v["level"], v["algorithm"]) for v in of_kind(found, "view")}
    assert chosen == {"order_lines": ("strong", "sweep"), "big_orders": ("complete", "pvm-cc")}
    assert [s["missing_indexes"] for s in of_kind(found, "source")] == [[], []]


def test_check_says_which_sources_are_set_up(project: Path) -> None:
    assert quick("setup", "crm", "-p", str(project)).code == 0
    _, found = objects(project)
    assert {s["source"]: s["set_up"] for s in of_kind(found, "source")} == {
        "crm": True,
        "shop": False,
    }


def test_check_changes_nothing(project: Path) -> None:
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}
    quick("check", "-p", str(project))
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before


def test_the_settings_that_the_example_comments_out_are_settings(project: Path) -> None:
    lines = (project / "headwater.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("# A PostgreSQL server would be:")
    uncommented = [line.removeprefix("# ") for line in lines[2:start]]
    assert set(tomllib.loads("\n".join(uncommented))) == {"warehouse", "spark", "run", "sources"}
    (project / "headwater.toml").write_text("\n".join(uncommented), encoding="utf-8")
    assert quick("check", "-p", str(project)).code == 0


def test_init_for_machines(tmp_path: Path) -> None:
    said = json.loads(quick("init", str(tmp_path / "p"), "--json").out)
    files = {str(p.relative_to(tmp_path / "p")) for p in (tmp_path / "p").rglob("*.*")}
    assert set(said["files"]) == files


def test_init_leaves_a_folder_with_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    found = failing(monkeypatch, capsys, "init", str(tmp_path))
    assert found.code == 2
    assert found.err.startswith(f"headwater: {tmp_path}: is not an empty folder.")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_missing_index_is_printed_and_is_no_mistake(project: Path) -> None:
    connection = sqlite3.connect(project / "shop.db")
    connection.execute("DROP INDEX orders_customer")
    connection.close()
    done = quick("check", "-p", str(project))
    assert done.code == 0
    assert 'CREATE INDEX "orders_customer" ON "orders" ("customer");' in done.out
    _, found = objects(project)
    (shop,) = [s for s in of_kind(found, "source") if s["source"] == "shop"]
    assert shop["missing_indexes"] == ['CREATE INDEX "orders_customer" ON "orders" ("customer")']


def test_a_source_that_is_down_does_not_hide_the_others(project: Path) -> None:
    (project / "crm.db").unlink()
    (project / "views" / "bad.sql").write_text(BAD, encoding="utf-8")
    code, found = objects(project)
    assert code == 2
    assert {s["source"]: s["set_up"] for s in of_kind(found, "source")} == {
        "crm": None,
        "shop": False,
    }
    assert {v["view"]: v["algorithm"] for v in of_kind(found, "view")} == {
        "big_orders": "pvm-cc",
        "order_lines": None,
    }
    problems = [str(item["problem"]) for item in of_kind(found, "problem")]
    assert len(problems) == 2
    assert "there is no file" in problems[0]
    assert f"{project}/views/bad.sql:1:40: there is no column idd" in problems[1]


def test_problems_are_one_line_each_on_standard_error(project: Path) -> None:
    edit(project / "views" / "order_lines.sql", "STRONG", "STRNG")
    edit(project / "headwater.toml", 'path = "warehouse"', 'pth = "warehouse"')
    done = quick("check", "-p", str(project))
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert first.startswith(f"headwater: {project}/headwater.toml: warehouse.pth: there is no")
    assert second.startswith(f"headwater: {project}/views/order_lines.sql:3:6: 'STRNG' is not a")


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    done = quick("check", "-p", str(tmp_path))
    assert done.code == 2
    assert done.err.startswith(f"headwater: {tmp_path}/headwater.toml: cannot be read: No such")


def test_check_works_from_the_project_in_a_process_of_its_own(project: Path) -> None:
    done = headwater("check", "--project", str(project))
    assert (done.code, done.err) == (0, "")


POSTGRES = """
[sources.pg]
kind = "postgres"
dsn = "${PG_DSN}"
relations = ["sales.payments"]
"""
PAYMENTS = """
CREATE MATERIALIZED VIEW payments AS
SELECT p.id, c.name FROM pg.payments AS p JOIN crm.customers AS c ON c.id = p.customer
"""


@pytest.fixture
def mixed(project: Path) -> Path:
    """The example, with a PostgreSQL source and a view over it and a SQLite file."""
    settings = (project / "headwater.toml").read_text(encoding="utf-8")
    (project / "headwater.toml").write_text(settings + POSTGRES, encoding="utf-8")
    (project / "views" / "payments.sql").write_text(PAYMENTS, encoding="utf-8")
    return project


def test_a_project_over_several_kinds_of_sources(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = PostgresHarness()
    try:
        harness.create_table("sales.payments", Schema.of([("id", INT), ("customer", INT)]), ["id"])
        monkeypatch.setenv("PG_DSN", harness.dsn)
        code, found = objects(mixed)
    finally:
        harness.close()
    assert code == 0
    (pg,) = [s for s in of_kind(found, "source") if s["source"] == "pg"]
    assert pg["set_up"] is False
    assert pg["missing_indexes"] == ['CREATE INDEX ON "sales"."payments" ("customer")']


def test_a_server_that_is_down_is_reported_without_its_secrets(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_DSN", "postgresql://u:hush@127.0.0.1:1/d")
    done = quick("check", "-p", str(mixed))
    assert done.code == 2
    assert done.err.startswith("headwater: Source pg: cannot connect: ")
    assert "hush" not in done.err + done.out
    assert "big_orders" in done.out


# What a run relies on


def problems(project: Path) -> list[str]:
    code, found = objects(project)
    assert code == 2
    return [str(item["problem"]) for item in of_kind(found, "problem")]


def test_a_misspelt_table_is_blamed_on_the_settings_that_list_it(project: Path) -> None:
    edit(project / "headwater.toml", '"orders"', '"ordrs"')
    first, *others = problems(project)
    assert first.startswith("Source shop: there is no table ordrs. There are: orders")
    assert "Correct relations in headwater.toml, or the views that name it." in first
    assert all("there is no relation shop.orders" in other for other in others)


def test_a_warehouse_in_the_place_of_a_file_is_refused(project: Path) -> None:
    edit(project / "headwater.toml", 'path = "warehouse"', 'path = "shop.db/lake"')
    (said,) = problems(project)
    assert said.startswith(
        f"The warehouse {project}/shop.db/lake cannot be made: {project}/shop.db"
    )


def test_a_warehouse_whose_path_tables_cannot_have_is_refused(project: Path) -> None:
    edit(project / "headwater.toml", 'path = "warehouse"', 'path = "lake[1]"')
    (said,) = problems(project)
    assert "lake[1]' contains [ ]. Choose a folder without such characters" in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_warehouse_that_may_not_be_written_is_refused(project: Path) -> None:
    project.chmod(0o500)
    (said,) = problems(project)
    assert f"{project} may not be changed by this user" in said


def test_missing_java_is_a_warning(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(project / "nowhere"))
    done = quick("check", "-p", str(project))
    assert done.code == 0
    assert done.err.startswith("headwater: warning: Spark needs Java 17 or newer, and there is no")
    code, found = objects(project)
    assert code == 0
    assert len(of_kind(found, "warning")) == 1
