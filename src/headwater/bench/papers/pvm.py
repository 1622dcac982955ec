"""Parallel multisource view maintenance (2003), sections 5, 7 and 8: PVM against SWEEP.

Every experiment of section 7 three times: by the cost model, in virtual time, where sources answer
one question at a time and nothing else takes any, and on PostgreSQL servers, one for each source,
whose wrappers take some time longer for each question. All times are in what a question takes, so
that the three can be compared.

Choices: PVM CC is measured, which commits in order, as SWEEP does. A question takes 0.1 s on
servers; the paper does not say what it took there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.bench.comparison import compare
from headwater.bench.papers import pvm_model as model
from headwater.bench.papers.frame import Experiment, Figure, Record, Report, Size, Value
from headwater.bench.papers.pvm_servers import Servers
from headwater.bench.papers.pvm_times import FULL, Bench, Setting, modelled, virtual
from headwater.bench.plots import Mark, Panel
from headwater.lab.generate import chain
from headwater.lab.library import example
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import run_timed

SHARE = 0.95
_SERVERS = "measured on PostgreSQL servers"
Point = tuple[float, float]


def run(size: Size, report: Report) -> Sequence[Figure]:
    """Sections 5, 7 and 8."""
    setting = FULL if size.full else Setting()
    with Servers() as servers:
        bench = Bench(setting, size.seed, report, servers)
        figures = [
            _messages(),
            _processes(bench),
            _blocking(),
            _sources(bench),
            _distribution(bench),
            _updates(bench),
            _interval(bench),
            _best(bench),
        ]
    report("Table 4")
    return [*figures, _table_4(setting.table_4)]


def _messages() -> Figure:
    records: list[Record] = []
    for m, n in ((2, 12), (3, 12), (4, 12)):
        sweep = run_timed(simulate(chain(m, n), "sweep"))
        pvm = run_timed(simulate(chain(m, n), "pvm-cc", {"p": "4"}))
        matrix = sum(
            model.local_messages(i, j, n, m) for i in range(1, n + 1) for j in range(1, m + 1)
        )
        printed = sum(
            model.local_messages_as_printed(i, j, n, m)
            for i in range(1, n + 1)
            for j in range(1, m + 1)
        )
        records.append({"m": m, "n": n, "sweep": len(sweep.served), "pvm": len(pvm.served),
                        "remote": model.remote_messages(n, m), "matrix": matrix,
                        "local": model.all_local_messages(n, m), "printed": printed})  # fmt: skip
    return Figure(
        "5.2",
        "Messages: equations 3 to 7",
        "SWEEP and PVM ask (m - 1)n questions; the local ones are (m - 1)/(2m) n².",
        "Both ask as many. The matrix of equation 3 adds up to equation 6; equation 4, as printed, "
        "does not.",
        {"m": "{m}", "n": "{n}", "SWEEP asks": "{sweep}", "PVM asks": "{pvm}",
         "equation 7": "{remote}", "sum of equation 3": "{matrix}", "equation 6": "{local:.0f}",
         "sum of equation 4": "{printed}"},
        records,
    )  # fmt: skip


_TIMES = {
    "model": "{model:.1f}",
    "virtual time": "{virtual:.1f}",
    "servers": "{servers:.1f}",
}
_SPEEDS = {
    "model": "{model_speed:.2f}",
    "virtual time": "{virtual_speed:.2f}",
    "servers": "{servers_speed:.2f}",
}


def _record(
    bench: Bench, m: int, n: int, p: int, is_measured: bool, **more: Value
) -> dict[str, Value]:
    """PVM's time and how much faster than SWEEP it is, by each of the three."""
    found: dict[str, Value] = {"m": m, "n": n, "p": p, **more}
    ways: dict[str, Callable[[int, int, int | None], float]] = {
        "model": modelled,
        "virtual": virtual,
    }
    if is_measured:
        ways["servers"] = bench.measured
    for name, time in ways.items():
        found[name] = time(m, n, p)
        found[f"{name}_speed"] = time(m, n, None) / time(m, n, p)
    return found


