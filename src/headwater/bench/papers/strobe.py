"""Consistency Algorithms for Multi-Source Warehouse View Maintenance (1998), sections 7 and 9.

The paper measures nothing; it bounds what C-Strobe asks, says when the family is cheap, and names
four enhancements and a trade-off that its authors would like to explore. Here they are counted, in
virtual time, where a question takes one unit and messages none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import factorial

from headwater.bench.papers.frame import Experiment, Figure, Record, Report, Size
from headwater.bench.papers.strobe_counted import (
    Flow,
    Gain,
    at_two_sources,
    compensating,
    cost,
    one_update_at_a_time,
    orders,
    random_references,
    under_updates,
)
from headwater.bench.plots import Lines, Mark, Panel
from headwater.lab.generate import chain

Point = tuple[float, float]
COMPARED = ("conventional", "strobe", "t-strobe", "c-strobe", "c-t-strobe", "sweep")


def run(size: Size, report: Report) -> Sequence[Figure]:
    """Section 7's bounds, and what section 9 says of efficiency."""
    updates = 72 if size.full else 36
    report("C-Strobe's questions")
    figures = [_bounds(range(2, 7 if size.full else 5))]
    report("continuous updates")
    figures.append(_continuous(updates))
    report("enhancements")
    figures.append(_gains(range(100 if size.full else 20), size.seed))
    report("batches")
    return [*figures, _batches(updates)]


# Section 7


def _bounds(relations: Sequence[int]) -> Figure:
    records: list[dict[str, int]] = [
        {
            "n": n,
            "by_set": compensating(n, "set"),
            "bound": 2 ** (n - 1) - 2,
            "by_order": compensating(n, "order"),
            "printed": factorial(n - 1),
        }
        for n in relations
    ]
    held = all(r["by_set"] == r["bound"] for r in records)
    broken = [r for r in records if r["by_order"] > r["printed"]]
    names = {
        "bound": "2^(n-1) - 2, which holds",
        "printed": "(n-1)!, as printed",
    }
    counted = {"by_set": names["bound"], "by_order": names["printed"]}
    panel = Panel(
        "section 7: C-Strobe's compensating questions for one insertion",
        ("relations n", "questions"),
        {title: [(r["n"], r[member]) for r in records] for member, title in names.items()},
        dots={title: [(r["n"], r[member]) for r in records] for member, title in counted.items()},
        dots_are="counted: by set (lower), by order (upper)",
    )
    told = ", ".join(f"{r['by_order']} > {r['printed']} for n = {r['n']}" for r in broken)
    return Figure(
        "7",
        "C-Strobe's compensating questions for one insertion, all other rows deleted meanwhile",
        "At most K^(n-2) for K updates between a question and its answer; grouped by relation at "
        "most (n-1)!.",
        f"Grouped as the paper says, by the order of relations, there are more: {told}. For K = 1 "
        f"and n = 4 there are {one_update_at_a_time()} > 1. The printed bounds count the last "
        "level only. Grouped by the set of relations replaced, at most 2^(n-1) - 2 are asked"
        + (", and that many are." if held else "."),
        {
            "n": "{n}",
            "by set, counted": "{by_set}",
            "2^(n-1) - 2": "{bound}",
            "by order, counted": "{by_order}",
            "(n-1)!": "{printed}",
        },
        [dict(record) for record in records],
        [panel],
    )


# Section 9


def _continuous(updates: int) -> Figure:
    intervals = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
    found = {name: [(i, under_updates(name, updates, i)) for i in intervals] for name in COMPARED}
    records: list[Record] = [
        {"algorithm": name, "interval": i, **asdict(flow)}
        for name, flows in found.items()
        for i, flow in flows
    ]
    last = {name: flows[-1][1] for name, flows in found.items()}
    busy = {name: flows[1][1] for name, flows in found.items()}
    panels = [
        Panel(
            f"section 9: {title}",
            ("interval between updates, in questions", axis),
            _curves(found, member),
            marks=[Mark("an insertion's two questions", x=2.0)],
        )
        for title, axis, member in (
            ("lateness under continuous updates", "late, in questions", "late"),
            ("messages under continuous updates", "messages per update", "messages"),
        )
    ]
    return Figure(
        "9 (continuous updates)",
        "Messages per update and lateness, by the interval between updates",
        "Where updates are far apart the Strobe algorithms are as efficient as conventional ones; "
        "Strobe and T-Strobe update the view only when no question is unanswered, C-Strobe after "
        "every update.",
        f"At an interval of 4 Strobe sends {last['strobe'].messages:.1f} messages per update, "
        f"C-Strobe {last['c-strobe'].messages:.1f} and the conventional algorithm, which is wrong "
        f"once updates overlap, {last['conventional'].messages:.1f}; they are "
        f"{last['strobe'].late:.1f}, {last['c-strobe'].late:.1f} and "
        f"{last['conventional'].late:.1f} late. At 0.5 Strobe changes the view "
        f"{busy['strobe'].steps} time for {updates} updates, at the end, {busy['strobe'].late:.1f} "
        f"late on the average; C-Strobe {busy['c-strobe'].steps} times, but as it takes one update "
        f"after the other it falls behind: {busy['c-strobe'].late:.1f} late, with "
        f"{busy['c-strobe'].messages:.1f} messages per update.",
        {
            "algorithm": "{algorithm}",
            "interval": "{interval:g}",
            "messages": "{messages:.2f}",
            "late": "{late:.1f}",
            "latest": "{latest:.1f}",
            "changes of the view": "{steps}",
        },
        records,
        panels,
        {"updates": updates, "relations": 3},
    )


