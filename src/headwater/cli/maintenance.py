"""Commands around a running project: status, refresh, verify, reload, repair and the like."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.running import keep_running
from headwater.cli.sources import ProjectOption, SourceArgument
from headwater.errors import ExpressionError, HeadwaterError, InputError, for_each
from headwater.terminal.output import JsonOption, console, print_json, print_table
from headwater.terminal.verification import print_failing, print_verification, reading

if TYPE_CHECKING:
    from headwater.frames.session import Spark
    from headwater.project.project import Project
    from headwater.warehouse.warehouse import Warehouse

ViewArgument = Annotated[str, typer.Argument(help="A view's name.")]
UnitsArgument = Annotated[list[str], typer.Argument(help="Names of views or groups.")]
SomeUnitsArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of views or groups; all if none is given.")
]


# Looking


def status(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """How every view and every source stands. Starts nothing.

    Exits with 0 if all is well, 1 if something is wrong, 3 if no runner is at work.
    """
    from headwater.pipeline.status import describe_folder, publishing, troubles, waiting_parts

    found = describe_folder(project)
    wrong = troubles(found)
    if as_json:
        print_json({**found, "troubles": wrong})
    else:
        _print_status(found, wrong)
        for told in (*waiting_parts(found), *publishing(found)):
            console().print()
            console().print(f"○ {told}")
    if wrong or not found["runner"]:
        raise typer.Exit(1 if wrong else 3)


def _print_status(found: Mapping[str, Any], wrong: Sequence[str]) -> None:
    from headwater.terminal.live import read_so_far

    runner = found["runner"]
    out = console()
    if runner:
        out.print(f"● running: process {runner['pid']} on {runner['host']}")
    else:
        out.print("○ not running; 'headwater run' starts it")
    out.print()
    print_table(
        "Views",
        ["view", "state", "level", "algorithm", "version", "behind by", "last commit"],
        [_view_line(name, view) for name, view in found["views"].items()],
    )
    out.print()
    print_table(
        "Sources",
        ["source", "transactions", "position", "kept in the change log", "kept at the source"],
        [_source_line(name, source) for name, source in found["sources"].items()],
    )
    _print_asked(found["sources"])
    _print_nodes(found.get("nodes") or {})
    for name, view in found["views"].items():
        if rings := view.get("rings"):
            out.print()
            out.print(_rings_line(name, rings))
        if members := view.get("members"):
            together = f"stand together at version {view['number']}"
            out.print()
            out.print(f"○ {name}: {', '.join(members)} {together}")
        if stored := view.get("stored"):
            out.print()
            out.print(
                f"○ {name}: {stored['rows']:,} rows ({stored['bytes']:,} bytes) are stored for "
                f"{view['shown']['rows']:,} that are shown"
            )
        if copies := view.get("copies"):
            listed = ", ".join(f"{of} ({rows:,} rows)" for of, rows in copies.items())
            saved = view.get("answered_by_copies") or 0
            out.print(f"○ {name}: copies of {listed} have answered {saved:,} questions")
        if view.get("rows_read"):
            out.print()
            out.print(f"○ {name}: {read_so_far(view)}")
        if view.get("note"):
            out.print()
            out.print(f"○ {name}: {view['note']}")
    for trouble in wrong:
        out.print()
        out.print(f"✗ {trouble}")


def _print_asked(sources: Mapping[str, Mapping[str, Any]]) -> None:
    """What views had in common when they asked."""
    for name, source in sources.items():
        asked = source.get("asked") or {"questions": 0, "rounds": 0}
        if asked["rounds"] < asked["questions"]:
            console().print()
            console().print(
                f"○ {name}: {asked['questions']:,} questions of views were answered in "
                f"{asked['rounds']:,} rounds; {asked['shared']:,} queries had been asked by others"
            )


def _print_nodes(nodes: Mapping[str, Any]) -> None:
    """The nodes that are processes of their own."""
    for source, node in nodes.get("sources", {}).items():
        console().print()
        if node is None:
            console().print(f"✗ node of {source}: not connected; waited for at {nodes['listens']}")
        else:
            since = time.strftime("%F %T", time.localtime(node["since"]))
            console().print(f"● node of {source}: connected from {node['address']} since {since}")
    if nodes.get("refused"):
        console().print(f"○ {nodes['refused']}")


def _rings_line(view: str, rings: Mapping[str, Any]) -> str:
    epoch = f", epoch {'.'.join(map(str, rings['epoch']))}" if rings["epoch"] else ""
    at = ", ".join(rings["token_at"])
    return f"○ {view}: {f'the token is at {at}' if at else 'no token is at a node'}{epoch}"


def _view_line(name: str, view: Mapping[str, Any]) -> list[str]:
    when = view.get("committed_at")
    return [
        name,
        view["state"],
        view.get("level") or "",
        view.get("algorithm") or "",
        str(view.get("number") or ""),
        _behind(view.get("lag")),
        ago(when) if when else "",
    ]


def _behind(lag: Mapping[str, int | None] | None) -> str:
    if not lag:
        return ""
    parts = [f"{s} {'unknown' if n is None else n}" for s, n in lag.items() if n != 0]
    unknown = all(count is None for count in lag.values())
    return "unknown" if unknown else ", ".join(parts) or "nothing"


def _source_line(name: str, source: Mapping[str, Any]) -> list[str]:
    kept = f"{source['kept']:,} from {source['first']:,} on, {source['bytes']:,} bytes"
    position = source["position_text"]
    return [name, f"{source['end']:,}", position, kept, _retained(source.get("retained"))]


def _retained(kept: Mapping[str, Any] | None) -> str:
    if kept is None:
        return "unknown"
    parts = [("rows", kept["rows"]), ("bytes", kept["bytes"])]
    shown = [f"{count:,} {unit}" for unit, count in parts if count is not None]
    if kept["left_bytes"] is not None:
        shown.append(f"lost after {kept['left_bytes']:,} more")
    return ", ".join(shown) or "unknown"


def trim(project: ProjectOption = Path(), as_json: JsonOption = False) -> None:
    """Give up what sources keep unread beyond their retain; the next run loads their views anew.

    For a schedule, so that no log grows for ever while the runner is away. A runner that is at
    work reads the logs, and nothing is given up.
    """
    from headwater.pipeline import growth
    from headwater.project.project import Project
    from headwater.warehouse.lease import current_runner
    from headwater.warehouse.warehouse import Warehouse

    opened = Project.open(project, only=())
    opened.check_some_are_sound()
    is_read = current_runner(Warehouse(opened.warehouse).own) is not None
    given_up = {} if is_read else growth.trim(opened)
    if as_json:
        refused = {name: str(why) for name, why in opened.refused.items()}
        print_json({"given_up": given_up, "runner": is_read, "refused": refused})
        return
    _print_refused(opened)
    for source, why in given_up.items():
        console().print(f"○ {source}: its log was given up and begins anew, since {why}")
    if not given_up:
        reason = "a runner is at work" if is_read else "no log is larger than its retain"
        console().print(f"✓ nothing was given up: {reason}")


def _print_refused(project: Project) -> None:
    for name, why in project.refused.items():
        console().print(f"✗ {name} is left out: {why}")


def ago(when: float) -> str:
    seconds = max(0.0, time.time() - when)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.1f} s ago"


def verify(
    views: SomeUnitsArgument = None,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Recompute views at their own version vectors and compare: equal, or the rows that differ."""
    from headwater.pipeline.sessions import engine_of
    from headwater.pipeline.verify import verify_view
    from headwater.project.project import Project
    from headwater.warehouse.warehouse import Warehouse

    opened = Project.open(project, only=())
    spark = engine_of(opened).for_small
    wanted = _units(Warehouse(opened.warehouse), views, "verify", as_json)
    wrong = 0
    for name in wanted:
        try:
            with reading(f"verifying {name}", as_json) as report:
                found = verify_view(opened, name, spark, report)
        except HeadwaterError as error:
            if len(wanted) == 1 and not isinstance(error, ExpressionError):
                raise  # else it is of this view, and the others are looked at all the same
            print_failing(name, error, as_json)
            wrong += 1
            continue
        print_verification(found, as_json)
        wrong += not found.holds
    for name in [] if views or as_json else sorted(set(opened.units) - set(wanted)):
        console().print(f"○ {name} is not loaded yet: 'headwater run' loads it, or says why not.")
    if wrong:
        raise typer.Exit(1)


