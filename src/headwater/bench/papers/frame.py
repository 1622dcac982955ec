"""What all experiments share: a figure is a claim, records, and how these are shown.

Tables are made from records by format strings, so that a file of records is enough to write them
again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeAlias

from headwater.bench.plots import Panel, charts, check_drawing
from headwater.errors import InputError

Value: TypeAlias = str | int | float | bool | None
Record: TypeAlias = Mapping[str, Value]
Columns: TypeAlias = Mapping[str, str]
"""The heading of each column, and how its cells are made from a record's members."""
Report: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How large an experiment is to be."""

    full: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Figure:
    """A published figure, table or claim, and what became of it here."""

    name: str
    """As the paper numbers it, e.g. `6.3`."""
    title: str
    claim: str
    """What is published."""
    found: str
    """What was found, in a sentence."""
    columns: Columns
    records: Sequence[Record]
    panels: Sequence[Panel] = ()
    parameters: Mapping[str, Value] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[list[str]]:
        return cells(self.columns, self.records)


def cells(columns: Columns, records: Sequence[Record]) -> Iterator[list[str]]:
    """A table's rows; what a record does not have is left out."""
    for record in records:
        known = {name: value for name, value in record.items() if value is not None}
        yield [_cell(shown, known) for shown in columns.values()]


def _cell(shown: str, record: Record) -> str:
    try:
        return shown.format(**record)
    except KeyError:
        return ""


@dataclass(frozen=True)
class Experiment:
    """A paper's evaluation."""

    name: str
    paper: str
    run: Callable[[Size, Report], Sequence[Figure]]
    full: str
    """What the full form does beyond the quick one."""


def ready(folder: Path) -> None:
    """See that pictures can be drawn and a folder be written: before what takes long."""
    check_drawing()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}.", "Name a folder that can."
        ) from None


def write(folder: Path, experiment: Experiment, size: Size, figures: Sequence[Figure]) -> None:
    """`NAME.json` with everything that was found, and `NAME.svg` with the charts."""
    data = {
        "paper": experiment.paper,
        "full": size.full,
        "seed": size.seed,
        "figures": [_as_json(figure) for figure in figures],
    }
    ready(folder)
    text = json.dumps(data, ensure_ascii=False, indent=1)
    (folder / f"{experiment.name}.json").write_text(f"{text}\n", encoding="utf-8")
    panels = [panel for figure in figures for panel in figure.panels]
    charts(folder / f"{experiment.name}.svg", experiment.paper, panels)


def _as_json(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "title": figure.title,
        "claim": figure.claim,
        "found": figure.found,
        "parameters": dict(figure.parameters),
        "columns": dict(figure.columns),
        "records": [dict(record) for record in figure.records],
    }
