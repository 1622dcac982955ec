"""Files that take each other's place: what is there now, compared with what was there before.

Each relation by itself: a file that is not what it should be keeps its own relation where it is,
and the others go on. Where a marker says when all of them count, they belong together, and wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pyarrow

from headwater.algebra.values import Json
from headwater.errors import LostConnectionError
from headwater.sources.files.completeness import Completeness
from headwater.sources.files.layouts import FilesFound, Found, files_in
from headwater.sources.files.misfits import MisfitError
from headwater.sources.files.notes import appended, relation_note, with_mark
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.reading import FileRows
from headwater.sources.stepwise.journal import Standing
from headwater.storage.location import Location


class CurrentFiles:
    """The files in one folder that are there now."""

    def __init__(
        self, folder: Location, options: FilesOptions, rows: FileRows, completeness: Completeness
    ) -> None:
        self._folder = folder
        self._options = options
        self._rows = rows
        self._completeness = completeness

    def taken(self, known: Standing, relations: Sequence[str]) -> Standing | None:
        """With what the files have now; None while they are not complete.

        LostConnectionError if some cannot be taken, and nothing is new in the others.
        """
        marker = self._completeness.marker_now()
        if self._belong_together:
            if not marker:
                return None
            all_known = all(relation_note(known, each)["mark"] for each in relations)
            if marker == known.notes.get("marker") and all_known:
                return known
        found = self._found(relations)
        marks = {each: found.mark(each) for each in relations}
        changed = [each for each in relations if marks[each] != relation_note(known, each)["mark"]]
        if not changed:
            return _with_marker(known, marker)
        moving = [each for each in changed if not self._completeness.of(each, marks[each])]
        if any(not self._completeness.moves_on(each) for each in moving):
            return None
        whole = [each for each in changed if each not in moving]
        return self._read(known, found, whole, moving, marker)

    @property
    def _belong_together(self) -> bool:
        return self._options.complete == "marked"

    def _found(self, relations: Sequence[str]) -> FilesFound:
        return files_in(self._folder, relations, self._options.named)

    def _read(
        self,
        known: Standing,
        found: FilesFound,
        changed: Sequence[str],
        moving: Sequence[str],
        marker: str,
    ) -> Standing | None:
        troubles = [self._moving(name) for name in moving]
        tables: dict[str, pyarrow.Table] = {}
        for name in changed:
            read = partial(self._table, known, found, name)
            try:
                tables[name] = self._rows.once(f"{name} {found.mark(name)}", read)
            except LostConnectionError as error:
                troubles.append(error)
        if troubles and (self._belong_together or not tables):
            raise troubles[0]
        if not self._is_as_before(found, list(tables), marker):
            return None  # somebody writes; what was read counts for nothing
        data: dict[str, Json] = {}
        standing = _with_marker(known, marker)
        for name, table in tables.items():
            compared = self._rows.compared(known, name, table)
            standing = with_mark(standing, name, found.mark(name))
            self._completeness.taken(name)
            if compared is not None:
                data[name] = compared
        return appended(standing, data, (), "") if data else standing

    def _table(self, known: Standing, found: FilesFound, name: str) -> pyarrow.Table:
        return self._rows.read(known, name, self._files(found, name))

    def _files(self, found: FilesFound, name: str) -> Sequence[Found]:
        files = found.of(name)
        if not files:
            raise MisfitError(
                f"there is no file of {name}",
                "Put it back; a relation without rows has a file without rows. It is tried again.",
            )
        return files

    def _is_as_before(self, found: FilesFound, names: Sequence[str], marker: str) -> bool:
        now = self._found(names)
        return self._completeness.marker_now() == marker and all(
            now.mark(name) == found.mark(name) for name in names
        )

    def _moving(self, name: str) -> LostConnectionError:
        return self._rows.misfit(
            MisfitError(
                f"somebody goes on writing to the files of {name}",
                "They count once they have not changed for as long as still_s says.",
            )
        )


def _with_marker(known: Standing, marker: str) -> Standing:
    if known.notes.get("marker", "") == marker:
        return known
    return replace(known, notes={**known.notes, "marker": marker})
