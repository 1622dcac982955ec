"""When a view is refreshed: at an update, at a quantity of them, by a clock, when asked."""

import time
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.pipeline.idling import IDLE_S
from headwater.pipeline.runner import Runner
from headwater.project.project import Project
from tests.cli.commands import quick
from tests.pipeline.small import Small, supervised, wait_until
from tests.warehouse.test_small import no_spark

SELECT = "SELECT o.amount, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.id"


def small_with(tmp_path: Path, using: str) -> Small:
    header = f"CREATE MATERIALIZED VIEW v USING rings-star ({using.partition(';')[0]})"
    return Small(tmp_path, {"v": f"{header} {using.partition(';')[2]} AS {SELECT}"})


def is_running(runner: Runner) -> bool:
    return runner.views["v"].state == "running"


def amounts(small: Small) -> set[object]:
    return {amount for amount, _ in small.rows("v")}


def update(small: Small, amount: int) -> None:
    small.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 1")


@pytest.mark.parametrize("using", ["refresh = update", "refresh = quantity, every = 2"])
def test_an_update_is_shown_by_itself(tmp_path: Path, using: str) -> None:
    small = small_with(tmp_path, using)
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: is_running(runner))
        update(small, 11)
        wait_until(lambda: amounts(small) == {11})


def test_with_query_nothing_is_shown_until_a_reader_asks(tmp_path: Path) -> None:
    small = small_with(tmp_path, "refresh = query")
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: is_running(runner))
        update(small, 11)
        feed = runner.feeds["shop"]
        wait_until(lambda: feed.channel.end == 1)
        time.sleep(4 * IDLE_S)  # long enough for what must not happen
        assert amounts(small) == {10}
        done = quick("refresh", "v", *small.arguments)
        assert done.code == 0, done
        assert amounts(small) == {11}
        update(small, 12)
        wait_until(lambda: feed.channel.end == 2)
        assert amounts(small) == {11}


def test_by_a_clock_a_view_is_shown_once_in_a_period(tmp_path: Path) -> None:
    small = small_with(tmp_path, "refresh = period; REFRESH EVERY '1 second'")
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: is_running(runner))
        for amount in range(20, 30):
            update(small, amount)
        wait_until(lambda: amounts(small) == {29})
        assert small.warehouse.view("v").latest().number <= 4


def test_who_asks_once_does_not_end_the_collecting(tmp_path: Path) -> None:
    header = "CREATE MATERIALIZED VIEW v REFRESH EVERY '1 hour' AS"
    small = Small(tmp_path, {"v": f"{header} {SELECT}"})
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: is_running(runner))
        for amount in (11, 12):
            update(small, amount)
            done = quick("refresh", "v", *small.arguments)
            assert done.code == 0, done
            assert amounts(small) == {amount}
        update(small, 13)
        wait_until(lambda: runner.feeds["shop"].channel.end == 3)
        time.sleep(4 * IDLE_S)  # long enough for what must not happen
        assert amounts(small) == {12}


def test_a_view_that_is_always_at_work_is_found_to_have_come_far_enough(tmp_path: Path) -> None:
    """Under steady changes a worker is at it whenever somebody looks."""
    small = Small(tmp_path, {"v": f"CREATE MATERIALIZED VIEW v AS {SELECT}"})
    with supervised(Runner(small.project, no_spark)) as runner:
        wait_until(lambda: is_running(runner))
        update(small, 11)
        wait_until(lambda: runner.reach({"shop": 1}))
        maintainer = runner.views["v"].maintainer
        assert maintainer is not None
        with maintainer._owned:
            assert runner.reach({"shop": 1})
            assert not runner.reach({"shop": 2})


def test_a_run_once_shows_everything_whoever_asks(tmp_path: Path) -> None:
    small = small_with(tmp_path, "refresh = query")
    for amount in (11, 12):
        update(small, amount)
        small.project.run(once=True)
        assert amounts(small) == {amount}


def test_a_period_without_its_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing says how long the period is"):
        Project.open(small_with(tmp_path, "refresh = period").folder)


def test_a_period_is_refused_where_only_readers_count(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="whatever REFRESH EVERY says"):
        Project.open(small_with(tmp_path, "refresh = query; REFRESH EVERY '1 second'").folder)


def test_a_refresh_without_a_runner_says_what_to_do(tmp_path: Path) -> None:
    small = small_with(tmp_path, "refresh = query")
    with pytest.raises(Exception, match="No runner is at work"):
        quick("refresh", "v", *small.arguments)


def test_a_refresh_of_a_view_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    small = small_with(tmp_path, "refresh = query")
    with supervised(Runner(small.project, no_spark)), pytest.raises(InputError, match="It has v"):
        quick("refresh", "w", *small.arguments)
