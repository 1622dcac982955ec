"""Groups of views: members are read at one commit, and their plain tables follow one by one."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import NoReturn

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_group, parse_view
from headwater.algebra.views import View
from headwater.errors import ExpressionError, InputError
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.groups import GroupTable, MemberTable
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.stored import stored_version
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse import topped
from tests.warehouse.topped import RELATION, rows, vector

START = rows({("a", 1): 2, ("a", 5): 1, ("b", 7): 1, (None, 2): 1})
CHANGES = (
    rows({("a", 1): -1, ("c", 3): 1}),
    rows({("b", 7): -1, (None, 4): 1}),
    rows({("c", 3): -1, ("a", 9): 2}),
)
SELECTS = {
    "totals": topped.SELECTS["totals"],
    "greatest": topped.SELECTS["greatest"],
    "all_rows": "SELECT v, g FROM shop.t",
}
SUMS = {
    "sums": "SELECT g, count(*) AS n, sum(v) AS s FROM shop.t GROUP BY g",
    "mean": "SELECT avg(v) AS m, count(g) AS n FROM shop.t",
}
FAILING = SELECTS | {"shares": topped.SELECTS["shares"]}


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def group_of(selects: Mapping[str, str]) -> View:
    return parse_group([(name, sql, [RELATION]) for name, sql in selects.items()], "book")


def stored(group: View, contents: Rows) -> Rows:
    """The rows of the table as the group stores them: of each part that reads it."""
    found = evaluate_view(group, {RELATION.name: contents.positive()})
    gone = evaluate_view(group, {RELATION.name: -contents.negative()})
    return group.stored(found - gone)


def load_of(contents: Rows, selects: Mapping[str, str] = SELECTS) -> ViewLoad:
    group = group_of(selects)
    definition = StoredDefinition.of(group)
    return ViewLoad(definition, vector(0), stored(group, contents), "sweep", "strong", "loader")


def load(warehouse: Warehouse, selects: Mapping[str, str] = SELECTS) -> GroupTable:
    table = warehouse.put(load_of(START, selects))
    table.follow(no_spark)
    assert isinstance(table, GroupTable)
    return table


def shown(contents: Rows, selects: Mapping[str, str] = SELECTS) -> dict[str, Rows]:
    alone = {name: parse_view(sql, [RELATION]) for name, sql in selects.items()}
    return {name: evaluate_shown(view, {RELATION.name: contents}) for name, view in alone.items()}


def selects_of(table: GroupTable) -> dict[str, str]:
    return {member.name: (FAILING | SUMS)[member.name] for member in table.members}


def committed(table: GroupTable) -> dict[int, dict[str, Rows]]:
    """What is to be shown after each commit of a group that has just been loaded."""
    selects = selects_of(table)
    contents = START
    found = {1: shown(contents, selects)}
    with table.writer("r") as writer:
        for at, change in enumerate(CHANGES, 1):
            contents = contents + change
            number = writer.commit(stored(group_of(selects), change), vector(at)).number
            found[number] = shown(contents, selects)
    return found


def plain_rows(member: MemberTable) -> Rows:
    table = DeltaTable(str(member.plain.folder.local)).to_pyarrow_table()
    return plain_from_arrow(table, member.top.schema)


def published(table: GroupTable) -> dict[str, Rows]:
    return {member.name: plain_rows(member) for member in table.members}


def test_a_load_shows_every_member(warehouse: Warehouse) -> None:
    table = load(warehouse)
    assert table.states() == published(table) == shown(START)
    assert warehouse.view_names() == ["book"]
    assert sorted(warehouse.shown_names()) == sorted(SELECTS)


def test_members_are_read_at_one_commit(warehouse: Warehouse, spark: SparkSession) -> None:
    table = load(warehouse)
    expected = committed(table)
    assert {number: table.states(number) for number in expected} == expected
    frames = table.frames(spark)
    assert {m.name: plain_from_arrow(frames[m.name].toArrow(), m.top.schema)
            for m in table.members} == expected[5]  # fmt: skip
    assert set(table.frames(spark, 4, ["totals"])) == {"totals"}


def test_sums_are_stored_once_for_all_members(warehouse: Warehouse) -> None:
    table = load(warehouse, SUMS)
    expected = committed(table)
    assert "_sum" in table.schema.names
    assert {number: table.states(number) for number in expected} == expected


def test_a_member_is_read_by_its_name(warehouse: Warehouse) -> None:
    expected = committed(load(warehouse))
    for name in SELECTS:
        view = warehouse.view(name)
        assert view.rows() == expected[5][name]
        assert view.rows(3) == expected[3][name]
        assert view.latest().number == 5
        assert view.shown_changes(3, 5, no_spark) == expected[5][name] - expected[3][name]


def test_a_group_is_no_view_to_be_read(warehouse: Warehouse) -> None:
    load(warehouse)
    with pytest.raises(InputError, match="Name one of them: totals, greatest, all_rows"):
        warehouse.shown_view("book")
    with pytest.raises(InputError, match="is not a group"):
        warehouse.group("totals")


@pytest.mark.parametrize("selects", [SELECTS, SUMS], ids=["rows", "sums"])
@pytest.mark.parametrize("on_spark", [False, True])
def test_a_fold_publishes_all_members(
    warehouse: Warehouse, spark: SparkSession, on_spark: bool, selects: Mapping[str, str]
) -> None:
    table = load(warehouse, selects)
    expected = committed(table)
    table.fold(spark if on_spark else no_spark, "r")
    assert published(table) == table.states() == expected[5]
    folded = table.plain.snapshot()
    for member in table.members:
        plain = member.plain.snapshot()
        commit = member.plain_commit(plain)
        assert (plain.number, stored_version(plain)) == (5, folded.version)
        assert commit is not None
        assert (commit.view, commit.vector) == (member.name, vector(3))


def test_a_fold_that_was_cut_off_is_made_up_for(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the commits of two plain tables: reading is right, and the next goes on."""
    table = load(warehouse)
    expected = committed(table)
    done: list[str] = []
    publish = MemberTable.publish

    def killed(self: MemberTable, *arguments: object) -> bool:
        if done:
            raise KeyboardInterrupt
        done.append(self.name)
        return publish(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(MemberTable, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            table.fold(no_spark, "r")
    found = published(table)
    assert found == {n: expected[5 if n in done else 1][n] for n in SELECTS}
    assert table.states() == expected[5]
    late = warehouse.view("all_rows")
    assert (
        plain_from_arrow(late.dataframe(spark).toArrow(), late.at().shown_schema)
        == (expected[5]["all_rows"])
    )
    warehouse.group("book").fold(no_spark, "r")
    assert published(table) == expected[5]


def test_a_plain_table_that_is_lost_is_made_anew(warehouse: Warehouse) -> None:
    table = load(warehouse)
    table.member("totals").plain.folder.remove_tree()
    assert warehouse.view("totals").rows() == shown(START)["totals"]
    table.follow(no_spark)
    assert published(table) == shown(START)


def test_a_folder_of_others_is_left_alone_and_does_not_hold_other_members_up(
    warehouse: Warehouse,
) -> None:
    table = load(warehouse)
    expected = committed(table)
    table.member("totals").plain.folder.remove_tree()
    foreign = warehouse.path / "totals" / "precious.txt"
    foreign.parent.mkdir()
    foreign.write_text("x")
    with pytest.raises(InputError, match="totals is in the way of the view 'totals'"):
        table.fold(no_spark, "r")
    assert foreign.exists()
    assert plain_rows(table.member("greatest")) == expected[5]["greatest"]
    assert warehouse.view("totals").rows() == expected[5]["totals"]


def test_a_plain_table_of_another_past_is_not_taken_for_this_one(warehouse: Warehouse) -> None:
    """What is Headwater's own was put back from a backup, and the plain tables were not."""
    table = load(warehouse)
    with table.writer("r") as writer:
        writer.commit(stored(group_of(SELECTS), CHANGES[0]), vector(1))
    table.fold(no_spark, "r")
    kept = {name: warehouse.path / f"kept_{name}" for name in SELECTS}
    for name, folder in kept.items():
        shutil.copytree(warehouse.path / name, folder)
    warehouse.drop("book")
    load(warehouse)
    for name, folder in kept.items():
        shutil.rmtree(warehouse.path / name)
        folder.rename(warehouse.path / name)
    table = warehouse.group("book")
    with table.writer("r") as writer:
        writer.commit(stored(group_of(SELECTS), CHANGES[1]), vector(2))
    table.fold(no_spark, "r")
    assert table.plain.snapshot().number == 3
    assert published(table) == table.states() == shown(START + CHANGES[1])


def test_members_stay_together_where_one_fails(warehouse: Warehouse, spark: SparkSession) -> None:
    table = load(warehouse, FAILING)
    contents = [START, START + rows({("d", 4): 1}), START + rows({("d", 4): 1, ("e", 0): 1})]
    with table.writer("r") as writer:
        for at, (before, after) in enumerate(pairwise(contents), 1):
            writer.commit(stored(group_of(FAILING), after - before), vector(at))
    with pytest.raises(ExpressionError):
        table.states(4)
    assert table.states() == shown(contents[1], FAILING)
    assert warehouse.view("totals").rows() == shown(contents[2])["totals"]
    assert isinstance(table.fold(no_spark, "r"), Unfolded)
    assert published(table) == shown(contents[1], FAILING)


def test_early_commits_are_not_published(warehouse: Warehouse) -> None:
    table = load(warehouse)
    with table.writer("r") as writer:
        writer.commit(stored(group_of(SELECTS), CHANGES[0]), vector(1))
        writer.commit(stored(group_of(SELECTS), CHANGES[1]), vector(1, 3))
    table.fold(no_spark, "r")
    assert published(table) == shown(START + CHANGES[0])


def test_a_load_anew_brings_and_takes_members(warehouse: Warehouse) -> None:
    load(warehouse)
    other = {name: FAILING[name] for name in ("totals", "shares")}
    warehouse.put(load_of(START + CHANGES[0], other)).follow(no_spark)
    table = warehouse.group("book")
    assert published(table) == table.states() == shown(START + CHANGES[0], other)
    assert sorted(warehouse.shown_names()) == ["shares", "totals"]
    assert not (warehouse.path / "greatest").exists()
    assert warehouse.view("totals").rows(1) == shown(START)["totals"]
    with pytest.raises(InputError, match="was not in the group book at version 1"):
        warehouse.view("shares").rows(1)


def test_members_that_others_have_are_refused(warehouse: Warehouse) -> None:
    topped.load(warehouse, "totals", START)
    with pytest.raises(InputError, match=r"by itself.*headwater drop totals"):
        warehouse.put(load_of(START))
    warehouse.drop("totals")
    (warehouse.path / "greatest").mkdir()
    with pytest.raises(InputError, match="is in the way of the view 'greatest'"):
        warehouse.put(load_of(START))


def test_a_view_that_leaves_its_group_is_its_own(warehouse: Warehouse) -> None:
    table = load(warehouse)
    topped.load(warehouse, "totals", START + CHANGES[0])
    assert warehouse.group_of("totals") is None
    assert warehouse.view("totals").rows() == shown(START + CHANGES[0])["totals"]
    table.fold(no_spark, "r")
    rest = {name: sql for name, sql in SELECTS.items() if name != "totals"}
    warehouse.put(load_of(START, rest)).follow(no_spark)
    assert warehouse.view("totals").rows() == shown(START + CHANGES[0])["totals"]


def test_a_group_is_dropped_as_a_whole(warehouse: Warehouse) -> None:
    load(warehouse)
    with pytest.raises(InputError, match="drop book' removes the whole group"):
        warehouse.drop("totals")
    warehouse.drop("book")
    assert not warehouse.view_names()
    assert not any((warehouse.path / name).exists() for name in SELECTS)
    assert load(warehouse).states() == shown(START)


def test_a_view_becomes_a_group_and_back(warehouse: Warehouse) -> None:
    load(warehouse)
    view = replace(topped.view("totals"), name="book")
    warehouse.put(replace(topped.load_of("totals", START), definition=StoredDefinition.of(view)))
    assert warehouse.shown_names() == ["book"]
    assert load(warehouse).states() == shown(START)


def test_clean_up_keeps_what_can_be_read(warehouse: Warehouse) -> None:
    table = load(warehouse)
    expected = committed(table)
    table.fold(no_spark, "r")
    table.clean_up(timedelta(0), minimum_age=timedelta(0))
    assert table.states() == published(table) == expected[5]


def test_a_definition_is_read_back(warehouse: Warehouse) -> None:
    definition = StoredDefinition.of(group_of(FAILING))
    assert StoredDefinition.from_json(definition.to_json()) == definition
    assert load(warehouse, FAILING).definition == definition
    assert (
        definition.view.members
        == group_of({member.name: member.select for member in definition.members}).members
    )


def test_a_group_that_is_dropped_leaves_alone_what_is_called_as_tables_of_changes_are(
    warehouse: Warehouse,
) -> None:
    load(warehouse)
    other = warehouse.path / "totals_changes"
    other.mkdir()
    (other / "mine.txt").write_text("kept")
    warehouse.drop("book")
    assert (other / "mine.txt").read_text() == "kept"
    assert not (warehouse.path / "totals").exists()
