"""The page on mediation says what is so: its examples are projects, its output is what is said."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT
from headwater.mediation.telling import never_told, steps_of
from headwater.project.project import Project

PAGE = (Path(__file__).parents[2] / "docs" / "mediation.md").read_text(encoding="utf-8")
GENES, GENES_VIEW, SHOPS, *SHOP_VIEWS = re.findall(
    r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
EXPLAINED, CHECKED = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
LAB = Relation(
    "lab.Genes",
    "lab",
    Schema.of([("GeneID", INT), ("GeneName", TEXT), ("ChromosomeLocus", TEXT)]),
    ("GeneID",),
)
TABLES = {
    "a.customers": [("id", INT), ("name", TEXT), ("email", TEXT)],
    "a.orders": [("no", INT), ("customer", INT), ("cents", INT)],
    "b.people": [("nr", INT), ("first", TEXT), ("last", TEXT), ("phone", TEXT)],
    "b.sales": [("nr", INT), ("who", INT), ("cents", INT)],
}
RELATIONS = [
    Relation(name, name[0], Schema.of(columns), (columns[0][0],))
    for name, columns in TABLES.items()
]
STATE: Mapping[str, Sequence[Sequence[object]]] = {
    "a.customers": [(1, "Ada", "ada@example.org")],
    "a.orders": [(7, 1, 500)],
    "b.people": [(1, "Cy", "Dee", "555")],
    "b.sales": [(7, 1, 900)],
}


def project(folder: Path, schema: str, views: list[str], tables: Mapping[str, str]) -> Project:
    (folder / "headwater.toml").write_text(
        "".join(
            f'[sources.{source}]\nkind = "sqlite"\npath = "{source}.db"\nrelations = [{listed}]\n'
            for source, listed in tables.items()
        )
    )
    for name in ("views", "schema"):
        (folder / name).mkdir()
    (folder / "schema" / "one.sql").write_text(schema)
    for at, text in enumerate(views):
        (folder / "views" / f"{at}.sql").write_text(text)
    return Project.open(folder)


def test_the_genes_are_explained_as_the_page_says(tmp_path: Path) -> None:
    opened = project(tmp_path, GENES, [GENES_VIEW], {"lab": '"Genes"'})
    definition = opened.definition("genes", [LAB])
    lines = [f"{'  ' * (d + 1)}{line}" for d, line in steps_of(definition.answered["genes"])]
    assert [line.rstrip() for line in EXPLAINED.splitlines()[1:]] == lines
    assert definition.view.top is None


def test_the_shops_are_merged_as_the_page_says(tmp_path: Path) -> None:
    tables = {"a": '"customers", "orders"', "b": '"people", "sales"'}
    opened = project(tmp_path, SHOPS, SHOP_VIEWS, tables)
    state = {r.name: Rows.of(r.schema, STATE[r.name]) for r in RELATIONS}
    shown = {
        name: set(evaluate_shown(opened.definition(name, RELATIONS).view, state))
        for name in opened.units
    }
    assert shown == {
        "bought": {("a", "Ada", 7, 500), ("b", "Cy Dee", 7, 900)},
        "mails": {("a", 1, "ada@example.org")},
        "spent": {("a", 500), ("b", 900)},
    }
    answers = opened.definition("mails", RELATIONS).answered
    (told,) = never_told(answers["mails"])
    assert CHECKED.strip() == f"○ {told}"