def _processes(bench: Bench) -> Figure:
    m, each = 4, 15
    n = m * each
    records = [_record(bench, m, n, p, p in bench.setting.processes) for p in range(1, 11)]
    panel = Panel(
        f"21: {n} updates, {m} sources",
        ("p, updates in work at once", "time, in questions"),
        {
            "cost model": _line(records, "p", "model"),
            "virtual time": _line(records, "p", "virtual"),
        },
        dots={"servers": _line(records, "p", "servers")},
        dots_are=_SERVERS,
        marks=[
            Mark(f"p = m = {m}: the model is flat", x=m),
            Mark("paper: 3.3 times as fast as p = 1", y=modelled(m, n) / 3.3),
        ],
    )
    at_m = next(record for record in records if record["p"] == m)
    least = min(records, key=lambda record: float(record["virtual"] or 0))
    return Figure(
        "21",
        "Experiment 1: time by the number of processes p",
        "Time falls as 1/p up to p = m = 4; at most 330% is gained, and p up to 7 still helps.",
        f"At p = m = {m} PVM is {at_m['virtual_speed']:.2f} times as fast as SWEEP in virtual time "
        "(nothing but waiting at sources is lost), "
        f"and {_or_none(at_m.get('servers_speed'))} times on servers; the best in virtual time is "
        f"{least['virtual_speed']:.2f} at p = {least['p']}.",
        {"p": "{p}", **_TIMES, **{f"speed, {name}": cell for name, cell in _SPEEDS.items()}},
        records,
        [panel],
        {"m": m, "n": n, "interval": 0},
    )


def _blocking() -> Figure:
    scenario = example("pvm-22")
    paper = {1: 12, 2: 8, 3: 6}
    records: list[Record] = [
        {"p": p, "ticks": run_timed(simulate(scenario, "pvm-cc", {"p": str(p)})).ticks, "paper": t}
        for p, t in paper.items()
    ]
    equal = all(record["ticks"] == record["paper"] for record in records)
    return Figure(
        "22",
        "Three updates at three sources: what waiting at sources costs",
        "SWEEP takes 12 ticks, PVM with p = 2 takes 8 and with p = 3 takes 6.",
        "The same, tick by tick." if equal else "Not the same.",
        {"p": "{p}", "ticks": "{ticks}", "paper": "{paper}"},
        records,
    )


_SHOWN = (1, 2, 4, 6, 10)
"""Of the numbers of processes that Figure 23 has: in the table, and measured on servers."""


def _sources(bench: Bench) -> Figure:
    each = 10
    records = []
    for m in range(2, 7):
        for p in range(1, 11):
            there = m in bench.setting.sources and p in _SHOWN
            records.append(_record(bench, m, m * each, p, there))
    shown = (2, 3, 4, 5, 6)
    model_panel, virtual_panel = (
        Panel(
            f"23: {title}, {each} updates of each source",
            ("p, updates in work at once", "time, in questions"),
            {f"m = {m}": _line(_where(records, m), "p", way) for m in shown},
            dots={
                f"m = {m}": line
                for m in (shown if way == "virtual" else ())
                if (line := _line(_where(records, m), "p", "servers"))
            },
            dots_are=_SERVERS,
        )
        for title, way in (("cost model", "model"), ("virtual time", "virtual"))
    )
    best = {m: max(float(r["virtual_speed"] or 0) for r in _where(records, m)) for m in shown}
    return Figure(
        "23",
        "Experiment 2: time by sources and processes",
        "Time falls as 1/p, whatever m, and flattens where the sources' capability m is reached.",
        "So it does; in virtual time the best speeds up to p = 10 are "
        + ", ".join(f"{speed:.2f} for m = {m}" for m, speed in best.items())
        + ". The curves bend later than the model's: with p = m updates some sources wait.",
        {"m": "{m}", "p": "{p}", **_TIMES},
        [r for r in records if r["p"] in _SHOWN],
        [model_panel, virtual_panel],
        {"updates of each source": each, "interval": 0},
    )


