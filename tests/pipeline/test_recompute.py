"""Views for which so much waits that they are recomputed: at once, in one step, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import LostConnectionError
from headwater.pipeline import kept_views, load
from headwater.pipeline.runner import Runner
from headwater.sources.channel import Channel
from headwater.warehouse.commits import ViewCommit
from tests.pipeline.small import Small, running, wait_until

JOINED = (
    "SELECT o.id, o.amount, c.name FROM shop.orders AS o JOIN crm.customers AS c ON o.amount = c.id"
)


def view(clauses: str, select: str = JOINED, name: str = "bought") -> dict[str, str]:
    return {name: f"CREATE MATERIALIZED VIEW {name} {clauses} AS {select}"}


def many(first: int, count: int) -> str:
    rows = ", ".join(f"({at}, 1, 'x', 'new')" for at in range(first, first + count))
    return f"INSERT INTO orders VALUES {rows}"


def commits(small: Small, name: str = "bought") -> list[ViewCommit]:
    """Oldest first, with those that changed what is shown."""
    found = list(small.warehouse.view(name).commits())[::-1]
    return [commit for commit in found if commit.kind in ("load", "change")]


def kinds(small: Small, name: str = "bought") -> list[str]:
    return [commit.kind for commit in commits(small, name)]


def expected(first: int, count: int) -> set[tuple[object, ...]]:
    return {(at, 1, "Ada") for at in range(first, first + count)}


@pytest.mark.parametrize(
    "clauses",
    [
        "",
        "KEEP COPY OF crm.customers",
        "KEEP KEYS USING t-strobe",
        "USING pvm-cc (p = 2)",
        "WITH CONVERGENCE",
        "WITH CHANGES",
        "IN GROUP g",
    ],
)
def test_however_it_is_kept_what_is_large_is_recomputed_and_what_is_small_is_not(
    tmp_path: Path, spark: SparkSession, clauses: str
) -> None:
    name = "g" if "GROUP" in clauses else "bought"
    small = Small(tmp_path, view(f"{clauses} RECOMPUTE FROM 5 ROWS"))
    with running(small, spark) as runner:
        wait_until(lambda: runner.views[name].state == "running")
        small.write("shop", many(10, 2))
        wait_until(lambda: small.rows("bought") == expected(10, 2))
        small.write("shop", many(20, 9))
        wait_until(lambda: small.rows("bought") == expected(10, 2) | expected(20, 9))
        small.write("shop", "DELETE FROM orders WHERE id = 10")
        wait_until(lambda: small.rows("bought") == expected(11, 1) | expected(20, 9))
        wait_until(lambda: runner.views[name].state == "running")
        note = runner.views[name].note
    assert kinds(small, name) == ["load", "change", "load", "change"]
    assert "It was recomputed at" in note
    assert "9 changed rows waited, and its file says RECOMPUTE FROM 5 ROWS." in note


@pytest.mark.parametrize("clauses", ["RECOMPUTE NEVER", "", "WITH COMPLETE CONSISTENCY"])
def test_a_view_is_not_recomputed_where_its_file_or_its_level_or_the_cost_says_so(
    tmp_path: Path, spark: SparkSession, clauses: str
) -> None:
    small = Small(tmp_path, view(clauses))
    small.run(spark)
    small.write("shop", many(10, 2000))
    small.run(spark)
    assert small.rows("bought") == expected(10, 2000)
    assert kinds(small) == ["load", "change"]


def test_a_view_that_waits_for_a_part_is_not_recomputed_for_what_waits_behind_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, view("RECOMPUTE FROM 5 ROWS"))
    tag = "INSERT INTO _headwater_global (id, parts) VALUES ('g', 2)"
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["bought"].state == "running")
        maintained = runner.views["bought"].maintainer
        assert maintained is not None
        small.write("shop", many(10, 1), tag)
        wait_until(lambda: list(maintained.holding) == ["g"])
        small.write("shop", many(20, 9))
        wait_until(lambda: maintained.burden.waiting({}) == {"shop.orders": 10})
        small.write("crm", "INSERT INTO customers VALUES (2, 'Bo')", tag)
        wait_until(lambda: small.rows("bought") == expected(10, 1) | expected(20, 9))
        assert runner.views["bought"].maintainer is maintained
    assert "load" not in kinds(small)[1:]


def test_a_backlog_of_small_transactions_is_recomputed_as_a_whole(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, view("RECOMPUTE FROM 100 ROWS"))
    small.run(spark)
    for at in range(150):
        small.write("shop", many(10 + at, 1))
    small.run(spark)
    assert small.rows("bought") == expected(10, 150)
    assert kinds(small) == ["load", "load"]


def test_readers_keep_the_old_state_until_the_new_one_is_there_in_one_step(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, view("RECOMPUTE FROM 5 ROWS"))
    seen: list[set[tuple[object, ...]]] = []
    put = load._Attempt._put

    def look(self: load._Attempt, *arguments: object) -> object:
        if small.warehouse.has_view("bought"):
            seen.append(small.rows("bought"))
        return put(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(load._Attempt, "_put", look)
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["bought"].state == "running")
        small.write("shop", many(10, 9))
        wait_until(lambda: small.rows("bought") == expected(10, 9))
    assert seen == [set()]
    first, second = commits(small)
    assert second.number > first.number
    assert second.vector["shop"].number > first.vector["shop"].number


def test_nothing_is_thrown_away_while_a_source_is_down(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load could not begin, so what can be done meanwhile is done."""
    small = Small(tmp_path, view("RECOMPUTE FROM 5 ROWS"))
    small.run(spark)
    down = LostConnectionError("Source crm: it is down.")
    monkeypatch.setattr(Channel, "trouble", property(lambda self: down))
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["bought"].state == "running")
        small.write("shop", many(10, 9))
        wait_until(lambda: small.rows("bought") == expected(10, 9))
    assert kinds(small) == ["load", "change"]


def test_a_view_that_cannot_be_recomputed_is_maintained(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, view("RECOMPUTE FROM 5 ROWS"))
    small.run(spark)
    monkeypatch.setattr("headwater.pipeline.life.RETRY_S", 0.05)

    def refuse(*_: object) -> None:
        raise LostConnectionError("Source crm: it is down.")

    monkeypatch.setattr(kept_views, "load_view", refuse)
    with running(small, spark):
        small.write("shop", many(10, 9))
        wait_until(lambda: small.rows("bought") == expected(10, 9))
    assert kinds(small) == ["load", "change"]


def test_a_stop_just_before_a_view_is_recomputed_is_no_failure(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, view("RECOMPUTE FROM 5 ROWS"))
    small.run(spark)
    runner = Runner(small.project, lambda: spark)
    runner.start()  # and nobody supervises it
    try:
        small.write("shop", many(10, 9))
        maintainer = runner.views["bought"].maintainer
        assert maintainer is not None
        wait_until(lambda: not maintainer.is_running)
    finally:
        runner.stop()
    assert not runner.failures
    small.run(spark)
    assert small.rows("bought") == expected(10, 9)


def test_what_loads_and_large_batches_took_is_known_to_the_next_run(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, view(""))
    small.run(spark)
    small.write("shop", many(10, 6000))
    small.run(spark)
    statistics = Runner(small.project, lambda: spark)._gatherer.statistics
    assert statistics.loads["bought"].rows == 3
    assert 0.0 < statistics.paces["bought"] <= 20.0
