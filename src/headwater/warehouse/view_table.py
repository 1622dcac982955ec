"""A view in the warehouse: its tables, and the commits in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as replace_in
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow.compute

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.errors import EngineError, FencedError, InputError
from headwater.frames.arrow import split_from_arrow
from headwater.storage.location import Location
from headwater.warehouse.change_feed import follow
from headwater.warehouse.cleaning import HOUR, clean_up
from headwater.warehouse.columns import COMMIT, log_arrow_schema
from headwater.warehouse.commits import (
    EARLY,
    OWN_FILES,
    FoldedBase,
    ViewCommit,
    base_from_json,
    commit_of,
    metadata_of,
    source_app,
)
from headwater.warehouse.compaction import compact
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.delta_log import DeltaLog, is_table
from headwater.warehouse.failing import seen
from headwater.warehouse.files import UnreadableFileError, read_arrow
from headwater.warehouse.folding import Unfolded, fold
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.notes import noted
from headwater.warehouse.replacing import is_ahead, loaded_plain, replace
from headwater.warehouse.scanning import Scan, scan_of
from headwater.warehouse.shown_changes import changes_between
from headwater.warehouse.states import ViewState
from headwater.warehouse.stored import stored_version
from headwater.warehouse.table_versions import TableVersion
from headwater.warehouse.tables import (
    definition_of,
    error_column_of,
    key_of,
    schema_of,
    sources_of,
)
from headwater.warehouse.trimming import trim
from headwater.warehouse.vectors import Reached
from headwater.warehouse.view_writer import ViewWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.groups import MemberTable


@dataclass(frozen=True)
class Tail:
    """What has been committed since the last fold."""

    files: int
    rows: int
    commits: int


class ViewTable:
    """One view; made by `Warehouse.view` and `Warehouse.create`."""

    def __init__(
        self,
        name: str,
        plain: Location,
        stored: Location,
        log: Location,
        staging: Location,
        internal: Location,
    ) -> None:
        self.name = name
        self.plain = DeltaLog(plain)
        self._stored = stored
        self.log = DeltaLog(log)
        self.staging = staging
        self.internal = internal

    @cached_property
    def stored(self) -> DeltaLog:
        """What is stored of a view with a top; else there is no such table."""
        return DeltaLog(self._stored)

    @property
    def members(self) -> tuple[MemberTable, ...]:
        """The views of a group; none if it is a view by itself."""
        return ()

    def bases(self, plain: TableVersion) -> tuple[DeltaLog, ...]:
        """The tables that take tails in: the plain table, and the stored parts if it names any."""
        return (self.plain,) if stored_version(plain) is None else (self.plain, self.stored)

    @property
    def is_in_place(self) -> bool:
        """Whether its tables are those that were opened, and not others of their names."""
        opened = [self.log, self.plain, *([self.stored] if "stored" in self.__dict__ else [])]
        return all(table.is_in_place for table in opened)

    # What it is

    @property
    def identity(self) -> str:
        """Tells it from every other view, also from one that was dropped and had its name."""
        found: str = self.log.snapshot().metadata["id"]
        return found

    @property
    def schema(self) -> Schema:
        """The columns that are stored: those of commits."""
        return schema_of(self.log.snapshot())

    @property
    def definition(self) -> StoredDefinition:
        return definition_of(self.log.snapshot())

    @property
    def shown_schema(self) -> Schema:
        """The columns of the plain table."""
        return schema_of(self.plain.snapshot())

    @property
    def error_column(self) -> str | None:
        """The column of commits that tells of errors, where all others are shown."""
        return error_column_of(self.log.snapshot())

    def copied_rows(self) -> dict[str, int]:
        """How many rows the copies of relations have that are kept beside the view's rows."""
        parts = self.definition.view.copy_parts if self.definition.copies else None
        if parts is None:
            return {}
        counts = self.at().part_sizes()
        return {copy.relation.name: counts.get(copy.number, 0) for copy in parts.copies}

    @property
    def sources(self) -> tuple[str, ...]:
        return sources_of(self.log.snapshot())

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify every row; none if rows may occur twice."""
        return key_of(self.log.snapshot())

    # Commits

    def latest(self) -> ViewCommit:
        """The newest numbered commit; others' commits and maintenance are skipped."""
        return self.commit_in(self.log.snapshot())

    def commits(self) -> Iterator[ViewCommit]:
        """The numbered commits, newest first, as far back as the log goes."""
        return _commits(self.log, self.log.snapshot())

    def commit_in(self, snapshot: TableVersion) -> ViewCommit:
        """The newest numbered commit in a version of the log.

        Where its entry has been cleaned away, the app transactions still tell its number and
        vector, without positions. Which transactions are in above its numbers they do not tell.
        Its vector is the last at which the view is known to be as the commit left it.
        """
        return noted(self.internal, self._committed(snapshot))

    def _committed(self, snapshot: TableVersion) -> ViewCommit:
        if found := next(_commits(self.log, snapshot), None):
            if set(found.vector) != set(sources_of(snapshot)):
                raise EngineError(
                    f"The signed log of the view {self.name} is damaged: the vector of commit "
                    f"{found.number} is about other sources than the view.",
                    f"Load the view anew with 'headwater reload {self.name}'.",
                )
            return found
        if snapshot.transaction(EARLY):
            raise EngineError(
                f"The signed log of the view {self.name} has lost the entry of its newest commit, "
                "and with it which transactions were taken in before earlier ones.",
                f"Load the view anew with 'headwater reload {self.name}'.",
            )
        return ViewCommit(
            self.name,
            snapshot.number,
            "open",
            "",
            {
                source: Reached(snapshot.transaction(source_app(source)) or 0, None)
                for source in sources_of(snapshot)
            },
            self.base_in(snapshot),
            version=snapshot.version,
        )

    def base_in(self, snapshot: TableVersion) -> FoldedBase:
        """The newest fold whose commits may be missing from this version of the log."""
        if base := self._relied_on(snapshot):
            return base
        plain = self._plain()
        return FoldedBase(plain.version, plain.number)

    def tables(self) -> tuple[TableVersion, TableVersion]:
        """The newest log, then the newest plain table; EngineError if they do not fit together.

        A plain table that was put back from a backup, or has lost its last entries, lacks
        what the log has let go since.
        """
        while True:
            log = self.log.snapshot()
            plain = self._plain()
            fits = self._fits(log, plain)
            if fits and plain.number <= log.number:
                return log, plain
            if self.log.snapshot().version == log.version:
                if fits:
                    return log, plain
                raise self._lost_plain(
                    f"at version {plain.version} ends with commit {plain.number}: "
                    "it is not the one on which the signed log relies"
                )

    def _plain(self) -> TableVersion:
        try:
            return self.plain.snapshot()
        except FencedError:
            self.log.check_in_place()
            if is_table(self.plain.folder):
                raise
            raise self._lost_plain("is missing") from None

    def _lost_plain(self, how: str) -> EngineError:
        return EngineError(
            f"The plain table {self.plain.folder} of the view {self.name} {how}.",
            f"Load the view anew with 'headwater reload {self.name}'.",
        )

    def stored_in(self, plain: TableVersion) -> TableVersion:
        """What is stored where a version of the plain table shows it; that itself without a top.

        FileNotFoundError if it is not there any more.
        """
        version = stored_version(plain)
        if version is None:
            return plain
        try:
            newest = self.stored.snapshot()
            return newest if newest.version == version else self.stored.snapshot(version)
        except FencedError:
            self.log.check_in_place()
            raise FileNotFoundError(
                f"version {version} of {self.stored.folder} is not there"
            ) from None

    def _fits(self, log: TableVersion, plain: TableVersion) -> bool:
        base = self._relied_on(log)
        if base is None:
            return True
        if plain.version <= base.plain:
            return (plain.version, plain.number) == (base.plain, base.number)
        then = commit_of(self.plain.entry(base.plain) or [], base.plain)
        return plain.number >= base.number and (then is None or then.number == base.number)

    def _relied_on(self, log: TableVersion) -> FoldedBase | None:
        """The fold that the newest commit of the log builds on; None if it names its own files."""
        for _, entry in self.log.entries_back(log.version):
            if "base" in (metadata := metadata_of(entry) or {}):
                base = base_from_json(metadata["base"])
                return base if base.plain != OWN_FILES else None
        return None

    def plain_commit(self, plain: TableVersion) -> ViewCommit | None:
        """The load or fold that made a version of the plain table; None if no longer known."""
        return next(_commits(self.plain, plain), None)

    def writer(self, runner: str) -> ViewWriter:
        """Take the view over: every earlier writer is fenced off from now on."""
        return ViewWriter(self, runner)

    # Reading

    def at(self, number: int | None = None) -> ViewState:
        """The state after a commit, or the newest, pinned to its files."""
        return self._newest() if number is None else self._numbered(number)

    def dataframe(self, spark: SparkSession, number: int | None = None) -> DataFrame:
        """What a reader sees, duplicates as repeated rows; see `rows`."""
        if number is not None:
            return self.at(number).dataframe(spark)
        return seen(self, lambda state: state.dataframe(spark))

    def rows(self, number: int | None = None) -> Rows:
        """What a reader sees, read without Spark.

        While the top fails on a row that is really there, the newest state is the last before that.
        """
        return seen(self, ViewState.rows) if number is None else self.at(number).rows()

    def plain_state(self) -> ViewState:
        """The newest state as far as the plain table has it."""
        state, plain = self._newest(), self.plain.snapshot()
        commit = self.plain_commit(plain) or replace_in(state.commit, number=plain.number)
        return replace_in(state, plain=plain, commit=commit)

    def scan(self, number: int | None = None) -> Scan:
        """What a reader sees, to be read without Spark, in pieces if it is large; see `rows`."""
        return seen(self, scan_of) if number is None else scan_of(self.at(number))

    def shown_changes(self, first: int, last: int | None, spark: Spark | None) -> Rows:
        """The rows that went, with counts below zero, and came from one version to another."""
        return changes_between(self, first, last, spark)

    def changes(self, after: int) -> list[tuple[ViewCommit, Rows]]:
        """The commits behind a number, oldest first, each with the signed rows that it added.

        Goes back only as far as the commits' rows are still there: after a fold their files are
        kept for as long as old versions are.
        """
        newest = self.log.snapshot()
        found: list[tuple[ViewCommit, Rows]] = []
        together = self._rows_behind(newest, after)
        for commit in self.commits():
            if commit.number <= after:
                break
            rows = together.get(commit.number, Rows.empty(schema_of(newest)))
            if commit.kind != "load" and len(rows) != commit.rows:
                old = self._rows_of(commit)
                if old is None:
                    break
                rows = old
            found.append((commit, rows))
            if commit.kind == "load":
                break
        return found[::-1]

    def _rows_of(self, commit: ViewCommit) -> Rows | None:
        """What one commit added, from the files that it wrote, if they are still there."""
        try:
            snapshot = self.log.snapshot(commit.version)
            rows = self._rows_behind(snapshot, commit.number - 1).get(commit.number)
        except FileNotFoundError:
            return None
        except UnreadableFileError as error:
            if error.missing:
                return None
            raise
        return rows if rows is not None and len(rows) == commit.rows else None

    def _rows_behind(self, snapshot: TableVersion, after: int) -> dict[int, Rows]:
        """The signed rows in a version of the log by the number of their commit."""
        files = [file for file in snapshot.files if file.last is None or file.last > after]
        schema = schema_of(snapshot)
        number = pyarrow.compute.field(COMMIT)
        table = read_arrow(snapshot.folder, files, log_arrow_schema(schema), number > after)
        return split_from_arrow(table.drop_columns([COMMIT]), table.column(COMMIT), schema)

    def tail(self) -> Tail:
        """What waits to be folded; rows may be counted that a compacted file still repeats."""
        state = self._newest()
        commits = state.number - state.base.number
        return Tail(len(state.tail_files), state.tail_size, commits)

    def _newest(self) -> ViewState:
        """The log first, then the plain table, so that a fold in between takes nothing away.

        A fold commits to the plain table before it removes anything from the log. What a
        version of the log lacks is therefore in every plain version that is read after it,
        and what both have is left out by its commit number. A load that the plain table has
        still to follow is read from the files that the log names.
        """
        log, plain = self.tables()
        commit = self.commit_in(log)
        base = FoldedBase(plain.version, plain.number)
        if base.number > commit.number:
            commit = self.plain_commit(plain) or commit
        try:
            if is_ahead(log, plain):
                return self._pinned(commit)
            return self._state(commit, plain, log, base)
        except FileNotFoundError as lost:
            raise EngineError(
                f"What is stored of the view {self.name} is not there: {lost}.",
                f"Load the view anew with 'headwater reload {self.name}'.",
            ) from None

    def _numbered(self, number: int) -> ViewState:
        newest = self.log.snapshot()
        if not 1 <= number <= newest.number:
            raise InputError(
                f"The view {self.name} has no version {number}.",
                f"Its newest version is {newest.number}.",
            )
        commit = self._find(number, newest)
        if commit is not None:
            try:
                state = self._pinned(commit)
                if not state.is_deleted():
                    return state
            except FileNotFoundError:
                pass
        oldest = self._oldest_readable()
        raise InputError(
            f"Version {number} of the view {self.name} has been cleaned up.",
            f"The oldest version that can still be read is {oldest}.",
        )

    def _pinned(self, commit: ViewCommit) -> ViewState:
        log = self.log.snapshot(commit.version)
        if commit.base.plain == OWN_FILES:
            plain = loaded_plain(self, commit)
        else:
            plain = self.plain.snapshot(commit.base.plain)
            if plain.number != commit.base.number:  # of a table that was made anew since
                raise FileNotFoundError(f"{plain.folder} with commit {commit.base.number}")
        return self._state(commit, plain, log, commit.base)

    def _state(
        self, commit: ViewCommit, plain: TableVersion, log: TableVersion, base: FoldedBase
    ) -> ViewState:
        stored = self.stored_in(plain)
        if stored is not plain:
            view = definition_of(log).view
            return ViewState(
                schema_of(stored),
                commit,
                plain,
                stored,
                log,
                base,
                key_of(log),
                view.stored_top,
                is_left_to_spark=bool(view.left_to_spark),
            )
        error = error_column_of(log)
        return ViewState(
            schema_of(plain), commit, plain, plain, log, base, key_of(log), error_column=error
        )

    def version_at(self, moment: float) -> int:
        """The newest version that had been committed at a moment, in seconds since 1970."""
        oldest = None
        for commit in self.commits():
            if commit.timestamp <= moment * 1000:
                return commit.number
            oldest = commit
        since = "" if oldest is None else f" is of {_utc(oldest.timestamp / 1000)}"
        raise InputError(
            f"The view {self.name} has no version that is as old as {_utc(moment)}.",
            f"The oldest that is known{since or ' has lost its time'}.",
        )

    def _find(self, number: int, newest: TableVersion) -> ViewCommit | None:
        """The commit of a number: not after the version to which dense numbers would lead."""
        version = newest.version - (newest.number - number)
        while (entry := self.log.entry(version)) is not None:
            commit = commit_of(entry, version)
            if commit is not None and commit.number == number:
                return commit
            version -= commit.number - number if commit and commit.number > number else 1
        return None

    def _oldest_readable(self) -> int:
        oldest = 0
        for commit in self.commits():
            try:
                if self._pinned(commit).is_deleted():
                    break
            except FileNotFoundError:
                break
            oldest = commit.number
        return oldest

    # Maintenance

    def replace(self, load: ViewLoad) -> ViewCommit:
        """Load the view anew in place: one commit, with the next number, that replaces all of it.

        Readers see the old contents until the new ones are whole, and may read them as old
        versions after that. Every earlier writer is fenced off; whoever commits between the
        beginning and the end of this is replaced as well.
        """
        return replace(self, load)

    def fold(self, spark: Spark, runner: str) -> ViewCommit | Unfolded | None:
        """Bring the plain table up to the newest commit.

        None when there is nothing to do, or another fold was quicker; why, when it cannot be done.
        `spark` may be what gives the session; it is called only if the view is not small.
        """
        return fold(self, spark, runner)

    def follow(self, spark: Spark) -> None:
        """Bring the plain tables of a group's members up to its own; a view has nothing to do."""

    def follow_changes(self, spark: Spark) -> None:
        """Bring the table of changes up to the plain table; make it if it is not there."""
        follow(self, spark)

    def trim_changes(
        self,
        changes: timedelta,
        versions: timedelta,
        spark: Spark,
        *,
        minimum_age: timedelta = HOUR,
    ) -> None:
        """Add up what is older than `changes` in the table of changes, if there is one.

        Of that table itself `versions` are kept.
        """
        trim(self, changes, versions, minimum_age, spark)

    def compact(self, at_least: int = 64) -> bool:
        """Merge the log's small files into one, if there are so many; True if it was done."""
        return compact(self, at_least)

    def clean_up(self, keep: timedelta, *, minimum_age: timedelta = HOUR) -> None:
        """Forget versions older than `keep`, and delete the files that only they need."""
        clean_up(self, keep, minimum_age)


def _utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(sep=" ", timespec="seconds")


def _commits(log: DeltaLog, snapshot: TableVersion) -> Iterator[ViewCommit]:
    """The numbered commits up to a version of a table, newest first."""
    for version, entry in log.entries_back(snapshot.version):
        if commit := commit_of(entry, version):
            yield commit
