"""The one writer of a view: numbered commits to its signed log, refused once it is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.errors import EngineError, FencedError
from headwater.frames.columns import arrow_table
from headwater.warehouse.columns import COMMIT, check_change
from headwater.warehouse.commits import (
    FoldedBase,
    Kind,
    LogLine,
    ViewCommit,
    base_from_json,
    commit_of,
    metadata_of,
)
from headwater.warehouse.delta_log import OvertakenError
from headwater.warehouse.files import delete, write_arrow, write_spark
from headwater.warehouse.replacing import settle
from headwater.warehouse.table_versions import DataFile
from headwater.warehouse.tables import schema_of, sources_of
from headwater.warehouse.vectors import Ranges, VersionVector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.warehouse.view_table import ViewTable


class ViewWriter:
    """Commits to one view on behalf of one runner; not to be shared between threads.

    It knows the version that it last saw. A version that others have taken since is read before
    the next is tried, so every commit is decided on the very version that it follows. A numbered
    commit among them means that another writer has taken over.
    """

    def __init__(self, view: ViewTable, runner: str) -> None:
        self.view = view
        self.runner = runner
        self._log = view.log
        self._failed = False
        self.written: tuple[DataFile, pyarrow.Table] | None = None
        """The rows of the last commit, if they were at hand, and the file that has them."""
        for log in (view.log, view.plain):
            log.forget()
        state = view.at()
        state.check_files()  # says so if they cannot be built on
        for log in (view.log, *view.bases(state.plain)):
            log.remove_broken_checkpoints()
        self.latest = self._open()

    def __enter__(self) -> ViewWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Commit no more. The view stays taken until another writer opens."""
        self._failed = True

    def commit(
        self,
        delta: Rows | DataFrame,
        vector: VersionVector,
        *,
        added: Ranges | None = None,
        algorithm: str = "",
        level: str = "",
        kind: Kind = "change",
        split: tuple[str, ...] = (),
    ) -> ViewCommit:
        """Append signed rows and the vector they lead to, in one atomic step.

        Large deltas come as a DataFrame of the view's columns and `_count`. Without rows the
        commit is metadata only. When this returns, all of it is on the disk.
        """
        if self._failed:
            raise EngineError(
                f"An earlier commit to the view {self.view.name} failed half-way, or was the last.",
                "Open a new writer: it finds out whether that commit counts.",
            )
        self._check(delta, vector)
        self._log.check_in_place()
        number = self.latest.number + 1
        files = self._write(delta, number)
        draft = ViewCommit(
            self.view.name,
            number,
            kind,
            self.runner,
            vector,
            self._base,
            added or {},
            algorithm,
            level,
            sum(file.rows for file in files),
            split=split,
        )
        self._failed = True
        try:
            self.latest = self._put(draft, files)
        except FencedError:
            self._failed = False  # nothing was committed, and trying again says the same
            delete(self._log.folder, files)
            raise
        self._failed = False
        return self.latest

    # Data files

    def _check(self, delta: Rows | DataFrame, vector: VersionVector) -> None:
        check_change(self.view.name, self._schema, delta)
        if set(vector) != set(self._sources):
            raise EngineError(
                f"A vector of the view {self.view.name} has the sources {sorted(vector)}.",
                f"The view has {sorted(self._sources)}: load it again.",
            )

    def _write(self, delta: Rows | DataFrame, number: int) -> Sequence[DataFile]:
        folder = self._log.folder
        self.written = None
        if not isinstance(delta, Rows):
            from pyspark.sql import functions as f

            frame = delta.withColumn(COMMIT, f.lit(number).cast("bigint"))
            return write_spark(frame, folder, self.view.staging, number)
        if not delta:
            return []
        table = arrow_table(delta)
        numbers = pyarrow.repeat(pyarrow.scalar(number, pyarrow.int64()), table.num_rows)
        table = table.append_column(COMMIT, numbers)
        file = write_arrow(table, folder, number, number)
        self.written = file, table
        return [file]

    # The log

    _version: int
    _base: FoldedBase
    _schema: Schema
    _sources: tuple[str, ...]

    def _open(self) -> ViewCommit:
        """Take the next number for this runner, following an earlier writer that is still at it."""
        latest = self._look()
        while True:
            commit = ViewCommit(
                self.view.name,
                latest.number + 1,
                "open",
                self.runner,
                latest.vector,
                self._base,
                algorithm=latest.algorithm,
                level=latest.level,
                version=self._version + 1,
            )
            try:
                if self._log.put(self._version + 1, commit.actions()):
                    self._version += 1
                    return commit
            except OvertakenError:
                latest = self._look()
                continue
            entry = self._log.entry(self._version + 1)
            if entry is None:
                latest = self._look()
                continue
            taken = commit_of(entry, self._version + 1)
            if taken is not None and taken.kind == "load":
                latest = self._look()
                continue
            latest = taken or latest
            self._pass(entry)

    def _put(self, draft: ViewCommit, files: Sequence[DataFile]) -> ViewCommit:
        adds = [file.add() for file in files]
        new = [self._log.folder / file.name for file in files]
        while True:
            commit = replace(draft, base=self._base, version=self._version + 1)
            try:
                if self._log.put(self._version + 1, [*commit.actions(), *adds], new):
                    self._version += 1
                    return commit
                entry = self._log.entry(self._version + 1)
            except OvertakenError:
                entry = None
            if entry is None:
                number = self._look().number
                self._fence(number)
            else:
                taken = commit_of(entry, self._version + 1)
                self._fence(taken.number if taken else self.latest.number)
                self._pass(entry)

    def _look(self) -> ViewCommit:
        """Start over from the newest version."""
        settle(self.view)
        plain = self.view.plain.snapshot()
        for log in (*self.view.bases(plain), self._log):
            log.make_durable()  # the next commit relies on them
        snapshot = self._log.snapshot()
        if snapshot.number < plain.number:
            raise EngineError(
                f"The signed log of the view {self.view.name} ends at commit {snapshot.number}, "
                f"before commit {plain.number}, which is in its plain table: it has lost entries.",
                f"Load the view anew with 'headwater reload {self.view.name}'.",
            )
        self._schema, self._sources = schema_of(snapshot), sources_of(snapshot)
        self._version = snapshot.version
        self._base = self.view.base_in(snapshot)
        return self.view.commit_in(snapshot)

    def _fence(self, number: int) -> None:
        if number != self.latest.number:
            raise FencedError(
                f"Another runner has taken over the view {self.view.name}, so this one stops.",
                f"It stood at commit {self.latest.number}; nothing of it is lost or twice.",
            )

    def _pass(self, entry: list[LogLine]) -> None:
        """Accept a version that another has written, and follow a fold's new base."""
        metadata = metadata_of(entry)
        if metadata is None and any(map(_changes_data, entry)):
            raise EngineError(
                f"The signed log of the view {self.view.name} was changed by something else.",
                "Only Headwater may write to it: drop and load the view again.",
            )
        if metadata is not None and "base" in metadata:
            self._base = base_from_json(metadata["base"])
        self._version += 1


def _changes_data(action: LogLine) -> bool:
    changed = action.get("add") or action.get("remove") or {}
    return "metaData" in action or "protocol" in action or bool(changed.get("dataChange"))
