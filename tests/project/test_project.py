from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import headwater
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.check.levels import Level
from headwater.errors import InputError, SourceError
from headwater.project.differences import describe_difference
from headwater.project.inspection import probes
from headwater.project.project import Project
from headwater.project.settings import ProjectError
from headwater.project.view_files import read_view_file
from headwater.warehouse.definition import StoredDefinition

TOML = """
[sources.crm]
kind = "sqlite"
path = "crm.db"
relations = ["customers"]
[sources.shop]
kind = "postgres"
dsn = "postgresql://127.0.0.1:1/nothing"
relations = ["sales.orders", "items"]
[sources.depot]
kind = "sqlite"
path = "depot.db"
relations = ["items"]
"""
VIEW = "CREATE MATERIALIZED VIEW v AS\n"
GOOD = VIEW + "SELECT name FROM crm.customers"


def write(folder: Path, toml: str = TOML, **views: str) -> Path:
    (folder / "headwater.toml").write_text(toml)
    (folder / "views").mkdir(exist_ok=True)
    for name, text in views.items():
        (folder / "views" / f"{name}.sql").write_text(text)
    return folder


def refused(folder: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        Project.open(folder)
    found = caught.value.problems if isinstance(caught.value, ProjectError) else [caught.value]
    return [str(problem).removeprefix(f"{folder}/") for problem in found]


def test_a_project_has_settings_sources_and_views(tmp_path: Path) -> None:
    other = (
        "CREATE MATERIALIZED VIEW w WITH WEAK PUBLISH EVERY '1 s' AS\n"
        "SELECT o.id FROM Shop.Orders o, customers c WHERE o.id = c.id"
    )
    write(tmp_path, a=GOOD, b=other)
    project = Project.open(tmp_path)
    assert list(project.sources) == ["crm", "shop", "depot"]
    assert [source.name for source in project.sources.values()] == ["crm", "shop", "depot"]
    assert {name: file.level for name, file in project.view_files.items()} == {
        "v": Level.STRONG,
        "w": Level.WEAK,
    }
    assert project.needs == {"v": ("crm",), "w": ("shop", "crm")}
    assert (project.publish_every("v"), project.publish_every("w")) == (60, 1)
    assert project.warehouse.path == tmp_path / "warehouse"


def test_a_view_over_triggers_can_be_strong_and_not_complete(tmp_path: Path) -> None:
    by_triggers = TOML.replace('nothing"\n', 'nothing"\nchanges = "triggers"\n')
    select = "AS\nSELECT o.id FROM shop.orders o, crm.customers c WHERE o.id = c.id"
    header = "CREATE MATERIALIZED VIEW v\nWITH "
    write(tmp_path, by_triggers, v=f"{header}STRONG CONSISTENCY {select}")
    assert Project.open(tmp_path).view_files["v"].level == Level.STRONG
    write(tmp_path, by_triggers, v=f"{header}COMPLETE CONSISTENCY {select}")
    (found,) = refused(tmp_path)
    assert found.startswith("views/v.sql:2:1: a view over shop cannot be complete: triggers")
    assert "WITH STRONG CONSISTENCY" in found


def test_it_is_exported_and_costs_nothing_until_it_is_used() -> None:
    assert issubclass(headwater.Project, Project)
    with pytest.raises(AttributeError, match="Projekt"):
        headwater.Projekt  # noqa: B018  (that is the test)
    program = "import sys, headwater; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_opening_a_project_loads_neither_spark_nor_delta(tmp_path: Path) -> None:
    write(tmp_path, a=GOOD)
    program = (
        "import sys, headwater; headwater.Project.open(sys.argv[1]).sources; "
        "sys.exit(any(m in sys.modules for m in ('pyspark', 'deltalake', 'pandas')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VIEW + "SELECT id FROM\n  cmr.customers", "3:3: there is no source cmr. The sources in h"),
        (VIEW + "SELECT id FROM crm.custmers", "2:16: there is no relation crm.custmers. Relation"),
        (VIEW + "SELECT id FROM custmers", "2:16: there is no relation custmers. Relations: cust"),
        (VIEW + "SELECT id FROM items", "2:16: items may mean shop.items and depot.items. Write "),
        (VIEW + "SELECT id FROM crm.customers SORT BY id", "2:30: SORT BY is not supported."),
        (VIEW + "SELECT id FROM FROM crm.customers", "2:"),
        (VIEW[:-3] + "WITH STONG AS SELECT 1", "1:33: 'STONG' is not a level of consistency. Did"),
        (VIEW[:-3] + "USING swepe AS SELECT a FROM items", "1:34: there is no algorithm 'swepe'."),
        (VIEW[:-3] + "WITH COMPLETE USING eca " + GOOD[27:], "1:48: eca is strong, and complete"),
        (VIEW[:-3] + "USING sweep (p=1) " + GOOD[27:], "1:41: sweep has no parameter p."),
        (
            VIEW[:-3] + "WITH COMPLETE USING sweep (batch = 9) " + GOOD[27:],
            "1:55: with batch = 9 sweep is strong, and complete was asked for.",
        ),
    ],
)
def test_a_mistake_in_a_view_has_file_line_and_column(
    tmp_path: Path, text: str, message: str
) -> None:
    first, *_ = refused(write(tmp_path, a=text))
    assert first.startswith(f"views/a.sql:{message}")


