"""The Lord of the Rings (2002), sections 4.2 and 4.4: latency and messages, ring and star.

Latency in the paper's units, where every message takes one and processing none, and by the clock
over node processes; messages beside those of SWEEP and Strobe, counted alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from headwater.bench.papers.frame import Experiment, Figure, Record, Report, Size
from headwater.bench.papers.rings_counted import (
    COMPARED,
    PROTOCOLS,
    Latency,
    Traffic,
    measure_latency,
    measure_traffic,
)
from headwater.bench.papers.rings_nodes import measure
from headwater.bench.plots import Lines, Panel

Point = tuple[float, float]


def run(size: Size, report: Report) -> Sequence[Figure]:
    """Latency, traffic, and the clock."""
    items = (2, 3, 4, 6, 8) if size.full else (2, 3)
    report("latency")
    latencies = [measure_latency(name, n) for n in items for name in PROTOCOLS]
    report("messages")
    traffic = [measure_traffic(name, n) for name in COMPARED for n in items if n <= 6]
    figures = [_visits(latencies), _messages(traffic)]
    return [*figures, _clock((2, 3, 4) if size.full else (2,), 15 if size.full else 2, report)]


def _visits(found: Sequence[Latency]) -> Figure:
    equal = sum(each.one_visits == each.one_paper for each in found)
    star = [each for each in found if each.algorithm == "rings-star"]
    items = sorted({each.items for each in found})
    lines: Lines = {
        "paper: 2n (ring; star, all items)": [(n, 2 * n) for n in items],
        "paper: n (star, one update)": [(n, n) for n in items],
    }
    dots = {
        "ring, one update or all": [(e.items, e.one_visits) for e in found if e not in star],
        "star, one update": [(each.items, each.one_visits) for each in star],
        "star, all items": [(each.items, each.all_visits) for each in star],
    }
    panel = Panel(
        "4.2, 4.4: latency in visits of the token",
        ("items n", "visits until it is in the view"),
        lines,
        dots=dots,
        dots_are="",
    )
    return Figure(
        "latency",
        "Latency in visits of the token (paper), and in messages, worst case",
        "Ring: 2n time units, for one update and for one of each item; star: n for one update, "
        "2n for one of each item.",
        f"For one update {equal} of {len(found)} are the paper's, if visits of the token are "
        "counted. If every message takes a unit, the ring takes 2n + 1, because of the increment's "
        "message, which the paper names and does not count; the star's visits are two messages "
        f"each, and the request is one: 2n + 1, {star[-1].one} for n = {star[-1].items}. So the "
        "star is no faster, but silent when nothing happens. All at once take the star one visit "
        "less than is printed.",
        {
            "protocol": "{algorithm}",
            "n": "{items}",
            "one, visits (paper)": "{one_visits} ({one_paper})",
            "one, messages": "{one}",
            "all, visits (paper)": "{all_visits} ({all_paper})",
            "all, messages": "{all}",
        },
        [asdict(each) for each in found],
        [panel],
    )


def _messages(found: Sequence[Traffic]) -> Figure:
    panels = [
        Panel(
            f"messages per update, {title}",
            ("items n", "messages per update"),
            _lines(found, member),
        )
        for title, member in (("far apart", "quiet_messages"), ("all at once", "busy_messages"))
    ]
    most = max(each.items for each in found)
    last = {each.algorithm: each for each in found if each.items == most}
    return Figure(
        "messages",
        "What travels per update, far apart / all at once",
        "The star sends a finite number of messages for each update and nothing otherwise; with "
        "all items updated the average cost is 2 time units an update.",
        f"With {most} items and updates far apart the star sends "
        f"{last['rings-star'].quiet_messages:.1f} messages for each, the ring "
        f"{last['rings'].quiet_messages:.1f}, for the rounds in which its "
        f"token finds nothing, SWEEP {last['sweep'].quiet_messages:.1f}. All at once, three of "
        f"each item: star {last['rings-star'].busy_messages:.1f}, ring "
        f"{last['rings'].busy_messages:.1f}, SWEEP {last['sweep'].busy_messages:.1f}.",
        {
            "algorithm": "{algorithm}",
            "n": "{items}",
            "messages": "{quiet_messages:.1f} / {busy_messages:.1f}",
            "bytes of rows": "{quiet_bytes:,.0f} / {busy_bytes:,.0f}",
        },
        [asdict(each) for each in found],
        panels,
    )


def _lines(found: Sequence[Traffic], member: str) -> Lines:
    return {
        name: [(each.items, getattr(each, member)) for each in found if each.algorithm == name]
        for name in COMPARED
    }


def _clock(items: Sequence[int], rounds: int, report: Report) -> Figure:
    found: list[tuple[int, str, float, float]] = []
    for n in items:
        for name in PROTOCOLS:
            report(f"{name}, {n} node processes")
            late = measure(name, n, rounds)
            found.append((n, name, round(late.one, 1), round(late.all, 1)))
    records: list[Record] = [
        {"protocol": name, "n": n, "one_ms": one, "all_ms": all_} for n, name, one, all_ in found
    ]
    lines: dict[str, list[Point]] = {}
    for n, name, one, all_ in found:
        lines.setdefault(f"{name}, one update", []).append((n, one))
        lines.setdefault(f"{name}, all items", []).append((n, all_))
    axes = ("items n", "milliseconds, median")
    panel = Panel("by the clock, node processes beside SQLite", axes, lines)
    told = ", ".join(f"{one:.0f} ms ({name}, n = {n})" for n, name, one, _ in found)
    return Figure(
        "clock",
        "From a commit to the view over node processes, medians in milliseconds",
        "Not measured in the paper.",
        "Each node is a process beside a database of its own, all on one machine; messages between "
        "nodes go through the runner, and the view's commit is on disk. One update is in the view "
        f"after {told}.",
        {"protocol": "{protocol}", "n": "{n}", "one update": "{one_ms}", "all items": "{all_ms}"},
        records,
        [panel],
        {"rounds": rounds},
    )


EXPERIMENT = Experiment(
    "rings",
    "The Lord of the Rings (2002)",
    run,
    "takes up to eight items, and four node processes",
)
