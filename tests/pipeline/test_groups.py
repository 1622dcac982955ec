"""Groups of views through the running pipeline: transfers, seen as debits and as credits.

A transfer writes a debit and a credit in one transaction, so the sums agree at every vector. The
credits are joined with accounts of another source, for which that has to be asked.
"""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import HeadwaterError, InputError
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.warehouse.groups import GroupTable
from tests.cli.commands import quick
from tests.pipeline.small import Small, running, wait_until

SELECTS = {
    "debits": "SELECT count(*) AS n, sum(d.amount) AS total FROM north.debits d",
    "credits": "SELECT a.owner, count(*) AS n, sum(c.amount) AS total FROM north.credits c "
    "JOIN south.accounts a ON a.id = c.account GROUP BY a.owner",
    "transfers": "SELECT d.id, d.amount AS debit, c.amount AS credit FROM north.debits d "
    "LEFT JOIN north.credits c ON c.id = d.id",
}
BOTH = ("credits", "debits")
TRANSFERS, ACCOUNTS = 30, 4


class Bank(Small):
    """Transfers at `north`, accounts at `south`, and a project over them."""

    def __init__(self, folder: Path, clauses: Mapping[str, str], engine: str = "auto") -> None:
        self.folder = folder
        (folder / "views").mkdir(parents=True)
        (folder / "headwater.toml").write_text(
            "[warehouse]\npublish_every = '1 hour'\n"
            f"[spark]\nmaster = 'local[2]'\nengine = '{engine}'\n"
            "[sources.north]\nkind = 'sqlite'\npath = 'north.db'\n"
            "relations = ['debits', 'credits']\n"
            "[sources.south]\nkind = 'sqlite'\npath = 'south.db'\nrelations = ['accounts']\n"
        )
        self.write(
            "north",
            "CREATE TABLE debits (id INTEGER PRIMARY KEY, amount INTEGER)",
            "CREATE TABLE credits (id INTEGER PRIMARY KEY, account INTEGER, amount INTEGER)",
        )
        self.write("south", "CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT)")
        for number in range(ACCOUNTS):
            self.write("south", f"INSERT INTO accounts VALUES ({number}, 'Ada')")
        self.transfer(0)
        for name, clause in clauses.items():
            self.put_view(name, clause)
        for source in self.project.sources.values():
            source.setup()

    def put_view(self, name: str, clause: str) -> None:
        text = f"CREATE MATERIALIZED VIEW {name} {clause} AS {SELECTS[name]}"
        self.view_file(name).write_text(text)

    def transfer(self, number: int) -> None:
        self.write(
            "north",
            f"INSERT INTO debits VALUES ({number}, {number + 7})",
            f"INSERT INTO credits VALUES ({number}, {number % ACCOUNTS}, {number + 7})",
        )

    def rename_owners(self) -> None:
        for n in range(TRANSFERS):
            self.write("south", f"UPDATE accounts SET owner = 'n{n}' WHERE id = {n % ACCOUNTS}")

    def count(self, view: str) -> int:
        """How many transfers a view shows now."""
        return summed(self.warehouse.view(view).rows())[0]

    @property
    def group(self) -> GroupTable:
        return self.warehouse.group("book")


def summed(rows: Rows) -> tuple[int, int]:
    """The number of transfers that a view shows, and what they come to."""
    found = [row[-2:] for row in rows]
    return sum(int(str(n)) for n, _ in found), sum(int(str(total)) for _, total in found)


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def run_once(bank: Bank, spark: Any = no_spark) -> None:
    api.keep_running(Runner(bank.project, spark), once=True, stop=threading.Event())


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "project", dict.fromkeys(BOTH, "IN GROUP book"))