def test_all_mistakes_are_reported_before_anything_is_contacted(tmp_path: Path) -> None:
    write(tmp_path, TOML + "[run]\nbatch = 0\n", a="CREATE", b=VIEW + "SELECT 1", c=GOOD + ";;")
    found = refused(tmp_path)
    assert [problem.partition(": ")[0] for problem in found] == [
        "headwater.toml",
        "views/a.sql:1:7",
        "views/c.sql:1:26",
        "views/b.sql:2:1",
    ]


def test_a_view_is_not_blamed_for_the_settings_of_its_source(tmp_path: Path) -> None:
    found = refused(write(tmp_path, TOML.replace("crm.db", "${NOT_SET_AT_ALL}"), a=GOOD))
    assert len(found) == 1
    assert "NOT_SET_AT_ALL" in found[0]


@pytest.mark.parametrize("second", ["v", "V", "`v`"])
def test_two_views_of_one_name_name_both_files(tmp_path: Path, second: str) -> None:
    (found,) = refused(write(tmp_path, a=GOOD, b=GOOD.replace(" v ", f" {second} ")))
    assert found.startswith("views/b.sql:1:26: view ")
    assert "views/a.sql" in found


def test_a_project_without_views(tmp_path: Path) -> None:
    assert refused(write(tmp_path)) == [
        "views: there is no view. Write one to a file that ends in .sql."
    ]


def test_a_folder_that_is_no_project(tmp_path: Path) -> None:
    (found,) = refused(tmp_path)
    assert found.startswith("headwater.toml: cannot be read: No such file or directory.")


def test_definitions_ask_only_the_sources_that_views_need(tmp_path: Path) -> None:
    write(tmp_path, a=GOOD)
    connection = sqlite3.connect(tmp_path / "crm.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    project = Project.open(tmp_path)
    definition = project.definitions()["v"]
    assert definition.view.schema == Schema.of([("name", TEXT)])
    assert project.choose(definition).algorithm == "sweep"


def test_keys_that_an_algorithm_lacks_are_told_at_the_place_that_names_it(tmp_path: Path) -> None:
    write(tmp_path, a=VIEW[:-3] + "USING t-strobe " + GOOD[27:])
    connection = sqlite3.connect(tmp_path / "crm.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    project = Project.open(tmp_path)
    with pytest.raises(InputError, match=r"views/a.sql:1:34: t-strobe needs the key of every"):
        project.choose(project.definitions()["v"])


def test_definitions_report_what_only_the_sources_know(tmp_path: Path) -> None:
    write(tmp_path, a=GOOD, b=GOOD.replace(" v ", " w "))
    project = Project.open(tmp_path)
    with pytest.raises(SourceError, match=r"crm.db"):
        project.definitions()
    relation = Relation("crm.customers", "crm", Schema.of([("id", INT)]))
    with pytest.raises(ProjectError) as caught:
        project.definitions([relation])
    assert [str(p).partition(": ")[2][:29] for p in caught.value.problems] == [
        "there is no column name in cu"
    ] * 2


# What a view was loaded with

ORDERS = Relation("shop.orders", "shop", Schema.of([("id", INT), ("price", INT)]), ("id",))
QUERY = "CREATE MATERIALIZED VIEW v AS SELECT id, price FROM shop.orders WHERE price > 1"


def described(folder: Path, text: str = QUERY, relation: Relation = ORDERS) -> StoredDefinition:
    path = folder / "v.sql"
    path.write_text(text)
    return read_view_file(path).define([relation]).stored


def orders(*columns: tuple[str, object], key: tuple[str, ...] = ("id",)) -> Relation:
    return Relation("shop.orders", "shop", Schema.of(columns), key)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        QUERY,
        QUERY + ";\n-- the end",
        QUERY.replace("SELECT", "-- why\nselect").replace("WHERE", "/* when */\n\twhere"),
        QUERY.replace("AS", "WITH COMPLETE USING posse REFRESH EVERY '3 s' PUBLISH EVERY '1 h' AS"),
    ],
)
def test_what_does_not_matter_for_the_table_may_change(tmp_path: Path, text: str) -> None:
    assert describe_difference(described(tmp_path), described(tmp_path, text)) is None


