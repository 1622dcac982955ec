"""What a standing of files says beyond steps: of each relation, and which of the folder was taken.

Pure. `relations` has for each its columns and the mark of what was taken last; `units` the name
that was taken last, and what each was that was taken, so that one that changes later is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.algebra.values import Json
from headwater.protocol.transactions import Tag
from headwater.sources.stepwise.journal import Standing, Step


def listed(found: Json) -> Sequence[Json]:
    return found if isinstance(found, list) else ()


def pieces(standing: Standing, name: str) -> tuple[str | None, list[str]]:
    """The files that a relation's rows are in: a whole one, and those of what came and went."""
    base: str | None = None
    parts: list[str] = []
    for found in standing.data(name):
        assert isinstance(found, dict)
        if "part" in found:
            parts.append(str(found["part"]))
        else:
            base = None if found["base"] is None else str(found["base"])
            parts = [str(part) for part in listed(found["parts"])]
    return base, parts


def relation_note(known: Standing, name: str) -> Any:
    relations: Any = known.notes["relations"]
    return relations[name]


def with_relation_note(known: Standing, name: str, note: Json) -> Standing:
    relations: Any = known.notes.get("relations", {})
    return replace(known, notes={**known.notes, "relations": {**relations, name: note}})


def with_mark(known: Standing, name: str, mark: str) -> Standing:
    return with_relation_note(known, name, {**relation_note(known, name), "mark": mark})


def units_note(known: Standing) -> Any:
    return known.notes.get("units") or {"last": "", "taken": {}}


def with_units_note(known: Standing, last: str, taken: dict[str, Json]) -> Standing:
    return replace(known, notes={**known.notes, "units": {"last": last, "taken": taken}})


def appended(
    standing: Standing, data: Mapping[str, Json], tags: tuple[Tag, ...], name: str
) -> Standing:
    step = Step(standing.at + 1, data, {}, tags, name)
    return replace(standing, steps=(*standing.steps, step))


def rebased(before: Standing, found: Standing, states: Mapping[str, Json]) -> Standing:
    """What was found, with the state of some relations there as a part of the base, since nobody
    was to see steps there."""
    data = {**before.base.data, **states}
    return replace(before, base=replace(before.base, data=data), notes=found.notes)
