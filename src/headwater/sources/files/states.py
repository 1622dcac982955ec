"""Files, step by step: what is kept of each relation, and what to do with what is new.

What was taken last is kept, whole, in the warehouse, so that answers reflect it and nothing else,
and a restart compares with what was delivered. A step is durable before it counts: first the files
of what was seen, then the journal that names them.

Source: the legacy source of the Strobe paper, whose updates are found by comparing snapshots.

A file counts when it is complete, which the settings say how to tell, and only if it is the same
before and after it was read. One that is not what it should be is told with its place, and tried
again whenever it has changed: nothing behind it is taken, and nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import Json, Row
from headwater.errors import LostConnectionError, SourceError
from headwater.frames.arrow import COUNT, arrow_array
from headwater.frames.columns import Columns
from headwater.protocol.transactions import Tag
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.files.comparing import difference, difference_on_spark, few, is_large
from headwater.sources.files.formats import Format, together
from headwater.sources.files.kept import KeptFiles
from headwater.sources.files.layouts import (
    Complete,
    Found,
    Layout,
    Unit,
    files_in,
    mark_now,
    mark_of,
    number_in,
    relations_in,
    units_in,
)
from headwater.sources.files.misfits import MisfitError
from headwater.sources.files.reports import changes_of, with_operation
from headwater.sources.stepwise.contract import Contents, Described
from headwater.sources.stepwise.journal import Standing, Step
from headwater.storage.location import Location

_AT_ONCE = 64
_MOST_BYTES = 16 << 30
_MOST_PARTS = 32
_TRIES = 200
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class FilesOptions:
    """How a source's files are laid out and written."""

    layout: Layout = "current"
    complete: Complete = "still"
    marker: str = "_SUCCESS"
    still_s: float = 1.0
    format: Format = field(default_factory=Format)
    columns: Mapping[str, Schema] = field(default_factory=dict)
    """Those that are declared."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Where relations are, if not where their names say."""
    operation: str = "op"
    numbered: bool = False