@pytest.mark.parametrize("clause", ["", "WITH COMPLETE CONSISTENCY", "USING posse"])
def test_members_agree_at_every_version(tmp_path: Path, spark: SparkSession, clause: str) -> None:
    bank = Bank(tmp_path / "project", dict.fromkeys(BOTH, f"IN GROUP book {clause}"))
    owners = threading.Thread(target=bank.rename_owners)
    with running(bank, spark) as runner:
        wait_until(lambda: runner.views["book"].state == "running")
        owners.start()
        for number in range(1, TRANSFERS):
            bank.transfer(number)
        owners.join()
        wait_until(lambda: summed(bank.group.states()["debits"])[0] == TRANSFERS)
    versions = range(1, bank.group.latest().number + 1)
    for version in versions:
        states = bank.group.states(version)
        assert summed(states["debits"]) == summed(states["credits"]), version
    assert len(versions) > 3
    assert verify_view(bank.project, "book", no_spark).holds


def test_views_apart_do_not_always_agree(tmp_path: Path, spark: SparkSession) -> None:
    clauses = {"debits": "", "credits": "REFRESH EVERY '1 hour'"}
    bank = Bank(tmp_path / "project", clauses)
    run_once(bank)
    with running(bank, spark) as runner:
        wait_until(lambda: all(view.state == "running" for view in runner.views.values()))
        bank.transfer(1)
        wait_until(lambda: bank.count("debits") == bank.count("credits") == 2)
        bank.transfer(2)
        wait_until(lambda: bank.count("debits") == 3)
        assert bank.count("credits") == 2


@pytest.mark.stress
def test_a_group_is_loaded_maintained_and_folded_on_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    clauses = dict.fromkeys(BOTH, "IN GROUP book WITH CHANGES")
    bank = Bank(tmp_path / "project", clauses, engine="spark")
    run_once(bank, lambda: spark)
    bank.transfer(1)
    run_once(bank, lambda: spark)
    assert verify_view(bank.project, "debits", spark).holds
    bank.group.fold(spark, "f")
    for name in BOTH:
        member = bank.group.member(name)
        assert member.at().is_published
        assert summed(member.at().plain_rows()) == (2, 15)
        assert {tuple(r) for r in member.dataframe(spark).collect()} == set(member.rows())


def test_a_program_reads_a_group_at_one_version(bank: Bank, spark: SparkSession) -> None:
    run_once(bank)
    loaded = bank.project.group("book").version
    bank.transfer(1)
    run_once(bank)
    group = bank.project.group("book")
    assert group.views == BOTH
    found = {name: [tuple(r) for r in df.collect()] for name, df in group.dfs(spark).items()}
    assert found == {"debits": [(2, 15)], "credits": [("Ada", 2, 15)]}
    before = group.dfs(spark, loaded)
    assert [tuple(row) for row in before["debits"].collect()] == [(1, 7)]
    assert bank.project.view("debits").version == group.version > loaded
    with pytest.raises(InputError, match="'book' is a group of views"):
        bank.project.view("book")
    with pytest.raises(InputError, match="is not a group"):
        bank.project.group("debits")


def test_check_and_status_tell_of_a_group(bank: Bank) -> None:
    found = [json.loads(line) for line in quick("check", "--json", *bank.arguments).out.split("\n")
             if "group" in line]  # fmt: skip
    assert (found[0]["group"], found[0]["views"]) == ("book", list(BOTH))
    assert found[0]["algorithm"] == "sweep"
    assert found[0]["reason"].startswith("strong: ")
    text = " ".join(quick("check", *bank.arguments).out.split())
    assert "book: credits, debits" in text
    assert "Group book stores" in text
    run_once(bank)
    told = json.loads(quick("status", "--json", *bank.arguments).out)["views"]
    assert list(told) == ["book"]
    assert told["book"]["members"] == {"credits": 1, "debits": 1}
    text = " ".join(quick("status", *bank.arguments).out.split())
    assert "book: credits, debits stand together at version 2" in text


