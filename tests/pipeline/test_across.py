"""Parts of transactions across databases that wait, never come, or are tagged wrong."""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from headwater.pipeline.api import run_project
from headwater.pipeline.requests import ask_runner
from headwater.pipeline.runner import Runner
from headwater.pipeline.status import describe, troubles, waiting_parts
from headwater.pipeline.verify import verify_view
from headwater.protocol.transactions import Tag
from headwater.warehouse.change_records import Change
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.warehouse import Warehouse
from tests.pipeline.small import Small, wait_until
from tests.pipeline.world import wait_for
from tests.warehouse.test_small import no_spark

BOTH = (
    "CREATE MATERIALIZED VIEW both_ AS SELECT o.id, o.amount, c.name FROM shop.orders o "
    "JOIN crm.customers c ON c.id = o.id"
)
ONE = "CREATE MATERIALIZED VIEW one AS SELECT id, amount FROM shop.orders"
SHOP, CRM = "UPDATE orders SET amount = 11 WHERE id = 1", "UPDATE customers SET name = 'Eva'"
BEFORE, AFTER = {(1, 10, "Ada")}, {(1, 11, "Eva")}
ALONE = {(1, 11, "Ada")}


def tag(name: str, parts: object = 2) -> str:
    return f"INSERT INTO _headwater_global (id, parts) VALUES ('{name}', {parts!r})"


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path, {"both_": BOTH, "one": ONE})


def with_settings(small: Small, wait: str, late: str = "release") -> Small:
    path = small.folder / "headwater.toml"
    text = path.read_text().partition("[global]")[0]
    path.write_text(f"{text}\n[global]\nwait = '{wait}'\nlate = '{late}'\n")
    return small


@contextmanager
def running(small: Small) -> Iterator[Runner]:
    runner = Runner(small.project, no_spark)
    runner.start()
    try:
        wait_for(runner, lambda: all(v.state == "running" for v in runner.views.values()))
        yield runner
    finally:
        runner.stop()


def shows(small: Small, view: str, rows: Collection[tuple[object, ...]]) -> Callable[[], bool]:
    return lambda: small.rows(view) == rows


def holds(runner: Runner, view: str) -> bool:
    maintainer = runner.views[view].maintainer
    return maintainer is not None and list(maintainer.holding) == ["g"]


