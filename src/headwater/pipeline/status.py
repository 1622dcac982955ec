"""How a project stands, from what lies in its warehouse; whether a runner is at work or not."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from headwater.errors import HeadwaterError
from headwater.pipeline.growth import retained
from headwater.project.project import Project
from headwater.sources.settings import SourceSettings
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.commits import NO_LEVEL
from headwater.warehouse.failing import failures
from headwater.warehouse.forms import has_form
from headwater.warehouse.lease import current_runner
from headwater.warehouse.own_files import read_own
from headwater.warehouse.table_versions import DataFile, TableVersion
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse


class _Told(BaseModel):
    model_config = ConfigDict(strict=True)


class _AskedTold(_Told):
    questions: int
    rounds: int
    shared: int


class _SourceTold(_Told):
    trouble: str | None = None
    remedy: str | None = None
    since: float | None = None
    asked: _AskedTold | None = None


class _NodeTold(_Told):
    address: str
    since: float


class _NodesTold(_Told):
    listens: str
    refused: str | None = None
    sources: dict[str, _NodeTold | None] = {}


class _RingsTold(_Told):
    epoch: list[int]
    token_at: list[str]


class _ProgressTold(_Told):
    rows: int
    of: int | None = None
    rows_per_s: int = 0
    left_s: float | None = None


class _PublishedTold(_Told):
    number: int | None = None
    versions: dict[str, int] | None = None
    waits_since: float | None = None
    why: str | None = None


class _OwedTold(_Told):
    booster: str
    source: str
    why: str | None = None


class _ShareTold(_Told):
    node: str | None = None
    folder: str
    objects: int
    at: float | None = None
    as_of: float | None = None
    trouble: str | None = None
    notes: list[str] = []
    owed: list[_OwedTold] = []


class _ViewTold(_Told):
    state: str
    level: str | None = None
    algorithm: str | None = None
    message: str | None = None
    since: float | None = None
    remedy: str | None = None
    note: str | None = None
    lag: dict[str, int | None] | None = None
    committed_at: float | None = None
    rings: _RingsTold | None = None
    rows_read: dict[str, int] | None = None
    progress: _ProgressTold | None = None
    published: _PublishedTold | None = None


class _WaitingTold(_Told):
    id: str
    parts: int
    there: dict[str, int]
    since: float
    views: list[str]


class _MistakeTold(_Told):
    what: str
    since: float


class _AcrossTold(_Told):
    waiting: list[_WaitingTold] = []
    mistakes: list[_MistakeTold] = []


class _StatusTold(_Told):
    model_config = ConfigDict(strict=True, populate_by_name=True)

    nodes: _NodesTold | None = None
    share: _ShareTold | None = None
    trouble: str | None = None
    across: _AcrossTold = Field(default=_AcrossTold(), alias="global")
    views: dict[str, _ViewTold] = {}
    sources: dict[str, _SourceTold] = {}


_LIVE: TypeAdapter[Any] = TypeAdapter(_StatusTold)
"""What of a runner's status is read again here."""


_TELL_MISTAKES_S = 3600.0


def describe_folder(folder: Path) -> dict[str, Any]:
    """How a project stands, also if its view files have mistakes, which are told.

    Sources that answer soon are asked how much they keep to be read.
    """
    project = Project.open(folder, only=())
    found = describe_stored(project)
    for name, kept in retained(project).items():
        found["sources"][name]["retained"] = kept
    return found


def describe_stored(project: Project) -> dict[str, Any]:
    """The same without asking anybody: contacts no source."""
    found = describe(project)
    if project.mistakes and not project.refused:
        found["trouble"] = "\n".join(map(str, project.mistakes))
    for name, view in found["views"].items():
        if name in project.units:
            view["reads"] = sorted(project.sources_of(name))
    return found


def describe(project: Project) -> dict[str, Any]:
    """Views, sources and the runner; contacts no source."""
    warehouse = Warehouse(project.warehouse)
    runner = current_runner(warehouse.own)
    last = _live(warehouse)
    live = last if runner else {"views": _left(last)}
    told = live.get("sources", {})
    existing = warehouse.view_names()
    views = {
        name: _view(warehouse, name, existing, live.get("views", {}).get(name, {}))
        for name in {**project.units, **dict.fromkeys(existing)}
    }
    sources = {  # after the views, which a runner never lets come further than their logs
        source: _source(ChangeLog(warehouse.changes, source), told.get(source, {}), settings)
        for source, settings in project.settings.sources.items()
    }
    for view in views.values():
        _compare(view, sources)
    for name in existing:
        if not project.mistakes and name not in project.units:  # else it may be in a bad file
            views[name]["state"] = "no file"
    for name, why in project.refused.items():
        _refuse(views.setdefault(name, {"state": "not loaded"}), str(why))
    return {
        "runner": runner,
        "trouble": live.get("trouble"),
        "last_run": [] if runner else _told_last(last),
        "views": views,
        "sources": sources,
        "global": {"waiting": [], "mistakes": [], **(live.get("global") or {})},
        **({"nodes": live["nodes"]} if live.get("nodes") else {}),
        **({"share": _share(last, runner)} if project.settings.share.publish else {}),
    }


