"""The rows of Delta tables at a version, and what commits changed."""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.compute as pc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.errors import LostConnectionError
from headwater.frames.arrow import COUNT, arrow_array, arrow_type
from headwater.frames.canonical import NotCanonicalError
from headwater.frames.columns import Columns, arrow_table
from headwater.sources.delta.log import GoneError, UnreadError
from headwater.sources.delta.reading import changed, dataset, net, rows_of
from headwater.sources.delta.schemas import columns_of
from headwater.sources.delta.tables import DeltaTables, Note
from headwater.sources.stepwise.contract import Contents, UnknownChangeError
from headwater.sources.stepwise.journal import Standing, Step


class DeltaRows:
    """Rows of the tables of one source."""

    def __init__(self, tables: DeltaTables) -> None:
        self._tables = tables
        self._datasets: dict[str, tuple[int, Schema, Any]] = {}

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        name = relation.short_name
        last, upto = before.last(name), step.data[name]
        assert isinstance(last, int)
        assert isinstance(upto, int)
        if not self._tables.is_in_place(name, Note.of(before.notes[name])):
            raise UnknownChangeError(
                f"table {name}: what version {upto} changed cannot be read any more: another "
                "table, or an earlier state of it, was put in its place"
            )
        try:
            return self._changed_anyway(name, last, upto, relation.schema)
        except (GoneError, FileNotFoundError) as error:
            raise UnknownChangeError(
                f"table {name}: what version {upto} changed cannot be read any more: {error}"
            ) from None
        except NotCanonicalError as error:
            raise UnknownChangeError(f"table {name}: in version {upto}, {error}") from None

    def _changed_anyway(self, name: str, last: int, upto: int, schema: Schema) -> Rows:
        """With NULL in columns that were of another type meanwhile: those have a gap there."""
        log = self._tables.log(name)
        kinds = [columns_of(log.at(version).metadata)[0] for version in (last, upto)]
        kept = [c.name for c in schema.columns if all(_may_be(c, kind) for kind in kinds)]
        if len(kept) == len(schema):
            return self._changed(name, last, upto, schema)
        narrow = schema.only(kept)
        table = arrow_table(self._changed(name, last, upto, narrow))
        columns = [
            table.column(narrow.positions[column.name])
            if column.name in narrow.positions
            else pyarrow.nulls(table.num_rows, arrow_type(column.type))
            for column in schema.columns
        ]
        count = table.column(len(narrow))
        wide = pyarrow.Table.from_arrays([*columns, count], names=[*schema.names, COUNT])
        return net(schema, [Columns(schema, wide)])

    def _changed(self, name: str, last: int, upto: int, schema: Schema) -> Rows:
        log, folder = self._tables.log(name), self._tables.folder / name
        if any(log.token(version) is None for version in range(last + 1, upto + 1)):
            return net(schema, [
                rows_of(self._dataset(name, upto, schema), schema, 1),
                rows_of(self._dataset(name, last, schema), schema, -1),
            ])  # fmt: skip
        parts = []
        for version in range(last + 1, upto + 1):
            entry = log.entry(version)
            assert entry is not None
            before, after = log.at(version - 1), log.at(version)
            parts.append(changed(folder, before, after, entry, schema))
        return parts[0] if len(parts) == 1 else net(schema, parts)

    def _dataset(self, name: str, version: int, schema: Schema) -> Any:
        """A version's rows; that of the last question is known."""
        known = self._datasets.get(name)
        if known is not None and known[:2] == (version, schema):
            return known[2]
        snapshot = self._tables.log(name).at(version)
        found = dataset(self._tables.folder / name, snapshot, snapshot.adds.values(), schema)
        self._datasets[name] = (version, schema, found)
        return found

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        name = relation.short_name
        note = Note.of(standing.notes[name])
        version = note.version
        if not self._tables.is_in_place(name, note):
            raise LostConnectionError(
                f"Source {self._tables.source}: table {name} is not the one that was read last.",
                "What is there now is read as soon as that is noticed.",
            )
        try:
            return Contents((self._dataset(name, version, relation.schema),))
        except GoneError as error:
            raise LostConnectionError(
                f"Source {self._tables.source}: version {version} of table {name} cannot be read: "
                f"{error}.",
                "It is read again at a newer version if there is one; otherwise restore the file.",
            ) from None

    def _key_schema(self, name: str, version: int) -> Schema:
        schema, _, _ = columns_of(self._tables.log(name).at(version).metadata)
        return schema.only([c for c in self._tables.keys.get(name, ()) if c in schema.positions])

    def inserted(self, name: str, last: int, upto: int) -> Rows | None:
        """The keys that some commits insert; None where that cannot be told."""
        schema = self._key_schema(name, upto)
        if not len(schema):
            return Rows.empty(schema)
        try:
            return self._changed(name, last, upto, schema).positive()
        except (GoneError, FileNotFoundError, NotCanonicalError):
            return None

    def check_key(self, name: str, version: int, inserted: Rows | None = None) -> None:
        """UnreadError if two rows have one of these keys, or one has none; None: any key."""
        schema = self._key_schema(name, version)
        if not len(schema) or (inserted is not None and not inserted):
            return
        wanted = None
        if inserted is not None:
            first = schema.columns[0]
            values = {value for (value,) in inserted.distinct([first.name])}
            array = arrow_array([value for value in values if value is not None], first.type)
            wanted = pc.field(first.name).isin(array) | pc.field(first.name).is_null()
        keys = list(schema.names)
        snapshot = self._tables.log(name).at(version)
        folder = self._tables.folder / name
        rows = dataset(folder, snapshot, snapshot.adds.values(), schema)
        found = rows.to_table(columns=keys, filter=wanted)
        is_null = any(found.column(column).null_count for column in keys)
        if is_null or found.group_by(keys).aggregate([]).num_rows < found.num_rows:
            raise UnreadError(
                f"has rows that share a key ({', '.join(keys)}), or have NULL in it, at version "
                f"{version}",
                "Correct the table, which is read on by itself then; or take the key out of keys, "
                f"and run 'headwater repair {self._tables.source}'.",
            )


def _may_be(column: Column, there: Schema) -> bool:
    """Whether a table's column is of this type, or not there, which is NULL."""
    at = there.positions.get(column.name)
    return at is None or there.columns[at].type == column.type
