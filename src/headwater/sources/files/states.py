"""Files, step by step: what is kept of each relation, and what to do with what is new.

A step is durable before it counts: first the files of what was seen, then the journal that names
them.

Source: the legacy source of the Strobe paper, whose updates are found by comparing snapshots.

A file counts when it is complete, which the settings say how to tell, and only if it is the same
before and after it was read. One that is not what it should be is told with its place, and tried
again whenever it has changed; nothing of it is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import Json
from headwater.errors import SourceError
from headwater.sources.contract import Origin
from headwater.sources.discovered import DiscoveredTable
from headwater.sources.files.columns import FileColumns, unreadable
from headwater.sources.files.completeness import Completeness
from headwater.sources.files.current import CurrentFiles
from headwater.sources.files.kept import KeptFiles
from headwater.sources.files.notes import rebased, with_relation_note
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.reading import FileRows
from headwater.sources.files.units import Units
from headwater.sources.stepwise.contract import Contents, Described
from headwater.sources.stepwise.journal import Standing, Step
from headwater.storage.location import Location

_TRIES = 200


class FileStates:
    """Relations in the files of one folder."""

    def __init__(
        self,
        name: str,
        folder: Location,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        options: FilesOptions,
        kept: KeptFiles,
    ) -> None:
        self.name = name
        self._folder = folder
        self._options = options
        self._columns = FileColumns(name, folder, relations, keys, options)
        self._rows = FileRows(self._columns, folder, options, kept)
        self._completeness = Completeness(folder, options)
        self._current = CurrentFiles(folder, options, self._rows, self._completeness)
        self._units = Units(name, folder, options, self._rows, self._completeness)

    def identity(self) -> str:
        return f"files in {self._folder}"

    def describe(self, known: Standing | None) -> Described:
        return self._columns.describe(known)

    def discover(self) -> Sequence[DiscoveredTable]:
        return self._columns.discover()

    def cautions(self, described: Described) -> Sequence[str]:
        if self._options.complete == "still" and self._columns.names:
            return [
                f"Source {self.name}: a file counts as complete when it has not changed for "
                f"{self._options.still_s:g} s. One that is cut off between two lines by then is "
                "taken for whole; writers that rename, or a marker (complete), leave no doubt."
            ]
        return []

    def origins(self) -> Mapping[str, Origin]:
        return {}

    # Setting up

    def begin(self, relations: Collection[str], known: Standing | None) -> Standing:
        self._rows.begin()
        standing = known or Standing("", Step(0, {}), (), {"relations": {}})
        for name in relations:
            schema, others = self._columns.schema(name, None)
            self._columns.relation(name, schema, others)
            standing = _with_relation(standing, name, schema, others)
        return self._reading(lambda: self._begun(standing, relations, is_first=known is None))

    def _begun(self, standing: Standing, relations: Collection[str], *, is_first: bool) -> Standing:
        if self._options.layout == "current":
            return self._begun_now(standing, relations)
        if self._options.complete == "still":  # it is still if it is so twice
            self._units.complete(list(relations), None)
            time.sleep(self._options.still_s)
        return self._units.begun(standing, relations, is_first=is_first)

    def _begun_now(self, standing: Standing, relations: Collection[str]) -> Standing:
        """With what is in the files now, once they are complete."""
        found: Standing | None = standing
        for _ in range(_TRIES):
            found = self._current.taken(found or standing, list(relations))
            if found is not None and all(found.notes["relations"][n]["mark"] for n in relations):  # type: ignore[index, call-overload]
                states = {name: self._rows.state(found, name) for name in relations}
                begun = rebased(standing, found, states)
                if "marker" in standing.notes:  # the others have yet to be read with the new one
                    notes = {**begun.notes, "marker": standing.notes["marker"]}
                    return replace(begun, notes=notes)
                return begun
            time.sleep(max(0.01, self._options.still_s / 2))
        why = "somebody writes to them"
        if self._options.complete == "marked":
            why = f"there is no {self._options.marker}"
        raise SourceError(
            f"Source {self.name}: the files in {self._folder} are not complete: {why}.",
            "Wait until they are, then run it again.",
        )

    # Looking

    @property
    def is_pending(self) -> bool:
        return self._completeness.is_pending

    def look(self, known: Standing) -> Standing:
        self._completeness.look_begun()
        try:
            return self._reading(lambda: self._looked(known))
        finally:
            self._completeness.look_ended()

    def _looked(self, known: Standing) -> Standing:
        # What is not of interest any more is compared when it is again; but reports are never read
        # again.
        if self._options.is_reported:
            return self._units.looked(known, sorted(known.relations))
        wanted = sorted(known.relations & {*self._columns.names})
        if self._options.layout == "series":
            return self._units.looked(known, wanted)
        found = self._current.taken(known, wanted)
        return known if found is None else found

    def _reading(self, read: Callable[[], Standing]) -> Standing:
        try:
            return read()
        except OSError as error:
            raise unreadable(self.name, self._folder, error) from None

    # Reading again

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        return self._rows.change(before, step, relation)

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        return self._rows.contents(standing, relation)

    def forget(self, known: Standing, upto: int) -> Standing:
        return self._rows.forget(known, upto)

    def used(self, standing: Standing) -> None:
        self._rows.used(standing)


def _with_relation(
    standing: Standing, name: str, schema: Schema, others: Mapping[str, str]
) -> Standing:
    note: Json = {"columns": schema.to_json(), "unusable": dict(others), "mark": ""}
    nothing: Json = {"base": None, "parts": []}
    data = {**standing.base.data, name: nothing}
    found = with_relation_note(standing, name, note)
    return replace(found, base=replace(standing.base, data=data))
