"""What the commands of the lab are given: scenarios, algorithms, their parameters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

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


def parse_settings(given: list[str] | None) -> dict[str, str]:
    settings: dict[str, str] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InputError(f"--set {text}: is not NAME=VALUE.", "Write for example --set p=4.")
        settings[name] = value
    return settings


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
