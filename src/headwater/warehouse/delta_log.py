"""A Delta table in a folder: commits written by the protocol itself, the rest through delta-rs.

A commit is one file in `_delta_log`, named by its version and put there only if it is absent,
which makes it atomic and every version the result of one writer's decision. Writing it directly
costs the same at the first commit and at the thousandth (docs/decisions/0007).
"""

from __future__ import annotations

import json
import os
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headwater.errors import EngineError, FencedError
from headwater.warehouse.commits import APP, Action
from headwater.warehouse.durable import sync_folder, write_file

OLDEST = "_oldest_version"
"""The file that says which versions' log entries may have been deleted: those before its own."""


def is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir()


class OvertakenError(Exception):
    """The version was taken long ago and its entry has been cleaned away since."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table; `first` and `last` bound its commit numbers where known."""

    name: str
    size: int
    rows: int
    first: int | None = None
    last: int | None = None

    def add(self, *, data_change: bool = True) -> Action:
        stats: dict[str, object] = {"numRecords": self.rows}
        if self.first is not None:
            stats |= {"minValues": {"_commit": self.first}, "maxValues": {"_commit": self.last}}
        return {
            "add": {
                "path": quote(self.name),
                "partitionValues": {},
                "size": self.size,
                "modificationTime": int(time.time() * 1000),
                "dataChange": data_change,
                "stats": json.dumps(stats),
            }
        }

    def remove(self, *, data_change: bool = True) -> Action:
        return {
            "remove": {
                "path": quote(self.name),
                "deletionTimestamp": int(time.time() * 1000),
                "dataChange": data_change,
                "extendedFileMetadata": True,
                "partitionValues": {},
                "size": self.size,
            }
        }


class Snapshot:
    """A table at one version, as delta-rs reads it."""

    def __init__(self, table: DeltaTable, folder: Path) -> None:
        self._table = table
        self.folder = folder
        self.version: int = table.version()

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        if "deletionVectors" in (self._table.protocol().reader_features or []):
            raise EngineError(
                f"The table {self.folder} may have deletion vectors, which are not read.",
                "Drop that table feature with the tool that switched it on.",
            )
        adds = pyarrow.table(self._table.get_add_actions(flatten=True))
        nothing = [None] * adds.num_rows
        columns = [
            adds.column(name).to_pylist() if name in adds.column_names else nothing
            for name in ("path", "size_bytes", "num_records", "min._commit", "max._commit")
        ]
        return tuple(
            DataFile(unquote(path), size, rows or 0, first, last)
            for path, size, rows, first, last in zip(*columns, strict=True)
        )

    def transaction(self, app: str) -> int | None:
        found: int | None = self._table.transaction_version(app)
        return found

    @property
    def number(self) -> int:
        """The number of the newest of our commits in this version; 0 if there is none."""
        return self.transaction(APP) or 0

    @property
    def description(self) -> str:
        return self._table.metadata().description or ""

    @property
    def schema_json(self) -> str:
        text: str = self._table.schema().to_json()
        return text

    def write_checkpoint(self) -> None:
        self._table.create_checkpoint()


class DeltaLog:
    """The log of one Delta table: this one, not another that takes its place after a drop."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.folder = folder
        self.durable = durable
        self._entries = folder / "_delta_log"
        # Held open, so that a later folder of the same name is never taken for this one.
        self._handle = os.open(self._entries, os.O_RDONLY)
        weakref.finalize(self, os.close, self._handle)

    def check_in_place(self) -> None:
        """Stop when the table was dropped, even if another of its name is there by now."""
        try:
            if os.path.samestat(self._entries.stat(), os.fstat(self._handle)):
                return
        except FileNotFoundError:
            pass
        raise FencedError(
            f"The table {self.folder} has been dropped, so work on it stops.",
            "Open the view again if it has been loaded anew.",
        )

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The table at a version, or the newest; FileNotFoundError when it is not there."""
        try:
            snapshot = Snapshot(DeltaTable(str(self.folder), version=version), self.folder)
        except DeltaError as error:
            self.check_in_place()
            raise FileNotFoundError(f"{self.folder} at version {version}: {error}") from error
        self.check_in_place()
        return snapshot

    def entry(self, version: int) -> list[Action] | None:
        """The actions of a commit; None when there is none or it has been cleaned away."""
        try:
            text = self._entry(version).read_text()
        except FileNotFoundError:
            return None
        return [json.loads(line) for line in text.splitlines() if line]

    def oldest(self) -> int:
        """No log entry at or above this version has been cleaned away."""
        try:
            return int((self.folder / OLDEST).read_text())
        except FileNotFoundError:
            return 0

    def put(self, version: int, actions: Sequence[Action]) -> bool:
        """Commit at exactly this version; False when it is taken.

        An entry that clean-up has deleted leaves its version free to a writer that slept
        meanwhile. Clean-up raises `oldest` before it deletes, so looking at it after the
        entry is in place always finds this out.
        """
        target = self._entry(version)
        content = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
        with self._temporary(content) as temporary:
            # Seen in place now, this is the table in which the temporary file lies, and a link
            # by name fails if another takes its place before the next line.
            self.check_in_place()
            try:
                os.link(temporary, target)
            except FileExistsError:
                return False
            except FileNotFoundError:
                self.check_in_place()
                raise
        if self.oldest() > version:
            target.unlink()
            raise OvertakenError
        if self.durable:
            os.fsync(self._handle)
        return True

    def set_oldest(self, version: int) -> None:
        with self._temporary(str(version)) as temporary:
            temporary.replace(self.folder / OLDEST)
        sync_folder(self.folder)

    def entry_times(self) -> dict[int, float]:
        """When each entry that is still there was written, in seconds since 1970."""
        return {
            int(item.name[:20]): item.stat().st_mtime
            for item in os.scandir(self._entries)
            if item.name[:20].isdigit() and item.name[20:] == ".json"
        }

    def has_checkpoint(self, version: int) -> bool:
        return any(self._entries.glob(f"{version:020}.checkpoint*"))

    def delete_before(self, version: int) -> None:
        """Delete the log's files of all earlier versions."""
        for item in self._entries.iterdir():
            if item.name[:20].isdigit() and int(item.name[:20]) < version:
                item.unlink()

    def delete_temporary_before(self, moment: float) -> None:
        for item in self._entries.glob(".*.tmp"):
            if item.stat().st_mtime < moment:
                item.unlink(missing_ok=True)

    def _entry(self, version: int) -> Path:
        return self._entries / f"{version:020}.json"

    @contextmanager
    def _temporary(self, content: str) -> Iterator[Path]:
        path = self._entries / f".{uuid.uuid4().hex}.tmp"
        try:
            write_file(path, content.encode(), durable=self.durable)
        except FileNotFoundError:
            self.check_in_place()
            raise
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)