def _curves(found: Mapping[str, Sequence[tuple[float, Flow]]], member: str) -> Lines:
    """Those that are alike go together."""
    curves: dict[tuple[Point, ...], list[str]] = {}
    for name, flows in found.items():
        line = tuple((x, float(getattr(flow, member))) for x, flow in flows)
        curves.setdefault(line, []).append(name)
    return {", ".join(names): line for line, names in curves.items()}


def _gains(seeds: Sequence[int], seed: int) -> Figure:
    plain: Mapping[str, str] = {}
    random = random_references(seeds)
    four, two = chain(4, 12, deletions=False), at_two_sources(12)
    new = orders()
    measured: list[tuple[str, str, str, Gain, Gain]] = [
        (
            item,
            what,
            on,
            cost(before, plain, seed),
            cost(after, settings, seed),
        )
        for item, what, on, before, after, settings in (
            ("1", "group what one source is asked", "four relations at four, at two sources",
             [four], [two], plain),
            ("1", "order of sources (order = least)", "random references", random, random,
             {"order": "least"}),
            ("1", "partners alone travel (fetch = on)", "random references", random, random,
             {"fetch": "on"}),
            ("2", "batches of 4", "random references", random, random, {"batch": "4"}),
            ("2", "batches of 4", "new orders", [new], [new], {"batch": "4"}),
            ("3", "key information (local = on)", "random references", random, random,
             {"local": "on"}),
            ("3", "key information (local = on)", "new orders", [new], [new], {"local": "on"}),
            ("4", "copies of customers and regions", "new orders", [new], [orders(copies=True)],
             plain),
        )
    ]  # fmt: skip
    records: list[Record] = [
        {
            "item": item,
            "enhancement": what,
            "on": on,
            "messages": before.messages,
            "messages_with": after.messages,
            "bytes": before.bytes,
            "bytes_with": after.bytes,
            "messages_saved": 1 - after.messages / before.messages,
            "bytes_saved": 1 - after.bytes / before.bytes,
        }
        for item, what, on, before, after in measured
    ]
    return Figure(
        "9 (enhancements)",
        "What section 9's enhancements gain: messages and bytes of answers per update, by Strobe",
        "1 order and grouping, 2 batches, 3 key information, 4 copies: each can improve efficiency "
        "substantially.",
        "; ".join(
            f"{r['enhancement']} ({r['on']}): {r['messages_saved']:.0%} of messages and "
            f"{r['bytes_saved']:.0%} of bytes saved"
            for r in records
        )
        + ". A gain below zero is a loss.",
        {
            "item": "{item}",
            "enhancement": "{enhancement}",
            "on": "{on}",
            "messages": "{messages:.2f} → {messages_with:.2f}",
            "bytes": "{bytes:,.0f} → {bytes_with:,.0f}",
        },
        records,
    )


def _batches(updates: int) -> Figure:
    sizes = (1, 2, 4, 8, 16, 32)
    intervals = (0.25, 0.5, 1.0)
    ways = (
        ("c-strobe", "every", "waits until so many are there"),
        ("sweep", "batch", "takes what waits, at most so many"),
        ("t-strobe", "batch", "takes what waits, at most so many"),
    )
    flows = {
        (name, i, b): under_updates(name, updates, i, {setting: str(b)})
        for name, setting, _ in ways
        for i in intervals
        for b in sizes
    }
    records: list[Record] = [
        {"algorithm": name, "way": way, "interval": i, "batch": b, **asdict(flows[name, i, b])}
        for name, _, way in ways
        for i in intervals
        for b in sizes
    ]
    best = {i: min((flows["c-strobe", i, b].late, b) for b in sizes)[1] for i in intervals}
    silent, noisy = flows["t-strobe", 1.0, 1].late, flows["t-strobe", 1.0, 2].late
    shown = 0.5
    lines: Lines = {
        f"{name}: {member}": [(b, float(getattr(flows[name, shown, b], member))) for b in sizes]
        for name in ("c-strobe", "sweep")
        for member in ("late", "messages")
    }
    panel = Panel(
        f"section 9, item 2: batches, an update every {shown:g}",
        ("batch size, updates", "late, in questions; messages per update"),
        lines,
        marks=[Mark(f"c-strobe is least late: {best[shown]}", x=float(best[shown]))],
    )
    told = ", ".join(f"{b} at an interval of {i:g}" for i, b in best.items())
    return Figure(
        "9 (batches)",
        "The best batch size: messages per update and lateness by size",
        "Batches reduce messages, but delay: a trade-off.",
        "Where a batch waits to be full (C-Strobe's periodic form), messages fall with its size "
        f"and lateness has a least: {told}. Where what waits is taken at once, at most so many "
        "(`batch` here), nothing is delayed for it: messages and lateness fall together until "
        "everything that waits fits. An algorithm that needs silence may lose it: with T-Strobe at "
        f"an interval of 1 there is a silent moment now and then without batches ({silent:.1f} "
        f"late), and none with them ({noisy:.1f}).",
        {
            "algorithm": "{algorithm}",
            "interval": "{interval:g}",
            "size": "{batch}",
            "messages": "{messages:.2f}",
            "late": "{late:.1f}",
        },
        records,
        [panel],
        {"updates": updates, "relations": 3},
    )


EXPERIMENT = Experiment(
    "strobe",
    "Consistency Algorithms for Multi-Source Warehouse View Maintenance (Strobe, 1998)",
    run,
    "takes up to six relations, more updates and more random relations",
)
