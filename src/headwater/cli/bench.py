"""`headwater bench`: measurements. Compare figures of one run only; machines are noisy."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headwater.algorithms.registry import ALGORITHMS
from headwater.cli.output import JsonOption, parse_seeds, print_json, print_table
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.simulate import simulate

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
    for name in ALGORITHMS:
        for transactions in (3, 4, 5):
            shape = Shape(transactions=transactions)
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
