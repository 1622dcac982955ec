"""Rows of relations in files: those that are new, those that are kept, and what differs.

What was taken last is kept, whole, in the warehouse, so that answers reflect it and nothing else,
and a restart compares with what was delivered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import Json, Row
from headwater.errors import LostConnectionError
from headwater.frames.arrow import COUNT, arrow_array
from headwater.frames.columns import Columns, copies
from headwater.sources.files.columns import FileColumns, unreadable
from headwater.sources.files.comparing import difference, difference_on_spark, few, is_large
from headwater.sources.files.formats import together
from headwater.sources.files.kept import KeptFiles
from headwater.sources.files.layouts import MOST_BYTES, Found
from headwater.sources.files.misfits import MisfitError
from headwater.sources.files.notes import listed, pieces
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.reports import changes_of, with_operation
from headwater.sources.stepwise.contract import Contents
from headwater.sources.stepwise.journal import Standing, Step
from headwater.storage.location import Location

_MOST_PARTS = 32
_REWRITTEN = 4
"""All rows are written again when a part as large has come and gone since."""
_MOST_REFUSED = 64
_T = TypeVar("_T")


class FileRows:
    """The rows of one source's relations."""

    def __init__(
        self, columns: FileColumns, folder: Location, options: FilesOptions, kept: KeptFiles
    ) -> None:
        self._columns = columns
        self._source = columns.source
        self._folder = folder
        self._options = options
        self._kept = kept
        self._refused: dict[str, LostConnectionError] = {}
        self.digests: dict[str, str] = {}
        """What was read last was, by place."""

    # What is new

    def once(self, key: str, read: Callable[[], _T]) -> _T:
        """What was refused is not read again before it has changed."""
        if key in self._refused:
            raise self._refused[key]
        try:
            return read()
        except MisfitError as error:
            refused = self.misfit(error)
            while len(self._refused) >= _MOST_REFUSED:
                self._refused.pop(next(iter(self._refused)))
            self._refused[key] = refused
            raise refused from None
        except OSError as error:
            raise unreadable(self._source, self._folder, error) from None

    def misfit(self, error: MisfitError) -> LostConnectionError:
        hint = error.hint.replace("SOURCE", self._source)
        return LostConnectionError(f"Source {self._source}: {self._folder}: {error}.", hint)

    def read(self, known: Standing, name: str, files: Sequence[Found]) -> pyarrow.Table:
        relation = self._columns.kept(known, name)
        tables = [self._table(file, relation.schema) for file in files]
        table = together(tables, relation.schema)
        _check_key(relation, table)
        return table

    def digest(self, file: Found) -> str:
        return _digest(file.place.read(MOST_BYTES))

    def _table(self, file: Found, schema: Schema) -> pyarrow.Table:
        content = file.place.read(MOST_BYTES)
        self.digests[str(file.place.path)] = _digest(content)
        return self._options.format.read(file.place.name, content, schema)

    def compared(self, known: Standing, name: str, table: pyarrow.Table) -> Json:
        """What is kept of a new snapshot: what came and went, or all of it if that is less."""
        relation = self._columns.kept(known, name)
        base, _ = pieces(known, name)
        there = self.contents(known, relation)
        rows = table.num_rows + sum(found.num_rows for found in (*there.plain, *there.signed))
        if is_large(rows, self._kept.folder):
            return self._compared_on_spark(relation, table, base, there.signed)
        delta = difference(relation.schema, table, there.plain, there.signed)
        if not delta:
            return None
        if there.plain and len(delta) < table.num_rows:
            return {"part": self._kept.put_rows(delta)}
        return {"base": self._kept.put(table), "parts": []}

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

    def whole(self, known: Standing, files: Mapping[str, Sequence[Found]]) -> dict[str, Json]:
        """What a snapshot of some relations is against what is kept."""
        data: dict[str, Json] = {}
        for name, found in files.items():
            compared = self.compared(known, name, self.read(known, name, found))
            if compared is not None:
                data[name] = compared
        return data

    def reported(self, known: Standing, files: Mapping[str, Sequence[Found]]) -> dict[str, Json]:
        """What reports say."""
        data: dict[str, Json] = {}
        for name, found in files.items():
            relation = self._columns.kept(known, name)
            schema = with_operation(relation.schema, self._options.operation)
            reports = [(file.place.name, self._table(file, schema)) for file in found]
            delta = changes_of(relation, reports, partial(self._present, known, relation))
            if delta:
                data[name] = {"part": self._kept.put_rows(delta)}
        return data

    def _present(self, known: Standing, relation: Relation, keys: Collection[Row]) -> Rows:
        """The rows that are kept now of some keys, or more."""
        column = relation.schema.columns[
            relation.key_positions[0] if relation.key else _probed(relation)
        ]
        contents = self.contents(known, relation)
        at = 0 if relation.key else relation.schema.positions[column.name]
        values = {key[at] for key in keys}
        known_values = arrow_array([v for v in values if v is not None], column.type)

        def wanted(table: pyarrow.Table) -> pyarrow.Table:
            found = pc.is_in(table.column(column.name), value_set=known_values)
            if None in values:
                found = pc.or_(found, pc.is_null(table.column(column.name)))
            return table.filter(found)

        names = list(relation.schema.names)
        parts: list[Rows] = [
            Columns.of_plain(relation.schema, wanted(table).select(names))
            for table in contents.plain
        ]
        parts += [
            Columns(relation.schema, wanted(table).select([*names, COUNT]))
            for table in contents.signed
        ]
        found = Rows.sum(relation.schema, parts)
        return Rows(relation.schema, dict(found.items()))

    # What is kept

    def begin(self) -> None:
        """The folder of what is kept may have been removed."""
        self._kept.forget()

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        name = relation.short_name
        found = step.data[name]
        assert isinstance(found, dict)
        if "part" in found:
            schema, _ = self._columns.schema(name, before)
            rows = self._kept.get_rows(str(found["part"]), schema)
            return few(rows if schema == relation.schema else rows.only(relation.schema))
        contents = self.contents(before, relation)
        new = self._kept.get(str(found["base"]))
        return difference(relation.schema, new, contents.plain, contents.signed)

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        base, parts = pieces(standing, relation.short_name)
        plain = (self._kept.get(base),) if base else ()
        schema, _ = self._columns.schema(relation.short_name, standing)
        return Contents(plain, self._kept.nets(relation.short_name, schema, parts))

    def forget(self, known: Standing, upto: int) -> Standing:
        """The base is moved on; what came and went since is put together when it is much."""
        at = known.upto(upto)
        data: dict[str, Json] = {name: self.state(at, name) for name in known.relations}
        return replace(known, base=Step(upto, data), steps=known.after(upto))

    def state(self, at: Standing, name: str) -> Json:
        """What a relation's rows are in; many files, or steps, are put together: all of them where
        what came and went is much, else what came and went."""
        base, parts = pieces(at, name)
        if len(parts) > _MOST_PARTS:
            relation = self._columns.kept(at, name)
            contents = self.contents(at, relation)
            signed = sum(table.num_rows for table in contents.signed)
            if _REWRITTEN * signed < sum(table.num_rows for table in contents.plain):
                parts = [self._kept.put_rows(net)] if (net := self._net(relation, contents)) else []
            else:
                base, parts = self._put_together(relation, contents), []
        return {"base": base, "parts": [*parts]}

    def _net(self, relation: Relation, contents: Contents) -> Rows:
        """What came and went, together."""
        names = [*relation.schema.names, COUNT]
        parts = [Columns(relation.schema, table.select(names)) for table in contents.signed]
        return Rows.sum(relation.schema, parts)

    def _put_together(self, relation: Relation, contents: Contents) -> str:
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
            for part in (found.get("base"), found.get("part"), *listed(found.get("parts")))
            if part
        }
        with suppress(OSError):
            self._kept.clean(named)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _probed(relation: Relation) -> int:
    """A column that Arrow looks values up in as Headwater does."""
    kinds = [column.type.name for column in relation.schema.columns]
    plain = [at for at, kind in enumerate(kinds) if kind in ("int", "text", "date", "decimal")]
    return plain[0] if plain else 0


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
