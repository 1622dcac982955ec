"""How a run looks: a table that renews itself, lines where nobody looks on, JSON for machines."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headwater.pipeline.status import unpublished
from headwater.terminal.output import LEVEL_STYLES, Terminal, console, plain, print_json

LINES_S = 10.0
_STATES = {"running": "green", "loading": "cyan", "waiting": "yellow", "stopped": "bold red"}
_LATE_MS = 1000.0
_RATE_OVER_S = 5.0


@contextmanager
def show(as_json: bool = False) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that renews what is shown, from how everything stands."""
    if as_json:
        yield Changes(lambda name, view: print_json({"view": name, **view}))
    elif not sys.stdout.isatty():
        out = console()
        yield Changes(lambda name, view: out.print(line(name, view)))
    else:
        began = time.monotonic()
        screen = Screen()
        with live() as shown:

            def refresh(found: Mapping[str, Any]) -> None:
                elapsed = Text(f"{time.monotonic() - began:.0f} s; Ctrl-C stops", style="dim")
                shown.update(Group(screen.tables(found), elapsed), refresh=True)

            yield refresh


def live(transient: bool = True) -> Live:
    """What is shown is renewed in place, and only when it is told to be."""
    return Live(console=Terminal(highlight=False), auto_refresh=False, transient=transient)


class Changes:
    """Tells when a view's state changes, and every few seconds what else has."""

    def __init__(
        self, tell: Callable[[str, Mapping[str, Any]], None], every_s: float = LINES_S
    ) -> None:
        self._tell = tell
        self._every_s = every_s
        self._told: dict[str, Mapping[str, Any]] = {}
        self._next = time.monotonic() + every_s

    def __call__(self, found: Mapping[str, Any]) -> None:
        due = time.monotonic() >= self._next
        if due:
            self._next = time.monotonic() + self._every_s
        for name, view in found["views"].items():
            before = self._told.get(name, {})
            if view != before and (due or view["state"] != before.get("state")):
                self._told[name] = view
                self._tell(name, view)


def line(name: str, view: Mapping[str, Any]) -> str:
    """How a view stands, on one line."""
    shown = f"{name}: {view['state']}"
    if view.get("message"):
        return f"{shown}: {view['message']}"
    if view.get("rows_read"):
        return f"{shown}, {read_so_far(view)}"
    if view["state"] != "running" and view.get("note"):
        return f"{shown}: {view['note']}"
    if "commits" in view and view["state"] == "running":
        shown += f", {view['commits']:,} commits, {view['rows']:,} changed rows"
    if (published := view.get("published")) and published.get("number"):
        shown += f", published up to version {published['number']}"
    if fresh := view.get("freshness_ms"):
        shown += f", {milliseconds(fresh['median'])} behind (99%: {milliseconds(fresh['p99'])})"
    return shown


def shared(share: Mapping[str, Any]) -> str:
    """How publishing stands, on one line."""
    owed = len(share["owed"])
    of = f"; {owed:,} {'booster is' if owed == 1 else 'boosters are'} owed" if owed else ""
    return f"shared by {share['node'] or share['folder']}: {share['objects']:,} objects{of}"


def read_so_far(view: Mapping[str, Any]) -> str:
    """What was read for a load: of how many rows, how fast, and how long it will take."""
    rows, told = sum(view["rows_read"].values()), view.get("progress") or {}
    if not told.get("of"):
        return f"{rows:,} rows read" + (f", {told['rows_per_s']:,} a second" if told else "")
    if rows >= told["of"]:
        return f"{rows:,} rows read, now joining and writing"
    left = "" if told["left_s"] is None else f", {duration(told['left_s'])} left to read"
    return f"{rows:,} of about {told['of']:,} rows read, {told['rows_per_s']:,} a second{left}"