def _units(
    warehouse: Warehouse, names: Sequence[str] | None, purpose: str, quiet: bool
) -> list[str]:
    """The views and groups that are looked at as one: a member stands for its group.

    All that are loaded if none is named.
    """
    if not names:
        loaded = warehouse.view_names()
        if not loaded:
            raise InputError(f"There is no view to {purpose}.", "'headwater run' loads them.")
        return loaded
    found: dict[str, None] = {}
    for name in names:
        group = warehouse.group_of(name)
        if group is not None and not quiet:
            console().print(_whole_group(name, group.name, [m.name for m in group.members]))
        found[name if group is None else group.name] = None
    return list(found)


def _whole_group(view: str, group: str, members: Sequence[str]) -> str:
    return f"○ {view} is in the group {group}, whose views move together: {', '.join(members)}"


# Views' tables


def fold(
    views: SomeUnitsArgument = None, project: ProjectOption = Path(), as_json: JsonOption = False
) -> None:
    """Bring the plain tables of views up to their newest commits, now.

    Of a group those of all its views. One that cannot be folded is no reason to leave the others.
    """
    from headwater.pipeline.sessions import engine_of
    from headwater.project.project import Project
    from headwater.warehouse.warehouse import Warehouse

    opened = Project.open(project, only=())
    warehouse, spark = Warehouse(opened.warehouse), engine_of(opened).for_small
    wanted = _units(warehouse, views, "fold", as_json)
    for_each(wanted, lambda view: _fold(opened, warehouse, view, spark, as_json))


