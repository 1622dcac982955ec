"""What `status` says, and its exit code, when not all is well."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.pipeline.runner import Runner
from headwater.warehouse.changes import ChangeLog
from tests.cli.commands import quick
from tests.pipeline.small import AMOUNTS, Small, running, supervised, wait_until
from tests.warehouse.test_small import no_spark


def test_without_a_runner_it_is_not_known_how_far_behind_views_are(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    found = quick("status", "--json", *small.arguments)
    assert found.code == 3
    assert json.loads(found.out)["views"]["amounts"]["lag"] == {"shop": None}
    assert "unknown" in quick("status", *small.arguments).out


def test_with_a_runner_and_no_trouble_all_is_well(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        wait_until(lambda: quick("status", *small.arguments).code == 0)

        def told() -> Any:
            return json.loads(quick("status", "--json", *small.arguments).out)

        wait_until(lambda: told()["views"]["amounts"]["lag"] == {"shop": 0})
        assert told()["troubles"] == []


def test_a_source_that_is_gone_is_told(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        (tmp_path / "crm.db").rename(tmp_path / "away.db")
        wait_until(lambda: quick("status", *small.arguments).code == 1)
        found = quick("status", *small.arguments).out
        assert "Source crm" in found
        assert "Source shop" not in found


def test_a_damaged_change_log_is_told(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    small.run(spark)
    (segment,) = (small.warehouse.changes.local / "shop").glob("*.log")
    segment.write_bytes(b"something else" + segment.read_bytes())
    found = quick("status", *small.arguments)
    assert found.code == 1
    assert "headwater repair shop" in found.out.replace("\n", " ")


def test_a_database_that_is_damaged_is_told_also_if_the_runner_has_not_noticed(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["amounts"].state == "running")
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"))
        file = small.folder / "shop.db"
        file.write_bytes(b"x" * len(file.read_bytes()))
        done = quick("status", *small.arguments)
    assert done.code == 1
    assert "shop" in done.out


def test_check_says_that_views_cannot_go_on_from_what_lies_in_the_warehouse(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    small.run(spark)
    small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
    small.run(spark)
    assert quick("check", *small.arguments).code == 0
    shutil.rmtree(small.warehouse.changes.local)
    found = quick("check", *small.arguments)
    assert found.code == 2
    assert "headwater repair shop" in found.err.replace("\n", " ")


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_view_that_goes_on_while_it_is_looked_at_is_not_ahead_of_its_log(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: runner.views["amounts"].state == "running")
        scan = ChangeLog.scan

        def and_then_somebody_writes(log: ChangeLog) -> None:
            scan(log)
            small.write("shop", "UPDATE orders SET amount = amount + 1 WHERE id = 1")
            wait_until(lambda: runner.feeds["shop"].channel.end > log.end)
            wait_until(lambda: runner.reach({"shop": runner.feeds["shop"].channel.end}))

        monkeypatch.setattr(ChangeLog, "scan", and_then_somebody_writes)
        done = quick(command, *small.arguments)
    assert "headwater repair" not in (done.out + done.err).replace("\n", " ")
