"""How a run looks: a table that renews itself, lines where nobody looks on, JSON for machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headwater.cli.output import console, print_json

if TYPE_CHECKING:
    from headwater.pipeline.runner import Runner

_LINE_S = 10.0
_STATES = {"running": "green", "loading": "cyan", "waiting": "yellow", "stopped": "bold red"}


@contextmanager
def show(runner: Runner, as_json: bool = False) -> Iterator[Callable[[], None]]:
    """A function that renews what is shown."""
    if as_json:
        yield _Changes(runner, lambda name, view: print_json({"view": name, **view}))
    elif not sys.stdout.isatty():
        out = console()
        yield _Changes(runner, lambda name, view: out.print(_line(name, view)))
    else:
        started = time.monotonic()
        with Live(console=console(), refresh_per_second=8, transient=True) as live:
            yield lambda: live.update(display(runner.describe(), started))


class _Changes:
    """Tells when a view's state changes, and how it goes every few seconds."""

    def __init__(self, runner: Runner, tell: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._runner = runner
        self._tell = tell
        self._states: dict[str, str] = {}
        self._next = time.monotonic() + _LINE_S

    def __call__(self) -> None:
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + _LINE_S
        for name, view in self._runner.describe()["views"].items():
            if due or self._states.get(name) != view["state"]:
                self._states[name] = view["state"]
                self._tell(name, view)


def _line(name: str, view: Mapping[str, Any]) -> str:
    shown = f"{name}: {view['state']}"
    if view.get("message"):
        return f"{shown}: {view['message']}"
    if read := view.get("rows_read"):
        return f"{shown}, {sum(read.values()):,} rows read"
    if "commits" in view:
        shown += f", {view['commits']:,} commits, {view['rows']:,} changed rows"
    if fresh := view.get("freshness_ms"):
        shown += f", {fresh['median']:.0f} ms behind (99%: {fresh['p99']:.0f} ms)"
    return shown


def display(found: Mapping[str, Any], started: float) -> Group:
    """Views and sources as tables, with what goes wrong below."""
    views = Table(box=None, padding=(0, 2, 0, 0), title="Views", title_justify="left")
    for column in ("view", "level", "algorithm", "state"):
        views.add_column(column)
    for column in ("commits", "changed rows", "behind by", "freshness"):
        views.add_column(column, justify="right")
    for name, view in found["views"].items():
        views.add_row(name, *_cells(view))
    sources = Table(box=None, padding=(0, 2, 0, 0), title="Sources", title_justify="left")
    sources.add_column("source")
    sources.add_column("transactions", justify="right")
    sources.add_column("in the change log", justify="right")
    for name, source in found["sources"].items():
        sources.add_row(name, f"{source['read']:,}", f"{source['logged']:,}")
    elapsed = Text(f"{time.monotonic() - started:.0f} s; Ctrl-C stops", style="dim")
    troubles = [
        Text(f"✗ {text}", style="red")
        for text in (
            *(f"{n}: {v['message']}" for n, v in found["views"].items() if v.get("message")),
            *(s["trouble"] for s in found["sources"].values() if s.get("trouble")),
        )
    ]
    return Group(views, Text(), sources, Text(), *troubles, elapsed)


def _cells(view: Mapping[str, Any]) -> list[Text | str]:
    state = Text(view["state"], style=_STATES.get(view["state"], ""))
    if read := view.get("rows_read"):
        state.append(f" {sum(read.values()):,} rows")
    lag = view.get("lag") or {}
    fresh = view.get("freshness_ms")
    return [
        view.get("level", ""),
        view.get("algorithm", ""),
        state,
        f"{view.get('commits', 0):,}",
        f"{view.get('rows', 0):,}",
        f"{sum(lag.values()):,}",
        f"{fresh['median']:.1f} ms (99%: {fresh['p99']:.0f})" if fresh else "",
    ]
