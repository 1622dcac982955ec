"""The commands that read views: head, sql, changes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.maintenance import ViewArgument, ago
from headwater.cli.sources import ProjectOption
from headwater.terminal.cells import as_json_value, cell
from headwater.terminal.output import JsonOption, console, print_json, print_rows

if TYPE_CHECKING:
    from headwater.warehouse.view_table import ViewTable


def head(
    view: ViewArgument,
    rows: Annotated[int, typer.Option("-n", "--rows", min=0, help="Show so many rows.")] = 20,
    version: Annotated[
        int | None, typer.Option(min=1, help="As it was at a version; now if not given.")
    ] = None,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Show some rows of a view, at once: starts no Spark.

    What changed last comes first. Where only Spark can compute what the view shows now, they are
    those of its plain table, and it is said how old that is.
    """
    from headwater.project.settings import warehouse_of_project
    from headwater.warehouse.newest import first_rows, scanned
    from headwater.warehouse.warehouse import Warehouse

    table = Warehouse(warehouse_of_project(project)).shown_view(view)
    scan, note = scanned(table, version)
    found = first_rows(scan, rows + 1)
    names, shown, more = scan.schema.names, found[:rows], len(found) > rows
    if as_json:
        for row in shown:
            print_json(dict(zip(names, map(as_json_value, row), strict=True)))
    else:
        print_rows(names, [[cell(value) for value in row] for row in shown])
        told = f"{len(shown):,} rows" + "; there are more" * more
        console().print(f"{told}; version {scan.number}{_since(table, scan.number)}")
    if note and not as_json:
        console().print(f"○ {note}")


def _since(table: ViewTable, number: int) -> str:
    when = next((c.timestamp for c in table.commits() if c.number == number), 0)
    return f", committed {ago(when / 1000)}" if when else ""


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT over views; VERSION AS OF n works too.")],
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many rows.")] = 100,
) -> None:
    """Query views through Spark, as they are now or as they were."""
    from headwater.pipeline.queries import query_views
    from headwater.pipeline.sessions import session_of
    from headwater.project.project import Project

    opened = Project.open(project, only=())
    names, rows, more = query_views(opened, session_of(opened), query, limit)
    if as_json:
        members = _distinct(names)
        for row in rows:
            print_json(dict(zip(members, map(as_json_value, row), strict=True)))
        return
    print_rows(names, [[cell(value) for value in row] for row in rows])
    console().print(f"{len(rows):,} rows" + (f"; there are more, see --limit {limit}" * more))


def changes(
    view: ViewArgument,
    first: Annotated[int, typer.Argument(metavar="FROM", min=1, help="A version of the view.")],
    last: Annotated[
        int | None, typer.Argument(metavar="TO", min=1, help="A later one; now if not given.")
    ] = None,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option(min=0, help="Show at most so many rows.")] = 100,
) -> None:
    """Show the rows of a view that went and came from one version to another."""
    from headwater.pipeline.sessions import engine_of
    from headwater.project.project import Project
    from headwater.warehouse.columns import CHANGE
    from headwater.warehouse.warehouse import Warehouse

    opened = Project.open(project, only=())
    table = Warehouse(opened.warehouse).shown_view(view)
    found = table.shown_changes(first, last, engine_of(opened).for_small)
    names = [*found.schema.names, CHANGE]
    rows = [(*row, count) for row, count in found.sorted_items()[:limit]]
    if as_json:
        for row in rows:
            print_json(dict(zip(names, map(as_json_value, row), strict=True)))
        return
    print_rows(names, [[cell(value) for value in row] for row in rows])
    more = f"; there are more, see --limit {limit}" * (len(found) > limit)
    console().print(f"{len(rows):,} rows changed{more}")


def _distinct(names: Sequence[str]) -> list[str]:
    """The names of columns as members of one object: the second `id` is `id_1`."""
    found: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        taken = {*found, *names} if name in found else ()
        found.append(name if not taken else next(n for n in numbered if n not in taken))
    return found
