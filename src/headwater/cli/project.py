"""`headwater init` and `check`: a project to start from, and whether one is sound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.sources import ProjectOption
from headwater.terminal.output import (
    JsonOption,
    console,
    print_error,
    print_json,
    print_table,
    styled,
)

if TYPE_CHECKING:
    from headwater.algebra.schema import Relation
    from headwater.project.inspection import Inspection, SourceFound, ViewFound


_MOST_TABLES = 3
"""Of so many views the costs are shown; those of others tells `explain`."""


def init(
    folder: Annotated[Path, typer.Argument(help="A folder that is empty or not there yet.")],
    database: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DSN",
            help="Start from a database instead: a connection string of PostgreSQL, MariaDB or "
            "MySQL, or a SQLite file. No password is written.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a working example project, with data, that needs no server; or start from a database."""
    from headwater.project.example import make_project

    if database is not None:
        _start(folder, database, as_json)
        return
    files = make_project(folder)
    if as_json:
        print_json({"project": str(folder), "files": files})
    else:
        console().print(f"✓ {folder} has {', '.join(files)}")
        console().print(f"Next: cd {folder}, then headwater check. README.md has the rest.")


def _start(folder: Path, database: str, as_json: bool) -> None:
    from headwater.project.start import start_project

    made = start_project(folder, database)
    if as_json:
        print_json(
            {
                "project": str(folder),
                "files": list(made.files),
                "source": made.source,
                "variable": made.variable or None,
            }
        )
        return
    console().print(f"✓ {folder} has {', '.join(made.files)}")
    if made.variable:
        console().print(f"The connection string is not in it: export {made.variable}='...'")
    console().print(f"Next: cd {folder}, then headwater tables {made.source} and headwater check.")


def check(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """See whether a project, its sources and its views are sound, and which algorithms run."""
    from headwater.project.inspection import inspect

    found = inspect(project)
    if as_json:
        _print_objects(found)
    else:
        _print_tables(found)
    if found.problems:
        raise typer.Exit(2)


def _print_objects(found: Inspection) -> None:
    for source in found.sources:
        print_json(
            {
                "source": source.name,
                "relations": {
                    relation.short_name: {
                        "columns": {
                            c.name: str(c.type) for c in relation.schema.columns if not c.text_of
                        },
                        "key": list(relation.key),
                    }
                    for relation in source.relations
                },
                "set_up": source.set_up,
                "missing_indexes": list(source.missing_indexes),
                "cautions": list(source.cautions),
            }
        )
    for view in found.views:
        print_json(
            {
                **_named(view),
                "level": str(view.file.level if view.level is None else view.level),
                "declared": str(view.file.level),
                "algorithm": view.algorithm,
                "reason": view.reason,
                "sources": list(view.sources),
                "cautions": list(view.cautions),
                "stored": [part.to_json() for part in view.parts],
                "copies": view.copies,
                "costs": [line.to_json() for line in view.costs],
            }
        )
    for warning in found.warnings:
        print_json({"warning": str(warning)})
    for problem in found.problems:
        print_json({"problem": str(problem)})


def _print_tables(found: Inspection) -> None:
    if found.sources:
        print_table("Sources", ["source", "set up", "relations (key)"], map(_row, found.sources))
    if found.views:
        print_table(
            "Views",
            ["view", "level", "algorithm", "sources", "why"],
            (
                [
                    _title(view),
                    styled(str(view.file.level if view.level is None else view.level)),
                    view.algorithm or "-",
                    ", ".join(view.sources),
                    view.reason,
                ]
                for view in found.views
            ),
        )
    _print_costs(found)
    for source in found.sources:
        if source.set_up is False:
            console().print(f"Before the first run: headwater setup {source.name}")
    for source in found.sources:
        for statement in source.missing_indexes:
            console().print(f"Probes of {source.name} would be quicker with: {statement};")
    for view in found.views:
        if view.stored:
            console().print(f"○ {view.stored}")
        if view.copies:
            console().print(f"○ {view.copies}", markup=False)
    told = [source.cautions for source in found.sources] + [view.cautions for view in found.views]
    for caution in (caution for cautions in told for caution in cautions):
        console().print(f"○ {caution}")
    for warning in found.warnings:
        print_error(f"warning: {warning}")
    for problem in found.problems:
        print_error(problem)
    if not found.problems:
        console().print("✓ everything is sound")


def _print_costs(found: Inspection) -> None:
    from headwater.project.cost_lines import COST_COLUMNS, able

    weighed = [view for view in found.views if len(able(view.costs)) > 1]
    for view in weighed[:_MOST_TABLES]:
        print_table(
            f"{view.name}: what a transaction would cost",
            list(COST_COLUMNS),
            (line.cells for line in able(view.costs)),
            is_whole=True,
        )
    if left := [view.name for view in weighed[_MOST_TABLES:]]:
        console().print(f"What algorithms would cost other views: headwater explain {left[0]}")


def _named(view: ViewFound) -> dict[str, object]:
    if not view.members:
        return {"view": view.name, "file": str(view.file.path)}
    files = {file.name: str(file.path) for file in view.files}
    return {"group": view.name, "views": list(view.members), "files": files}


def _title(view: ViewFound) -> str:
    return f"{view.name}: {', '.join(view.members)}" if view.members else view.name


def _row(source: SourceFound) -> list[str]:
    states = {True: "yes", False: "not yet", None: "-"}
    shown = ", ".join(map(_with_key, source.relations)) or "cannot be read"
    return [source.name, states[source.set_up], shown]


def _with_key(relation: Relation) -> str:
    return f"{relation.short_name} ({', '.join(relation.key) or 'no key'})"