def test_one_statement_reads_members_at_one_commit(
    bank: Bank, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there is a commit while it is being prepared."""
    from headwater.pipeline.queries import query_views

    run_once(bank)
    asked = "SELECT d.total, c.total FROM debits d, credits c"
    of = GroupTable.at

    def at(self: GroupTable, number: int | None = None) -> Any:
        found = of(self, number)
        monkeypatch.undo()
        bank.transfer(1)
        run_once(bank)
        return found

    monkeypatch.setattr(GroupTable, "at", at)
    assert query_views(bank.project, lambda: spark, asked, 9)[1] == [(7, 7)]
    assert query_views(bank.project, lambda: spark, asked, 9)[1] == [(15, 15)]
    old = "SELECT d.total, c.total FROM debits VERSION AS OF 1 d, credits VERSION AS OF 1 c"
    assert query_views(bank.project, lambda: spark, old, 9)[1] == [(7, 7)]
    with pytest.raises(HeadwaterError, match="there is no view book"):
        query_views(bank.project, lambda: spark, "SELECT * FROM book", 9)


def test_commands_about_a_member_are_about_the_group(bank: Bank) -> None:
    run_once(bank)
    bank.transfer(1)
    run_once(bank)
    out = quick("changes", "debits", "1", "--json", *bank.arguments).out
    assert [json.loads(line) for line in out.splitlines()] == [
        {"n": 1, "total": 7, "_change": -1},
        {"n": 2, "total": 15, "_change": 1},
    ]
    for command in (("fold", "debits"), ("verify", "debits")):
        out = quick(*command, *bank.arguments).out
        assert "debits is in the group book, whose views move together: credits, debits" in out
        assert "✓ book" in out
    assert bank.group.member("credits").at().is_published
    with pytest.raises(InputError, match="'headwater drop book' removes the whole group"):
        quick("drop", "debits", *bank.arguments)
    assert "✓ book" in quick("drop", "book", *bank.arguments).out
    assert not bank.warehouse.view_names()
    run_once(bank)
    assert summed(bank.group.states()["credits"]) == (2, 15)


def test_verification_names_the_member_that_is_wrong(bank: Bank) -> None:
    run_once(bank)
    with bank.group.writer("intruder") as writer:
        stored = bank.group.at().signed_rows()
        some = next(row for row in stored if row[0] == 1)
        writer.commit(Rows.of(stored.schema, [some]), bank.group.latest().vector)
    found = verify_view(bank.project, "debits", no_spark)
    assert (found.view, found.holds, found.place) == ("credits", False, "")


@pytest.fixture
def loaded(bank: Bank) -> Bank:
    run_once(bank)
    return bank


def test_a_new_member_asks_for_a_reload_and_is_there_then(
    loaded: Bank, spark: SparkSession
) -> None:
    loaded.put_view("transfers", "IN GROUP book")
    with pytest.raises(InputError, match=r"View transfers is new in group book.*reload book"):
        run_once(loaded)
    assert summed(loaded.group.states()["debits"]) == (1, 7)
    runner = Runner(loaded.project, lambda: spark, only=["book"], anew=["book"])
    api.keep_running(runner, once=True, stop=threading.Event())
    assert set(loaded.warehouse.view("transfers").rows()) == {(0, 7, 7)}
    loaded.view_file("debits").unlink()
    with pytest.raises(InputError, match=r"View debits is no longer in group book.*reload book"):
        run_once(loaded)


def test_a_runner_loads_a_group_anew_when_asked(loaded: Bank, spark: SparkSession) -> None:
    with running(loaded, spark) as runner:
        wait_until(lambda: runner.views["book"].state == "running")
        loaded.put_view("transfers", "IN GROUP book")
        wait_until(lambda: runner.views["book"].state == "stopped")
        out = quick("reload", "transfers", *loaded.arguments).out
        assert "transfers is in the group book" in out
        loaded.transfer(1)
        wait_until(lambda: loaded.count("debits") == 2)
        assert len(set(loaded.warehouse.view("transfers").rows())) == 2


def test_a_view_by_itself_joins_a_group_when_it_was_dropped(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "project", {"debits": "", "credits": "IN GROUP book"})
    run_once(bank)
    bank.put_view("debits", "IN GROUP book")
    with pytest.raises(InputError, match=r"debits is in the warehouse by itself.*drop debits"):
        run_once(bank)
    quick("drop", "debits", *bank.arguments)
    with pytest.raises(InputError, match="View debits is new in group book"):
        run_once(bank)
    runner = Runner(bank.project, no_spark, only=["book"], anew=["book"])
    api.keep_running(runner, once=True, stop=threading.Event())
    assert set(bank.group.states()) == set(BOTH)
