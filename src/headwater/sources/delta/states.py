"""Delta tables, step by step: each commit is one, and each version can be read again.

A step says for each table that it changes which version it led to. Answers and loads read that
version, whatever is committed meanwhile, so nothing waits for them and they wait for nothing. What
changed is read of the change files that an entry names, else of the files that came and went.

What a step needs may be gone when it is read: VACUUM deletes files, log clean-up entries. Then the
relation has a gap there, and its views are loaded anew behind it. So it is when another table is
put in a table's place, or an earlier state of it: the last entry that was read is not there then.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.values import Json
from headwater.errors import LostConnectionError
from headwater.protocol.transactions import Tag
from headwater.sources.contract import Origin
from headwater.sources.delta.commits import Commit, awaited, commit_of, next_unit
from headwater.sources.delta.log import GoneError, UnreadError, check_files
from headwater.sources.delta.rows import DeltaRows
from headwater.sources.delta.tables import DeltaTables, Note, entry_digest, lost_columns
from headwater.sources.discovered import DiscoveredTable
from headwater.sources.stepwise.contract import Contents, Described
from headwater.sources.stepwise.journal import Gap, Standing, Step, advanced
from headwater.storage.location import Location

_AT_ONCE = 64
_PATIENCE_S = 10.0
_HOLES_EVERY_S = 2.0


class DeltaStates:
    """Tables below one folder."""

    def __init__(
        self,
        name: str,
        folder: Location,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]],
    ) -> None:
        self.name = name
        self._tables = DeltaTables(name, folder, relations, keys)
        self._rows = DeltaRows(self._tables)
        self._looked_for_holes: dict[str, float] = {}
        self._waiting_since: tuple[str, float] = ("", 0.0)

    def identity(self) -> str:
        return f"Delta tables in {self._tables.folder}"

    def describe(self, known: Standing | None) -> Described:
        return self._tables.describe(known)

    def discover(self) -> Sequence[DiscoveredTable]:
        return self._tables.discover()

    def cautions(self, described: Described) -> Sequence[str]:
        return self._tables.cautions(described)

    def origins(self) -> Mapping[str, Origin]:
        return self._tables.origins()

    # Steps

    def begin(self, relations: Collection[str], known: Standing | None) -> Standing:
        standing = known or Standing("", Step(0, {}))
        data, notes = dict(standing.base.data), dict(standing.notes)
        for name in relations:
            self._tables.log(name).forget()
            version = self._tables.newest(name)
            self._tables.log(name).at(version)
            self._begin_with(name, version)
            data[name] = version
            notes[name] = self._tables.noted(
                name, version, self._tables.earlier(name, version)
            ).to_json()
        return replace(standing, base=replace(standing.base, data=data), notes=notes)

    def _begin_with(self, name: str, version: int) -> None:
        try:
            self._rows.check_key(name, version)
        except UnreadError as error:
            raise self._tables.unusable(name, error.words, error.hint) from None
        except (GoneError, FileNotFoundError) as error:
            raise self._tables.unusable(name, f"cannot be read: {error}", "Restore it.") from None

    def look(self, known: Standing) -> Standing:
        kept = sorted(known.relations)
        notes = {name: Note.of(known.notes[name]) for name in kept}
        pending: dict[str, list[Commit]] = {}
        gaps: dict[str, Gap] = {}
        for name in [name for name in kept if name in self._tables.names]:
            note = notes[name]
            if note.problem:
                found = self._better(name, note)
            else:
                found = self._replaced(name, note) or self._holed(name, note)
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

    def _commits(self, name: str, note: Note) -> list[Commit]:
        found: list[Commit] = []
        if note.problem:
            return found
        for version in range(note.version + 1, note.version + 1 + _AT_ONCE):
            entry = self._tables.log(name).entry(version)
            if entry is None:
                break
            found.append(commit_of(version, entry))
        return found

    def _replaced(self, name: str, note: Note) -> tuple[Note, Gap] | None:
        """What to go on with if the last entry that was read is not what is there any more."""
        log = self._tables.log(name)
        is_there = log.token(note.version) is not None
        if self._tables.is_in_place(name, note) and (
            is_there or log.token(note.version + 1) is not None
        ):
            return None
        log.forget()
        newest = log.newest()
        if newest < 0:
            raise LostConnectionError(
                f"Source {self.name}: table {name} is not there: {log.folder} has no log.",
                "Put it back; or, if another is to be in its place, make that.",
            )
        if not is_there and newest > note.version:
            reason = f"entries of its log behind version {note.version} were deleted unread"
        elif not is_there and self._is_same(name, note):
            return None
        else:
            reason = (
                "another table, or an earlier state of it, was put in its place: its version "
                f"{note.version} is not the one that was read"
            )
        return self._anew(name, newest, reason)

    def _holed(self, name: str, note: Note) -> tuple[Note, Gap] | None:
        """What to go on with if the next entry is missing and later ones are there.

        LostConnectionError if no version behind it can be read; looked for now and then.
        """
        log, now = self._tables.log(name), time.monotonic()
        following = note.version + 1
        if log.token(following) is not None or now < self._looked_for_holes.get(name, 0.0):
            return None
        self._looked_for_holes[name] = now + _HOLES_EVERY_S
        newest = log.newest()
        if newest <= note.version or log.token(following) is not None:
            return None
        log.forget()
        try:
            log.at(newest)
        except GoneError as error:
            self._looked_for_holes.pop(name)
            raise LostConnectionError(
                f"Source {self.name}: table {name} has a version {newest}, and {error}.",
                "Put the missing entry back; or restore the table.",
            ) from None
        reason = f"entries of its log behind version {note.version} were deleted unread"
        return self._anew(name, newest, reason)

    def _is_same(self, name: str, note: Note) -> bool:
        """Whether a checkpoint stands in for the last entry that was read."""
        return self._tables.log(name).newest() == note.version

    def _better(self, name: str, note: Note) -> tuple[Note, Gap] | None:
        """What to go on with if a table that could not be read can be again."""
        log = self._tables.log(name)
        newest = log.newest()
        if newest <= note.version:
            return None
        log.forget()
        try:
            log.at(newest).check()
            self._rows.check_key(name, newest)
        except (UnreadError, GoneError):
            return None
        return self._anew(name, newest, "it could not be read for a while")

    def _anew(self, name: str, version: int, reason: str) -> tuple[Note, Gap]:
        return self._tables.noted(name, version, self._tables.earlier(name, version)), Gap(
            f"table {name}: {reason}"
        )

    def _with_gaps(
        self, known: Standing, notes: Mapping[str, Note], gaps: Mapping[str, Gap]
    ) -> Standing:
        data: dict[str, Json] = {name: notes[name].version for name in gaps}
        return _with_notes(_appended(known, data, gaps, (), ""), notes)

    def _stepped(
        self,
        standing: Standing,
        notes: dict[str, Note],
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

    def _taken(self, name: str, note: Note, commits: Sequence[Commit]) -> tuple[Gap | None, Note]:
        """The note behind some commits, and what of the relation is not known behind them."""
        log, last = self._tables.log(name), commits[-1].version
        entry = log.raw(last)
        fresh = Note(last, entry_digest(entry), note.earlier)
        try:
            before, after = log.at(note.version), log.at(last)
            after.check()
            for version in range(note.version + 1, last + 1):
                check_files([a["add"] for a in log.entry(version) or () if a.get("add")])
            self._rows.check_key(name, last, self._rows.inserted(name, note.version, last))
        except UnreadError as error:
            gap = Gap(f"table {name} {error.words}; {error.hint}")
            return gap, replace(fresh, problem=error.words, hint=error.hint)
        except GoneError as error:
            return Gap(f"table {name}: {error}"), fresh
        lost = lost_columns(before, after)
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
        return self._rows.change(before, step, relation)

    def contents(self, standing: Standing, relation: Relation) -> Contents:
        return self._rows.contents(standing, relation)

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


def _with_notes(standing: Standing, notes: Mapping[str, Note]) -> Standing:
    return replace(standing, notes={name: note.to_json() for name, note in notes.items()})


def _tags(commits: Mapping[str, Sequence[Commit]]) -> tuple[Tag, ...]:
    found = [c.tag for each in commits.values() for c in each if c.tag is not None]
    return tuple(dict.fromkeys(found))


def _shown(commits: Mapping[str, Sequence[Commit]]) -> str:
    return ", ".join(f"{name} {found[-1].version}" for name, found in commits.items())