@dataclass
class _Seen:
    """A mark, and since when it has been the same."""

    mark: str
    since: float


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
        self._names = tuple(dict.fromkeys(relations))
        self._keys = {relation: tuple(columns) for relation, columns in keys.items()}
        self._options = options
        self._kept = kept
        self._seen: dict[str, _Seen] = {}
        self._refused: dict[str, SourceError] = {}
        self._is_moving = False
        self._pending_since: float | None = None
        self._waiting: tuple[str, float] = ("", 0.0)

    def identity(self) -> str:
        return f"files in {self._folder}"

    # Describing

    def describe(self, known: Standing | None) -> Described:
        relations: dict[str, Relation] = {}
        unusable: dict[str, SourceError] = {}
        for name in self._names:
            try:
                schema, others = self._schema(name, known)
                relations[name] = self._relation(name, schema, others)
            except SourceError as error:
                unusable[name] = error
        return Described(relations, unusable)

    def _relation(self, name: str, schema: Schema, others: Mapping[str, str]) -> Relation:
        key = self._keys.get(name, ())
        if lacking := [column for column in key if column not in schema.positions]:
            raise self._error(
                f"{name} has no column {lacking[0]}, which its key has.", "Correct it in keys."
            )
        if not len(schema):
            raise self._error(f"{name} has no column that can be used.", "Declare its columns.")
        full = f"{self.name}.{name}"
        return Relation(full, self.name, schema, key, unusable=tuple(others.items()))

    def _schema(self, name: str, known: Standing | None) -> tuple[Schema, Mapping[str, str]]:
        """The columns as they are kept; before that as they are declared, or told from files."""
        declared = self._options.columns.get(name)
        if known is None or name not in known.relations:
            return (declared, {}) if declared is not None else self._inferred(name)
        note = _relation_note(known, name)
        schema = Schema.from_json(note["columns"])
        if declared is not None and declared != schema:
            raise self._error(
                f"the columns that are declared of {name} are not those that it is kept with.",
                f"Run 'headwater repair {self.name}', or declare what was declared before.",
            )
        return schema, note["unusable"]

    def _inferred(self, name: str) -> tuple[Schema, Mapping[str, str]]:
        found = self._sample(name)
        if not found:
            raise self._error(
                f"there is no file of {name} in {self._folder}, and its columns are not declared.",
                "Put its first file there, or declare its columns; a relation is named by its file "
                "or folder.",
            )
        try:
            file = found[0]
            schema, others = self._options.format.infer(
                file.place.name, file.place.read(_MOST_BYTES)
            )
        except MisfitError as error:
            raise self._error(f"{self._folder}: {error}.", error.hint) from None
        except OSError as error:
            raise self._unreadable(error) from None
        skipped = {COUNT} | ({self._options.operation} if self._is_reported else set())
        others = dict(others)
        if COUNT in schema.positions:
            others[COUNT] = "Headwater needs this name for itself"
        return Schema(tuple(c for c in schema.columns if c.name not in skipped)), others

    def _sample(self, name: str) -> tuple[Found, ...]:
        """Some file of a relation."""
        try:
            if self._options.layout == "current":
                return files_in(self._folder, [name], self._options.named).get(name, ())
            units = self._units([name])
            for unit in units if self._is_reported else reversed(units):
                if unit.files.get(name):
                    return unit.files[name]
        except OSError as error:
            raise self._unreadable(error) from None
        return ()

    @property
    def _is_reported(self) -> bool:
        return self._options.layout == "changes"

    def discover(self) -> Sequence[DiscoveredTable]:
        try:
            names = self._offered()
        except OSError as error:
            raise self._unreadable(error) from None
        return [self._discovered(name) for name in names]

    def _offered(self) -> Sequence[str]:
        if self._options.layout == "current":
            return sorted({*relations_in(self._folder), *self._options.named})
        found = dict.fromkeys(self._names)
        for name, about in self._folder.listed().items():
            if about.is_folder:
                found.update(dict.fromkeys(relations_in(self._folder / name)))
        return sorted(found)

    def _discovered(self, name: str) -> DiscoveredTable:
        try:
            declared = self._options.columns.get(name)
            schema, others = (declared, {}) if declared is not None else self._inferred(name)
        except SourceError as error:
            return DiscoveredTable(name, problem=str(error))
        columns = [DiscoveredColumn(c.name, "", str(c.type)) for c in schema.columns]
        columns += [DiscoveredColumn(column, "", remark=why) for column, why in others.items()]
        return DiscoveredTable(name, tuple(columns), self._keys.get(name, ()))

    def cautions(self, described: Described) -> Sequence[str]:
        if self._options.complete == "still" and self._names:
            return [
                f"Source {self.name}: a file counts as complete when it has not changed for "
                f"{self._options.still_s:g} s. One that is cut off between two lines by then is "
                "taken for whole; writers that rename, or a marker (complete), leave no doubt."
            ]
        return []

    # Setting up

    def begin(self, relations: Collection[str], known: Standing | None) -> Standing:
        self._kept.forget()
        standing = known or Standing("", Step(0, {}), (), {"relations": {}})
        for name in relations:
            schema, others = self._schema(name, None)
            self._relation(name, schema, others)
            standing = self._with_relation(standing, name, schema, others)
        if self._options.layout == "current":
            return self._begun(standing, relations)
        return self._begun_with_units(standing, relations, is_first=known is None)

    def _with_relation(
        self, standing: Standing, name: str, schema: Schema, others: Mapping[str, str]
    ) -> Standing:
        note: Json = {"columns": schema.to_json(), "unusable": dict(others), "mark": ""}
        nothing: Json = {"base": None, "parts": []}
        data = {**standing.base.data, name: nothing}
        notes = _noted(standing, name, note)
        return replace(standing, base=replace(standing.base, data=data), notes=notes)

    def _begun(self, standing: Standing, relations: Collection[str]) -> Standing:
        """With what is in the files now, once they are complete."""
        for _ in range(_TRIES):
            found = self._taken(standing, list(relations), "")
            if found is not None:
                rebased = _rebased(standing, found, relations)
                if "marker" in standing.notes:  # the others have yet to be read with the new one
                    notes = {**rebased.notes, "marker": standing.notes["marker"]}
                    return replace(rebased, notes=notes)
                return rebased
            time.sleep(max(0.01, self._options.still_s / 2))
        raise self._error(
            f"the files in {self._folder} are not complete: {self._incomplete(relations)}.",
            "Wait until they are, then run it again.",
        )

    def _incomplete(self, relations: Collection[str]) -> str:
        if self._options.complete == "marked":
            return f"there is no {self._options.marker}"
        return "somebody writes to them"

    def _begun_with_units(
        self, standing: Standing, relations: Collection[str], *, is_first: bool
    ) -> Standing:
        """With all snapshots or reports that are complete; beside others, up to theirs."""
        begun, names = standing, list(relations)
        upto = None if is_first else _units_note(standing)["last"]
        units = self._complete_units(names, upto)
        if not self._is_reported and units:  # earlier snapshots say nothing that the last does not
            earlier: list[Json] = [unit.name for unit in units[:-1]]
            passed: Json = {"last": units[-1].name, "taken": earlier}
            begun = replace(begun, notes={**begun.notes, "units": passed})
            units = units[-1:]
        for unit in units:
            found = self._unit_taken(begun, unit, names, checked=is_first)
            if found is None:
                break
            begun = found
        rebased = _rebased(standing, begun, relations)
        return (
            rebased
            if is_first
            else replace(rebased, notes={**rebased.notes, "units": standing.notes["units"]})
        )

    def _complete_units(self, relations: Sequence[str], upto: str | None) -> Sequence[Unit]:
        """What there is up to a name, before the first that is not complete."""
        if self._options.complete == "still":
            for unit in self._units(relations):
                self._is_complete(unit.name, unit.mark, unit)
            time.sleep(self._options.still_s)
        found: list[Unit] = []
        for unit in self._units(relations):
            if upto is not None and unit.name > upto:
                break
            if not self._is_complete(unit.name, unit.mark, unit):
                break
            found.append(unit)
        return found

    # Looking

    @property
    def is_pending(self) -> bool:
        """A file that somebody goes on writing to is waited for no longer than some time."""
        if self._pending_since is None:
            return False
        return time.monotonic() - self._pending_since < _PATIENCE_S + 3 * self._options.still_s

    def look(self, known: Standing) -> Standing:
        self._is_moving = False
        try:
            return self._looked(known)
        finally:
            if not self._is_moving:
                self._pending_since = None
            elif self._pending_since is None:
                self._pending_since = time.monotonic()

    def _looked(self, known: Standing) -> Standing:
        try:
            if self._options.layout == "current":
                found = self._taken(known, self._wanted(known), "")
                return known if found is None else found
            return self._units_looked(known)
        except OSError as error:
            raise self._unreadable(error) from None

    def _wanted(self, known: Standing) -> list[str]:
        """What is kept and still of interest; what is not, is compared when it is again."""
        return sorted(known.relations & {*self._names})

    def _unreadable(self, error: OSError) -> LostConnectionError:
        return LostConnectionError(
            f"Source {self.name}: {error.filename or self._folder} cannot be read: "
            f"{error.strerror or error}.",
            "See to the folder, and to who may read it; it is tried again.",
        )

    # Snapshots that take each other's place

    def _taken(self, known: Standing, relations: Sequence[str], name: str) -> Standing | None:
        """With what the files have now; None while they are not complete."""
        marker = self._marker_now()
        if self._options.complete == "marked":
            if not marker:
                return None
            all_known = all(_relation_note(known, each)["mark"] for each in relations)
            if marker == known.notes.get("marker") and all_known:
                return known
        files = self._files_now(relations)
        marks = {each: mark_of(found) for each, found in files.items()}
        changed = [each for each in relations if marks[each] != _relation_note(known, each)["mark"]]
        if not changed:
            return self._with_marker(known, marker)
        complete = [self._is_complete(each, marks[each], None) for each in changed]
        if not all(complete):
            return None
        return self._read_current(known, files, marks, changed, marker)

    def _read_current(
        self,
        known: Standing,
        files: Mapping[str, tuple[Found, ...]],
        marks: Mapping[str, str],
        changed: Sequence[str],
        marker: str,
    ) -> Standing | None:
        key = "".join(sorted(marks[each] for each in changed))
        tables = self._read_once(key, lambda: {n: self._read(known, n, files[n]) for n in changed})
        if self._marker_now() != marker or any(
            mark_of(found) != marks[each] for each, found in self._files_now(changed).items()
        ):
            return None  # somebody writes; what was read counts for nothing
        step = {each: self._compared(known, each, tables[each]) for each in changed}
        standing = self._with_marker(known, marker)
        for each in changed:
            note = {**_relation_note(standing, each), "mark": marks[each]}
            standing = replace(standing, notes=_noted(standing, each, note))
        data = {each: found for each, found in step.items() if found is not None}
        return _appended(standing, data, (), "") if data else standing

    def _marker_now(self) -> str:
        if self._options.complete != "marked":
            return ""
        about = (self._folder / self._options.marker).about()
        return "" if about is None else repr(about.token)

    def _with_marker(self, known: Standing, marker: str) -> Standing:
        if known.notes.get("marker", "") == marker:
            return known
        return replace(known, notes={**known.notes, "marker": marker})

    def _files_now(self, relations: Sequence[str]) -> Mapping[str, tuple[Found, ...]]:
        found = files_in(self._folder, relations, self._options.named)
        if missing := [name for name in relations if not found.get(name)]:
            raise LostConnectionError(
                f"Source {self.name}: there is no file of {', '.join(missing)} in {self._folder}.",
                "Put it back; a relation without rows has a file without rows. It is tried again.",
            )
        return found

    def _is_complete(self, key: str, mark: str, unit: Unit | None) -> bool:
        """Whether nobody writes to files any more, as far as that can be told."""
        match self._options.complete:
            case "renamed":
                return True
            case "marked":
                return unit is None or self._is_marked(unit)
            case "still":
                seen = self._seen.get(key)
                if seen is None or seen.mark != mark:
                    self._seen[key] = seen = _Seen(mark, time.monotonic())
                is_still = time.monotonic() - seen.since >= self._options.still_s
                self._is_moving |= not is_still
                return is_still

    def _is_marked(self, unit: Unit) -> bool:
        if unit.folder.path != self._folder.path:
            return (unit.folder / self._options.marker).exists()
        return (unit.folder / f"{unit.name}.{self._options.marker}").exists()

    # Snapshots and reports one after the other

    def _units(self, relations: Sequence[str]) -> Sequence[Unit]:
        return list(units_in(self._folder, relations, self._options.named))

    def _units_looked(self, known: Standing) -> Standing:
        relations = sorted(known.relations) if self._is_reported else self._wanted(known)
        units = self._units(relations)
        note = _units_note(known)
        last, taken = note["last"], set(note["taken"])
        late = [unit.name for unit in units if unit.name <= last and unit.name not in taken]
        if late and not self._waits(f"late {late[0]}"):
            raise LostConnectionError(
                f"Source {self.name}: {self._folder / late[0]} came when {last} was taken already, "
                "and is before it by its name.",
                f"Give it a later name if it is to count, or remove it; or run 'headwater repair "
                f"{self.name}', which begins with all that are there.",
            )
        standing = known
        for unit in units:
            if unit.name <= last:
                continue
            if standing.at - known.at >= _AT_ONCE or not self._is_complete(
                unit.name, unit.mark, unit
            ):
                break
            found = self._unit_taken(standing, unit, relations)
            if found is None:
                break
            standing, last = found, unit.name
        if standing is known:
            self._check_order(units, last)
        return standing

    def _check_order(self, units: Sequence[Unit], last: str) -> None:
        """LostConnectionError, in words, if what is next has not been complete for long while what
        follows it is."""
        waiting = [unit for unit in units if unit.name > last]
        if self._options.complete == "still" or len(waiting) < 2:
            return
        first, *others = waiting
        if any(self._is_complete(unit.name, unit.mark, unit) for unit in others) and not (
            self._waits(f"order {first.name}")
        ):
            raise LostConnectionError(
                f"Source {self.name}: {self._folder / first.name} is not complete, and others "
                "behind it are.",
                "Complete it, or remove it if nothing is to come of it.",
            )

    def _waits(self, what: str) -> bool:
        """Whether something has not been so for long yet."""
        if self._waiting[0] != what:
            self._waiting = (what, time.monotonic())
        return time.monotonic() - self._waiting[1] < min(_PATIENCE_S, 5 * self._options.still_s)

    def _unit_taken(
        self, known: Standing, unit: Unit, relations: Sequence[str], *, checked: bool = True
    ) -> Standing | None:
        """With a snapshot or a report; None if somebody writes to it."""
        if checked:
            self._check_number(known, unit)
        if not self._is_reported and (lacks := [n for n in relations if not unit.files.get(n)]):
            raise LostConnectionError(
                f"Source {self.name}: {self._folder / unit.name} has no file of {lacks[0]}.",
                "Put it there; a relation without rows has a file without rows.",
            )
        files = {name: unit.files[name] for name in relations if unit.files.get(name)}
        read = partial(self._reported, known) if self._is_reported else partial(self._whole, known)
        data = self._read_once(unit.mark, lambda: read(files))
        tags = self._tags(unit)
        if mark_now(unit, relations, self._options.named) != unit.mark:
            return None
        self._seen.pop(unit.name, None)
        taken = _units_note(known)["taken"]
        units: Json = {"last": unit.name, "taken": [*taken, unit.name]}
        standing = replace(known, notes={**known.notes, "units": units})
        return _appended(standing, data, tags, unit.name) if data or tags else standing

    def _check_number(self, known: Standing, unit: Unit) -> None:
        last = _units_note(known)["last"]
        if not self._options.numbered or not last:
            return
        before, number = number_in(last), number_in(unit.name)
        if before is not None and number != before + 1:
            raise LostConnectionError(
                f"Source {self.name}: behind {last} there should be the number {before + 1}, and "
                f"there is {unit.name}.",
                "Put what is missing there; it is read on by itself then. If it is lost, run "
                f"'headwater repair {self.name}'.",
            )

    def _tags(self, unit: Unit) -> tuple[Tag, ...]:
        if unit.transaction is None:
            return ()
        tag = Tag.from_json(unit.transaction.place.read(1 << 20))
        return (tag,) if tag.mistake or tag.parts > 1 else ()

    def _whole(self, known: Standing, files: Mapping[str, tuple[Found, ...]]) -> dict[str, Json]:
        data: dict[str, Json] = {}
        for name, found in files.items():
            compared = self._compared(known, name, self._read(known, name, found))
            if compared is not None:
                data[name] = compared
        return data

    def _reported(self, known: Standing, files: Mapping[str, tuple[Found, ...]]) -> dict[str, Json]:
        data: dict[str, Json] = {}
        for name, found in files.items():
            relation = self._kept_relation(known, name)
            schema = with_operation(relation.schema, self._options.operation)
            reports = [(file.place.name, self._table(file, schema)) for file in found]
            delta = changes_of(relation, reports, partial(self._present, known, relation))
            if delta:
                data[name] = {"part": self._kept.put_rows(delta)}
        return data

    def _present(self, known: Standing, relation: Relation, keys: Collection[Row]) -> Rows:
        """The rows that are kept now of some keys, or more."""
        column = relation.schema.columns[
            relation.key_positions[0] if relation.key else self._probed(relation)
        ]
        contents = self.contents(known, relation)
        at = 0 if relation.key else relation.schema.positions[column.name]
        values = {key[at] for key in keys}
        wanted = pc.field(column.name).isin(
            arrow_array([value for value in values if value is not None], column.type)
        )
        if None in values:
            wanted = wanted | pc.field(column.name).is_null()
        names = list(relation.schema.names)
        parts: list[Rows] = [
            Columns.of_plain(relation.schema, table.filter(wanted).select(names))
            for table in contents.plain
        ]
        parts += [
            Columns(relation.schema, table.filter(wanted).select([*names, COUNT]))
            for table in contents.signed
        ]
        found = Rows.sum(relation.schema, parts)
        return Rows(relation.schema, dict(found.items()))

    @staticmethod
    def _probed(relation: Relation) -> int:
        """A column that Arrow looks values up in as Headwater does."""
        kinds = [column.type.name for column in relation.schema.columns]
        plain = [at for at, kind in enumerate(kinds) if kind in ("int", "text", "date", "decimal")]
        return plain[0] if plain else 0

    # Reading

    def _read_once(self, key: str, read: Callable[[], Any]) -> Any:
        """What was refused is not read again before it has changed."""
        if key in self._refused:
            raise self._refused[key]
        try:
            return read()
        except MisfitError as error:
            hint = error.hint.replace("SOURCE", self.name)
            found = LostConnectionError(f"Source {self.name}: {self._folder}: {error}.", hint)
            self._refused = {key: found}
            raise found from None
        except OSError as error:
            raise self._unreadable(error) from None

    def _kept_relation(self, known: Standing, name: str) -> Relation:
        schema, others = self._schema(name, known)
        return self._relation(name, schema, others)

    def _read(self, known: Standing, name: str, files: Sequence[Found]) -> pyarrow.Table:
        relation = self._kept_relation(known, name)
        tables = [self._table(file, relation.schema) for file in files]
        table = together(tables, relation.schema)
        _check_key(relation, table)
        return table

    def _table(self, file: Found, schema: Schema) -> pyarrow.Table:
        content = file.place.read(_MOST_BYTES)
        return self._options.format.read(file.place.name, content, schema)

    def _compared(self, known: Standing, name: str, table: pyarrow.Table) -> Json:
        """What is kept of a new snapshot: what came and went, or all of it if that is less."""
        relation = self._kept_relation(known, name)
        base, _ = _pieces(known, name)
        there = self.contents(known, relation)
        rows = table.num_rows + sum(found.num_rows for found in (*there.plain, *there.signed))
        if not is_large(rows, self._kept.folder):
            delta = difference(relation.schema, table, there.plain, there.signed)
            if not delta:
                return None
            if there.plain and len(delta) < table.num_rows:
                return {"part": self._kept.put_rows(delta)}
            return {"base": self._kept.put(table), "parts": []}
        return self._compared_on_spark(relation, table, base, there.signed)

    def _compared_on_spark(
        self,
        relation: Relation,
        table: pyarrow.Table,
        base: str | None,
        signed: Sequence[pyarrow.Table],
    ) -> Json:
        fresh = self._kept.put(table)
        if base is None:
            return {"base": fresh, "parts": []}
        folder = self._kept.folder
        changed = [self._kept.put(found) for found in signed]
        delta = difference_on_spark(
            relation.schema, folder / fresh, [folder / base], [folder / name for name in changed]
        )
        for name in changed:
            self._kept.drop(name)
        if delta and len(delta) >= table.num_rows:
            return {"base": fresh, "parts": []}
        self._kept.drop(fresh)
        return {"part": self._kept.put_rows(delta)} if delta else None

    # Reading again

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        name = relation.short_name
        found = step.data[name]
        assert isinstance(found, dict)
        if "part" in found:
            schema, _ = self._schema(name, before)
            rows = self._kept.get_rows(str(found["part"]), schema)
            return few(rows if schema == relation.schema else rows.only(relation.schema))
        contents = self.contents(before, relation)
        new = self._kept.get(str(found["base"]))
        return difference(relation.schema, new, contents.plain, contents.signed)

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        base, parts = _pieces(standing, relation.short_name)
        plain = (self._kept.get(base),) if base else ()
        schema, _ = self._schema(relation.short_name, standing)
        net = self._kept.net(relation.short_name, schema, parts)
        return Contents(plain, (net,) if net is not None and net.num_rows else ())

    def forget(self, known: Standing, upto: int) -> Standing:
        """The base is moved on; what came and went since is put together when it is much."""
        at = known.upto(upto)
        data: dict[str, Json] = {}
        for name in known.relations:
            base, parts = _pieces(at, name)
            if len(parts) > _MOST_PARTS:
                base, parts = self._put_together(at, name), []
            listed: list[Json] = [*parts]
            data[name] = {"base": base, "parts": listed}
        return replace(known, base=Step(upto, data), steps=known.after(upto))

    def _put_together(self, at: Standing, name: str) -> str:
        from headwater.frames.columns import copies

        relation = self._kept_relation(at, name)
        contents = self.contents(at, relation)
        nothing = contents.plain[0].slice(0, 0) if contents.plain else None
        new = nothing if nothing is not None else together([], relation.schema)
        rows = difference(relation.schema, new, contents.plain, contents.signed).scaled(-1)
        return self._kept.put(copies(rows).rename_columns(list(relation.schema.names)))

    def used(self, standing: Standing) -> None:
        named = {
            str(part)
            for step in (standing.base, *standing.steps)
            for found in step.data.values()
            if isinstance(found, dict)
            for part in (found.get("base"), found.get("part"), *_listed(found.get("parts")))
            if part
        }
        with suppress(OSError):
            self._kept.clean(named)

    def _error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.name}: {message}", hint)


