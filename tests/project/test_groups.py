"""Groups of views: which files belong together, and what they have to say alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT
from headwater.errors import InputError
from headwater.project.differences import describe_difference
from headwater.project.project import Project
from headwater.project.settings import ProjectError

TOML = (
    '[sources.shop]\nkind = "sqlite"\npath = "shop.db"\nrelations = ["orders", "names"]\n'
    '[sources.crm]\nkind = "sqlite"\npath = "crm.db"\nrelations = ["names"]\n'
)
ORDERS = Relation("shop.orders", "shop", Schema.of([("id", INT), ("who", INT)]), ("id",))
OWN = Relation("shop.names", "shop", Schema.of([("id", INT), ("name", TEXT)]), ("id",))
NAMES = Relation("crm.names", "crm", Schema.of([("id", INT), ("title", TEXT)]), ("id",))
RELATIONS = (ORDERS, OWN, NAMES)
A = "SELECT id FROM shop.orders"
C = "SELECT o.id, n.name FROM shop.orders o LEFT JOIN shop.names n ON n.id = o.who"
B = "SELECT title, count(*) AS n FROM crm.names GROUP BY title"


def write(folder: Path, **views: str) -> Path:
    (folder / "headwater.toml").write_text(TOML)
    (folder / "views").mkdir(exist_ok=True)
    for name, text in views.items():
        path = folder / "views" / f"{name}.sql"
        path.write_text(f"CREATE MATERIALIZED VIEW {name} {text}")
    return folder


def refused(folder: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        Project.open(folder)
    found = caught.value.problems if isinstance(caught.value, ProjectError) else [caught.value]
    return [str(problem).removeprefix(f"{folder}/views/") for problem in found]


def test_views_with_one_group_are_maintained_as_one(tmp_path: Path) -> None:
    write(tmp_path, b=f"IN GROUP g AS {B}", a=f"in group g AS {A}", c=f"AS {A}")
    project = Project.open(tmp_path)
    assert project.units == {"g": ("a", "b"), "c": ("c",)}
    assert (project.unit_of("a"), project.unit_of("c"), project.unit_of("g")) == ("g", "c", "g")
    assert (project.is_group("g"), project.is_group("c")) == (True, False)
    assert project.sources_of("g") == ("shop", "crm")
    found = project.definition("g", RELATIONS)
    assert found.name == found.view.name == "g"
    assert [member.name for member in found.view.members] == ["a", "b"]
    assert found.stored.selects == (A, "SELECT title, COUNT(*) AS n FROM crm.names GROUP BY title")
    assert project.choose(found).algorithm == "sweep"


def test_a_group_of_one_view_is_a_group(tmp_path: Path) -> None:
    project = Project.open(write(tmp_path, a=f"IN GROUP g AS {A}"))
    assert project.units == {"g": ("a",)}
    assert project.is_group("g")


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("WITH COMPLETE CONSISTENCY", "WITH ... CONSISTENCY"),
        ("USING posse", "USING"),
        ("USING sweep (batch = 3)", "USING"),
        ("KEEP KEYS", "KEEP KEYS"),
        ("REFRESH EVERY '1 s'", "REFRESH EVERY"),
        ("PUBLISH EVERY '1 s'", "PUBLISH EVERY"),
        ("WITH CHANGES", "WITH CHANGES"),
    ],
)
def test_members_say_the_same(tmp_path: Path, clause: str, words: str) -> None:
    write(tmp_path, a=f"IN GROUP g AS {A}", b=f"IN GROUP g {clause} AS {B}")
    (told,) = refused(tmp_path)
    place = len("CREATE MATERIALIZED VIEW b IN GROUP g ") + 1
    assert told.startswith(f"b.sql:1:{place}: {words} of view b is not that of view a in ")
    assert "a.sql, which is in the same group" in told
    assert Project.open(tmp_path, only=[]).view_files == {}


def test_a_clause_that_is_missing_is_told_at_the_group(tmp_path: Path) -> None:
    write(tmp_path, a=f"REFRESH EVERY '1 s' IN GROUP g AS {A}", b=f"IN GROUP g AS {B}")
    (told,) = refused(tmp_path)
    assert told.startswith("b.sql:1:28: REFRESH EVERY of view b is not that of view a")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("IN GROUP AS SELECT 1", "1:37: the group has no name. Write IN GROUP name."),
        ("IN g AS SELECT 1", "1:31: GROUP was expected here, not 'g'. Write IN GROUP name."),
        ("IN GROUP _g AS SELECT 1", "1:37: _g cannot be the name of a group."),
        ("IN GROUP g IN GROUP h AS SELECT 1", "1:39: IN occurs twice. Write it once."),
    ],
)
def test_mistakes_in_the_clause_have_their_place(tmp_path: Path, text: str, told: str) -> None:
    assert refused(write(tmp_path, a=text))[0].startswith(f"a.sql:{told}")


def test_names_of_groups_are_written_in_one_way_and_are_no_views(tmp_path: Path) -> None:
    write(tmp_path, a=f"IN GROUP g AS {A}", b=f"IN GROUP G AS {B}")
    assert refused(tmp_path)[0].startswith("b.sql:1:28: group G is written g in ")
    write(tmp_path, b=f"IN GROUP A AS {B}")
    assert refused(tmp_path)[0].startswith("b.sql:1:28: A is a view, in ")


def test_a_group_is_left_out_if_one_of_its_files_is_not_sound(tmp_path: Path) -> None:
    write(tmp_path, a=f"IN GROUP g AS {A}", b="IN GROUP g AS SELECT x FROM nowhere", c=f"AS {A}")
    assert list(Project.open(tmp_path, only=["c"]).view_files) == ["c"]
    for name in ("g", "a"):
        with pytest.raises(InputError, match="nowhere"):
            Project.open(tmp_path, only=[name])


def test_what_is_kept_of_a_group_gives_the_same_tops(tmp_path: Path) -> None:
    write(tmp_path, a=f"IN GROUP g AS {A}", b=f"IN GROUP g AS {B}", c=f"IN GROUP g AS {C}")
    found = Project.open(tmp_path).definition("g", RELATIONS)
    kept = found.stored.view
    assert [member.top for member in kept.members] == [m.top for m in found.view.members]
    assert [member.relations for member in kept.members] == [
        ("shop.orders",),
        ("crm.names",),
        ("shop.orders", "shop.names"),
    ]


def test_what_has_become_of_a_group_is_told(tmp_path: Path) -> None:
    stored = Project.open(write(tmp_path, a=f"IN GROUP g AS {A}", b=f"IN GROUP g AS {B}"))
    before = stored.definition("g", RELATIONS).stored
    assert describe_difference(before, before) is None
    alone = replace(before, members=before.members[:1])
    assert describe_difference(alone, before) == (
        "View b is new in group g, and was not there when it was loaded. Run headwater reload g."
    )
    assert str(describe_difference(before, alone)).startswith("View b is no longer in group g")
    other = Project.open(write(tmp_path, a=f"IN GROUP g AS {A} WHERE id > 1"))
    assert describe_difference(before, other.definition("g", RELATIONS).stored) == (
        "The SELECT of view a has changed since it was loaded. Run headwater reload g."
    )
    view = Project.open(write(tmp_path, a=f"AS {A}", b=f"AS {B}")).definition("a", RELATIONS)
    assert "was loaded as a group, and is a view now" in str(
        describe_difference(before, view.stored)
    )


def test_a_view_called_as_the_table_of_changes_of_another_is_refused(tmp_path: Path) -> None:
    write(tmp_path, a=f"WITH CHANGES AS {A}", a_changes=f"AS {A}")
    (told,) = refused(tmp_path)
    assert told.startswith("a.sql:1:28: its table of changes is called a_changes, as another")
