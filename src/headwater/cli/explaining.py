"""`headwater explain`: how views are maintained."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.tree import Tree

from headwater.cli.sources import ProjectOption
from headwater.terminal.output import JsonOption, console, print_json, print_table

if TYPE_CHECKING:
    from headwater.project.explanation import Explanation


def explain(
    views: Annotated[
        list[str] | None, typer.Argument(help="Names of views or groups; all if none is given.")
    ] = None,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Show how views are maintained: what is stored, what is looked up, how it is computed."""
    from headwater.errors import SeveralError, for_each
    from headwater.project import explanation
    from headwater.project.project import Project

    opened = Project.open(project, only=())
    names = list(dict.fromkeys(views or opened.units))

    def tell(name: str) -> None:
        found = explanation.explain(opened, name)
        if as_json:
            print_json(found.to_json())
            return
        if name != names[0]:
            console().print()
        _print(found)

    for_each(names, tell)
    if opened.mistakes and not views:
        raise SeveralError(opened.mistakes)


def _print(found: Explanation) -> None:
    from headwater.project.cost_lines import COST_COLUMNS, able, reasons

    out = console()
    out.print(f"{found.name}, by {found.algorithm}: {found.reason}", markup=False)
    if found.over_views:
        names = ", ".join(found.over_views)
        out.print(f"Reads the views {names}, unfolded to the tables below.", markup=False)
    if found.functions:
        names = ", ".join(found.functions)
        out.print(f"Calls the functions {names}, unfolded to what they return.", markup=False)
    for name, lines in found.mediation.items():
        out.print(f"{name} reads mediated relations, and is rewritten over sources:", markup=False)
        for depth, line in lines:
            out.print(f"{'  ' * (depth + 1)}{line}", markup=False, soft_wrap=True)
    for told in found.never:
        out.print(f"○ {told}", markup=False)
    if found.costs:
        print_table(
            "What a transaction would cost by each algorithm",
            list(COST_COLUMNS),
            (line.cells for line in able(found.costs)),
            is_whole=True,
        )
        for why, those in reasons(found.costs).items():
            out.print(f"○ not {', '.join(those)}: {why}", markup=False)
    print_table(
        "When a table changes, these are looked up",
        ["table", "rows, about", "looked up"],
        [
            [table, "-" if rows is None else f"{rows:,}", _looked_up(found, table)]
            for table, rows in found.tables.items()
        ],
    )
    if found.parts:
        out.print("What is stored")
        for number, part in enumerate(found.parts, 1):
            out.print(f"  {number}. {part}", markup=False)
        keys = found.parts[0].keyed_by
        out.print(
            f"What is shown, computed only for each {', '.join(keys)} that changes"
            if keys
            else "What is shown, evaluated whole from what is stored when it is folded or read",
            markup=False,
        )
        for lines in found.shown.values():
            out.print(_tree(lines))
        if found.left_to_spark:
            names = ", ".join(found.left_to_spark)
            out.print(f"Only Spark computes {names}, so what is shown is always left to it.")
    else:
        out.print("What is stored is what is shown.")
    for copy in found.copies:
        rows = found.now.copied_rows.get(copy.relation) if found.now else None
        size = f": {rows:,} rows" if rows is not None else ""
        out.print(f"Beside that {copy}{size}.", markup=False)
    for table, rows in found.large_copies:
        out.print(f"○ Something is stored for each of about {rows:,} rows of {table}.")
    for told in found.all_pairs:
        out.print(f"○ {told}", markup=False)
    out.print(found.recomputed, markup=False)
    if found.now is not None:
        now = found.now
        out.print(
            f"Loaded: {now.stored_rows:,} rows are stored ({now.stored_bytes:,} bytes), "
            f"{now.shown_rows:,} are shown in the plain table ({now.shown_bytes:,} bytes)."
        )
    else:
        out.print("Not loaded yet.")


def _looked_up(found: Explanation, table: str) -> str:
    told = [str(lookup) for lookup in found.lookups if lookup.changed == table]
    return ", then ".join(told) or "nothing"


def _tree(lines: tuple[tuple[int, str], ...]) -> Tree:
    """The lines under each other; a line hangs below the last one that is less deep."""
    root = Tree(escape(lines[0][1]))
    above = {0: root}
    for depth, line in lines[1:]:
        parent = above[max(d for d in above if d < depth)]
        above = {d: t for d, t in above.items() if d < depth}
        above[depth] = parent.add(escape(line))
    return root