def _listed(found: Json) -> Sequence[Json]:
    return found if isinstance(found, list) else ()


def _pieces(standing: Standing, name: str) -> tuple[str | None, list[str]]:
    """The files that a relation's rows are in: a whole one, and those of what came and went."""
    base: str | None = None
    parts: list[str] = []
    for found in standing.data(name):
        assert isinstance(found, dict)
        if "part" in found:
            parts.append(str(found["part"]))
        else:
            base = None if found["base"] is None else str(found["base"])
            parts = [str(part) for part in _listed(found["parts"])]
    return base, parts


def _relation_note(known: Standing, name: str) -> Any:
    relations: Any = known.notes["relations"]
    return relations[name]


def _units_note(known: Standing) -> Any:
    return known.notes.get("units") or {"last": "", "taken": []}


def _noted(known: Standing, name: str, note: Json) -> dict[str, Json]:
    relations: Any = known.notes.get("relations", {})
    return {**known.notes, "relations": {**relations, name: note}}


def _appended(
    standing: Standing, data: Mapping[str, Json], tags: tuple[Tag, ...], name: str
) -> Standing:
    step = Step(standing.at + 1, data, {}, tags, name)
    return replace(standing, steps=(*standing.steps, step))


def _rebased(before: Standing, found: Standing, relations: Collection[str]) -> Standing:
    """What was found as a part of the base, since nobody was to see steps there."""
    data = dict(before.base.data)
    for name in relations:
        base, parts = _pieces(found, name)
        listed: list[Json] = [*parts]
        data[name] = {"base": base, "parts": listed}
    base_step = replace(before.base, data=data)
    return replace(before, base=base_step, notes=found.notes)


def _check_key(relation: Relation, table: pyarrow.Table) -> None:
    """MisfitError if two rows have one key, or one has none."""
    key = list(relation.key)
    if not key or not table.num_rows:
        return
    for name in key:
        if table.column(name).null_count:
            raise MisfitError(f"a row of {relation.name} has NULL in its key", column=name)
    counted = table.group_by(key).aggregate([([], "count_all")])
    if counted.num_rows == table.num_rows:
        return
    twice = counted.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()[0]
    shown = ", ".join(f"{name} = {twice[name]!r}" for name in key)
    raise MisfitError(
        f"{twice['count_all']} rows of {relation.name} have the key {shown}",
        "Correct the file; or take the key out of keys, then run 'headwater repair SOURCE'.",
    )
