"""Loading views anew: checked first, aside, in one step; files that change beside a runner."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError, InputError
from headwater.pipeline import kept_views
from headwater.pipeline.maintain import Obtained
from headwater.pipeline.requests import ask_runner
from headwater.pipeline.spark_jobs import SparkJobs
from headwater.pipeline.verify import verify_view
from tests.cli.commands import failing, quick
from tests.pipeline.small import (
    AMOUNTS,
    LIMIT_S,
    NOTES,
    VIEWS,
    Small,
    running,
    wait_until,
)


def contents_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What other views need


def test_a_view_loses_nothing_while_another_is_reloaded(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.write("shop", "UPDATE orders SET note = 'changed' WHERE id = 1")
    assert quick("reload", "amounts", *small.arguments).code == 0
    small.run(spark)
    assert small.rows("notes") == {(1, "changed"), (2, "b")}


def test_a_view_whose_file_was_away_for_a_run_loses_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.view_file("notes").rename(tmp_path / "notes.sql")
    small.write("shop", "UPDATE orders SET note = 'changed' WHERE id = 1")
    small.run(spark)
    (tmp_path / "notes.sql").rename(small.view_file("notes"))
    small.run(spark)
    assert small.rows("notes") == {(1, "changed"), (2, "b")}


# Checked first


def test_a_reload_of_a_view_with_a_mistake_touches_nothing(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "amuont FROM"))
    before = contents_of(small.warehouse.path)
    refused = failing(monkeypatch, capsys, "reload", "amounts", *small.arguments)
    assert refused.code == 2
    assert "amounts.sql:1:48: there is no column amuont" in refused.err
    assert contents_of(small.warehouse.path) == before


BROKEN = "CREATE MATERIALIZED VIEW notes AS SELECT FROM WHERE"


def test_a_sound_view_is_reloaded_while_the_file_of_another_is_broken(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.view_file("notes").write_text(BROKEN)
    small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "amount, state FROM"))
    assert quick("reload", "amounts", *small.arguments).code == 0
    assert small.rows("amounts") == {(1, 10, "new"), (2, 20, "new")}
    with pytest.raises(InputError, match=r"notes\.sql"):
        quick("reload", "notes", *small.arguments)
    small.write("shop", "UPDATE orders SET note = 'changed' WHERE id = 1")
    small.view_file("notes").write_text(NOTES)
    small.run(spark)
    assert small.rows("notes") == {(1, "changed"), (2, "b")}


def test_a_view_that_two_files_define_is_not_reloaded(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    small.view_file("other").write_text(AMOUNTS)
    with pytest.raises(InputError, match="view amounts is defined in"):
        quick("reload", "amounts", *small.arguments)


def test_a_reload_of_a_view_that_is_not_there_names_those_that_are(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small = Small(tmp_path)
    refused = failing(monkeypatch, capsys, "reload", "amount", *small.arguments)
    assert refused.code == 2
    assert refused.err.startswith("headwater: The project has no view amount. It has amounts, "), (
        refused.err
    )


def test_a_load_that_fails_leaves_the_table_as_it_was(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.write("shop", "INSERT INTO orders VALUES (3, 'not a number', 'c', 'new')")
    with pytest.raises(HeadwaterError, match="does not fit"):
        quick("reload", "amounts", *small.arguments)
    assert small.rows("amounts") == {(1, 10), (2, 20)}


# In one step


def test_versions_go_on_counting_and_old_ones_can_be_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    before = small.warehouse.view("amounts").latest().number
    small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "amount, state FROM"))
    assert quick("reload", "amounts", *small.arguments).code == 0
    assert small.rows("amounts") == {(1, 10, "new"), (2, 20, "new")}
    assert small.warehouse.view("amounts").latest().number > before
    assert small.rows("amounts", before) == {(1, 10), (2, 20)}
    small.write("shop", "UPDATE orders SET state = 'sent' WHERE id = 2")
    small.run(spark)
    assert small.rows("amounts") == {(1, 10, "new"), (2, 20, "sent")}


# Beside a runner


def test_a_runner_loads_a_view_anew_and_says_so_when_it_is_done(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "amount, state FROM"))
        assert quick("reload", "amounts", *small.arguments).code == 0
        assert small.rows("amounts") == {(1, 10, "new"), (2, 20, "new")}
        small.write("shop", "UPDATE orders SET state = 'sent' WHERE id = 2")
        wait_until(lambda: small.rows("amounts") == {(1, 10, "new"), (2, 20, "sent")})


def test_a_runner_reloads_a_sound_view_while_the_file_of_another_is_broken(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.view_file("notes").write_text(BROKEN)
        small.view_file("amounts").write_text(AMOUNTS.replace("amount FROM", "amount, state FROM"))
        assert quick("reload", "amounts", *small.arguments).code == 0
        assert small.rows("amounts") == {(1, 10, "new"), (2, 20, "new")}
        small.write("shop", "UPDATE orders SET note = 'changed' WHERE id = 1")
        wait_until(lambda: small.rows("notes") == {(1, "changed"), (2, "b")})
        wait_until(lambda: "notes.sql" in runner.describe()["views"]["notes"]["message"])


def test_a_reload_that_the_runner_cannot_do_fails(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.write("shop", "INSERT INTO orders VALUES (3, 'not a number', 'c', 'new')")
        with pytest.raises(HeadwaterError, match="does not fit"):
            quick("reload", "amounts", *small.arguments)
        assert small.rows("amounts") == {(1, 10), (2, 20)}


def test_two_reloads_of_a_view_at_once_are_both_answered(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        with ThreadPoolExecutor(3) as pool:
            reload = [pool.submit(ask_runner, small.project, "reload", "amounts") for _ in range(3)]
            assert all(one.result(LIMIT_S) for one in reload)


def test_who_waits_for_a_view_whose_file_is_removed_is_told(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path)
    halted = threading.Event()

    def load(*_: object) -> Obtained:
        halted.wait(LIMIT_S)
        raise HeadwaterError("It was halted.")

    with running(small, spark) as runner, ThreadPoolExecutor(1) as pool:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        monkeypatch.setattr(kept_views, "load_view", load)
        monkeypatch.setattr(SparkJobs, "cancel", lambda *_: halted.set())
        reload = pool.submit(ask_runner, small.project, "reload", "notes")
        wait_until(lambda: runner.views["notes"].state == "loading")
        small.view_file("notes").unlink()
        with pytest.raises(HeadwaterError, match="The file of view notes is gone"):
            reload.result(LIMIT_S)


def test_a_new_view_file_is_taken_up_by_a_runner(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["amounts"].state == "running")
        small.write("shop", "UPDATE orders SET note = 'before' WHERE id = 1")
        small.view_file("notes").write_text(NOTES)
        wait_until(lambda: "notes" in small.warehouse.view_names(), runner.describe)
        small.write("shop", "UPDATE orders SET note = 'after' WHERE id = 2")
        wait_until(lambda: small.rows("notes") == {(1, "before"), (2, "after")}, runner.describe)


def test_a_view_file_that_is_removed_beside_a_runner_stops_its_view_and_keeps_its_table(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.view_file("notes").unlink()
        wait_until(lambda: "notes" not in runner.views)
        small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"))
        assert small.rows("notes") == {(1, "a"), (2, "b")}
        found = json.loads(quick("status", "--json", *small.arguments).out)
        assert found["views"]["notes"]["state"] == "no file"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("CREATE MATERIALISED VIEW more AS SELECT 1", "more.sql:1:8"),
        ("CREATE MATERIALIZED VIEW more AS SELECT /*+ x ' */ id FROM shop.orders", "more.sql:1:34"),
        ("CREATE MATERIALIZED VIEW more AS AS", "more.sql:1:34"),
    ],
)
def test_a_view_file_with_a_mistake_beside_a_runner_is_told_and_nothing_else_happens(
    tmp_path: Path, spark: SparkSession, text: str, place: str
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.view_file("more").write_text(text)
        wait_until(lambda: place in str(runner.describe()["views"].get("more")))
        wait_until(lambda: quick("status", *small.arguments).code == 1)
        assert place in quick("status", *small.arguments).out.replace("\n", "")
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"))


def test_a_select_that_changes_beside_a_runner_stops_its_view_until_it_is_reloaded(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, VIEWS)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.view_file("amounts").write_text(AMOUNTS + " WHERE amount > 15")
        wait_until(lambda: runner.views["amounts"].state == "stopped")
        assert "Run headwater reload amounts" in runner.views["amounts"].message
        small.write("shop", "UPDATE orders SET note = 'later' WHERE id = 1")
        wait_until(lambda: (1, "later") in small.rows("notes"))
        assert quick("reload", "amounts", *small.arguments).code == 0
        assert small.rows("amounts") == {(2, 20)}


# Columns that are not logged yet


def test_a_new_view_that_needs_a_column_which_is_not_logged_stops_alone(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    quick("setup", "shop", *small.arguments)
    small.project.sources["shop"].teardown()
    quick("setup", "shop", *small.arguments)
    small.run(spark)
    small.view_file("notes").write_text(NOTES)
    small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
    with pytest.raises(HeadwaterError, match="headwater setup shop"):
        small.run(spark)
    assert small.rows("amounts") == {(1, 11), (2, 20)}
    assert quick("setup", "shop", *small.arguments).code == 0
    small.run(spark)
    assert small.rows("notes") == {(1, "a"), (2, "b")}


def test_columns_of_a_table_that_no_view_uses_are_nobodys_concern(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    small.write("shop", "CREATE TABLE other (id INTEGER PRIMARY KEY, a TEXT, b TEXT)")
    settings = tmp_path / "headwater.toml"
    settings.write_text(settings.read_text().replace("['orders']", "['orders', 'other']"))
    small.project.sources["shop"].teardown()
    assert quick("setup", "shop", *small.arguments).code == 0
    small.run(spark)
    small.write("shop", "ALTER TABLE other RENAME COLUMN a TO c")
    small.write("shop", "ALTER TABLE other DROP COLUMN b")
    small.write("shop", "INSERT INTO other VALUES (1, 'x')", "UPDATE orders SET amount = 11")
    small.run(spark)
    assert small.rows("amounts") == {(1, 11), (2, 11)}


def test_a_view_is_verified_over_a_table_with_columns_that_no_view_uses(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    small.run(spark)
    assert verify_view(small.project, "amounts", lambda: spark).holds
    assert verify_view(small.project, "amounts", spark).holds


def test_check_tells_that_a_view_was_changed_since_it_was_loaded(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    small.view_file("amounts").write_text(AMOUNTS + " WHERE amount > 15")
    found = quick("check", *small.arguments)
    assert found.code == 2
    assert "Run headwater reload amounts" in found.err.replace("\n", " ")