def reload(runner: Runner, small: Small) -> None:
    """What `headwater reload both_` asks of the runner."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_runner, small.project, "reload", "both_")
        while not asked.done():
            runner.supervise()
        assert asked.result()


def wait_stopped(runner: Runner) -> None:
    def is_stopped() -> bool:
        runner.supervise()
        return runner.views["both_"].is_stopped

    wait_until(is_stopped)


def versions(small: Small) -> Iterator[set[tuple[object, ...]]]:
    """What each version of the view over both has shown."""
    for commit in small.warehouse.view("both_").commits():
        yield small.rows("both_", commit.number)


def test_a_held_part_is_named_and_holds_back_only_who_must_wait(small: Small) -> None:
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        wait_for(runner, partial(holds, runner, "both_"))
        wait_for(runner, shows(small, "one", {(1, 11), (2, 20)}))
        assert small.rows("both_") == BEFORE
        runner.supervise()
        wait_for(runner, lambda: bool(describe(small.project)["global"]["waiting"]))
        (told,) = waiting_parts(describe(small.project))
        assert "'g' 1 of 2 parts are there (transaction 1 of shop)" in told
        assert told.endswith("for the others wait: both_.")
        small.write("crm", CRM, tag("g"))
        wait_for(runner, shows(small, "both_", AFTER))
    assert verify_view(small.project, "both_", no_spark).holds
    assert all(not commit.split for commit in small.warehouse.view("both_").commits())


def test_parts_that_come_in_two_runs_are_shown_together(small: Small) -> None:
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        wait_for(runner, partial(holds, runner, "both_"))
    assert small.rows("both_") == BEFORE
    with running(small) as runner:
        wait_for(runner, partial(holds, runner, "both_"))
        small.write("crm", CRM, tag("g"))
        wait_for(runner, shows(small, "both_", AFTER))
    assert all(rows in (BEFORE, AFTER) for rows in versions(small))


def test_a_part_that_is_released_is_told_and_the_other_is_taken_by_itself_later(
    small: Small,
) -> None:
    with_settings(small, "100 ms")
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        wait_for(runner, shows(small, "both_", ALONE))
        assert small.warehouse.view("both_").latest().split == ("g",)
        wait_for(runner, lambda: "by itself" in runner.describe()["views"]["both_"]["note"])
    with_settings(small, "10 minutes")
    with running(small) as runner:
        small.write("crm", CRM, tag("g"))
        wait_for(runner, shows(small, "both_", AFTER))
    assert verify_view(small.project, "both_", no_spark).holds


def test_a_view_that_stops_instead_goes_on_when_the_part_has_come(small: Small) -> None:
    with_settings(small, "100 ms", "stop")
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        stopped = runner.views["both_"]
        wait_stopped(runner)
        assert "there is transaction 1 of shop" in stopped.message
        assert 'late = "release"' in stopped.message
        assert "headwater reload both_" in stopped.message
        reload(runner, small)  # too early
        wait_stopped(runner)
        assert "there is transaction 1 of shop" in stopped.message
        assert small.rows("both_") == BEFORE
        small.write("crm", CRM, tag("g"))
        reload(runner, small)
        wait_for(runner, shows(small, "both_", AFTER))
    assert all(rows in (BEFORE, AFTER) for rows in versions(small))


def test_a_load_and_a_new_view_show_no_half_while_a_part_is_held(small: Small) -> None:
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        wait_for(runner, partial(holds, runner, "both_"))
        reload(runner, small)
        small.view_file("another").write_text(BOTH.replace("both_", "another"))
        wait_for(runner, lambda: "another" in runner.views)
        wait_for(runner, lambda: all(v.state == "running" for v in runner.views.values()))
        assert small.rows("both_") == small.rows("another") == BEFORE
        small.write("crm", CRM, tag("g"))
        for view in ("both_", "another"):
            wait_for(runner, shows(small, view, AFTER))
    for view in ("both_", "another"):
        table = small.warehouse.view(view)
        assert all(small.rows(view, c.number) in (BEFORE, AFTER) for c in table.commits())
        assert verify_view(small.project, view, no_spark).holds


def test_a_wrong_tag_is_told_and_stops_nobody(small: Small) -> None:
    with running(small) as runner:
        small.write("shop", SHOP, tag("g", "two"))
        wait_for(runner, shows(small, "both_", ALONE))
        runner._write_status()
        told = troubles(describe(small.project))
        assert any("has a tag that cannot be read: its number of parts is not" in t for t in told)


def test_run_once_waits_for_a_part_as_long_as_settings_say(small: Small) -> None:
    with_settings(small, "300 ms")
    with running(small):
        pass
    small.write("shop", SHOP, tag("g"))
    run_project(small.project, once=True)
    assert small.rows("both_") == ALONE


def test_tags_are_in_the_change_log(small: Small) -> None:
    with running(small) as runner:
        small.write("shop", SHOP, tag("g"))
        small.write("crm", CRM, tag("g"))
        wait_for(runner, shows(small, "both_", AFTER))
    logs = [ChangeLog(Warehouse(small.project.warehouse).changes, s) for s in ("shop", "crm")]
    changes = [r for log in logs for r in log.read() if isinstance(r, Change)]
    assert [r.transaction.tags for r in changes] == [(Tag("g", 2),)] * 2


def test_parts_that_cancel_out_while_nobody_reads_are_still_parts(small: Small) -> None:
    """SQLite reports both as one, which changes nothing; the parts of the shop go together too."""
    with running(small):
        pass
    own = _own_prefix(small)
    ends = f"INSERT OR IGNORE INTO {own}border SELECT seq FROM {own}head"
    small.write("shop", SHOP, tag("g"), ends)
    small.write("shop", SHOP.replace("11", "12"), tag("h"), ends)
    small.write("crm", CRM, tag("g"))
    small.write("crm", CRM.replace("Eva", "Ada"), tag("h"))
    with running(small) as runner:
        wait_for(runner, shows(small, "both_", {(1, 12, "Ada")}))
    assert all(rows in (BEFORE, {(1, 12, "Ada")}) for rows in versions(small))
    log = ChangeLog(Warehouse(small.project.warehouse).changes, "crm")
    (change,) = [record for record in log.read() if isinstance(record, Change)]
    assert change.transaction.tags == (Tag("g", 2), Tag("h", 2))
    assert (change.transaction.deltas, len(change.transaction.updates)) == ({}, 1)


def _own_prefix(small: Small) -> str:
    connection = sqlite3.connect(small.folder / "shop.db")
    (name,) = connection.execute(
        "SELECT name FROM sqlite_master WHERE name LIKE '\\_headwater\\_%\\_border' ESCAPE '\\'"
    ).fetchone()
    connection.close()
    return str(name).removesuffix("border")
