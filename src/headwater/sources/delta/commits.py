"""Commits of several Delta tables, put into one order: what is to be one step, and when.

Delta commits each table by itself. A writer says which commits belong together: with the same `id`
and the number of `tables` in each of them, they are one transaction of this source. With `parts`,
it is a part of one that spans several sources. Pure: no files, no clock.

Where two transactions come in one order in one table and in another in a second, neither can be
before the other, and they are one step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.protocol.transactions import Tag
from headwater.sources.delta.log import Action

KEY = "headwater.global"
"""Of a commit's own metadata; with Spark's `userMetadata`, the member `headwater` of an object."""


@dataclass(frozen=True)
class Together:
    """Of which transaction a commit is a part, and in how many tables of its source that is."""

    id: str
    tables: int


@dataclass(frozen=True)
class Commit:
    """One entry of a table's log."""

    version: int
    timestamp: int = 0
    together: Together | None = None
    tag: Tag | None = None
    changes: bool = True
    """Whether it changes rows."""


def commit_of(version: int, entry: Sequence[Action]) -> Commit:
    info: Mapping[str, Any] = next((a["commitInfo"] for a in entry if a.get("commitInfo")), {})
    timestamp = info.get("timestamp", 0)
    together, tag = tags_of(info)
    changes = any(
        found.get("dataChange", True)
        for action in entry
        for name in ("add", "remove")
        if (found := action.get(name)) is not None
    ) or any(action.get("cdc") for action in entry)
    return Commit(
        version, timestamp if isinstance(timestamp, int) else 0, together, tag, bool(changes)
    )


def tags_of(info: Mapping[str, Any]) -> tuple[Together | None, Tag | None]:
    """What a commit's metadata says; what cannot be read is a tag with its mistake."""
    said = info.get(KEY)
    if said is None and isinstance(info.get("userMetadata"), str):
        try:
            found = json.loads(info["userMetadata"])
        except (ValueError, RecursionError):
            return None, None
        said = found.get("headwater") if isinstance(found, dict) else None
    if said is None:
        return None, None
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except (ValueError, RecursionError):
            return None, Tag("", 0, "it is not JSON")
    if not isinstance(said, dict) or not {"id"} <= said.keys() <= {"id", "parts", "tables"}:
        return None, Tag("", 0, "it is not an object with the members id, parts and tables")
    parts, tables = said.get("parts", 1), said.get("tables", 1)
    tag = Tag.of(said["id"], parts)
    of_tables = Tag.of(said["id"], tables)
    if tag.mistake or of_tables.mistake:
        return None, tag if tag.mistake else of_tables
    together = Together(tag.id, tables) if tables > 1 else None
    return together, tag if tag.parts > 1 else None


Pending = Mapping[str, Sequence[Commit]]
"""For each relation the commits that were read and are in no step yet."""


Earlier = Mapping[str, Collection[str]]
"""For each relation the ids of transactions that it has been seen with before."""


def next_unit(pending: Pending, earlier: Earlier) -> Mapping[str, int] | None:
    """How many commits of each relation are the next step; None if all wait for others."""
    heads = sorted((commits[0].timestamp, name) for name, commits in pending.items() if commits)
    for _, name in heads:
        if (unit := _closed(pending, earlier, name)) is not None:
            return unit
    return None


def _closed(pending: Pending, earlier: Earlier, name: str) -> Mapping[str, int] | None:
    """What has to come with a relation's first commit; None if something of it is missing."""
    unit = {name: 1}
    grown = True
    while grown:
        grown = False
        found = {
            commit.together
            for relation, count in unit.items()
            for commit in pending[relation][:count]
            if commit.together is not None
        }
        for together in found:
            places = {
                relation: at + 1
                for relation, commits in pending.items()
                for at, commit in enumerate(commits)
                if commit.together is not None and commit.together.id == together.id
            }
            if len(_known(earlier, together) | places.keys()) < together.tables:
                return None
            for relation, count in places.items():
                if unit.get(relation, 0) < count:
                    unit[relation] = count
                    grown = True
    return unit


def awaited(pending: Pending, earlier: Earlier) -> list[str]:
    """What is missing, in words, where commits wait for others."""
    found: dict[Together, list[tuple[str, int]]] = {}
    for relation, commits in pending.items():
        for commit in commits:
            if commit.together is not None:
                found.setdefault(commit.together, []).append((relation, commit.version))
    return [
        f"of the transaction '{together.id}', which is in {together.tables} tables, there are only "
        + " and ".join(f"version {version} of {relation}" for relation, version in places)
        for together, places in found.items()
        if len({relation for relation, _ in places} | _known(earlier, together)) < together.tables
    ]


def _known(earlier: Earlier, together: Together) -> set[str]:
    return {relation for relation, ids in earlier.items() if together.id in ids}
