"""`headwater bench`: measurements. Compare figures of one run only; machines are noisy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headwater.bench.comparison import comparable
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.simulate import simulate
from headwater.terminal.output import JsonOption, parse_seeds, print_json, print_table

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


@app.command("papers")
def papers_bench(
    name: Annotated[
        str | None,
        typer.Argument(help="eca, strobe, pvm, rings or updategrams.", show_default="all"),
    ] = None,
    full: Annotated[bool, typer.Option(help="The whole experiments, not a quick form.")] = False,
    seed: Annotated[int, typer.Option(help="Of what is random.")] = 1,
    into: Annotated[
        Path | None, typer.Option(help="Write NAME.json and a picture NAME.svg to this folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The evaluations that the five papers published, made again: claims beside what is found."""
    from headwater.bench.papers.command import papers
    from headwater.bench.papers.frame import Size

    papers(name, Size(full, seed), into, as_json)


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
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="An algorithm beside the chosen one, alone or with parameters as the table has "
            "them; may be repeated. All if left out.",
        ),
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

    algorithms(workload, algorithm, level, seen, seeds, distance, plot, as_json)


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
