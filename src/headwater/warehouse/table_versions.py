"""A Delta table at one version: what its log's entries, replayed, or a checkpoint say.

Read here and not by delta-rs, so that nothing is shown that the entries do not say: delta-rs
goes by a listing, which may miss an entry while others are written, and by checkpoints, which a
power loss may have emptied.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote, unquote

import pyarrow
import pyarrow.parquet

from headwater.errors import EngineError
from headwater.storage.bucket import StoreError
from headwater.storage.location import Location
from headwater.warehouse.commits import APP, LogLine
from headwater.warehouse.forms import ACTIONS, has_form
from headwater.warehouse.own_files import store_trouble

_CHECKPOINT_COLUMNS = ("add", "txn", "metaData", "protocol", "sidecar")
_STATISTICS = ("minValues", "maxValues", "nullCount")
_READ_FEATURES = frozenset({"timestampNtz"})


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table; `first` and `last` bound its commit numbers where known."""

    name: str
    size: int
    rows: int
    first: int | None = None
    last: int | None = None
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    """What is said of its columns, for other readers; writers of checkpoints may word it anew."""

    @classmethod
    def of_add(cls, add: Mapping[str, Any]) -> DataFile:
        stats = json.loads(add.get("stats") or "{}")
        return cls(
            unquote(add["path"]),
            add["size"],
            stats.get("numRecords") or 0,
            stats.get("minValues", {}).get("_commit"),
            stats.get("maxValues", {}).get("_commit"),
            {name: stats[name] for name in _STATISTICS if name in stats},
        )

    def add(self, *, data_change: bool = True) -> LogLine:
        stats: dict[str, object] = {"numRecords": self.rows, **self.statistics}
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

    def remove(self, *, data_change: bool = True) -> LogLine:
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


@dataclass(frozen=True)
class TableVersion:
    """A table at one version; version -1 is before its first entry."""

    folder: Location
    version: int = -1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    by_path: Mapping[str, DataFile] = field(default_factory=dict)

    def after(self, entries: Sequence[Iterable[LogLine]]) -> TableVersion:
        """The table after the next entries of its log."""
        if not entries:
            return self
        metadata, protocol = self.metadata, self.protocol
        transactions, by_path = dict(self.transactions), dict(self.by_path)
        for action in (action for entry in entries for action in entry):
            if add := action.get("add"):
                _refuse_deletion_vector(self.folder, add)
                by_path[add["path"]] = DataFile.of_add(add)
            elif remove := action.get("remove"):
                by_path.pop(remove["path"], None)
            elif transaction := action.get("txn"):
                transactions[transaction["appId"]] = transaction["version"]
            metadata = action.get("metaData") or metadata
            protocol = action.get("protocol") or protocol
        _refuse_unread(self.folder, protocol)
        version = self.version + len(entries)
        return TableVersion(self.folder, version, metadata, protocol, transactions, by_path)

    def actions(self) -> list[LogLine]:
        """What the first entry of a table would say that is this from its beginning."""
        now = int(time.time() * 1000)
        return [
            {"protocol": dict(self.protocol)},
            {"metaData": dict(self.metadata)},
            *(
                {"txn": {"appId": app, "version": number, "lastUpdated": now}}
                for app, number in self.transactions.items()
            ),
            *({"add": {**file.add()["add"], "path": path}} for path, file in self.by_path.items()),
        ]

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        return tuple(self.by_path.values())

    def transaction(self, app: str) -> int | None:
        return self.transactions.get(app)

    @property
    def number(self) -> int:
        """The number of the newest of our commits in this version; 0 if there is none."""
        return self.transaction(APP) or 0

    @property
    def description(self) -> str:
        return self.metadata.get("description") or ""

    @property
    def schema_json(self) -> str:
        text: str = self.metadata["schemaString"]
        return text

    def says_the_same(self, other: TableVersion) -> bool:
        """Whether a reader finds the same in both, however they were stored."""
        return (
            self.version == other.version
            and self.schema_json == other.schema_json
            and self.description == other.description
            and self.transactions == other.transactions
            and self.by_path == other.by_path
        )


def from_checkpoint(
    folder: Location, version: int, parts: Sequence[Location]
) -> TableVersion | None:
    """The table as a checkpoint has it; None if that cannot be read."""
    try:
        actions = [action for part in parts for action in _actions(part)]
    except StoreError as error:
        raise store_trouble(error) from None
    except (AttributeError, OSError, TypeError, ValueError, pyarrow.ArrowException):
        return None
    if any("sidecar" in action for action in actions) or not has_form(ACTIONS, actions):
        return None
    found = TableVersion(folder, version - 1).after([actions])
    return found if found.metadata and found.protocol else None


def is_sound(parts: Sequence[Location]) -> bool:
    """Whether all of a checkpoint can be read: other readers need more of it than we do."""
    try:
        for part in parts:
            with pyarrow.parquet.ParquetFile(part.for_arrow()) as file:
                for _ in file.iter_batches():
                    pass
    except StoreError as error:
        raise store_trouble(error) from None
    except (OSError, ValueError, pyarrow.ArrowException):
        return False
    return True


def _actions(part: Location) -> list[LogLine]:
    with pyarrow.parquet.ParquetFile(part.for_arrow()) as file:
        names = set(file.schema_arrow.names)
        table = file.read([name for name in _CHECKPOINT_COLUMNS if name in names])
    return [
        {name: _plain(value) for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """A struct of a checkpoint as an entry has it: without NULLs, and maps as such."""
    found = {name: item for name, item in value.items() if item is not None}
    for name in ("configuration", "partitionValues", "tags", "options"):
        if name in found:
            found[name] = dict(found[name])
    if "format" in found:
        found["format"] = _plain(found["format"])
    return found


def _refuse_unread(folder: Location, protocol: Mapping[str, Any]) -> None:
    features = set(protocol.get("readerFeatures") or ())
    if protocol.get("minReaderVersion") == 2:
        features.add("columnMapping")
    if unread := sorted(features - _READ_FEATURES):
        words = {"deletionVectors": "deletion vectors", "columnMapping": "mapped columns"}
        found = ", ".join(words.get(feature, feature) for feature in unread)
        raise EngineError(
            f"The table {folder} may have {found}, which are not read.",
            "Drop that table feature with the tool that switched it on.",
        )


def _refuse_deletion_vector(folder: Location, add: Mapping[str, Any]) -> None:
    if add.get("deletionVector"):
        _refuse_unread(folder, {"readerFeatures": ["deletionVectors"]})
