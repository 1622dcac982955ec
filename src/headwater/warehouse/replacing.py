"""Replacing a view's contents: a load in the middle of a view's life, as one numbered commit.

The new files are written beside the old ones. Then one commit of the signed log decides: it has
the next number, lets the old tail go, brings the new columns and definition, and names the new
files of the plain table. From then on the view is the new one, and every earlier writer is
refused as always. The plain table follows in a commit of its own (`settle`), made by whoever
comes first: the same process, or after a crash the next writer. Until then its readers see the
old contents, and Headwater's reader goes by the files that the log names.

Choices: the log decides, not the plain table as in a fold, because numbers are given there. A
fold of the old contents that comes between both commits is as good as one before; the plain table
then follows behind it. Stored parts are put before the log decides: nobody looks at a version of
theirs that the plain table does not name.

It is also the cure for a table that is damaged or lost: that one is made anew and put in its place,
and commit numbers go on above all that can have been given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_other
from typing import TYPE_CHECKING, Any

from headwater.errors import EngineError
from headwater.warehouse.commits import (
    APP,
    OWN_FILES,
    FoldedBase,
    LogLine,
    ViewCommit,
    commit_of,
    metadata_of,
)
from headwater.warehouse.delta_log import OvertakenError
from headwater.warehouse.files import write_counted
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.remaking import aside_for, number_above, remade, whole
from headwater.warehouse.stored import first_stored, names_stored, put_stored, stored_version
from headwater.warehouse.table_versions import DataFile, TableVersion

if TYPE_CHECKING:
    from headwater.warehouse.view_table import ViewTable

_LOADED = f"{APP}:load"
"""The app transaction of the log that holds the number of the last load that replaced all."""


def replace(view: ViewTable, load: ViewLoad) -> ViewCommit:
    load.check()
    view.log.check_in_place()
    files, stored = _written(view, load)
    before = view.plain.snapshot()
    plain = [*load.plain_table(before), *(file.add() for file in files)]
    if stored is not None or stored_version(before) is not None:
        plain.append(names_stored(stored))
    rows = sum(file.rows for file in files)
    new = [view.plain.folder / file.name for file in files]
    while True:
        log = whole(view.log)
        number = _next_number(view, log, before)
        version = view.log.first_version() if log is None else log.version + 1
        commit = load.commit(number, FoldedBase(OWN_FILES, number), rows, version)
        actions = [
            *_with_contents(commit, plain),
            *load.log_table(log),
            *(file.remove() for file in (log.files if log else ())),
        ]
        with load.guard():
            if log is None:
                view.log.check_in_place()
                with aside_for(view.log.folder, view.staging) as aside:
                    view.log = remade(view.log, version, aside, actions, view.staging)
                break
            try:
                if view.log.put(version, actions, new):
                    break
            except OvertakenError:
                pass
    settle(view)
    return commit


def _written(view: ViewTable, load: ViewLoad) -> tuple[list[DataFile], int | None]:
    """The new files in the plain table's folder, and the version of the stored parts, if any.

    A table that is not whole is made anew, and the plain table with the stored parts: what it had
    named of them is gone.
    """
    plain = whole(view.plain)
    names = plain is not None and stored_version(plain) is not None
    has_stored = load.has_stored
    keeps = (has_stored or names) and whole(view.stored) is not None
    stored = _written_stored(view, load, keeps) if has_stored else None
    if plain and (keeps or not names):
        return load.write_plain(view.plain.folder, view.staging), stored
    with aside_for(view.plain.folder, view.staging) as aside:
        files = load.write_plain(aside, view.staging)
        view.log.check_in_place()
        version = view.plain.first_version()
        actions = [*load.plain_table(), _transaction(APP, 0)]  # which tells that it is ours
        view.plain = remade(view.plain, version, aside, actions, view.staging)
        return files, stored


def _written_stored(view: ViewTable, load: ViewLoad, keeps: bool) -> int:
    schema = load.definition.schema
    if keeps:
        files = write_counted(load.contents, schema, view.stored.folder, view.staging)
        return put_stored(view.stored, view.name, schema, files, files)
    with aside_for(view.stored.folder, view.staging) as aside:
        files = write_counted(load.contents, schema, aside, view.staging)
        view.log.check_in_place()
        actions = first_stored(view.name, schema, files)
        version = view.stored.first_version()
        view.stored = remade(view.stored, version, aside, actions, view.staging)
        return version


def _next_number(view: ViewTable, log: TableVersion | None, plain: TableVersion) -> int:
    if log is None:
        return number_above(view.log, plain.number)
    return max(log.number, plain.number) + 1


def settle(view: ViewTable) -> None:
    """Let the plain table follow a load that the log has decided."""
    while True:
        log, plain = view.tables()
        if not is_ahead(log, plain):
            return
        view.log.make_durable()  # whoever has decided it may have been killed before
        entry, commit = _last_load(view, log)
        version = plain.version + 1
        actions = [
            *with_other(commit, version=version, base=FoldedBase(version, commit.number)).actions(),
            *_contents(entry),
            *(file.remove() for file in plain.files),
        ]
        try:
            if view.plain.put(version, actions):
                return
        except OvertakenError:
            pass


def is_ahead(log: TableVersion, plain: TableVersion) -> bool:
    """Whether the plain table has still to follow a load."""
    return plain.number < (log.transaction(_LOADED) or 0)


def loaded_plain(view: ViewTable, commit: ViewCommit) -> TableVersion:
    """The plain table as a load made it, from the load's own entry in the log."""
    entry = view.log.entry(commit.version)
    if entry is None:
        raise FileNotFoundError(f"{view.log.folder} has no entry {commit.version}")
    found = TableVersion(view.plain.folder, OWN_FILES - 1).after([_contents(entry)])
    return with_other(found, transactions={**found.transactions, APP: commit.number})


def loaded_files(entry: Sequence[LogLine]) -> list[DataFile]:
    """The files of the plain table that an entry of the log names."""
    return [DataFile.of_add(action["add"]) for action in _contents(entry) if "add" in action]


def _with_contents(commit: ViewCommit, plain: Sequence[LogLine]) -> list[LogLine]:
    actions = commit.actions()
    actions[0]["commitInfo"][APP]["plain"] = list(plain)
    return [*actions, _transaction(_LOADED, commit.number)]


def _transaction(app: str, number: int) -> LogLine:
    now = int(time.time() * 1000)
    return {"txn": {"appId": app, "version": number, "lastUpdated": now}}


def _contents(entry: Sequence[LogLine]) -> list[LogLine]:
    metadata: Mapping[str, Any] = metadata_of(list(entry)) or {}
    found: list[LogLine] = metadata.get("plain", [])
    return found


def _last_load(view: ViewTable, log: TableVersion) -> tuple[list[LogLine], ViewCommit]:
    for version, entry in view.log.entries_back(log.version):
        if _contents(entry) and (commit := commit_of(entry, version)):
            return entry, commit
    raise EngineError(
        f"The log of the view {view.name} has lost the entry of its last load.",
        f"Load the view anew with 'headwater reload {view.name}'.",
    )
