"""Many views on one runner: threads and commits follow what happens, not how many there are."""

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from headwater.pipeline import kept_views
from headwater.pipeline.maintain import Obtained
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.warehouse.notes import write_notes
from tests.pipeline.small import AMOUNTS, NAMES, Small, running, wait_until

MANY = 60


def named(number: int) -> str:
    return f"CREATE MATERIALIZED VIEW n{number} AS SELECT id, name FROM crm.customers"


def test_a_view_has_no_thread_of_its_own(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path, {f"n{number}": named(number) for number in range(MANY)})
    with running(small, spark) as found:
        wait_until(lambda: all(s.state == "running" for s in found.views.values()))
        small.write("crm", "UPDATE customers SET name = 'Grace' WHERE id = 1")
        wait_until(lambda: all(small.rows(name) == {(1, "Grace")} for name in found.views))
        assert threading.active_count() < MANY


def test_what_does_not_concern_a_view_costs_it_no_commit_and_it_comes_along(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS, "names": NAMES, "both": BOTH})
    small.run(spark)
    loaded = {name: commits(small, name) for name in ("names", "both")}
    with running(small, spark) as found:
        wait_until(lambda: all(s.state == "running" for s in found.views.values()))
        for amount in range(40):
            small.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 2")
        wait_until(lambda: (2, 39) in small.rows("amounts"))
        end = found.feeds["shop"].channel.end
        wait_until(lambda: small.warehouse.view("both").latest().vector["shop"].number >= end)
        assert found.describe()["views"]["both"]["lag"] == {"crm": 0, "shop": 0}
    assert commits(small, "names") == loaded["names"] + 1  # it was opened once more
    assert small.rows("both") == {("Ada", 10)}
    assert verify_view(small.project, "both", spark).holds


BOTH = """
    CREATE MATERIALIZED VIEW both AS
    SELECT c.name, o.amount FROM crm.customers c JOIN shop.orders o ON o.id = c.id
"""


def commits(small: Small, view: str) -> int:
    return small.warehouse.view(view).latest().number


def test_a_view_that_waits_for_its_load_is_stopped_at_once(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()

    def load(*arguments: object) -> Obtained:
        held.wait(600)
        raise HeadwaterError("It was let go.")

    monkeypatch.setattr(kept_views, "load_view", load)
    monkeypatch.setattr(kept_views, "_LOADS", 1)
    small = Small(tmp_path, {"amounts": AMOUNTS, "names": NAMES})
    found = Runner(small.project, lambda: spark)
    found.start()
    try:
        first, second = found.views.values()
        maintainer = second.maintainer
        assert maintainer is not None
        maintainer.stop()
        assert not maintainer.is_running
        assert first.maintainer is not None
        assert first.maintainer.is_running
    finally:
        held.set()
        found.stop()


def test_a_view_goes_on_from_its_note_and_without_it(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS, "names": NAMES})
    small.run(spark)
    small.write("crm", "INSERT INTO customers VALUES (2, 'Grace')")
    small.run(spark)
    write_notes(small.warehouse.internal, {})
    small.write("shop", "UPDATE orders SET amount = 7 WHERE id = 1")
    small.write("crm", "DELETE FROM customers WHERE id = 1")
    small.run(spark)
    assert small.rows("names") == {(2, "Grace")}
    assert small.rows("amounts") == {(1, 7), (2, 20)}
