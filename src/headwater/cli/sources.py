"""`headwater tables` shows what a source has; only `setup` and `teardown` change anything there."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.terminal.output import JsonOption, console, print_error, print_json, print_table

if TYPE_CHECKING:
    from headwater.sources.contract import Source
    from headwater.sources.discovered import DiscoveredTable


def _guarded(project: Path) -> Path:
    """What a command on a project writes is for those only that its settings let read it.

    Spark and delta-rs write files too, under the process's mask.
    """
    from headwater.project.settings import file_mask

    os.umask(file_mask(project))
    return project


ProjectOption = Annotated[
    Path,
    typer.Option("--project", "-p", callback=_guarded, help="The folder with headwater.toml."),
]
SourceArgument = Annotated[str, typer.Argument(help="A source's name in headwater.toml.")]


def tables(
    source: SourceArgument, project: ProjectOption = Path(), as_json: JsonOption = False
) -> None:
    """Show what a source has: tables, types, keys, sizes, and what cannot be used and why."""
    from headwater.project.project import open_source

    opened = open_source(project, source)
    for table in opened.discover():
        if as_json:
            print_json(_as_object(table))
        elif table.problem:
            console().print(f"✗ {table.name}: {table.problem}")
            console().print("")
        else:
            console().print(_title(table))
            rows = [[c.name, c.declared, c.type or "-", c.remark] for c in table.columns]
            shown = 4 if any(c.remark for c in table.columns) else 3
            heads = ["column", "type there", "type here", "remark"][:shown]
            print_table("", heads, [row[:shown] for row in rows], is_whole=True)
            for index in table.indexes:
                console().print(f"  {index}")
            console().print("")
    if not as_json and opened.tagging:
        console().print(f"A part of a transaction across databases is tagged by: {opened.tagging};")


def _as_object(table: DiscoveredTable) -> dict[str, object]:
    return {
        "table": table.name,
        "columns": [
            {
                "name": column.name,
                "declared": column.declared,
                "type": column.type or None,
                "remark": column.remark,
            }
            for column in table.columns
        ],
        "key": list(table.key),
        "rows": table.rows,
        "bytes": table.size_bytes,
        "indexes": list(table.indexes),
        "problem": table.problem or None,
    }


def _title(table: DiscoveredTable) -> str:
    told = [f"key ({', '.join(table.key)})" if table.key else "no key"]
    if table.rows is not None:
        told.append(f"about {table.rows:,} rows")
    if table.size_bytes is not None:
        told.append(f"{table.size_bytes:,} bytes")
    return f"{table.name}: {', '.join(told)}"


def setup(
    sources: Annotated[
        list[str] | None,
        typer.Argument(help="Sources by their names in headwater.toml; all if none is given."),
    ] = None,
    project: ProjectOption = Path(),
    show: Annotated[
        bool, typer.Option("--print", help="Only show the SQL, for a DBA to run.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make what Headwater needs at sources: a log, a publication or triggers."""
    from headwater.errors import for_each
    from headwater.project.settings import source_names

    wanted = sources or source_names(project)

    def set_up(source: str) -> None:
        if show and len(wanted) > 1 and not as_json:
            typer.echo(f"-- {source}")
        _set_up(project, source, show, as_json)

    for_each(wanted, set_up)


def _set_up(project: Path, source: str, show: bool, as_json: bool) -> None:
    from headwater.errors import SeveralError
    from headwater.project.needs import source_to_set_up

    chosen, refused = source_to_set_up(project, source)
    statements = list(chosen.setup_statements())
    if not show:
        chosen.setup()
    problems = chosen.problems()
    if as_json:
        told = [str(problem) for problem in problems]
        print_json({"source": source, "statements": statements, "ran": not show, "problems": told})
    elif show:
        print_statements(statements)
    else:
        found = ", ".join(chosen.relations())
        console().print(f"✓ {source} is set up for {found}")
    if refused:
        raise SeveralError([*refused, *problems])
    if not as_json:
        for problem in problems:
            print_error(f"warning: {problem}")


def print_statements(statements: Sequence[str]) -> None:
    """As they are to be run; on a terminal, which they could steer, as they can be looked at."""
    text = "\n".join(f"{statement.rstrip(';')};" for statement in statements)
    if not sys.stdout.isatty():
        typer.echo(text, color=True)  # else what looks like a colour would be taken out
        return
    for line in text.split("\n"):
        console().print(line)


def teardown(
    source: SourceArgument,
    project: ProjectOption = Path(),
    owner: Annotated[
        str | None,
        typer.Option(help="Remove the log of another warehouse instead, which check names."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove everything that setup made at a source."""
    from headwater.project.project import open_source

    chosen = open_source(project, source)
    if owner is not None:
        _remove_log(chosen, owner, as_json)
        return
    stays = list(chosen.stays())
    chosen.teardown()
    again = [f"headwater setup {source}", f"headwater repair {source}"]
    if as_json:
        print_json({"source": source, "removed": True, "stays": stays, "to_go_on": again})
        return
    if stays:
        console().print(f"✓ {source}: what setup made is removed; {' '.join(stays)}")
    else:
        console().print(f"✓ {source} is as it was before setup")
    console().print(f"For views over it to go on some day: {', then '.join(again)}")


def _remove_log(source: Source, owner: str, as_json: bool) -> None:
    from headwater.errors import InputError

    owners = [log.owner for log in source.other_logs()]
    if owner not in owners:
        raise InputError(
            f"Source {source.name} has no log of a warehouse {owner}.",
            f"There are: {', '.join(owners) or 'none of other warehouses'}.",
        )
    source.remove_log(owner)
    if as_json:
        print_json({"source": source.name, "owner": owner, "removed": True})
    else:
        console().print(f"✓ {source.name}: the log of warehouse {owner} is removed")
