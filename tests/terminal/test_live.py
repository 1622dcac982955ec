"""How a run is shown: figures that keep their places, and lines only where there is news."""

import io
from typing import Any

import pytest
from rich.console import Console

from headwater.terminal.live import Changes, Screen, duration, line, milliseconds

RUNNING = {
    "state": "running",
    "message": "",
    "algorithm": "sweep",
    "level": "strong",
    "commits": 1234,
    "rows": 56789,
    "lag": {"crm": 1, "shop": 2},
    "freshness_ms": {"median": 12.34, "p99": 2345.6},
}
LOADING = {"state": "loading", "message": "", "rows_read": {"crm.customers": 2000, "shop.x": 1}}
HALF = {
    **LOADING,
    "progress": {"rows": 2001, "of": 8000, "rows_per_s": 500, "left_s": 12.0},
}
ALL = {**HALF, "progress": {"rows": 2001, "of": 2001, "rows_per_s": 500, "left_s": 0.0}}
STOPPED = {"state": "stopped", "message": "The disk is full."}


def found(**views: dict[str, Any]) -> dict[str, Any]:
    sources = {"crm": {"read": 7, "logged": 6, "trouble": None}}
    return {"views": views, "sources": sources}


def drawn(described: dict[str, Any]) -> list[str]:
    out = Console(file=io.StringIO(), width=100)
    out.print(Screen().tables(described))
    assert isinstance(out.file, io.StringIO)
    return [text.rstrip() for text in out.file.getvalue().splitlines()]


def test_a_view_is_one_line_of_a_hundred_columns() -> None:
    head, row, *_ = drawn(found(order_lines=RUNNING))
    shown = "order_lines strong sweep running 1,234 56,789 3 12 ms 2.3 s"
    assert row.split() == shown.split(" ")
    assert len(head) <= 100


def test_figures_keep_their_places_while_they_grow() -> None:
    small = drawn(found(v={**RUNNING, "commits": 1, "rows": 2}))
    large = drawn(found(v={**RUNNING, "commits": 9_999, "rows": 999_999}))
    assert small[0] == large[0]
    assert len(small[1]) == len(large[1])


def test_what_goes_wrong_stands_below() -> None:
    assert "✗ a: The disk is full." in drawn(found(a=STOPPED, b=RUNNING))


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (RUNNING, "v: running, 1,234 commits, 56,789 changed rows, 12 ms behind (99%: 2.3 s)"),
        (LOADING, "v: loading, 2,001 rows read"),
        (HALF, "v: loading, 2,001 of about 8,000 rows read, 500 a second, 12 s left to read"),
        (ALL, "v: loading, 2,001 rows read, now joining and writing"),
        (STOPPED, "v: stopped: The disk is full."),
    ],
)
def test_a_view_on_one_line(view: dict[str, Any], text: str) -> None:
    assert line("v", view) == text


def test_a_load_shows_how_much_is_read_and_how_long_it_takes() -> None:
    assert "loading 25%, 12 s" in drawn(found(v=HALF))[1]


@pytest.mark.parametrize(
    ("seconds", "told"), [(4.4, "4 s"), (89, "89 s"), (600, "10 min"), (7500, "2 h 5 min")]
)
def test_durations_are_told_as_people_do(seconds: float, told: str) -> None:
    assert duration(seconds) == told


def test_only_news_is_told() -> None:
    told: list[tuple[str, str]] = []
    changes = Changes(lambda name, view: told.append((name, view["state"])), every_s=0)
    for view in (LOADING, LOADING, RUNNING, RUNNING, {**RUNNING, "commits": 1235}):
        changes(found(v=view))
    assert told == [("v", "loading"), ("v", "running"), ("v", "running")]


def test_between_two_times_only_states_are_told() -> None:
    told: list[str] = []
    changes = Changes(lambda name, view: told.append(view["state"]), every_s=3600)
    for view in (LOADING, RUNNING, {**RUNNING, "commits": 1235}, STOPPED):
        changes(found(v=view))
    assert told == ["loading", "running", "stopped"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.42, "0.4 ms"), (42.4, "42 ms"), (1500, "1.5 s"), (61_000, "61 s")]
)
def test_times_have_as_many_digits_as_say_something(value: float, text: str) -> None:
    assert milliseconds(value) == text
