"""`headwater bench`: measurements. Compare figures of one run only; machines are noisy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headwater.bench.comparison import comparable, compare
from headwater.bench.eca_costs import count_costs
from headwater.bench.plots import line_chart
from headwater.bench.ring_costs import (
    COMPARED,
    PROTOCOLS,
    Traffic,
    measure_latency,
    measure_traffic,
)
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, chain, generate
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import run_timed
from headwater.terminal.output import JsonOption, parse_seeds, print_json, print_table, styled

app = typer.Typer(help="Measurements.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _bench() -> None:
    """Measurements; compare figures of one run only."""


@app.command("explore")
def explore_bench(
    seeds: Annotated[str, typer.Option(help="Random scenarios of each size.")] = "0:3",
    as_json: JsonOption = False,
) -> None:
    """How fast the lab explores schedules, by algorithm and number of transactions."""
    rows = []
    for name in comparable():
        for transactions in (3, 4):
            shape = Shape(transactions=transactions, keys=True)
            simulations = [simulate(generate(s, shape), name) for s in parse_seeds(seeds)]
            started = time.perf_counter()
            found = [explore(simulation) for simulation in simulations]
            seconds = time.perf_counter() - started
            schedules = sum(f.schedules for f in found)
            states = sum(f.states for f in found)
            rows.append((name, transactions, schedules, states, seconds))
    if as_json:
        for name, transactions, schedules, states, seconds in rows:
            print_json(
                {
                    "algorithm": name,
                    "transactions": transactions,
                    "schedules": schedules,
                    "states": states,
                    "seconds": round(seconds, 3),
                    "schedules_per_second": round(schedules / seconds),
                    "states_per_second": round(states / seconds),
                }
            )
        return
    print_table(
        "Exploration of all schedules: three relations at three sources",
        ["algorithm", "transactions", "schedules", "states", "seconds", "schedules/s", "states/s"],
        (
            [n, str(t), f"{c:,}", f"{s:,}", f"{d:.2f}", f"{c / d:,.0f}", f"{s / d:,.0f}"]
            for n, t, c, s, d in rows
        ),
    )


@app.command("parallel")
def parallel_bench(
    updates: Annotated[int, typer.Option(help="Updates at each source.", min=1)] = 10,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .svg or .png file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """How much faster PVM CC is than SWEEP, by p, in virtual time (PVM paper, Figure 21).

    Sources answer one question at a time; all updates happen at the start.
    """
    points: dict[int, list[tuple[float, float]]] = {}
    rows = []
    for sources in (2, 4, 8):
        scenario = chain(sources, sources * updates)
        alone = run_timed(simulate(scenario, "sweep")).ticks
        for p in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
            ticks = run_timed(simulate(scenario, "pvm-cc", {"p": str(p)})).ticks
            points.setdefault(sources, []).append((p, alone / ticks))
            rows.append((sources, p, ticks, alone / ticks))
    if plot is not None:
        measured = {f"{m} sources": line for m, line in points.items()}
        axes = ("p, updates in work at once", "speed, SWEEP = 1")
        line_chart(
            plot, "PVM CC against SWEEP in virtual time", axes, measured, ("limit: m", list(points))
        )
    if as_json:
        for m, p, ticks, speed in rows:
            print_json(
                {"sources": m, "p": p, "ticks": ticks, "speed": round(speed, 3), "updates": updates}
            )
        return
    print_table(
        f"PVM CC against SWEEP, {updates} updates at each source, virtual time",
        ["sources m", "p", "ticks", "speed", "share of m"],
        ([str(m), str(p), str(t), f"{s:.2f}", f"{s / m:.2f}"] for m, p, t, s in rows),
    )


@app.command("messages")
def messages_bench(as_json: JsonOption = False) -> None:
    """Level, messages per update and need for quiescence of each algorithm (PVM, Table 4)."""
    sizes = (2, 3, 4, 6)
    rows = compare(comparable(), sizes)
    if as_json:
        for row in rows:
            print_json(
                {
                    "algorithm": row.algorithm,
                    "level": str(row.level),
                    "relations": list(sizes),
                    "messages_quiet": list(row.quiet),
                    "messages_busy": list(row.busy),
                    "needs_quiescence": row.needs_quiescence,
                }
            )
        return
    print_table(
        "Messages per update, updates far apart / all before the first answer",
        ["algorithm", "level", "silence", *(f"n = {size}" for size in sizes)],
        (
            [
                row.algorithm,
                styled(str(row.level)),
                "needed" if row.needs_quiescence else "no",
                *(f"{q:.0f} / {b:.1f}" for q, b in zip(row.quiet, row.busy, strict=True)),
            ]
            for row in rows
        ),
    )


@app.command("eca")
def eca_bench(as_json: JsonOption = False) -> None:
    """What ECA and recomputing cost over k updates, beside the ECA paper's formulas (section 6)."""
    rows = [costs for updates in (3, 6, 12) for costs in count_costs(updates)]
    if as_json:
        for row in rows:
            print_json(asdict(row))
        return
    print_table(
        "ECA and RV over k updates: counted (formula)",
        ["case", "k", "messages", "bytes by term", "bytes", "terms"],
        (
            [
                row.way,
                str(row.updates),
                f"{row.messages} ({row.messages_formula})",
                f"{row.size_by_term:,} ({row.size_formula:,.0f})",
                f"{row.size:,}",
                str(row.terms),
            ]
            for row in rows
        ),
    )