def test_a_changed_select_asks_for_a_reload(tmp_path: Path) -> None:
    changed = described(tmp_path, QUERY.replace("> 1", "> 2"))
    assert describe_difference(described(tmp_path), changed) == (
        "The SELECT of view v has changed since it was loaded. Run headwater reload v."
    )


def test_a_select_that_was_stored_in_another_format_is_the_same(tmp_path: Path) -> None:
    select = "select id,price\nfrom shop.orders where price>1"
    stored = replace(described(tmp_path), select=select)
    assert describe_difference(stored, described(tmp_path)) is None


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        (
            orders(("id", INT), ("price", decimal_type(12, 2))),
            "Column price of shop.orders is now decimal(12,2), was int when view v was loaded.",
        ),
        (
            orders(("id", INT), ("price", INT), key=("id", "price")),
            "The key of shop.orders is now (id, price), was (id) when view v was loaded.",
        ),
        (
            orders(("id", INT), ("price", INT), key=()),
            "The key of shop.orders is now none, was (id) when view v was loaded.",
        ),
    ],
)
def test_a_changed_table_asks_for_a_reload(
    tmp_path: Path, relation: Relation, message: str
) -> None:
    changed = described(tmp_path, relation=relation)
    assert describe_difference(described(tmp_path), changed) == f"{message} Run headwater reload v."


@pytest.mark.parametrize(
    "relation",
    [
        orders(("id", INT), ("price", INT), ("note", TEXT)),
        orders(("price", INT), ("id", INT)),
        orders(("id", INT), ("price", INT), ("note", INT), key=("note",)),
    ],
    ids=["added", "in another order", "another key"],
)
def test_columns_that_a_view_does_not_use_may_change(tmp_path: Path, relation: Relation) -> None:
    keyless = orders(("id", INT), ("price", INT), ("note", TEXT), key=("note",))
    before = keyless if relation.key == ("note",) else ORDERS
    found = described(tmp_path, relation=before), described(tmp_path, relation=relation)
    assert describe_difference(*found) is None
    assert describe_difference(*found[::-1]) is None


def test_the_same_name_at_another_source_is_another_table(tmp_path: Path) -> None:
    text = QUERY.replace("shop.orders", "orders")
    other = Relation("depot.orders", "depot", ORDERS.schema, ("id",))
    found = describe_difference(described(tmp_path, text), described(tmp_path, text, other))
    assert found is not None
    assert found.startswith("View v now reads depot.orders, and read shop.orders when it was")


# Probes


def test_probes_are_the_columns_that_joins_equate(tmp_path: Path) -> None:
    lines = Relation("shop.lines", "shop", Schema.of([("o", INT), ("p", INT), ("t", TEXT)]))
    people = Relation("crm.people", "crm", Schema.of([("id", INT), ("t", TEXT)]))
    path = tmp_path / "v.sql"
    path.write_text(
        VIEW + "SELECT o.id FROM orders o JOIN lines l ON l.o = o.id AND l.p = o.price\n"
        "JOIN people ON people.t = l.t WHERE people.id = 3"
    )
    view = read_view_file(path).define([ORDERS, lines, people]).view
    assert probes([view], "shop") == {"orders": [("id", "price")], "lines": [("o", "p"), ("t",)]}
    assert probes([view], "crm") == {"people": [("t",)]}
