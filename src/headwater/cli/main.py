"""Entry point: the commands, and errors as sentences instead of tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from headwater import __version__
from headwater.cli.later import Later, commands_of
from headwater.terminal.failures import told

COMMANDS = {
    "demo": Later("demo:demo", "The whole, on databases of its own that are gone afterwards."),
    "init": Later("cli.project:init", "Make a working example project, or start from a database."),
    "check": Later("cli.project:check", "See whether project, sources and views are sound."),
    "explain": Later("cli.explaining:explain", "Show how views are maintained."),
    "tables": Later("cli.sources:tables", "Show what a source has, and what cannot be used."),
    "setup": Later("cli.sources:setup", "Prepare sources: a log, a publication, triggers."),
    "teardown": Later("cli.sources:teardown", "Remove what setup made at a source."),
    "run": Later("cli.running:run", "Load what is not loaded, then maintain every view."),
    "dashboard": Later("cli.dashboard:dashboard", "Show in a browser how a project stands."),
    "node": Later("cli.nodes:node", "Stand beside a source, for views by rings."),
    "status": Later("cli.maintenance:status", "Tell how every view and every source stands."),
    "trim": Later("cli.maintenance:trim", "Give up what sources keep beyond their retain."),
    "head": Later("cli.reading:head", "Show some rows of a view, at once: starts no Spark."),
    "sql": Later("cli.reading:sql", "Query views through Spark, as they are or as they were."),
    "changes": Later("cli.reading:changes", "Show which rows went and came between versions."),
    "verify": Later("cli.maintenance:verify", "Recompute views at their vectors, and compare."),
    "fold": Later("cli.maintenance:fold", "Bring plain tables up to the newest commits, now."),
    "drop": Later("cli.maintenance:drop", "Remove the tables of views, or of whole groups."),
    "reload": Later("cli.maintenance:reload", "Load views anew, in place."),
    "refresh": Later("cli.maintenance:refresh", "Have the runner show all that sources have now."),
    "repair": Later("cli.maintenance:repair", "Set a source up again that cannot be followed."),
    "entry": Later("cli.clusters:entry", "Print the path of what spark-submit is to run."),
    "pack": Later("cli.clusters:pack", "Pack what Spark's executors need into an archive."),
    "lab": Later("cli.lab:app", "Run algorithms over scenarios, and see which level they keep."),
    "bench": Later("bench.commands:app", "Measurements."),
    "share": Later("cli.share:app", "Publish changes, exchange them with other nodes, follow."),
}
"""What there is, in the order in which `--help` tells it."""

app = typer.Typer(
    name="headwater",
    cls=commands_of(COMMANDS),
    help="Keep materialized views consistent with many autonomous, changing sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main(ready: Callable[[], object] = lambda: None) -> None:
    """Run the command line; a mistake of the user's is one sentence and exit code 2.

    `ready` is called as soon as whatever is raised is told as a sentence.
    """
    with told():
        ready()
        app()