def _fold(project: Project, warehouse: Warehouse, view: str, spark: Spark, as_json: bool) -> None:
    from headwater.warehouse.folding import Unfolded

    table = warehouse.view(view)
    commit = table.fold(spark, "headwater fold") if table.tail().rows else None
    table.follow(spark)
    if view in project.units and project.files_of(view)[0].changes:
        table.follow_changes(spark)
    if isinstance(commit, Unfolded):
        raise HeadwaterError(commit.reason)
    if as_json:
        print_json({"view": view, "folded": commit is not None})
    elif commit is None:
        console().print(f"✓ {view}: nothing to fold")
    else:
        console().print(f"✓ {view}: the plain table is at version {commit.number}")


def drop(
    views: UnitsArgument, project: ProjectOption = Path(), as_json: JsonOption = False
) -> None:
    """Remove the tables of views, or of whole groups; other views go on."""
    from headwater.project.project import Project

    opened = Project.open(project, only=())
    for_each(dict.fromkeys(views), lambda view: _drop(opened, view, as_json))


def _drop(project: Project, view: str, as_json: bool) -> None:
    from headwater.pipeline.requests import drop_view

    drop_view(project, view)
    if as_json:
        print_json({"view": view, "dropped": True})
        return
    console().print(f"✓ {view}: its tables are gone")
    for file in project.files_of(view) if view in project.units else ():
        console().print(f"  {file.path} is still there: the next run loads the view again")


def reload(
    views: UnitsArgument,
    project: ProjectOption = Path(),
    as_json: JsonOption = False,
) -> None:
    """Load views anew, for example after their SELECT has changed; other views go on.

    Readers keep the old contents until the new ones replace them, in one step. A view of a group is
    loaded anew with all of the group.
    """
    from headwater.pipeline.requests import ask_runner
    from headwater.pipeline.runner import Runner
    from headwater.pipeline.sessions import session_of
    from headwater.project.project import Project

    opened = Project.open(project, only=views)
    for view in [] if as_json else views:
        if view in opened.view_files and (unit := opened.unit_of(view)) != view:
            console().print(_whole_group(view, unit, opened.units[unit]))
    views = list(dict.fromkeys(map(opened.unit_of, views)))
    _check_views(opened, views)
    if not ask_runner(opened, "reload", *views):
        runner = Runner(opened, session_of(opened), only=views, anew=views)
        keep_running(runner, once=True, as_json=as_json)
    for view in views:
        if as_json:
            print_json({"view": view, "reloaded": True})
        else:
            console().print(f"✓ {view}: loaded anew")


