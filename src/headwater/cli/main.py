"""Entry point: the commands, and errors as sentences instead of tracebacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from headwater import __version__, demo
from headwater.bench import commands as bench
from headwater.cli import (
    explaining,
    lab,
    lab_system,
    maintenance,
    nodes,
    project,
    reading,
    share,
    sources,
)
from headwater.demo import anomaly
from headwater.terminal.failures import Commands, told

app = typer.Typer(
    name="headwater",
    cls=Commands,
    help="Keep materialized views consistent with many autonomous, changing sources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(lab.app, name="lab")
app.add_typer(bench.app, name="bench")
app.add_typer(share.app, name="share")
lab.app.command("system")(lab_system.system)
lab.app.command("demo")(anomaly.demo)
app.command("demo")(demo.demo)
app.command("init")(project.init)
app.command("check")(project.check)
app.command("explain")(explaining.explain)
app.command("tables")(sources.tables)
app.command("setup")(sources.setup)
app.command("teardown")(sources.teardown)
app.command("run")(maintenance.run)
app.command("node")(nodes.node)
app.command("status")(maintenance.status)
app.command("trim")(maintenance.trim)
app.command("head")(reading.head)
app.command("sql")(reading.sql)
app.command("changes")(reading.changes)
app.command("verify")(maintenance.verify)
app.command("fold")(maintenance.fold)
app.command("drop")(maintenance.drop)
app.command("reload")(maintenance.reload)
app.command("refresh")(maintenance.refresh)
app.command("repair")(maintenance.repair)


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
