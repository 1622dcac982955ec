"""The Delta tables of one source: what each is, and how far its log was read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.algebra.schema import Relation
from headwater.algebra.values import Json
from headwater.errors import SourceError
from headwater.sources.contract import Origin
from headwater.sources.delta.commits import commit_of
from headwater.sources.delta.log import GoneError, Snapshot, TableLog, UnreadError
from headwater.sources.delta.schemas import columns_of
from headwater.sources.delta.views import in_words, origin_of
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.stepwise.contract import Described
from headwater.sources.stepwise.journal import Standing
from headwater.storage.location import Location

_SEEN_BEFORE = 20


@dataclass(frozen=True)
class Note:
    """How far a table's log was read."""

    version: int
    entry: str = ""
    """What its entry was, so that another in its place is noticed; empty if it was not there."""
    earlier: tuple[str, ...] = ()
    """The transactions of several tables that it had before it was first read."""
    problem: str = ""
    hint: str = ""

    def to_json(self) -> dict[str, Json]:
        return {
            "version": self.version,
            "entry": self.entry,
            "earlier": list(self.earlier),
            "problem": self.problem,
            "hint": self.hint,
        }

    @classmethod
    def of(cls, found: Any) -> Note:
        return cls(
            found["version"],
            found["entry"],
            tuple(found["earlier"]),
            found["problem"],
            found["hint"],
        )


class DeltaTables:
    """Tables below one folder; a relation is named by its folder."""

    def __init__(
        self,
        source: str,
        folder: Location,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]],
    ) -> None:
        self.source = source
        self.folder = folder
        self.names = tuple(dict.fromkeys(relations))
        self.keys = {relation: tuple(columns) for relation, columns in keys.items()}
        self._logs: dict[str, TableLog] = {}
        self._described: dict[tuple[str, int, str], Relation] = {}
        self._tokens: dict[str, tuple[int, str, object]] = {}

    def log(self, relation: str) -> TableLog:
        if relation not in self._logs:
            self._logs[relation] = TableLog(self.folder / relation)
        return self._logs[relation]

    def describe(self, known: Standing | None) -> Described:
        relations: dict[str, Relation] = {}
        unusable: dict[str, SourceError] = {}
        for name in self.names:
            try:
                relations[name] = self._relation(name, known)
            except SourceError as error:
                unusable[name] = error
        return Described(relations, unusable)

    def _relation(self, name: str, known: Standing | None) -> Relation:
        version, problem = -1, None
        if known is not None and name in known.relations:
            note = Note.of(known.notes[name])
            version, problem = note.version, note
        if problem is not None and problem.problem:
            raise self.unusable(name, problem.problem, problem.hint)
        mark = f"{known.log} {problem.entry}" if known is not None and problem is not None else ""
        if version >= 0 and (name, version, mark) in self._described:
            return self._described[name, version, mark]
        found = self._relation_at(name, version)
        if version >= 0:
            self._described = {
                key: value for key, value in self._described.items() if key[0] != name
            } | {(name, version, mark): found}
        return found

    def _relation_at(self, name: str, wanted: int) -> Relation:
        log, version = self.log(name), wanted
        try:
            if version < 0:
                log.forget()
                version = self.newest(name)
            snapshot = log.at(version)
            snapshot.check()
        except UnreadError as error:
            raise self.unusable(name, error.words, error.hint) from None
        except GoneError as error:
            if wanted >= 0:  # whoever looks finds out what is there instead
                return self._relation_at(name, -1)
            raise self.unusable(
                name, f"cannot be read: {error}", f"Run 'headwater repair {self.source}'."
            ) from None
        schema, _, unusable = columns_of(snapshot.metadata)
        key = self.keys.get(name, ())
        if lacking := [column for column in key if column not in schema.positions]:
            raise self.unusable(
                name, f"has no column {lacking[0]}, which its key has", "Correct its key in keys."
            )
        if not len(schema):
            raise self.unusable(name, "has no column that can be used", "Use another table.")
        full = f"{self.source}.{name}"
        return Relation(full, self.source, schema, key, unusable=tuple(unusable.items()))

    def newest(self, name: str) -> int:
        version = self.log(name).newest()
        if version < 0:
            raise self.unusable(
                name,
                f"is not there: {self.folder / name} holds no Delta table",
                "Correct the path of the source or the relation's name; its name is its folder's.",
            )
        return version

    def unusable(self, relation: str, words: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.source}: table {relation} {words}.", hint)

    def discover(self) -> Sequence[DiscoveredTable]:
        return list(self._discovered())

    def _discovered(self) -> Iterator[DiscoveredTable]:
        for name, about in sorted(self.folder.listed().items()):
            if not about.is_folder or name.startswith((".", "_")):
                continue
            log = TableLog(self.folder / name)
            version = log.newest()
            if version < 0:
                continue
            try:
                snapshot = log.at(version)
                snapshot.check()
                schema, declared, unusable = columns_of(snapshot.metadata)
            except (UnreadError, GoneError) as error:
                yield DiscoveredTable(name, problem=str(error))
                continue
            columns = [
                DiscoveredColumn(column.name, declared[column.name], str(column.type))
                for column in schema.columns
            ]
            columns += [DiscoveredColumn(n, declared[n], remark=r) for n, r in unusable.items()]
            size = sum(add.get("size") or 0 for add in snapshot.adds.values())
            key = self.keys.get(name, ())
            yield DiscoveredTable(name, tuple(columns), key, size_bytes=size)

    def cautions(self, described: Described) -> Sequence[str]:
        return [
            f"Source {self.source}: table {name} is {in_words(origin)}"
            for name, origin in self.origins().items()
            if name in described.relations
        ]

    def origins(self) -> Mapping[str, Origin]:
        found = {}
        for name in self.names:
            log = self.log(name)
            origin = origin_of(map(log.entry, range(log.newest(), -1, -1)))
            if origin is not None:
                found[name] = origin
        return found

    def is_in_place(self, name: str, note: Note) -> bool:
        """Whether the last entry that was read is still what is there, or was cleaned up."""
        log = self.log(name)
        token = log.token(note.version)
        if token is not None and self._tokens.get(name) == (note.version, note.entry, token):
            return True
        content = log.raw(note.version)
        if content is None:
            return log.token(note.version + 1) is not None or log.newest() >= note.version
        if note.entry not in ("", entry_digest(content)):
            return False
        self._tokens[name] = (note.version, note.entry, token)
        return True

    def noted(self, name: str, version: int, earlier: tuple[str, ...]) -> Note:
        return Note(version, entry_digest(self.log(name).raw(version)), earlier)

    def earlier(self, name: str, version: int) -> tuple[str, ...]:
        found = []
        for at in range(version, max(-1, version - _SEEN_BEFORE), -1):
            entry = self.log(name).entry(at)
            if entry is not None and (together := commit_of(at, entry).together) is not None:
                found.append(together.id)
        return tuple(found)


def entry_digest(content: bytes | None) -> str:
    """By which an entry is known again; nothing if there is none."""
    return "" if content is None else hashlib.sha256(content).hexdigest()


def lost_columns(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
    """The columns that are not what they were."""
    if before.metadata is after.metadata:
        return ()
    old, new = columns_of(before.metadata)[0], columns_of(after.metadata)[0]
    return tuple(
        column.name
        for column in old.columns
        if column.name not in new.positions
        or new.columns[new.positions[column.name]].type != column.type
    )
