"""`headwater entry` and `pack`: what a cluster is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.terminal.output import JsonOption, console, print_json


def entry() -> None:
    """Print the path of what spark-submit is to run: spark-submit ... $(headwater entry) run."""
    from headwater.cli import submitted

    typer.echo(submitted.__file__)


def pack(
    target: Annotated[
        Path, typer.Argument(help="The archive to write; its name ends with .tar.gz.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Pack what Spark's executors need into an archive, for spark.archives.

    It has Headwater and all packages that it needs, without Spark, and no Python: executors have to
    have one of the same version.
    """
    from headwater.project.packing import pack_environment

    packed = pack_environment(target)
    if as_json:
        print_json({"archive": str(target), "packages": packed, "bytes": target.stat().st_size})
        return
    size = target.stat().st_size / 2**20
    console().print(f"✓ {target} has {len(packed)} packages, {size:.0f} MB", markup=False)
    console().print(
        f'Next, under [spark.settings]: "spark.archives" = "{target}#environment", '
        '"spark.pyspark.python" = "./environment/bin/python"',
        markup=False,
    )