def _distribution(bench: Bench) -> Figure:
    m, n, p = 3, 30, 5
    records: list[Record] = []
    for c in range(1, 11):
        there = c in bench.setting.runs
        records.append({
            "c": c,
            "sweep": virtual(m, n, None, c),
            "pvm": virtual(m, n, p, c),
            "sweep_servers": bench.measured(m, n, None, c) if there else None,
            "pvm_servers": bench.measured(m, n, p, c) if there else None,
        })  # fmt: skip
    first, last = records[0], records[-1]
    panel = Panel(
        "24: 30 updates, 3 sources, p = 5",
        ("c, consecutive updates of a source", "time, in questions"),
        {"SWEEP": _line(records, "c", "sweep"), "PVM": _line(records, "c", "pvm")},
        dots={
            name: line
            for name in ("SWEEP", "PVM")
            if (line := _line(records, "c", f"{name.lower()}_servers"))
        },
        dots_are=_SERVERS,
        marks=[Mark("paper: half of SWEEP's", y=modelled(m, n) / 2)],
    )
    return Figure(
        "24",
        "Experiment 3: time by the distribution of updates c",
        "Larger c slows PVM a little and SWEEP not at all; SWEEP takes twice as long as PVM.",
        f"In virtual time PVM takes {first['pvm']:.0f} at c = 1 and {last['pvm']:.0f} at c = 10, "
        f"SWEEP {first['sweep']:.0f} at either: {_ratio(first):.2f} and {_ratio(last):.2f} times "
        "as long.",
        {"c": "{c}", "SWEEP, virtual": "{sweep:.0f}", "PVM, virtual": "{pvm:.1f}",
         "SWEEP, servers": "{sweep_servers:.1f}", "PVM, servers": "{pvm_servers:.1f}"},
        records,
        [panel],
        {"m": m, "n": n, "p": p, "interval": 0},
    )  # fmt: skip


def _ratio(record: Record) -> float:
    sweep, pvm = record["sweep"], record["pvm"]
    assert isinstance(sweep, float)
    assert isinstance(pvm, float)
    return sweep / pvm


def _updates(bench: Bench) -> Figure:
    m, p = 2, 5
    records: list[Record] = []
    for each in (4, 10, 20, 30, 40):
        n, there = m * each, each in bench.setting.updates
        found: dict[str, Value] = {"each": each}
        for name, at in (("sweep", None), ("pvm", p)):
            found[f"{name}_model"] = modelled(m, n, at)
            found[f"{name}_virtual"] = virtual(m, n, at)
            found[f"{name}_servers"] = bench.measured(m, n, at) if there else None
        records.append(found)
    return Figure(
        "25",
        "Experiment 4: time by the number of updates n",
        "SWEEP takes about min(p, m) = 2 times as long as PVM.",
        f"In virtual time {records[0]['sweep_virtual'] / records[0]['pvm_virtual']:.2f} times with "  # type: ignore[operator]
        f"8 updates and {records[-1]['sweep_virtual'] / records[-1]['pvm_virtual']:.2f} with 80.",  # type: ignore[operator]
        {"n/m": "{each}", **_BOTH},
        records,
        [_both("25: 2 sources, p = 5", "each", "n/m, updates of each source", records)],
        {"m": m, "p": p, "interval": 0},
    )


_BOTH = {
    f"{name}, {title}": f"{{{name.lower()}_{way}:.1f}}"
    for name in ("SWEEP", "PVM")
    for title, way in (("model", "model"), ("virtual", "virtual"), ("servers", "servers"))
}


def _both(
    title: str, by: str, axis: str, records: Sequence[Record], marks: Sequence[Mark] = ()
) -> Panel:
    """SWEEP and PVM, by model, in virtual time and on servers; what is alike is one line."""
    lines: dict[str, list[Point]] = {}
    dots: dict[str, list[Point]] = {}
    for name in ("SWEEP", "PVM"):
        found = _line(records, by, f"{name.lower()}_virtual")
        told = _line(records, by, f"{name.lower()}_model")
        if all(abs(a - b) < _ALIKE * b for (_, a), (_, b) in zip(found, told, strict=True)):
            drawn = f"{name}, cost model and virtual time"
        else:
            drawn = f"{name}, virtual time"
            lines[f"{name}, cost model"] = told
        lines[drawn] = found
        if line := _line(records, by, f"{name.lower()}_servers"):
            dots[drawn] = line
    axes = (axis, "time, in questions")
    return Panel(title, axes, lines, dots=dots, dots_are=_SERVERS, marks=marks)


_ALIKE = 0.02
"""Times that differ by less are one line in a picture."""


