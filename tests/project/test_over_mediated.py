"""Views over the mediated schema that a project's `schema/*.sql` describe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.errors import InputError
from headwater.mediation.telling import never_told, steps_of
from headwater.project.differences import describe_difference
from headwater.project.project import Project

TOML = """
[sources.a]
kind = "sqlite"
path = "a.db"
relations = ["customers"]
[sources.b]
kind = "sqlite"
path = "b.db"
relations = ["people"]
"""
CUSTOMERS = Relation(
    "a.customers", "a", Schema.of([("id", INT), ("name", TEXT), ("email", TEXT)]), ("id",)
)
PEOPLE = Relation(
    "b.people", "b", Schema.of([("key", INT), ("name", TEXT), ("phone", TEXT)]), ("key",)
)
RELATIONS = [CUSTOMERS, PEOPLE]
STATE = {
    "a.customers": Rows.of(CUSTOMERS.schema, [(1, "Ada", "a@x"), (2, "Bob", None)]),
    "b.people": Rows.of(PEOPLE.schema, [(1, "Cy", "555")]),
}
SHOPS = """
CREATE TABLE customers (shop STRING, id BIGINT, name STRING, email STRING, phone STRING);
CREATE SOURCE VIEW a.customers AS SELECT id, name, email FROM customers WHERE shop = 'a'
"""
OTHER = "CREATE SOURCE VIEW b.people (key, name) AS SELECT id, name FROM customers WHERE shop = 'b'"
SCHEMA = {"shops": SHOPS, "other": OTHER}
NAMES = "SELECT shop, id, name FROM mediated.customers"


def write(folder: Path, views: Mapping[str, str], schema: Mapping[str, str] = SCHEMA) -> Path:
    (folder / "headwater.toml").write_text(TOML)
    for name, files in (("views", views), ("schema", schema)):
        (folder / name).mkdir(exist_ok=True)
        for stem, text in files.items():
            head = f"CREATE MATERIALIZED VIEW {stem} AS " if name == "views" else ""
            (folder / name / f"{stem}.sql").write_text(head + text)
    return folder


def shown(project: Project, view: str) -> set[tuple[object, ...]]:
    return set(evaluate_shown(project.definition(view, RELATIONS).view, STATE))


def test_a_view_over_mediated_relations_reads_the_tables_that_tell_of_them(tmp_path: Path) -> None:
    project = Project.open(write(tmp_path, {"names": NAMES}))
    assert set(project.needs["names"]) == {"a", "b"}
    assert shown(project, "names") == {("a", 1, "Ada"), ("a", 2, "Bob"), ("b", 1, "Cy")}


def test_what_is_kept_of_it_needs_no_schema(tmp_path: Path) -> None:
    project = Project.open(write(tmp_path, {"names": NAMES}))
    stored = project.definition("names", RELATIONS).stored
    view = parse_view(stored.select, RELATIONS)
    assert set(evaluate_shown(view, STATE)) == shown(project, "names")


def test_a_view_over_it_may_aggregate_what_is_certain(tmp_path: Path) -> None:
    views = {"names": NAMES, "sizes": "SELECT shop, COUNT(*) AS n FROM names GROUP BY shop"}
    assert shown(Project.open(write(tmp_path, views)), "sizes") == {("a", 2), ("b", 1)}


def test_a_view_may_have_the_name_of_a_mediated_relation(tmp_path: Path) -> None:
    views = {"customers": NAMES, "over": "SELECT c.name FROM mediated.customers AS c"}
    project = Project.open(write(tmp_path, views))
    assert len(shown(project, "customers")) == len(shown(project, "over")) == 3


def test_a_name_that_means_a_view_and_a_mediated_relation_is_refused(tmp_path: Path) -> None:
    views = {"clients": NAMES, "over": "SELECT name FROM clients", "top": "SELECT name FROM over"}
    schema = {name: text.replace(" customers", " clients") for name, text in SCHEMA.items()}
    views["clients"] = NAMES.replace("customers", "clients")
    write(tmp_path, views, schema)
    with pytest.raises(
        InputError, match=r"over\.sql:1:.*may mean view clients and mediated\.clients"
    ):
        Project.open(tmp_path)
    project = Project.open(tmp_path, ["clients"])
    assert set(project.needs) == {"clients"}
    assert set(project.refused) == {"over", "top"}


def test_a_mediated_relation_is_not_taken_for_a_table_of_its_name(tmp_path: Path) -> None:
    project = Project.open(write(tmp_path, {"v": "SELECT id FROM customers"}))
    with pytest.raises(InputError, match=r"v\.sql:1:.*mediated\.customers and a\.customers"):
        project.definition("v", RELATIONS)


def test_a_member_of_a_group_may_read_mediated_relations(tmp_path: Path) -> None:
    write(tmp_path, {})
    for name, select in {"names": NAMES, "mails": "SELECT id, email FROM a.customers"}.items():
        text = f"CREATE MATERIALIZED VIEW {name} IN GROUP g AS {select}"
        (tmp_path / "views" / f"{name}.sql").write_text(text)
    definition = Project.open(tmp_path).definition("g", RELATIONS)
    assert {member.name for member in definition.view.members} == {"names", "mails"}
    assert list(definition.answered) == ["names"]


def test_what_a_view_can_never_answer_is_told(tmp_path: Path) -> None:
    views = {"mails": "SELECT id, email FROM mediated.customers"}
    definition = Project.open(write(tmp_path, views)).definition("mails", RELATIONS)
    assert definition.view.sources == ("a",)
    (told,) = never_told(definition.answered["mails"])
    assert "customers by the source view b.people never add an answer: email of" in told
    steps = [step for _, step in steps_of(definition.answered["mails"])]
    assert any("ends at customers by source view b.people" in step for step in steps)


def test_a_view_that_nobody_can_answer_is_refused(tmp_path: Path) -> None:
    views = {"v": "SELECT id, phone FROM mediated.customers"}
    project = Project.open(write(tmp_path, views))
    with pytest.raises(InputError, match=r"v\.sql:1:31: no source can ever answer the query"):
        project.definition("v", RELATIONS)


def test_another_description_makes_another_view(tmp_path: Path) -> None:
    before = Project.open(write(tmp_path, {"names": NAMES})).definition("names", RELATIONS).stored
    (tmp_path / "schema" / "other.sql").write_text(OTHER.replace("'b'", "'c'"))
    now = Project.open(tmp_path).definition("names", RELATIONS).stored
    difference = describe_difference(before, now)
    assert difference is not None
    assert "has changed since it was loaded" in difference


def test_blanks_and_comments_in_a_schema_change_no_view(tmp_path: Path) -> None:
    before = Project.open(write(tmp_path, {"names": NAMES})).definition("names", RELATIONS).stored
    (tmp_path / "schema" / "other.sql").write_text(f"-- the other shop\n\n  {OTHER};\n")
    now = Project.open(tmp_path).definition("names", RELATIONS).stored
    assert describe_difference(before, now) is None


# Mistakes


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"a": SHOPS, "b": SHOPS}, r"b\.sql:2:1: mediated relation customers is described in"),
        ({"a": "CREATE VIEW m AS SELECT id FROM a.customer"}, r"a\.sql:1:33: there is no relation"),
        ({"a": "CREATE VIEW m AS SELECT id FROM z.t"}, r"a\.sql:1:33: there is no source z\."),
        ({"a": "CREATE SOURCE VIEW z.t AS SELECT id FROM m", "b": "CREATE TABLE m (id INT)"},
         r"a\.sql:1:1: there is no source z\."),
        ({"a": "CREATE SOURCE VIEW a.customers AS SELECT id FROM people"},
         r"a\.sql:1:50: people is no mediated relation"),
        ({"a": "CREATE TABLE customers (id INT); CREATE SOURCE VIEW d FROM "
         "(SELECT id FROM customers) AS SELECT id FROM customers"},
         r"a\.sql:1:76: customers is a mediated relation, and behind FROM"),
        ({"a": "CREATE VIEW m AS SELECT id FROM m"}, "in a circle: m by m "),
        ({"a": "CREATE VIEW m AS SELECT x FROM n", "b": "CREATE VIEW n AS SELECT x FROM m"},
         r"a\.sql:1:1: .* in a circle: m by n by m \(view m, view n\)"),
        ({"a": "CREATE TABLE m (id INT PRIMARY KEY, up INT REFERENCES m)"},
         r"a\.sql:1:37: .* in a circle: m by m \(a foreign key of m\)"),
        ({"a": "CREATE TABLE m (id INT REFERENCES n)"}, "there is no mediated table n to refer to"),
        ({"a": "CREATE TABLE n (x INT); CREATE TABLE m (id INT REFERENCES n)"},
         "id cannot refer to no column of n"),
        ({"a": "-- nothing"}, "there is no statement in this file"),
        ({"a": "DROP TABLE m"}, r"a\.sql:1:1: this statement has no place"),
        ({"a": "CREATE TABLE m (id INT, id TEXT)"}, "there are two columns id"),
        ({"a": "CREATE TABLE m (id INT CHECK (id > 1))"}, "is not supported here"),
        ({"a": "CREATE VIEW m AS SELEC id FROM a.customers"}, r"a\.sql:1:18: "),
        ({"a": "CREATE VIEW m AS SELECT 'x"}, r"a\.sql:1:25: what ' opens is never closed"),
        ({"a": "CREATE SOURCE VIEW people AS SELECT 1 AS a FROM m"}, "names no relation of"),
        ({"a": "CREATE VIEW m AS SELECT id FROM a.customers; CREATE VIEW m AS SELECT 1 AS id"},
         "mediated relation m is described in"),
    ],
)  # fmt: skip
def test_mistakes_in_a_schema_are_told_with_their_place(
    tmp_path: Path, schema: dict[str, str], why: str
) -> None:
    folder = write(tmp_path, {"v": "SELECT id FROM a.customers"}, schema)
    with pytest.raises(InputError, match=why) as caught:
        Project.open(folder)
    assert "Traceback" not in str(caught.value)


def test_a_mistake_in_a_schema_concerns_the_views_that_read_it(tmp_path: Path) -> None:
    views = {"names": NAMES, "mails": "SELECT id, email FROM a.customers"}
    folder = write(tmp_path, views, {**SCHEMA, "wrong": "CREATE TABLE customers (id INT)"})
    project = Project.open(folder, only=())
    assert list(project.view_files) == ["mails"]
    assert list(project.refused) == ["names"]
    assert re.search(r"wrong\.sql:1:1: mediated relation customers", str(project.refused["names"]))


def test_a_mediated_relation_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.sql:1:\d+: there is no mediated relation custom"):
        Project.open(write(tmp_path, {"v": "SELECT id FROM mediated.custom"}))


def test_a_source_must_not_be_called_as_the_mediated_schema(tmp_path: Path) -> None:
    folder = write(tmp_path, {"names": NAMES})
    toml = TOML.replace("sources.b", "sources.mediated")
    (folder / "headwater.toml").write_text(toml)
    with pytest.raises(InputError, match="a source is called mediated"):
        Project.open(folder)
