"""The log of somebody's Delta table: entries by name, and what a version consists of.

Read here, and not by delta-rs, because an entry is what decides: delta-rs goes by a listing, which
may miss one while others are written. Entries are opened one after the other; the newest version is
the one behind which there is none. A checkpoint is where replaying begins.

Assumes nothing of the writer but Delta's protocol. What it may do that is not read here is refused
by name: see `UNREAD`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow
import pyarrow.parquet

from headwater.errors import LostConnectionError
from headwater.reading import parse_json
from headwater.storage.location import Location

Action: TypeAlias = dict[str, Any]

_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_MOST_BYTES = 1 << 30
_READ_FEATURES = frozenset({"timestampNtz", "vacuumProtocolCheck", "typeWidening"})
_TOLERATED = _READ_FEATURES | {"deletionVectors", "typeWidening-preview"}
_WORDS = {
    "columnMapping": "mapped columns (column mapping)",
    "deletionVectors": "deletion vectors",
    "v2Checkpoint": "checkpoints of the second version",
    "variantType": "variants",
}
_CHECKPOINT_COLUMNS = ("add", "metaData", "protocol")
_MOST_KNOWN = 8


class UnreadError(Exception):
    """A table uses what is not read here; the words say what, and how it can be read again."""

    def __init__(self, words: str, hint: str) -> None:
        super().__init__(words)
        self.words = words
        self.hint = hint


class GoneError(Exception):
    """Something that a version consists of is not there any more; the words say what."""


@dataclass(frozen=True)
class Snapshot:
    """A table at one version; version -1 is before its first entry."""

    version: int = -1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)
    adds: Mapping[str, Action] = field(default_factory=dict)

    def after(self, entry: Iterable[Action]) -> Snapshot:
        metadata, protocol, adds = self.metadata, self.protocol, dict(self.adds)
        for action in entry:
            if (add := action.get("add")) is not None:
                adds[add["path"]] = add
            elif (remove := action.get("remove")) is not None:
                adds.pop(remove["path"], None)
            metadata = action.get("metaData") or metadata
            protocol = action.get("protocol") or protocol
        return Snapshot(self.version + 1, metadata, protocol, adds)

    @property
    def table_id(self) -> str:
        return str(self.metadata.get("id", ""))

    @property
    def partition_columns(self) -> Sequence[str]:
        return list(self.metadata.get("partitionColumns") or ())

    def check(self) -> None:
        """UnreadError if it uses what is not read."""
        check_protocol(self.protocol)
        check_files(self.adds.values())


def check_protocol(protocol: Mapping[str, Any]) -> None:
    features = set(protocol.get("readerFeatures") or ())
    if protocol.get("minReaderVersion") == 2:
        features.add("columnMapping")
    if unread := sorted(features - _TOLERATED):
        raise _unread(unread)


def check_files(files: Iterable[Action]) -> None:
    for file in files:
        if file.get("deletionVector"):
            raise _unread(["deletionVectors"])
        if "://" in file["path"] or file["path"].startswith("/"):
            raise UnreadError(
                "has files outside of its folder, as a shallow clone has",
                "Clone it deeply, or read the table that it was cloned from.",
            )


def _unread(features: Sequence[str]) -> UnreadError:
    found = ", ".join(_WORDS.get(feature, feature) for feature in features)
    if "deletionVectors" in features:
        hint = (
            "Set delta.enableDeletionVectors to false and run REORG TABLE ... APPLY (PURGE) there; "
            "it is read on by itself then."
        )
    else:
        hint = "Drop that table feature there; the table is read on by itself then."
    return UnreadError(f"uses {found}, which are not read", hint)


class TableLog:
    """The log of the table in a folder, as far as it can be read now."""

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        self._entries = folder / "_delta_log"
        self._known: dict[int, Snapshot] = {}

    def _entry(self, version: int) -> Location:
        return self._entries / f"{version:020}.json"

    def raw(self, version: int) -> bytes | None:
        """An entry as it is there; None if it is not, or not yet."""
        try:
            return self._entry(version).read(_MOST_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def token(self, version: int) -> object:
        """Another whenever the entry is another; None if there is none."""
        about = self._entry(version).about()
        return None if about is None else about.token

    def entry(self, version: int) -> list[Action] | None:
        content = self.raw(version)
        return None if content is None else self.parsed(version, content)

    def parsed(self, version: int, content: bytes) -> list[Action]:
        try:
            return [parse_json(line) for line in content.splitlines() if line.strip()]
        except ValueError:
            raise LostConnectionError(
                f"The entry {self._entry(version)} of a Delta table cannot be read.",
                "It may be half written by a store that does not write at once; otherwise see to "
                "the table.",
            ) from None

    def newest(self) -> int:
        """The newest version; -1 if there is no table."""
        names = self._names()
        last = max((int(m[1]) for n in names if (m := _ENTRY.fullmatch(n))), default=-1)
        last = max(last, *(version for version, _ in self._checkpoints(names)), -1)
        while self.token(last + 1) is not None:
            last += 1
        return last

    def _names(self) -> Sequence[str]:
        try:
            return self._entries.names()
        except (FileNotFoundError, NotADirectoryError):
            return []

    def forget(self) -> None:
        self._known.clear()

    def at(self, version: int) -> Snapshot:
        """The table at a version; GoneError if its log does not go back so far any more."""
        if version in self._known:
            return self._known[version]
        start = max((v for v in self._known if v < version), default=-2)
        found = self._known[start] if start > -2 else self._start(version)
        while found.version < version:
            entry = self.entry(found.version + 1)
            if entry is None:
                if start > -2:
                    self.forget()
                    return self.at(version)
                raise GoneError(
                    f"its log does not have version {version} any more (or not entry "
                    f"{found.version + 1}, on which it is built)"
                )
            found = found.after(entry)
        self._known[version] = found
        while len(self._known) > _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        return found

    def _start(self, upto: int) -> Snapshot:
        """The newest checkpoint up to a version, or what is before the first entry."""
        for version, parts in sorted(self._checkpoints(self._names()), reverse=True):
            if version <= upto:
                try:
                    return _from_checkpoint(version, [self._entries / name for name in parts])
                except (OSError, ValueError, pyarrow.ArrowException):
                    continue
        return Snapshot()

    @staticmethod
    def _checkpoints(names: Sequence[str]) -> list[tuple[int, list[str]]]:
        found: dict[tuple[int, int], list[str]] = {}
        for name in sorted(names):
            if match := _CHECKPOINT.fullmatch(name):
                found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
        return [(version, parts) for (version, of), parts in found.items() if len(parts) == of]


def _from_checkpoint(version: int, parts: Sequence[Location]) -> Snapshot:
    actions: list[Action] = []
    for part in parts:
        with pyarrow.parquet.ParquetFile(part.for_arrow()) as file:
            names = set(file.schema_arrow.names)
            table = file.read([name for name in _CHECKPOINT_COLUMNS if name in names])
        for row in table.to_pylist():
            actions += [{name: _plain(value)} for name, value in row.items() if value is not None]
    found = Snapshot(version - 1).after(actions)
    if not found.metadata or not found.protocol:
        raise ValueError("the checkpoint has no metadata")
    return found


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """A struct of a checkpoint as an entry has it: without NULLs, and maps as such."""
    found = {name: item for name, item in value.items() if item is not None}
    for name in ("configuration", "partitionValues", "tags"):
        if name in found:
            found[name] = dict(found[name])
    return found


def file_of(folder: Location, path: str) -> Location:
    """A file of a table by the path that its log has."""
    found = folder
    for part in unquote(path).split("/"):
        if part in ("", ".", ".."):
            raise GoneError(f"the log names a file outside of the table: {path}")
        found = found / part
    return found