def _interval(bench: Bench) -> Figure:
    m, n, p = 2, 40, 5
    t = model.update_time(m, 1)
    records: list[Record] = []
    for interval in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
        there = interval in bench.setting.intervals
        found: dict[str, Value] = {"interval": interval}
        for name, at in (("sweep", None), ("pvm", p)):
            found[f"{name}_model"] = model.at_interval(modelled(m, n, at), n, t, interval)
            found[f"{name}_virtual"] = virtual(m, n, at, 1, interval)
            found[f"{name}_servers"] = bench.measured(m, n, at, 1, interval) if there else None
        records.append(found)
    panel = _both(
        "26: 40 updates, 2 sources, p = 5",
        "interval",
        "interval i, in questions",
        records,
        [
            Mark("paper: PVM grows from t / min(p, m)", x=t / min(p, m)),
            Mark("paper: SWEEP grows from t", x=t),
        ],
    )
    return Figure(
        "26",
        "Experiment 5: time by the interval between updates i",
        "PVM's time begins to grow min(p, m) times as early as SWEEP's; then both are the same.",
        "In virtual time PVM's grows from i = 0.5 of a question on, SWEEP's from 1 on, and from "
        f"there on both take the same: {records[4]['pvm_virtual']:.0f} and "
        f"{records[4]['sweep_virtual']:.0f} at i = 1.",
        {"i": "{interval:g}", **_BOTH},
        records,
        [panel],
        {"m": m, "n": n, "p": p},
    )


def _best(bench: Bench) -> Figure:
    records = []
    far = replace(bench, setting=replace(bench.setting, latency_s=bench.setting.best_latency_s))
    for m, each, p in bench.setting.best:
        found = _record(far, m, m * each, p, True)
        records.append(found | {"bound": min(p, m), "least": SHARE * min(p, m)})
    told = ", ".join(
        f"{r['servers_speed']:.2f} of {r['bound']} with {r['m']} sources" for r in records
    )
    return Figure(
        "7.2 (text)",
        "How near to min(p, m) PVM comes",
        "The best is min(p, m); 3.3 of 4 were measured.",
        f"On servers, with enough updates in work: {told}.",
        {"m": "{m}", "n": "{n}", "p": "{p}", "bound": "{bound}", **_SPEEDS},
        records,
        (),
        {"latency_s": bench.setting.best_latency_s},
    )


_PAPER_4 = {
    "strobe": ("strong", "O(n)", "required"),
    "c-strobe": ("complete", "O(n!)", "not required"),
    "sweep": ("complete", "O(n)", "not required"),
    "nested-sweep": ("strong", "O(n)", "not required"),
    "posse": ("complete", "O(n)", "not required"),
    "pvm-cc": ("complete", "O(n)", "not required"),
}


def _table_4(names: Sequence[str]) -> Figure:
    sizes = (2, 3, 4, 6)
    records: list[Record] = []
    for row in compare([name for name in names if name in _PAPER_4], sizes):
        level, messages, quiescence = _PAPER_4[row.algorithm]
        found: dict[str, Value] = {
            "algorithm": row.algorithm,
            "paper_level": level,
            "level": str(row.level),
            "paper_messages": messages,
            "paper_quiescence": quiescence,
            "quiescence": "required" if row.needs_quiescence else "not required",
        }
        for size, quiet, busy in zip(sizes, row.quiet, row.busy, strict=True):
            found |= {f"quiet_{size}": quiet, f"busy_{size}": busy}
        records.append(found)
    same = sum(
        r["level"] == r["paper_level"] and r["quiescence"] == r["paper_quiescence"] for r in records
    )
    return Figure(
        "Table 4",
        "Algorithms compared: level, silence, messages per update (far apart / all at once)",
        "As in the columns `paper`.",
        f"Levels and the need for silence are the paper's for {same} of {len(records)}. "
        "What C-Strobe asks grows with n, but not with its factorial; see the Strobe paper.",
        {
            "algorithm": "{algorithm}",
            "level (paper)": "{level} ({paper_level})",
            "silence (paper)": "{quiescence} ({paper_quiescence})",
            "messages, paper": "{paper_messages}",
            **{f"n = {s}": f"{{quiet_{s}:.0f}} / {{busy_{s}:.1f}}" for s in sizes},
        },
        records,
    )


def _where(records: Sequence[Record], m: int) -> list[Record]:
    return [record for record in records if record["m"] == m]


def _line(records: Sequence[Record], x: str, y: str) -> list[Point]:
    """The points of those records that have both."""
    points = [(record.get(x), record.get(y)) for record in records]
    return [(float(a), float(b)) for a, b in points if a is not None and b is not None]


def _or_none(speed: Value) -> str:
    return f"{speed:.2f}" if isinstance(speed, float) else "(not measured)"


EXPERIMENT = Experiment(
    "pvm",
    "Parallel multisource view maintenance (PVM, 2003)",
    run,
    "measures all five experiments on up to six PostgreSQL servers, several minutes",
)