@app.command("rings")
def rings_bench(
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .svg or .png file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Latency of the Rings protocols beside the paper's, and what travels beside SWEEP and Strobe.

    In message delays: every message takes one unit of time, processing none.
    """
    delays = [measure_latency(name, items) for items in (2, 3, 4, 6, 8) for name in PROTOCOLS]
    sizes = (2, 3, 4, 6)
    traffic = [measure_traffic(name, items) for name in COMPARED for items in sizes]
    if plot is not None:
        lines: dict[str, list[tuple[float, float]]] = {}
        for name in COMPARED:
            mine = [found for found in traffic if found.algorithm == name]
            quiet = [(float(found.items), found.quiet_messages) for found in mine]
            busy = [(float(found.items), found.busy_messages) for found in mine]
            if quiet == busy:
                lines[f"{name}, either"] = quiet
            else:
                lines |= {f"{name}, far apart": quiet, f"{name}, at once": busy}
        axes = ("items n", "messages per update")
        line_chart(plot, "Messages of the Rings protocols, SWEEP and Strobe", axes, lines)
    if as_json:
        for row in delays:
            print_json({"measured": "latency", **asdict(row)})
        for found in traffic:
            print_json({"measured": "traffic", **asdict(found)})
        return
    print_table(
        "Latency in message delays, worst case (visits of the token; the paper's figure)",
        ["algorithm", "items n", "one update", "all items at once"],
        (
            [
                row.algorithm,
                str(row.items),
                f"{row.one} ({row.one_visits}; {row.one_paper})",
                f"{row.all} ({row.all_visits}; {row.all_paper})",
            ]
            for row in delays
        ),
    )
    cells: dict[str, Callable[[Traffic], str]] = {
        "Messages per update": lambda f: f"{f.quiet_messages:.1f} / {f.busy_messages:.1f}",
        "Bytes of rows per update": lambda f: f"{f.quiet_bytes:,.0f} / {f.busy_bytes:,.0f}",
    }
    for title, cell in cells.items():
        print_table(
            f"{title}, updates far apart / all at once",
            ["algorithm", *(f"n = {size}" for size in sizes)],
            ([name, *(cell(f) for f in traffic if f.algorithm == name)] for name in COMPARED),
        )


@app.command("backlog")
def backlog_bench(
    rounds: Annotated[int, typer.Option(help="Answers that are timed.", min=1)] = 500,
    as_json: JsonOption = False,
) -> None:
    """What one event costs a view manager while many transactions wait, in its machine alone."""
    from headwater.bench.backlog import MANAGERS, WAITING, measure

    found = [measure(name, waiting, rounds) for name in MANAGERS for waiting in WAITING]
    if as_json:
        for cost in found:
            print_json(asdict(cost))
        return
    print_table(
        "Processor milliseconds for one event while transactions wait",
        ["algorithm", "waiting", "arrival", "answer", "in all, a transaction", "indexing, once"],
        (
            [
                cost.manager,
                f"{cost.waiting:,}",
                f"{cost.arrival_ms:.3f}",
                f"{cost.answer_ms:.2f}",
                f"{cost.transaction_ms:.3f}",
                f"{cost.indexing_ms:,.0f}",
            ]
            for cost in found
        ),
    )


@app.command("channels")
def channels_bench(
    rows: Annotated[int, typer.Option(help="Rows through log and load.", min=100)] = 50_000,
    rounds: Annotated[int, typer.Option(help="Single commits and questions.", min=10)] = 300,
    json_lines: JsonOption = False,
) -> None:
    """Throughput, latency, questions and loads of each kind of source, beside the plain driver."""
    from headwater.bench.channel_databases import kinds
    from headwater.bench.channels import Figures, as_json, measure

    found = [measure(kind, rows, rounds) for kind in kinds()]
    if json_lines:
        for figures in found:
            print_json(as_json(figures))
        return
    lines: dict[str, Callable[[Figures], str]] = {
        "through the channel, rows/s": lambda f: f"{f.rows_per_s:,.0f} ({f.raw_rows_per_s:,.0f})",
        "through the channel, units/s": lambda f: f"{f.transactions_per_s:,.0f}",
        "commit to delivery, median": lambda f: f"{f.latency_p50_ms:.2f} ms",
        "commit to delivery, p99": lambda f: f"{f.latency_p99_ms:.2f} ms",
        "question, median": lambda f: f"{f.question_p50_ms:.2f} ms ({f.raw_question_p50_ms:.2f})",
        "question, p99": lambda f: f"{f.question_p99_ms:.2f} ms",
        "load, rows/s": lambda f: f"{f.load_rows_per_s:,.0f} ({f.raw_load_rows_per_s:,.0f})",
    }
    print_table(
        f"Channels: {rows:,} rows, {rounds} single steps (plain driver)",
        ["", *(figures.kind for figures in found)],
        ([name, *(show(figures) for figures in found)] for name, show in lines.items()),
    )


@app.command("freshness")
def freshness_bench(
    scale: Annotated[list[float] | None, typer.Option(help="TPC-H scale; may be repeated.")] = None,
    batch: Annotated[
        list[int] | None, typer.Option(help="Changes in one batch; may be repeated.")
    ] = None,
    tail: Annotated[int, typer.Option(help="Rows in the tail when reads are timed.")] = 10_000,
    grouped: Annotated[bool, typer.Option(help="Also sums over the same join.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture into this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """From a commit at a source to the view, against recomputing on Spark and in DuckDB."""
    from headwater.bench.freshness.command import freshness

    freshness(scale, batch, tail, grouped, plot, as_json)


@app.command("bulk")
def bulk_bench(
    scale: Annotated[float, typer.Option(help="TPC-H scale.")] = 1.0,
    share: Annotated[
        list[float] | None,
        typer.Option(help="Per cent of all orders that a change brings; may be repeated."),
    ] = None,
    way: Annotated[
        list[str] | None,
        typer.Option(help="auto, maintained, spark or recomputed; may be repeated."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw a picture into this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Bulk changes: taken in, on both engines, or recomputed, and what Headwater chooses."""
    from headwater.bench.bulk import bulk

    bulk(scale, share, way, plot, as_json)


@app.command("reading")
def reading_bench(
    rows: Annotated[int, typer.Option(help="Rows of each view.", min=1000)] = 3_200_000,
    tail: Annotated[int, typer.Option(help="Rows behind the last fold.", min=2)] = 10_000,
    rounds: Annotated[int, typer.Option(help="Rounds that are measured.", min=1)] = 20,
    view: Annotated[
        list[str] | None,
        typer.Option(help="'with a key', 'without a key' or 'by group'; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The newest state behind a tail, read by Spark, beside a plain scan: made-up rows."""
    from headwater.bench.reading import reading

    reading(rows, tail, rounds, view, as_json)


@app.command("views")
def views_bench(
    views: Annotated[
        list[int] | None, typer.Option(help="Views on the runner; may be repeated.", min=1)
    ] = None,
    transactions: Annotated[
        int, typer.Option(help="Transactions that are timed, of one view each.", min=1)
    ] = 400,
    as_json: JsonOption = False,
) -> None:
    """Hundreds of views on one runner: threads, memory, and a transaction of one of them."""
    from headwater.bench.views import views as measured

    measured(views or [5, 500], transactions, as_json)


@app.command("questions")
def questions_bench(
    views: Annotated[int, typer.Option(help="Views on the runner.", min=2)] = 20,
    transactions: Annotated[
        int, typer.Option(help="Transactions that are timed, each of all views.", min=1)
    ] = 60,
    as_json: JsonOption = False,
) -> None:
    """Views that ask a source at the same time: each by itself, and together."""
    from headwater.bench.questions import questions

    questions(views, transactions, as_json)


@app.command("algorithms")
def algorithms_bench(
    workload: Annotated[
        list[str] | None,
        typer.Option(help="one, inserts, deletes or bursts; may be repeated. All if left out."),
    ] = None,
    level: Annotated[str, typer.Option(help="The level that is asked for.")] = "strong",
    seen: Annotated[str, typer.Option(help="Seeds on which the chooser may measure.")] = "0:3",
    seeds: Annotated[str, typer.Option(help="Seeds that are compared.")] = "10:13",
    distance: Annotated[
        float, typer.Option(help="Milliseconds that each question takes longer.", min=0)
    ] = 0.0,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this .svg or .png file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Every algorithm on real databases, on four workloads, beside the one that is chosen.

    All views of a workload are at work at once and take turns, round by round.
    """
    from headwater.bench.algorithms.command import algorithms

    algorithms(workload, level, seen, seeds, distance, plot, as_json)


@app.command("sharing")
def sharing_bench(
    intervals: Annotated[
        int, typer.Option(help="Random intervals over which each view is taken.", min=1)
    ] = 100,
    sample: Annotated[
        int, typer.Option(help="Over so many of them plans are carried out.", min=0)
    ] = 4,
    updates: Annotated[int, typer.Option(help="Of lineitem, an updategram each.", min=2)] = 200,
    most: Annotated[
        int, typer.Option(help="At most so many updategrams between random versions.", min=0)
    ] = 1800,
    scale: Annotated[float, typer.Option(help="Of TPC-H.", min=0.001)] = 0.1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw figures 4 to 7 to this .svg or .png file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plans for shared views over TPC-H by heuristic and number of updategrams (figures 4 to 7).

    Costs are estimated, and on a sample measured, as a share of computing the view anew. What is
    carried out is compared with recomputation.
    """
    from headwater.bench.sharing_command import sharing

    sharing(intervals, sample, updates, most, scale, plot, as_json)


@app.command("publishing")
def publishing(
    transactions: Annotated[int, typer.Option(help="Transactions in a batch.", min=1)] = 6_000,
    in_a_commit: Annotated[int, typer.Option(help="Of these in a commit.", min=1)] = 100,
    rounds: Annotated[int, typer.Option(help="Batches, of which the quickest counts.", min=1)] = 3,
    as_json: JsonOption = False,
) -> None:
    """What publishing a batch of transactions of one row takes, by granularity.

    The floor is what signing and writing as many files takes.
    """
    from headwater.bench.publishing import measure

    found = list(measure(transactions, in_a_commit, rounds))
    if as_json:
        for batch in found:
            print_json(asdict(batch))
        return
    print_table(
        f"Publishing {transactions:,} transactions, {in_a_commit:,} in a commit",
        ["granularity", "objects", "seconds", "of a processor", "floor"],
        (
            [
                batch.granularity,
                f"{batch.objects:,}",
                f"{batch.seconds:.2f}",
                f"{batch.processor_seconds:.2f}",
                f"{batch.floor_seconds:.2f}",
            ]
            for batch in found
        ),
    )


@app.command("mediation")
def mediation_bench(
    relations: Annotated[int, typer.Option(help="Mediated relations.", min=8)] = 20,
    descriptions: Annotated[int, typer.Option(help="Source descriptions.", min=1)] = 50,
    rounds: Annotated[int, typer.Option(help="Queries of each size.", min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """How long it takes to rewrite queries over a mediated schema, by what they join.

    Medians of processor time, from the files' texts to the SQL over sources, nothing remembered
    between queries.
    """
    from headwater.bench.mediation import measured

    found = [measured(relations, descriptions, joined, rounds) for joined in (1, 2, 3, 4, 5, 6)]
    if as_json:
        for each in found:
            print_json({**asdict(each), "total_ms": each.total_ms})
        return
    print_table(
        f"Processor milliseconds: {relations} mediated relations, {descriptions} descriptions",
        ["joined", "joins found", "ways that end", "read", "bind", "rewrite", "in all"],
        (
            [
                str(each.joined),
                f"{each.joins:g}",
                f"{each.ended:g}",
                f"{each.read_ms:.0f}",
                f"{each.bind_ms:.0f}",
                f"{each.rewrite_ms:.0f}",
                f"{each.total_ms:.0f}",
            ]
            for each in found
        ),
    )
