"""What the commands share: options, seeds, tables, JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headwater.errors import InputError
from headwater.lab.files import load_objects, parse_objects
from headwater.lab.library import example, example_names
from headwater.lab.scenario import Object

FileArgument = Annotated[
    Path,
    typer.Argument(
        help="A scenario file (.json, .jsonl), - for standard input, or a shipped example's name."
    ),
]
AlgorithmOption = Annotated[
    str, typer.Option("--algorithm", "-a", help="See 'headwater lab algorithms'.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="NAME=VALUE, of the algorithm or the lab; lab algorithms lists them."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, for machines.")]

LEVEL_STYLES = {
    "none": "bold red",
    "convergent": "yellow",
    "weak": "yellow",
    "strong": "green",
    "complete": "bold green",
}


def console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def print_json(data: Mapping[str, object]) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for at, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=at < len(columns) - 1, min_width=6)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


def styled(level: str) -> str:
    return f"[{LEVEL_STYLES[level]}]{level}[/]"


def parse_settings(given: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"--set {text}: is not NAME=VALUE.", "Write for example --set p=4.")
        settings[name] = value
    return settings


def parse_seeds(text: str) -> range:
    """`0:20` is 0 to 19; `7` is 7 alone."""
    first, colon, last = text.partition(":")
    if first.isdecimal() and (last.isdecimal() if colon else True):
        start, stop = int(first), int(last) if colon else int(first) + 1
        if start < stop:
            return range(start, stop)
    raise InputError(f"--seeds {text}: is not a range.", "Write for example 0:20, or 7 for one.")


def read_objects(path: Path) -> list[tuple[Object, str]]:
    """A file's JSON objects, those of standard input, or the shipped example of that name."""
    name = str(path)
    if name == "-":
        return parse_objects(sys.stdin.read(), "standard input")
    if not path.exists() and name in example_names():
        return [(example(name).data, name)]
    if not path.exists() and path.suffix == "":
        known = ", ".join(example_names())
        raise InputError(f"There is no file '{path}'.", f"Shipped examples are: {known}.")
    return load_objects(path)
