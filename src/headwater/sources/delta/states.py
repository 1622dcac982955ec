"""Delta tables, step by step: each commit is one, and each version can be read again.

A step says for each table that it changes which version it led to. Answers and loads read that
version, whatever is committed meanwhile, so nothing waits for them and they wait for nothing. What
changed is read of the change files that an entry names, else of the files that came and went.

What a step needs may be gone when it is read: VACUUM deletes files, log clean-up entries. Then the
relation has a gap there, and its views are loaded anew behind it. So it is when another table is
put in a table's place, or an earlier state of it: the last entry that was read is not there then.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import Json
from headwater.errors import LostConnectionError, SourceError
from headwater.frames.arrow import arrow_array
from headwater.protocol.transactions import Tag
from headwater.sources.delta.commits import Commit, awaited, commit_of, next_unit
from headwater.sources.delta.log import GoneError, Snapshot, TableLog, UnreadError, check_files
from headwater.sources.delta.reading import changed, dataset, net, rows_of
from headwater.sources.delta.schemas import columns_of
from headwater.sources.delta.views import made_by
from headwater.sources.discovered import DiscoveredColumn, DiscoveredTable
from headwater.sources.stepwise.contract import Contents, Described, UnknownChangeError
from headwater.sources.stepwise.journal import Gap, Standing, Step, advanced
from headwater.storage.location import Location

_AT_ONCE = 64
_SEEN_BEFORE = 20
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class _Note:
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
    def of(cls, found: Any) -> _Note:
        return cls(
            found["version"],
            found["entry"],
            tuple(found["earlier"]),
            found["problem"],
            found["hint"],
        )


class DeltaStates:
    """Tables below one folder; a relation is named by its folder."""

    def __init__(
        self,
        name: str,
        folder: Location,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]],
    ) -> None:
        self.name = name
        self._folder = folder
        self._names = tuple(dict.fromkeys(relations))
        self._keys = {relation: tuple(columns) for relation, columns in keys.items()}
        self._logs: dict[str, TableLog] = {}
        self._tokens: dict[str, tuple[int, object]] = {}
        self._datasets: dict[str, tuple[int, Schema, Any]] = {}
        self._waiting_since: tuple[str, float] = ("", 0.0)
        self._described: dict[tuple[str, int, str], Relation] = {}

    def _log(self, relation: str) -> TableLog:
        if relation not in self._logs:
            self._logs[relation] = TableLog(self._folder / relation)
        return self._logs[relation]

    def identity(self) -> str:
        return f"Delta tables in {self._folder}"

    # Describing

    def describe(self, known: Standing | None) -> Described:
        relations: dict[str, Relation] = {}
        unusable: dict[str, SourceError] = {}
        for name in self._names:
            try:
                relations[name] = self._relation(name, known)
            except SourceError as error:
                unusable[name] = error
        return Described(relations, unusable)

    def _relation(self, name: str, known: Standing | None) -> Relation:
        version, problem = -1, None
        if known is not None and name in known.relations:
            note = _Note.of(known.notes[name])
            version, problem = note.version, note
        if problem is not None and problem.problem:
            raise self._unusable(name, problem.problem, problem.hint)
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
        log, version = self._log(name), wanted
        try:
            if version < 0:
                log.forget()
                version = self._newest(name)
            snapshot = log.at(version)
            snapshot.check()
        except UnreadError as error:
            raise self._unusable(name, error.words, error.hint) from None
        except GoneError as error:
            if wanted >= 0:  # whoever looks finds out what is there instead
                return self._relation_at(name, -1)
            raise self._unusable(
                name, f"cannot be read: {error}", f"Run 'headwater repair {self.name}'."
            ) from None
        schema, _, unusable = columns_of(snapshot.metadata)
        key = self._keys.get(name, ())
        if lacking := [column for column in key if column not in schema.positions]:
            raise self._unusable(
                name, f"has no column {lacking[0]}, which its key has", "Correct its key in keys."
            )
        if not len(schema):
            raise self._unusable(name, "has no column that can be used", "Use another table.")
        full = f"{self.name}.{name}"
        return Relation(full, self.name, schema, key, unusable=tuple(unusable.items()))

    def _newest(self, name: str) -> int:
        version = self._log(name).newest()
        if version < 0:
            raise self._unusable(
                name,
                f"is not there: {self._folder / name} holds no Delta table",
                "Correct the path of the source or the relation's name; its name is its folder's.",
            )
        return version

    def _unusable(self, relation: str, words: str, hint: str) -> SourceError:
        return SourceError(f"Source {self.name}: table {relation} {words}.", hint)

    def discover(self) -> Sequence[DiscoveredTable]:
        return list(self._discovered())

    def _discovered(self) -> Iterator[DiscoveredTable]:
        for name, about in sorted(self._folder.listed().items()):
            if not about.is_folder or name.startswith((".", "_")):
                continue
            log = TableLog(self._folder / name)
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
            key = self._keys.get(name, ())
            yield DiscoveredTable(name, tuple(columns), key, size_bytes=size)

    def cautions(self, described: Described) -> Sequence[str]:
        found = []
        for name in described.relations:
            log = self._log(name)
            view = made_by(map(log.entry, range(log.newest(), -1, -1)))
            if view is not None:
                found.append(f"Source {self.name}: table {name} is {view}")
        return found

    # Steps

    def begin(self, relations: Collection[str], known: Standing | None) -> Standing:
        standing = known or Standing("", Step(0, {}))
        data, notes = dict(standing.base.data), dict(standing.notes)
        for name in relations:
            self._log(name).forget()
            version = self._newest(name)
            self._log(name).at(version)
            self._begin_with(name, version)
            data[name] = version
            notes[name] = self._noted(name, version, self._earlier(name, version)).to_json()
        return replace(standing, base=replace(standing.base, data=data), notes=notes)

    def _begin_with(self, name: str, version: int) -> None:
        try:
            self._check_key(name, version)
        except UnreadError as error:
            raise self._unusable(name, error.words, error.hint) from None
        except (GoneError, FileNotFoundError) as error:
            raise self._unusable(name, f"cannot be read: {error}", "Restore it.") from None

    def _key_schema(self, name: str, version: int) -> Schema:
        schema, _, _ = columns_of(self._log(name).at(version).metadata)
        return schema.only([c for c in self._keys.get(name, ()) if c in schema.positions])

    def _inserted(self, name: str, last: int, upto: int) -> Rows | None:
        """The keys that some commits insert; None where that cannot be told."""
        schema = self._key_schema(name, upto)
        if not len(schema):
            return Rows.empty(schema)
        try:
            return self._changed(name, last, upto, schema).positive()
        except (GoneError, FileNotFoundError):
            return None

    def _check_key(self, name: str, version: int, inserted: Rows | None = None) -> None:
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
        snapshot = self._log(name).at(version)
        found = dataset(self._folder / name, snapshot, snapshot.adds.values(), schema).to_table(
            columns=keys, filter=wanted
        )
        is_null = any(found.column(column).null_count for column in keys)
        if is_null or found.group_by(keys).aggregate([]).num_rows < found.num_rows:
            raise UnreadError(
                f"has rows that share a key ({', '.join(keys)}), or have NULL in it, at version "
                f"{version}",
                "Correct the table, which is read on by itself then; or take the key out of keys, "
                f"and run 'headwater repair {self.name}'.",
            )

    def _noted(self, name: str, version: int, earlier: tuple[str, ...]) -> _Note:
        content = self._log(name).raw(version)
        entry = "" if content is None else hashlib.sha256(content).hexdigest()
        return _Note(version, entry, earlier)

    def _earlier(self, name: str, version: int) -> tuple[str, ...]:
        found = []
        for at in range(version, max(-1, version - _SEEN_BEFORE), -1):
            entry = self._log(name).entry(at)
            if entry is not None and (together := commit_of(at, entry).together) is not None:
                found.append(together.id)
        return tuple(found)

    def look(self, known: Standing) -> Standing:
        kept = sorted(known.relations)
        notes = {name: _Note.of(known.notes[name]) for name in kept}
        pending: dict[str, list[Commit]] = {}
        gaps: dict[str, Gap] = {}
        for name in [name for name in kept if name in self._names]:
            note = notes[name]
            if note.problem:
                found = self._better(name, note)
            else:
                found = self._replaced(name, note)
            if found is not None:
                notes[name], gaps[name] = found
            else:
                pending[name] = self._commits(name, note)
        found_standing = self._with_gaps(known, notes, gaps) if gaps else known
        standing = self._stepped(found_standing, notes, pending)
        left = {name: commits for name, commits in pending.items() if commits}
        if standing is known and left:
            self._wait_for_others(left, {name: note.earlier for name, note in notes.items()})
        return standing

    @property
    def is_pending(self) -> bool:
        return False  # a commit is there or not

    def _commits(self, name: str, note: _Note) -> list[Commit]:
        found: list[Commit] = []
        if note.problem:
            return found
        for version in range(note.version + 1, note.version + 1 + _AT_ONCE):
            entry = self._log(name).entry(version)
            if entry is None:
                break
            found.append(commit_of(version, entry))
        return found

    def _replaced(self, name: str, note: _Note) -> tuple[_Note, Gap] | None:
        """What to go on with if the last entry that was read is not what is there any more."""
        log = self._log(name)
        token = log.token(note.version)
        if token is not None and self._tokens.get(name) == (note.version, token):
            return None
        content = log.raw(note.version)
        if content is not None and note.entry in ("", hashlib.sha256(content).hexdigest()):
            self._tokens[name] = (note.version, token)
            return None
        if content is None and log.token(note.version + 1) is not None:
            return None  # clean-up of the log has come so far
        log.forget()
        newest = log.newest()
        if newest < 0:
            raise LostConnectionError(
                f"Source {self.name}: table {name} is not there: {log.folder} has no log.",
                "Put it back; or, if another is to be in its place, make that.",
            )
        if content is None and newest > note.version:
            reason = f"entries of its log behind version {note.version} were deleted unread"
        elif content is None and self._is_same(name, note):
            return None
        else:
            reason = (
                "another table, or an earlier state of it, was put in its place: its version "
                f"{note.version} is not the one that was read"
            )
        return self._anew(name, newest, reason)

    def _is_same(self, name: str, note: _Note) -> bool:
        """Whether a checkpoint stands in for the last entry that was read."""
        return self._log(name).newest() == note.version

    def _better(self, name: str, note: _Note) -> tuple[_Note, Gap] | None:
        """What to go on with if a table that could not be read can be again."""
        log = self._log(name)
        newest = log.newest()
        if newest <= note.version:
            return None
        log.forget()
        try:
            log.at(newest).check()
            self._check_key(name, newest)
        except (UnreadError, GoneError):
            return None
        return self._anew(name, newest, "it could not be read for a while")

    def _anew(self, name: str, version: int, reason: str) -> tuple[_Note, Gap]:
        return self._noted(name, version, self._earlier(name, version)), Gap(
            f"table {name}: {reason}"
        )

    def _with_gaps(
        self, known: Standing, notes: Mapping[str, _Note], gaps: Mapping[str, Gap]
    ) -> Standing:
        data: dict[str, Json] = {name: notes[name].version for name in gaps}
        return _with_notes(_appended(known, data, gaps, (), ""), notes)

    def _stepped(
        self,
        standing: Standing,
        notes: dict[str, _Note],
        pending: dict[str, list[Commit]],
    ) -> Standing:
        """With the steps that are complete; `pending` keeps what waits for others."""
        earlier = {name: note.earlier for name, note in notes.items()}
        first = standing.at
        moved = False
        while (unit := next_unit(pending, earlier)) is not None:
            if standing.at - first >= _AT_ONCE:
                break
            moved = True
            commits = {name: pending[name][:count] for name, count in unit.items()}
            data: dict[str, Json] = {}
            gaps: dict[str, Gap] = {}
            for name, found in commits.items():
                pending[name] = pending[name][len(found) :]
                gap, note = self._taken(name, notes[name], found)
                notes[name] = note
                if gap is not None:
                    gaps[name] = gap
                if gap is not None or any(commit.changes for commit in found):
                    data[name] = note.version
                if note.problem:
                    pending[name] = []
            tags = _tags(commits)
            if data or tags:
                standing = _appended(standing, data, gaps, tags, _shown(commits))
        return _with_notes(standing, notes) if moved else standing

    def _taken(self, name: str, note: _Note, commits: Sequence[Commit]) -> tuple[Gap | None, _Note]:
        """The note behind some commits, and what of the relation is not known behind them."""
        log, last = self._log(name), commits[-1].version
        entry = log.raw(last)
        fresh = _Note(
            last, "" if entry is None else hashlib.sha256(entry).hexdigest(), note.earlier
        )
        self._tokens.pop(name, None)
        try:
            before, after = log.at(note.version), log.at(last)
            after.check()
            for version in range(note.version + 1, last + 1):
                check_files([a["add"] for a in log.entry(version) or () if a.get("add")])
            self._check_key(name, last, self._inserted(name, note.version, last))
        except UnreadError as error:
            gap = Gap(f"table {name} {error.words}; {error.hint}")
            return gap, replace(fresh, problem=error.words, hint=error.hint)
        except GoneError as error:
            return Gap(f"table {name}: {error}"), fresh
        lost = _lost_columns(before, after)
        if not lost:
            return None, fresh
        shown = ", ".join(lost)
        return Gap(f"table {name}: its columns {shown} were dropped or altered", lost), fresh

    def _wait_for_others(
        self, pending: Mapping[str, Sequence[Commit]], earlier: Mapping[str, Collection[str]]
    ) -> None:
        """LostConnectionError, in words, once a part of a transaction has been missing for long."""
        missing = "; ".join(awaited(pending, earlier))
        words, since = self._waiting_since
        if words != missing:
            self._waiting_since = (missing, time.monotonic())
        elif missing and time.monotonic() - since > _PATIENCE_S:
            raise LostConnectionError(
                f"Source {self.name}: {missing}.",
                "Commit the missing part with the same tag, one that changes nothing if need be; "
                "or list in relations all tables that the transaction is in.",
            )

    # Reading again

    def change(self, before: Standing, step: Step, relation: Relation) -> Rows:
        name = relation.short_name
        last, upto = before.last(name), step.data[name]
        assert isinstance(last, int)
        assert isinstance(upto, int)
        schema = relation.schema
        try:
            return self._changed(name, last, upto, schema)
        except (GoneError, FileNotFoundError) as error:
            raise UnknownChangeError(
                f"table {name}: what version {upto} changed cannot be read any more: {error}"
            ) from None

    def _changed(self, name: str, last: int, upto: int, schema: Schema) -> Rows:
        log, folder = self._log(name), self._folder / name
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
        snapshot = self._log(name).at(version)
        found = dataset(self._folder / name, snapshot, snapshot.adds.values(), schema)
        self._datasets[name] = (version, schema, found)
        return found

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        name = relation.short_name
        version = _Note.of(standing.notes[name]).version
        try:
            return Contents((self._dataset(name, version, relation.schema),))
        except GoneError as error:
            raise LostConnectionError(
                f"Source {self.name}: version {version} of table {name} cannot be read: {error}.",
                "It is read again at a newer version if there is one; otherwise restore the file.",
            ) from None

    def forget(self, known: Standing, upto: int) -> Standing:
        return advanced(known, upto)

    def used(self, standing: Standing) -> None:
        """What versions consist of is not ours to delete."""


def _appended(
    standing: Standing,
    data: Mapping[str, Json],
    gaps: Mapping[str, Gap],
    tags: tuple[Tag, ...],
    name: str,
) -> Standing:
    step = Step(standing.at + 1, data, gaps, tags, name)
    return replace(standing, steps=(*standing.steps, step))


def _with_notes(standing: Standing, notes: Mapping[str, _Note]) -> Standing:
    return replace(standing, notes={name: note.to_json() for name, note in notes.items()})


def _tags(commits: Mapping[str, Sequence[Commit]]) -> tuple[Tag, ...]:
    found = [c.tag for each in commits.values() for c in each if c.tag is not None]
    return tuple(dict.fromkeys(found))


def _shown(commits: Mapping[str, Sequence[Commit]]) -> str:
    return ", ".join(f"{name} {found[-1].version}" for name, found in commits.items())


def _lost_columns(before: Snapshot, after: Snapshot) -> tuple[str, ...]:
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
