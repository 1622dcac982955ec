"""Snapshots and reports one after the other, by name: which is next, and whether it may be taken.

Each is a transaction, in an order, so what cannot be taken holds up what is behind it, in all
relations. A report that changes after it was taken is told, since nobody reads it again; the newest
snapshot is taken again, and what earlier ones say no longer matters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headwater.algebra.values import Json
from headwater.errors import LostConnectionError
from headwater.protocol.transactions import Tag
from headwater.sources.files.completeness import Completeness
from headwater.sources.files.layouts import Found, Unit, mark_now, mark_of, number_in, units_in
from headwater.sources.files.notes import appended, rebased, units_note, with_units_note
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.reading import FileRows
from headwater.sources.stepwise.journal import Standing
from headwater.storage.location import Location

_AT_ONCE = 64
_GONE_KNOWN = 1_000
_MARKER = ""


class Units:
    """The snapshots or reports in one folder."""

    def __init__(
        self,
        source: str,
        folder: Location,
        options: FilesOptions,
        rows: FileRows,
        completeness: Completeness,
    ) -> None:
        self._source = source
        self._folder = folder
        self._options = options
        self._rows = rows
        self._completeness = completeness
        self._unchanged: dict[str, str] = {}

    def there(self, relations: Sequence[str]) -> Sequence[Unit]:
        return list(units_in(self._folder, relations, self._options.named, self._options.layout))

    def complete(self, relations: Sequence[str], upto: str | None) -> Sequence[Unit]:
        """What there is up to a name, before the first that is not complete."""
        found: list[Unit] = []
        for unit in self.there(relations):
            if upto is not None and unit.name > upto:
                break
            if not self._completeness.of_unit(unit):
                break
            found.append(unit)
        return found

    def looked(self, known: Standing, relations: Sequence[str]) -> Standing:
        """With what is next, one after the other."""
        units = self.there(relations)
        last = units_note(known)["last"]
        self._check_late(known, units)
        self._check_taken(known, units)
        standing = known
        for unit in self._next(known, units):
            if standing.at - known.at >= _AT_ONCE or not self._completeness.of_unit(unit):
                break
            found = self.taken(standing, unit, relations)
            if found is None:
                break
            standing, last = found, unit.name
        if standing is known:
            self._check_order([unit for unit in units if unit.name > last])
            return known
        return self._without_gone(standing)

    def _next(self, known: Standing, units: Sequence[Unit]) -> list[Unit]:
        """What is behind the last that was taken; and that again, if it is another snapshot now."""
        last = units_note(known)["last"]
        noted = units_note(known)["taken"].get(last)
        again = [u for u in units if u.name == last and noted and self._is_another(noted, u)]
        return again + [unit for unit in units if unit.name > last]

    def _is_another(self, noted: Mapping[str, Any], unit: Unit) -> bool:
        """Whether a snapshot was written anew since it was taken, and is not being removed."""
        marker = self._completeness.marker_of(unit)
        if self._options.is_reported or (marker is not None and marker == noted.get(_MARKER)):
            return False
        there = {_key(unit, file) for file in unit.listed}
        return noted.keys() - {_MARKER} <= there and self._changed(noted, unit) is not None

    # What is to be told

    def _check_late(self, known: Standing, units: Sequence[Unit]) -> None:
        note = units_note(known)
        last, taken = note["last"], note["taken"]
        late = [unit.name for unit in units if unit.name <= last and unit.name not in taken]
        if late and not self._completeness.waits(f"late {late[0]}"):
            raise LostConnectionError(
                f"Source {self._source}: {self._folder / late[0]} came when {last} was taken "
                "already, and is before it by its name.",
                f"Give it a later name if it is to count, or remove it; or run 'headwater repair "
                f"{self._source}', which begins with all that are there.",
            )

    def _check_taken(self, known: Standing, units: Sequence[Unit]) -> None:
        """LostConnectionError if a report says something else than when it was taken."""
        if not self._options.is_reported:
            return
        taken = units_note(known)["taken"]
        for unit in units:
            noted = taken.get(unit.name)
            changed = self._changed(noted, unit) if noted is not None else None
            if changed is not None and not self._completeness.waits(f"changed {changed}"):
                raise LostConnectionError(
                    f"Source {self._source}: {changed} came, or was changed, when the report "
                    f"{unit.name} had been taken already, and what it says was not.",
                    "Put it back as it was, and what is to count into a report with a later name; "
                    f"or run 'headwater repair {self._source}', which begins with all that are "
                    "there.",
                )

    def _changed(self, noted: Mapping[str, Any], unit: Unit) -> Location | None:
        """A file that is not what it was when its unit was taken; those that are gone do not
        matter."""
        for file in unit.listed:
            key, mark = _key(unit, file), mark_of([file])
            before = noted.get(key)
            if before is None:
                return file.place
            was, _, digest = str(before).partition(" ")
            if mark in (was, self._unchanged.get(f"{unit.name} {key} {digest}")):
                continue
            if self._rows.digest(file) != digest:
                return file.place
            self._unchanged[f"{unit.name} {key} {digest}"] = mark
        return None

    def _check_order(self, waiting: Sequence[Unit]) -> None:
        """LostConnectionError, in words, if what is next has not been complete for long."""
        if not waiting:
            return
        first, *others = waiting
        place = self._folder / first.name
        said: tuple[str, str, str] | None = None
        if first.is_bare and self._options.complete == "still":
            said = "bare", f"{place} is empty, and waited for", "Put its files there"
        elif self._completeness.moves_on(first.name):
            said = "moving", f"somebody goes on writing to {place}", "End that"
        elif self._options.complete == "marked" and any(map(self._completeness.of_unit, others)):
            said = "order", f"{place} is not complete, and others behind it are", "Complete it"
        if said is not None and not self._completeness.waits(f"{said[0]} {first.name}"):
            raise LostConnectionError(
                f"Source {self._source}: {said[1]}.",
                f"{said[2]}; or remove it if nothing is to come of it.",
            )

    # Taking one

    def taken(
        self, known: Standing, unit: Unit, relations: Sequence[str], *, checked: bool = True
    ) -> Standing | None:
        """With a snapshot or a report; None if somebody writes to it."""
        if checked:
            self._check_number(known, unit)
        files = self._rows.once(unit.mark, lambda: self._files(unit, relations))
        read = self._rows.reported if self._options.is_reported else self._rows.whole
        data = self._rows.once(unit.mark, partial(read, known, files))
        tags = self._tags(unit)
        noted: dict[str, Json] = {
            _key(unit, file): f"{mark_of([file])} {self._digest(file)}" for file in unit.listed
        }
        if (marker := self._completeness.marker_of(unit)) is not None:
            noted[_MARKER] = marker
        if mark_now(unit, relations, self._options.named) != unit.mark:
            return None
        self._completeness.taken(unit.name)
        standing = self._with_taken(known, unit.name, noted)
        return appended(standing, data, tags, unit.name) if data or tags else standing

    def _files(self, unit: Unit, relations: Sequence[str]) -> Mapping[str, tuple[Found, ...]]:
        found = {name: files for name in relations if (files := unit.files.of(name))}
        lacks = [name for name in relations if name not in found]
        if lacks and not self._options.is_reported:
            raise LostConnectionError(
                f"Source {self._source}: {self._folder / unit.name} has no file of {lacks[0]}.",
                "Put it there; a relation without rows has a file without rows.",
            )
        return found

    def _digest(self, file: Found) -> str:
        """Of a file that was just read, if it was."""
        known = self._rows.digests.pop(str(file.place.path), None)
        return self._rows.digest(file) if known is None else known

    def _with_taken(self, known: Standing, name: str, noted: Mapping[str, Json]) -> Standing:
        return with_units_note(known, name, {**units_note(known)["taken"], name: dict(noted)})

    def _without_gone(self, known: Standing) -> Standing:
        """Of those that were taken and are gone only the newest are known."""
        note = units_note(known)
        if len(note["taken"]) <= 2 * _GONE_KNOWN:
            return known
        there = set(self._folder.names())
        gone = [each for each in sorted(note["taken"]) if each not in there]
        if len(gone) <= _GONE_KNOWN:
            return known
        old = {*gone[:-_GONE_KNOWN]}
        taken = {each: noted for each, noted in note["taken"].items() if each not in old}
        return with_units_note(known, note["last"], taken)

    def _check_number(self, known: Standing, unit: Unit) -> None:
        last = units_note(known)["last"]
        if not self._options.numbered or not last or unit.name == last:
            return
        before, number = number_in(last), number_in(unit.name)
        if before is not None and number != before + 1:
            raise LostConnectionError(
                f"Source {self._source}: behind {last} there should be the number {before + 1}, "
                f"and there is {unit.name}.",
                "Put what is missing there; it is read on by itself then. If it is lost, put one "
                "there in its place that says what it did, or changes nothing.",
            )

    def _tags(self, unit: Unit) -> tuple[Tag, ...]:
        if unit.transaction is None:
            return ()
        tag = Tag.from_json(unit.transaction.place.read(1 << 20))
        return (tag,) if tag.mistake or tag.parts > 1 else ()

    # Beginning

    def begun(self, standing: Standing, relations: Collection[str], *, is_first: bool) -> Standing:
        """With all snapshots or reports that are complete; beside others, up to theirs."""
        names = list(relations)
        upto = None if is_first else units_note(standing)["last"]
        units, begun = self.complete(names, upto), standing
        if not self._options.is_reported and units:  # the last says what there is
            earlier: dict[str, Json] = {unit.name: None for unit in units[:-1]}
            begun = with_units_note(begun, units[-1].name, earlier)
            units = units[-1:]
        for number, unit in enumerate(units, 1):
            found = self.taken(begun, unit, names, checked=is_first)
            if found is None:
                break
            begun = found
            if number % _AT_ONCE == 0:
                begun = self._rebased(standing, begun, names)
        begun = self._without_gone(self._rebased(standing, begun, names))
        if is_first:
            return begun
        return replace(begun, notes={**begun.notes, "units": _both(standing, begun)})

    def _rebased(self, before: Standing, found: Standing, names: Sequence[str]) -> Standing:
        return rebased(before, found, {name: self._rows.state(found, name) for name in names})


def _key(unit: Unit, file: Found) -> str:
    """A file's place within its unit."""
    inside = str(file.place.path)[len(str(unit.folder.path)) :]
    return inside.lstrip("/")


def _both(standing: Standing, begun: Standing) -> Json:
    """What was taken before, with the files of further relations; what of these was not read is
    not looked at again."""
    before, now = units_note(standing), units_note(begun)["taken"]
    taken = {
        name: {**noted, **now[name]} if noted is not None and now.get(name) is not None else None
        for name, noted in before["taken"].items()
    }
    return {"last": before["last"], "taken": taken}
