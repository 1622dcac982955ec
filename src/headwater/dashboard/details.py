"""What a page shows of one view when somebody looks at it: read when it is asked for, as data.

Read in a thread of the server, from files; only the explanation asks sources, what they have.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError, InputError
from headwater.project.explanation import explain
from headwater.project.project import Project
from headwater.terminal.cells import cell
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.newest import first_rows, scanned
from headwater.warehouse.warehouse import Warehouse

_VERSIONS = 40
_ROWS = 25
_CHANGED = 40


def definition(folder: Path, name: str) -> dict[str, Any]:
    """What a view is: the text of its files, and how it is maintained and why."""
    project = _with_view(folder, name)
    files = project.files_of(name) if name in project.units else ()
    found: dict[str, Any] = {
        "view": name,
        "files": [{"name": file.path.name, "text": file.text} for file in files],
    }
    try:
        found["explanation"] = explain(project, name).to_json()
    except HeadwaterError as error:
        found["why_not"] = str(error)
    return found


def rows(folder: Path, name: str) -> dict[str, Any]:
    """Some rows of a view, or of each view of a group, those that changed last first."""
    warehouse = Warehouse(_with_view(folder, name).warehouse)
    names = [name]
    with suppress(HeadwaterError):
        names = [member.name for member in warehouse.view(name).members] or names
    return {"view": name, "tables": [_rows(warehouse, each) for each in names]}


def _rows(warehouse: Warehouse, name: str) -> dict[str, Any]:
    try:
        scan, note = scanned(warehouse.shown_view(name), None)
        found = first_rows(scan, _ROWS + 1)
    except HeadwaterError as error:
        return {"name": name, "columns": [], "rows": [], "note": str(error)}
    return {
        "name": name,
        "columns": list(scan.schema.names),
        "rows": [[cell(value) for value in row] for row in found[:_ROWS]],
        "more": len(found) > _ROWS,
        "version": scan.number,
        "note": note,
    }


def versions(folder: Path, name: str) -> dict[str, Any]:
    """The newest versions of a view, newest first."""
    table = Warehouse(_with_view(folder, name).warehouse).view(name)
    return {"view": name, "versions": [_version(c) for c in islice(table.commits(), _VERSIONS)]}


def _version(commit: ViewCommit) -> dict[str, Any]:
    return {
        "number": commit.number,
        "kind": commit.kind,
        "at": commit.timestamp / 1000 or None,
        "rows": commit.rows,
        "takes": [[s, first, last] for s, spans in commit.added.items() for first, last in spans],
        "vector": {source: reached.number for source, reached in commit.vector.items()},
        "algorithm": commit.algorithm,
        "level": commit.level,
    }


def changes(folder: Path, name: str, number: int) -> dict[str, Any]:
    """Which rows a version changed."""
    table = Warehouse(_with_view(folder, name).warehouse).shown_view(name)
    if number < 2:
        raise InputError(f"Version {number} of {name} has none before it.")
    found = table.shown_changes(number - 1, number, None)
    changed = found.sorted_items()
    return {
        "view": name,
        "number": number,
        "columns": list(found.schema.names),
        "rows": [[count, *map(cell, row)] for row, count in changed[:_CHANGED]],
        "more": len(changed) > _CHANGED,
    }


def _with_view(folder: Path, name: str) -> Project:
    project = Project.open(folder, only=())
    if name not in project.units and not Warehouse(project.warehouse).has_view(name):
        raise InputError(f"The project has no view {name}.")
    return project