def refresh(
    views: UnitsArgument, project: ProjectOption = Path(), as_json: JsonOption = False
) -> None:
    """Have the runner show, in views, everything that their sources have committed by now.

    It returns when readers see it. For views that are refreshed seldom, or only when asked
    (USING rings-star (refresh = query)).
    """
    from headwater.project.project import Project

    opened = Project.open(project, only=())
    for_each(
        dict.fromkeys(map(opened.unit_of, views)), lambda view: _refresh(opened, view, as_json)
    )


def _refresh(project: Project, view: str, as_json: bool) -> None:
    from headwater.pipeline.requests import ask_runner

    if not ask_runner(project, "refresh", view):
        raise HeadwaterError(
            f"No runner is at work that could refresh {view}.",
            "'headwater run --once' brings all views up to where their sources are.",
        )
    if as_json:
        print_json({"view": view, "refreshed": True})
    else:
        console().print(f"✓ {view}: shows what its sources had committed")


def repair(
    source: SourceArgument, project: ProjectOption = Path(), as_json: JsonOption = False
) -> None:
    """Set a source up again whose log cannot be followed any more, and load its views anew.

    For a lost slot, a restored database, missing triggers. Readers keep the old contents of the
    views until the new ones replace them; views of other sources go on.
    """
    from headwater.errors import SeveralError, SourceError
    from headwater.pipeline.repair import though_repaired
    from headwater.pipeline.requests import ask_runner
    from headwater.pipeline.runner import Runner
    from headwater.pipeline.sessions import session_of
    from headwater.project.project import Project, open_source
    from headwater.project.settings import together

    open_source(project, source)  # says so if there is none
    opened = Project.open(project, only=())
    opened.check_some_are_sound()
    views = [unit for unit in opened.units if source in opened.sources_of(unit)]
    _check_some(opened, views)
    if not as_json:
        _print_refused(opened)
    if not ask_runner(opened, "repair", source):
        runner = Runner(opened, session_of(opened), only=views, anew=views, repair=source)
        try:
            keep_running(runner, once=True, as_json=as_json)
        except (SeveralError, SourceError) as error:
            if not runner.has_repaired:
                raise
            raise though_repaired(source, error) from error
        if left := _refused_over(opened, source):
            raise though_repaired(source, together(left))
    if as_json:
        print_json({"source": source, "repaired": True, "views": views})
    else:
        loaded = f"; loaded anew: {', '.join(views)}" if views else ""
        console().print(f"✓ {source} is set up again{loaded}")


def _refused_over(project: Project, source: str) -> list[HeadwaterError]:
    """Why views of a source that are loaded are left out."""
    from headwater.warehouse.warehouse import Warehouse

    warehouse = Warehouse(project.warehouse)
    found: list[HeadwaterError] = []
    for name, why in project.refused.items():
        with suppress(HeadwaterError):  # it is damaged: told where it is brought up
            if warehouse.has_view(name) and source in warehouse.view(name).definition.view.sources:
                found.append(why)
    return found


def _check_some(project: Project, views: Sequence[str]) -> None:
    """Refuse if no view could be loaded; one that cannot be is no reason to leave the others."""
    from headwater.errors import SeveralError

    failures = []
    for view in views:
        try:
            _check_views(project, [view])
        except HeadwaterError as error:
            failures.append(error)
    if failures and len(failures) == len(views):
        raise failures[0] if len(failures) == 1 else SeveralError(failures)


def _check_views(project: Project, views: Sequence[str]) -> None:
    """Refuse what cannot be loaded, before anything is touched."""
    from headwater.algebra.sql.names import closest_first

    for view in views:
        if view not in project.units:
            raise InputError(
                f"The project has no view {view}.",
                f"It has {closest_first(view, project.units) or 'none'}.",
            )
    relations = project.relations(views)
    for view in views:
        project.choose(project.definition(view, relations))