def duration(seconds: float) -> str:
    """As people say it: seconds, minutes, or hours and minutes."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def milliseconds(value: float) -> str:
    """With as many digits as say something; seconds where there are some."""
    value, unit = (value, "ms") if value < 1000 else (value / 1000, "s")
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"


class Screen:
    """Views and sources as tables; columns keep their places while the figures grow."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, dict[str, int]]] = deque()

    def tables(self, found: Mapping[str, Any]) -> Group:
        """Everything that a runner describes, with what goes wrong below."""
        troubles = [
            Padding(plain(f"✗ {text}", "red"), (0, 0, 1, 0))
            for text in (
                *(f"{n}: {v['message']}" for n, v in found["views"].items() if v.get("message")),
                *(s["trouble"] for s in found["sources"].values() if s.get("trouble")),
                *unpublished(found),
            )
        ]
        tables: list[RenderableType] = [self._views(found), Text(), self._sources(found), Text()]
        if share := found.get("share"):
            tables += [Text(shared(share), style="dim"), Text()]
        return Group(*tables, *troubles)

    def _views(self, found: Mapping[str, Any]) -> Table:
        table = _table()
        table.add_column("view", min_width=11, no_wrap=True, overflow="ellipsis")
        for column, width in (("level", 8), ("algorithm", 9), ("state", 14)):
            table.add_column(column, min_width=width, no_wrap=True)
        widths = {"commits": 7, "changes": 9, "behind by": 9, "freshness": 9, "99%": 7}
        for column, width in widths.items():
            table.add_column(column, min_width=width, justify="right", no_wrap=True)
        for name, view in found["views"].items():
            table.add_row(plain(name, "bold"), *_cells(view))
        return table

    def _sources(self, found: Mapping[str, Any]) -> Table:
        table = _table()
        table.add_column("source", min_width=11, no_wrap=True, overflow="ellipsis")
        for column, width in {"transactions": 12, "a second": 9, "in the change log": 17}.items():
            table.add_column(column, min_width=width, justify="right", no_wrap=True)
        rates = self._rates({name: source["read"] for name, source in found["sources"].items()})
        for name, source in found["sources"].items():
            style = "bold red" if source.get("trouble") else "bold"
            cells = f"{source['read']:,}", f"{rates[name]:.0f}", f"{source['logged']:,}"
            table.add_row(plain(name, style), *cells)
        return table

    def _rates(self, counts: dict[str, int]) -> dict[str, float]:
        """How fast counts have grown lately."""
        now = time.monotonic()
        self._counts.append((now, counts))
        while now - self._counts[0][0] > _RATE_OVER_S:
            self._counts.popleft()
        then, before = self._counts[0]
        passed = max(now - then, 0.001)
        return {n: (count - before.get(n, count)) / passed for n, count in counts.items()}


def _table() -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")


def _cells(view: Mapping[str, Any]) -> list[Text]:
    state = Text(view["state"], style=_STATES.get(view["state"], ""))
    if read := view.get("rows_read"):
        state.append(f" {_share(sum(read.values()), view.get('progress') or {})}")
    level = view.get("level", "")
    behind = sum((view.get("lag") or {}).values())
    return [
        Text(level, style=LEVEL_STYLES.get(level, "")),
        Text(view.get("algorithm", "")),
        state,
        Text(f"{view.get('commits', 0):,}"),
        Text(f"{view.get('rows', 0):,}"),
        Text(f"{behind:,}", style="" if behind else "dim"),
        *(_freshness(view.get("freshness_ms"), name) for name in ("median", "p99")),
    ]


def _share(rows: int, told: Mapping[str, Any]) -> str:
    """How much of a load was read, as short as it can be told."""
    if not told.get("of"):
        return f"{rows:,}"
    left = "" if told["left_s"] is None else f", {duration(told['left_s'])}"
    return f"{min(100, 100 * rows // told['of'])}%{left}"


def _freshness(fresh: Mapping[str, float] | None, name: str) -> Text:
    if not fresh:
        return Text("")
    style = "green" if fresh[name] < _LATE_MS else "yellow"
    return Text(milliseconds(fresh[name]), style=style)
