"""The command: the papers' evaluations, as tables, as JSON, and as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from headwater.bench.papers import eca, pvm, rings, strobe, updategrams
from headwater.bench.papers.frame import Experiment, Figure, Size, ready, write
from headwater.errors import InputError
from headwater.terminal.output import busy, console, print_json, print_table

EXPERIMENTS = {
    each.EXPERIMENT.name: each.EXPERIMENT for each in (eca, strobe, pvm, rings, updategrams)
}


def papers(name: str | None, size: Size, into: Path | None, as_json: bool) -> None:
    """Make experiments and show them; see `headwater bench papers --help`."""
    wanted = _wanted(name)
    if into is not None:
        ready(into)
    for experiment in wanted:
        with busy(as_json) as report:
            figures = experiment.run(size, report)
        if into is not None:
            write(into, experiment, size, figures)
        if as_json:
            for record in _records(experiment, figures):
                print_json(record)
        else:
            _show(experiment, figures)


def _wanted(name: str | None) -> Sequence[Experiment]:
    if name is None:
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        raise InputError(f"There is no paper '{name}'.", f"There are: {', '.join(EXPERIMENTS)}.")
    return [EXPERIMENTS[name]]


def _records(experiment: Experiment, figures: Sequence[Figure]) -> Iterator[dict[str, object]]:
    for figure in figures:
        for record in figure.records:
            yield {"paper": experiment.name, "figure": figure.name, **record}


def _show(experiment: Experiment, figures: Sequence[Figure]) -> None:
    say = console().print
    say(experiment.paper)
    for figure in figures:
        print_table(f"{figure.name}: {figure.title}", list(figure.columns), figure.rows)
        say(f"Published: {figure.claim}")
        say(f"Found: {figure.found}")
        say("")