def _share(last: Mapping[str, Any], runner: object) -> dict[str, Any]:
    """How publishing stands, or stood when a runner was last at work: what is owed stays owed."""
    told = dict(last.get("share") or {"node": None, "owed": [], "notes": [], "trouble": None})
    return told if runner else {**told, "trouble": None}


def _refuse(view: dict[str, Any], why: str) -> None:
    """The file of a view has a mistake; a runner that has read it before goes on as it was."""
    view["message"] = view.get("message") or why
    if view["state"] in ("not loaded", "not running"):
        view["state"] = "stopped"


def _told_last(last: Mapping[str, Any]) -> list[str]:
    """What was wrong with sources when a runner was last at work."""
    told = [s["trouble"] for s in last.get("sources", {}).values() if s.get("trouble")]
    return [f"When it last ran: {text}" for text in dict.fromkeys(told)]


def stopped_views(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    """The views that did not go on when a runner was last at work, with the reasons."""
    return {name: view for name, view in _left(_live(warehouse)).items() if "state" in view}


def _left(last: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """How views were left by the runner that was last at work: what did not go on has stopped."""
    found = {}
    for name, view in last.get("views", {}).items():
        kept = ("message", "since", "remedy", "note", "published")
        told = {key: view[key] for key in kept if view.get(key)}
        if "message" in told and view["state"] in ("stopped", "waiting"):
            told["state"] = "stopped"
        found[name] = told
    return found


def _source(log: ChangeLog, live: Mapping[str, Any], settings: SourceSettings) -> dict[str, Any]:
    trouble = live.get("trouble")
    try:
        log.scan()
    except HeadwaterError as error:
        trouble = str(error)
    return {
        "end": log.end,
        "first": log.first,
        "kept": max(0, log.end - log.first + 1),
        "bytes": log.byte_count,
        "position": log.position,
        "position_text": settings.position_text(log.position or {}),
        "asked": live.get("asked"),
        "trouble": trouble,
        "remedy": live.get("remedy") if trouble else None,
        "since": live.get("since") if trouble else None,
    }


def _live(warehouse: Warehouse) -> dict[str, Any]:
    """What a runner has told last; nothing if that is damaged."""
    found = read_own(warehouse.own / "status.json")
    return found if found is not None and has_form(_LIVE, found) else {}


def _view(
    warehouse: Warehouse,
    name: str,
    existing: list[str],
    live: dict[str, Any],
) -> dict[str, Any]:
    if name not in existing:
        return {"state": live.get("state", "not loaded"), **live}
    try:
        table = warehouse.view(name)
        commit = table.latest()
        tail = table.tail()
        failing = failures(table)
    except HeadwaterError as error:
        return {**live, "state": "damaged", "message": str(error)}
    told = {"message": live.get("message") or failing} if failing else {}
    return {
        **live,
        **told,
        "state": live.get("state", "not running"),
        "number": commit.number,
        "committed_at": live.get("committed_at") or commit.timestamp / 1000,
        "level": commit.level or live.get("level"),
        "algorithm": commit.algorithm or live.get("algorithm"),
        "vector": {
            source: {"number": reached.number, "position": reached.position}
            for source, reached in commit.vector.items()
        },
        "lag": live.get("lag") or dict.fromkeys(commit.vector),
        "tail": {"files": tail.files, "rows": tail.rows, "commits": tail.commits},
        **_stored(table),
    }


def _stored(table: ViewTable) -> dict[str, Any]:
    """How large is what is stored of a view with a top, and what it shows."""
    state = table.at()
    members = {member.name: member.of(state).plain for member in table.members}
    if state.top is None and not members:
        return {}
    shown = [file for plain in members.values() or (state.plain,) for file in plain.files]
    return {
        **({"members": {n: _published(plain) for n, plain in members.items()}} if members else {}),
        "stored": _size(state.stored.files),
        "shown": _size(shown),
        **({"copies": copies} if (copies := table.copied_rows()) else {}),
    }


def _published(plain: TableVersion) -> int | None:
    """Which version of its group the plain table of a member shows; None if it has to follow."""
    return plain.number or None


def _size(files: Iterable[DataFile]) -> dict[str, int]:
    listed = list(files)
    return {"rows": sum(f.rows for f in listed), "bytes": sum(f.size for f in listed)}


def _compare(view: dict[str, Any], sources: Mapping[str, Any]) -> None:
    """A view cannot have come further than the change logs."""
    for source, reached in view.get("vector", {}).items():
        log = sources.get(source)
        if log and not log["trouble"] and reached["number"] > log["end"]:
            view["message"] = view.get("message") or (
                f"It has come to transaction {reached['number']} of {source}, and the change log "
                f"ends at {log['end']}. Run 'headwater repair {source}'."
            )


def troubles(found: Mapping[str, Any]) -> list[str]:
    """What is wrong, a sentence each."""
    told = [found["trouble"]] if found.get("trouble") else []
    told += [s["trouble"] for s in found["sources"].values() if s.get("trouble")]
    kept = [s["retained"] for s in found["sources"].values() if s.get("retained")]
    told += [each["trouble"] for each in kept if each["trouble"]]
    told += [
        f"{name} is WITH NO CONSISTENCY, for demonstrations: what it shows may be wrong, now and "
        "for good."
        for name, view in found["views"].items()
        if view.get("level") == NO_LEVEL
    ]
    told += [f"{name}{_since(view)}: {view['message']}" for name, view in found["views"].items()
             if view.get("message")]  # fmt: skip
    told += unpublished(found)
    recent = time.time() - _TELL_MISTAKES_S
    told += [each["what"] for each in found["global"]["mistakes"] if each["since"] > recent]
    return list(dict.fromkeys([*told, *found["last_run"]]))


def unpublished(found: Mapping[str, Any]) -> list[str]:
    """What cannot be published, a sentence each."""
    share = found.get("share") or {}
    told = [f"Nothing can be published: {share['trouble']}"] if share.get("trouble") else []
    for name, view in found["views"].items():
        if (published := view.get("published")) and published.get("why"):
            told.append(f"{name} is not published: {published['why']}")
    return told


def publishing(found: Mapping[str, Any]) -> list[str]:
    """What is said of publishing beyond what is wrong: how far it is, what waits; a line each."""
    share = found.get("share")
    if share is None:
        return []
    when = share.get("at")
    at = time.strftime("%F %T", time.localtime(when)) if when else "not yet"
    lines = [f"node {share['node'] or '(not made yet)'}: last published {at}"]
    if as_of := share.get("as_of"):
        shown = time.strftime("%F %T", time.localtime(as_of))
        lines[0] += f"; it has all that the sources had committed at {shown}"
    for name, view in found["views"].items():
        if published := view.get("published"):
            lines.append(f"{name} {_published_line(published, view.get('number'))}")
    lines += [f"owed: {owed['booster']}{_because(owed)}" for owed in share["owed"]]
    return [*lines, *share["notes"]]


def _published_line(published: Mapping[str, Any], newest: int | None) -> str:
    number, waits = published.get("number"), published.get("waits_since")
    shown = "is not published yet" if number is None else f"is published up to version {number}"
    if newest and number and newest > number:
        shown += f" of {newest}"
    if waits:
        shown += f"; the rest waits since {time.strftime('%F %T', time.localtime(waits))}"
    return shown


def _because(owed: Mapping[str, Any]) -> str:
    return f": {owed['why']}" if owed.get("why") else ""


def waiting_parts(found: Mapping[str, Any]) -> list[str]:
    """Which transactions across databases are not whole yet, and who waits; a sentence each."""
    return [
        f"Of the transaction across databases {each['id']!r} {len(each['there'])} of "
        f"{each['parts']} parts are there ({_listed(each['there'])}) since "
        f"{time.strftime('%F %T', time.localtime(each['since']))}; for the others wait: "
        f"{', '.join(each['views'])}."
        for each in found["global"]["waiting"]
    ]


def _listed(there: Mapping[str, int]) -> str:
    return ", ".join(f"transaction {number} of {source}" for source, number in there.items())


def _since(view: Mapping[str, Any]) -> str:
    """Since when a view has been standing still for one reason, which may have passed."""
    since = view.get("since")
    return f" (since {time.strftime('%F %T', time.localtime(since))})" if since else ""
