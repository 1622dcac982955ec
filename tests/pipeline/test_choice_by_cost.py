"""A run leaves statistics behind, and the next one chooses by them, without a reload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT, Row
from headwater.costs.statistics import (
    Prices,
    RelationStatistics,
    SourceStatistics,
    Spent,
    Statistics,
)
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from headwater.pipeline.gathering import Gatherer
from headwater.pipeline.observed import kinds_of
from headwater.pipeline.runner import Runner
from headwater.pipeline.tally import about_bytes
from headwater.pipeline.verify import verify_view
from headwater.project.inspection import inspect
from headwater.project.measured import FILE, read_statistics, write_statistics
from tests.pipeline.small import Small, supervised, wait_until
from tests.warehouse.test_small import no_spark

OWNED = """
CREATE MATERIALIZED VIEW owned {} AS
SELECT o.id, c.id AS customer, c.name, o.amount FROM shop.orders o
JOIN crm.customers c ON c.id = o.amount
"""
SUMS = """
CREATE MATERIALIZED VIEW owned {} AS
SELECT c.name, sum(o.amount) AS amount FROM shop.orders o
JOIN crm.customers c ON c.id = o.amount GROUP BY c.name
"""
DELETIONS = Statistics(
    {
        "shop.orders": RelationStatistics(rows=1000, inserts=0.0, deletes=1.0, updates=0.0),
        "crm.customers": RelationStatistics(rows=1000, inserts=0.0, deletes=0.0, updates=0.0),
    },
    {name: SourceStatistics(question_s=0.05, observed_s=60.0) for name in ("shop", "crm")},
)
"""Such that deleting by key is much cheaper than asking."""


def maintained(small: Small, *statements: tuple[str, str]) -> str:
    """Run a view over these changes; the algorithm that maintained it."""
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: runner.views["owned"].state == "running", lambda: runner.failures)
        for database, statement in statements:
            small.write(database, statement)
        targets = runner.targets()
        wait_until(lambda: runner.reach(targets), lambda: runner.failures)
        maintainer = runner.views["owned"].maintainer
        assert maintainer is not None
        algorithm = maintainer.plan.algorithm
    assert verify_view(small.project, "owned", no_spark).holds
    return algorithm


def internal(small: Small) -> Path:
    return small.warehouse.internal


CHANGES = (
    ("crm", "INSERT INTO customers VALUES (10, 'Bea')"),
    ("shop", "INSERT INTO orders VALUES (3, 10, 'c', 'new')"),
    ("shop", "UPDATE orders SET amount = 10 WHERE id = 2"),
    ("shop", "DELETE FROM orders WHERE id = 1"),
)


def test_a_run_leaves_statistics_behind(tmp_path: Path) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    assert maintained(small, *CHANGES) == "sweep"
    found = read_statistics(internal(small))
    assert not found.is_observed(("shop", "crm"))  # too little has happened
    orders = found.relations["shop.orders"]
    assert orders.inserts == orders.deletes == orders.updates > 0
    assert found.sources["shop"].transactions > found.sources["crm"].transactions > 0
    assert found.sources["crm"].question_s != SourceStatistics().question_s


def test_what_a_look_up_takes_is_known_though_no_algorithm_made_any(tmp_path: Path) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: runner.views["owned"].state == "running", lambda: runner.failures)
        maintainer = runner.views["owned"].maintainer
        assert maintainer is not None
        gatherer = Gatherer(
            small.warehouse, lambda: [maintainer], small.project.sources.__getitem__
        )
        gatherer.look()
        for change in CHANGES[:2]:
            small.write(*change)
        targets = runner.targets()
        wait_until(lambda: runner.reach(targets), lambda: runner.failures)
        gatherer.finish([maintainer])
        assert not maintainer.observed.look_ups_s
    assert gatherer.statistics.prices.look_up_s != Prices().look_up_s
    assert gatherer.statistics.prices.commit_s != Prices().commit_s


def test_the_next_run_chooses_by_them_without_a_reload(tmp_path: Path) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    assert maintained(small, *CHANGES[:2]) == "sweep"
    loaded = small.warehouse.view("owned").latest().number
    write_statistics(internal(small), DELETIONS)
    assert maintained(small, *CHANGES[2:]) == "t-strobe"
    commits = list(small.warehouse.view("owned").commits())
    assert {c.algorithm for c in commits} == {"sweep", "t-strobe"}
    assert max(commit.number for commit in commits) > loaded
    assert small.rows("owned") == {(2, 10, "Bea", 10), (3, 10, "Bea", 10)}


def test_what_a_view_has_cost_is_forgotten_when_it_is_loaded_anew(tmp_path: Path) -> None:
    small = Small(tmp_path, {"owned": OWNED.format("")})
    spent = {"owned": {"copies": Spent(0.0, 0.0, 0.001, 100)}}
    maintained(small, *CHANGES[:1])
    write_statistics(internal(small), replace(read_statistics(internal(small)), spent=spent))
    maintained(small, *CHANGES[1:2])
    assert read_statistics(internal(small)).spent == spent
    small.warehouse.drop("owned")
    small.view_file("owned").write_text(OWNED.format("").replace("o.amount FROM", "o.note FROM"))
    maintained(small, *CHANGES[2:])
    assert "copies" not in read_statistics(internal(small)).spent.get("owned", {})


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"format": 1}', b"\xff"])
def test_damaged_statistics_are_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE).write_bytes(damage)
    assert read_statistics(tmp_path).to_json() == Statistics().to_json()


def test_another_stored_form_is_never_taken_by_itself(tmp_path: Path) -> None:
    small = Small(tmp_path, {"owned": SUMS.format("")})
    write_statistics(internal(small), DELETIONS)
    assert maintained(small, *CHANGES[:2]) not in ("t-strobe", "g-strobe")
    small.view_file("owned").write_text(SUMS.format("KEEP KEYS"))
    write_statistics(internal(small), DELETIONS)
    assert maintained(small, *CHANGES[2:3]) not in ("t-strobe", "g-strobe")
    write_statistics(internal(small), DELETIONS)
    found = inspect(small.folder)
    assert not found.problems
    (view,) = found.views
    told = "after headwater reload owned it would be maintained by t-strobe"
    assert any(told in caution for caution in view.cautions)


def test_kinds_of_changes_are_told_apart() -> None:
    schema = Schema.of([("id", INT), ("amount", INT)])
    delta = Rows(schema, {(1, 1): 1, (2, 1): 1, (1, 2): -1})
    assert kinds_of(delta) == {"inserts": 1, "deletes": 0, "updates": 1}


class Unread(Columns):
    """Columns of which nobody may want every row one by one."""

    def __getattr__(self, name: str) -> dict[Row, int]:
        raise AssertionError("every row of a large change was looked at, only to count")


def test_what_is_counted_of_large_changes_and_answers_looks_at_few_rows() -> None:
    schema = Schema.of([("id", INT), ("amount", INT)])
    rows = Rows(schema, {(number, 5): 1 for number in range(5000)})
    large = Unread(schema, Columns.of_rows(rows).table)
    assert kinds_of(large) == {"inserts": 5000}
    assert about_bytes(large) == about_bytes(rows) > 5000


def test_answers_that_spark_holds_have_bytes_too(spark: SparkSession) -> None:
    schema = Schema.of([("id", INT), ("amount", INT)])
    rows = Rows(schema, {(number, 5): 1 for number in range(100)})
    assert about_bytes(Frame.of_rows(spark, rows)) == about_bytes(rows) == 1600
    assert about_bytes(Rows.empty(schema)) == 0
