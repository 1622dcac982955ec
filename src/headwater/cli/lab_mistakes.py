"""`headwater lab mistakes`: what is wrong in the papers as printed, proved over all schedules."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.check.explain import explain
from headwater.errors import InputError
from headwater.lab.mistakes import MISTAKES, Examined, Mistake, examine, shortest
from headwater.protocol.trace import show_trace
from headwater.terminal.output import (
    JsonOption,
    console,
    plain,
    print_json,
    print_table,
    styled,
)


def mistakes(
    name: Annotated[
        str | None, typer.Argument(help="One of them, step by step.", show_default="all")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What is wrong in the five papers as printed, by exploring it and its repair.

    Both are run over all schedules of a scenario that is kept for it.
    """
    found = [examine(mistake) for mistake in _wanted(name)]
    if as_json:
        for each in found:
            print_json(_as_json(each))
    elif name is None:
        print_table(
            "The papers' mistakes: the lowest level over all schedules of a small scenario",
            ["name", "paper", "where", "as printed", "repaired"],
            (
                [
                    each.mistake.name,
                    each.mistake.paper,
                    each.mistake.where,
                    styled(str(each.printed.level)),
                    styled(str(each.repaired.level)),
                ]
                for each in found
            ),
            is_whole=True,
        )
    else:
        _show(found[0])


def _wanted(name: str | None) -> list[Mistake]:
    if name is None:
        return list(MISTAKES.values())
    if name not in MISTAKES:
        raise InputError(f"There is no mistake '{name}'.", f"There are: {', '.join(MISTAKES)}.")
    return [MISTAKES[name]]


def _as_json(found: Examined) -> dict[str, object]:
    mistake = found.mistake
    algorithm, settings = mistake.repaired
    return {
        "name": mistake.name,
        "paper": mistake.paper,
        "where": mistake.where,
        "wrong": mistake.wrong,
        "holds": mistake.holds,
        "scenario": {k: v for k, v in mistake.scenario.data.items() if k not in _A_RUN},
        "printed": str(found.printed.level),
        "printed_schedules": found.printed.schedules,
        "schedule": [str(move) for move in found.printed.counterexample or ()],
        "algorithm": algorithm,
        "set": dict(settings),
        "repaired": str(found.repaired.level),
        "repaired_schedules": found.repaired.schedules,
        "exhaustive": found.printed.exhaustive and found.repaired.exhaustive,
    }


_A_RUN = ("algorithm", "set", "schedule", "expect", "about")


def _show(found: Examined) -> None:
    """The mistake in words, its shortest run, and what the repair does."""
    mistake, out = found.mistake, console()
    algorithm, settings = mistake.repaired
    told = "".join(f" --set {name}={value}" for name, value in settings.items())
    out.print(plain(f"{mistake.paper}, {mistake.where}", "bold"))
    out.print(f"As printed: {mistake.wrong}")
    out.print(f"What holds: {mistake.holds}")
    scenario, done = mistake.scenario, shortest(found)
    for step in show_trace(done.trace):
        out.print(f"  {step}")
    out.print(plain("  →", "bold"), end=" ")
    out.print(explain(scenario.history, done.verdict))
    for form, explored in (
        ("as printed", found.printed),
        (f"repaired, {algorithm}{told}", found.repaired),
    ):
        out.print(f"Lowest level over {explored.schedules:,} schedules {form}:", end=" ")
        out.print(styled(str(explored.level)))
