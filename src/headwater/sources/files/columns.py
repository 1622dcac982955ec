"""The columns of relations in files: as they are kept, as declared, or told from a first file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.algebra.schema import Relation, Schema
from headwater.errors import LostConnectionError, SourceError
from headwater.frames.arrow import COUNT
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.files.layouts import (
    MOST_BYTES,
    Found,
    files_in,
    relations_in,
    units_in,
)
from headwater.sources.files.misfits import MisfitError
from headwater.sources.files.notes import relation_note
from headwater.sources.files.options import FilesOptions
from headwater.sources.stepwise.contract import Described
from headwater.sources.stepwise.journal import Standing
from headwater.storage.location import Location


def unreadable(source: str, folder: Location, error: OSError) -> LostConnectionError:
    return LostConnectionError(
        f"Source {source}: {error.filename or folder} cannot be read: {error.strerror or error}.",
        "See to the folder, and to who may read it; it is tried again.",
    )


class FileColumns:
    """What the relations of one source consist of."""

    def __init__(
        self,
        source: str,
        folder: Location,
        names: Sequence[str],
        keys: Mapping[str, Sequence[str]],
        options: FilesOptions,
    ) -> None:
        self.source = source
        self.names = tuple(dict.fromkeys(names))
        self._folder = folder
        self._keys = {relation: tuple(columns) for relation, columns in keys.items()}
        self._options = options

    def describe(self, known: Standing | None) -> Described:
        relations: dict[str, Relation] = {}
        unusable: dict[str, SourceError] = {}
        for name in self.names:
            try:
                relations[name] = self.kept(known, name)
            except SourceError as error:
                unusable[name] = error
        return Described(relations, unusable)

    def kept(self, known: Standing | None, name: str) -> Relation:
        return self.relation(name, *self.schema(name, known))

    def relation(self, name: str, schema: Schema, others: Mapping[str, str]) -> Relation:
        key = self._keys.get(name, ())
        if lacking := [column for column in key if column not in schema.positions]:
            raise self._error(
                f"{name} has no column {lacking[0]}, which its key has.", "Correct it in keys."
            )
        if not len(schema):
            raise self._error(f"{name} has no column that can be used.", "Declare its columns.")
        full = f"{self.source}.{name}"
        return Relation(full, self.source, schema, key, unusable=tuple(others.items()))

    def schema(self, name: str, known: Standing | None) -> tuple[Schema, Mapping[str, str]]:
        """The columns as they are kept; before that as they are declared, or told from files."""
        declared = self._options.columns.get(name)
        if known is None or name not in known.relations:
            return (declared, {}) if declared is not None else self._inferred(name)
        note = relation_note(known, name)
        schema = Schema.from_json(note["columns"])
        if declared is not None and declared != schema:
            raise self._error(
                f"the columns that are declared of {name} are not those that it is kept with.",
                f"Run 'headwater repair {self.source}', or declare what was declared before.",
            )
        return schema, note["unusable"]

    def _inferred(self, name: str) -> tuple[Schema, Mapping[str, str]]:
        try:
            found = self._sample(name)
            if not found:
                raise self._error(
                    f"there is no file of {name} in {self._folder}, and its columns are not "
                    "declared.",
                    "Put its first file there, or declare its columns; a relation is named by its "
                    "file or folder.",
                )
            file = found[0]
            schema, others = self._options.format.infer(
                file.place.name, file.place.read(MOST_BYTES)
            )
        except MisfitError as error:
            raise self._error(f"{self._folder}: {error}.", error.hint) from None
        except OSError as error:
            raise unreadable(self.source, self._folder, error) from None
        skipped = {COUNT} | ({self._options.operation} if self._options.is_reported else set())
        others = dict(others)
        if COUNT in schema.positions:
            others[COUNT] = "Headwater needs this name for itself"
        return Schema(tuple(c for c in schema.columns if c.name not in skipped)), others

    def _sample(self, name: str) -> tuple[Found, ...]:
        """Some file of a relation."""
        options = self._options
        if options.layout == "current":
            return files_in(self._folder, [name], options.named).of(name)
        units = list(units_in(self._folder, [name], options.named, options.layout))
        for unit in units if options.is_reported else reversed(units):
            if found := unit.files.of(name):
                return found
        return ()

    # What a source offers

    def discover(self) -> Sequence[DiscoveredTable]:
        try:
            names = self._offered()
        except OSError as error:
            raise unreadable(self.source, self._folder, error) from None
        return [self._discovered(name) for name in names]

    def _offered(self) -> Sequence[str]:
        if self._options.layout == "current":
            return sorted({*relations_in(self._folder), *self._options.named})
        found = dict.fromkeys(self.names)
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

    def _error(self, message: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.source}: {message}", hint)
