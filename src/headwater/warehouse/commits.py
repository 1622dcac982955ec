"""What Headwater writes into a Delta commit beside the data, and how it is read back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from headwater.warehouse.sealing import CHECK, UNSEALED
from headwater.warehouse.vectors import (
    Ranges,
    VersionVector,
    ranges_from_json,
    ranges_to_json,
    vector_from_json,
    vector_to_json,
)

Kind: TypeAlias = Literal["load", "change", "open", "vector", "fold", "clean", "compact", "store"]
LogLine: TypeAlias = dict[str, Any]
"""One line of a Delta log entry."""

APP = "headwater"
"""The key of our metadata, and the app transaction that holds a commit's number."""


EARLY = f"{APP}:early"
"""The app transaction that says how many transactions the vector has above its numbers."""

OWN_FILES = -1
"""In place of a version of the plain table: the files that the commit itself names."""


@dataclass(frozen=True)
class FoldedBase:
    """The version of the plain table that a state starts from, and the last commit in it."""

    plain: int
    number: int


NO_LEVEL = "none"
"""The level of a view WITH NO CONSISTENCY."""


@dataclass(frozen=True)
class ViewCommit:
    """A numbered commit of a view.

    `version` is the Delta version at which it stands: of the plain table for a fold, of the
    signed log for every other kind.
    """

    view: str
    number: int
    kind: Kind
    runner: str
    vector: VersionVector
    base: FoldedBase
    added: Ranges = field(default_factory=dict)
    algorithm: str = ""
    level: str = ""
    rows: int = 0
    version: int = -1
    timestamp: int = 0
    """Milliseconds since 1970; 0 when it is no longer known."""
    split: tuple[str, ...] = ()
    """The global transactions of which it has taken in a part without the others."""

    @property
    def is_early(self) -> bool:
        """Whether it has transactions above its watermarks."""
        return any(reached.also for reached in self.vector.values())

    @property
    def promises_nothing(self) -> bool:
        """Whether its vector is no claim: the view need not be what the sources held there."""
        return self.level == NO_LEVEL

    def metadata(self) -> dict[str, Any]:
        split = {"split": list(self.split)} if self.split else {}
        return {
            "view": self.view,
            "number": self.number,
            "kind": self.kind,
            "runner": self.runner,
            "vector": vector_to_json(self.vector),
            "added": ranges_to_json(self.added),
            "algorithm": self.algorithm,
            "level": self.level,
            "rows": self.rows,
            "base": base_to_json(self.base),
            **split,
        }

    def actions(self) -> list[LogLine]:
        """The lines of a Delta commit that say this: its metadata and its app transactions.

        App transactions survive checkpoints and the clean-up of the log; metadata does not.
        """
        now = int(time.time() * 1000)
        early = sum(len(reached.also) for reached in self.vector.values())
        numbers = {APP: self.number, EARLY: early}
        numbers |= {source_app(source): reached.number for source, reached in self.vector.items()}
        return [
            commit_info(self.metadata(), now),
            *(
                {"txn": {"appId": app, "version": number, "lastUpdated": now}}
                for app, number in numbers.items()
            ),
        ]


def source_app(source: str) -> str:
    """The app transaction that holds the number reached at a source."""
    return f"{APP}:{source}"


def base_to_json(base: FoldedBase) -> dict[str, int]:
    return {"plain": base.plain, "number": base.number}


def base_from_json(json: Mapping[str, int]) -> FoldedBase:
    return FoldedBase(json["plain"], json["number"])


def commit_info(metadata: Mapping[str, Any], now: int) -> LogLine:
    return {
        "commitInfo": {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {},
            APP: {CHECK: UNSEALED, **metadata},
        }
    }


def maintenance_info(view: str, kind: Kind, base: FoldedBase | None = None) -> LogLine:
    """The metadata of a commit without a number: it changes files, not the view."""
    metadata: dict[str, Any] = {"view": view, "kind": kind}
    if base is not None:
        metadata["base"] = base_to_json(base)
    return commit_info(metadata, int(time.time() * 1000))


def metadata_of(entry: list[LogLine]) -> Mapping[str, Any] | None:
    """Our metadata in a log entry; None in a commit of others."""
    for action in entry:
        if "commitInfo" in action:
            found: Mapping[str, Any] | None = action["commitInfo"].get(APP)
            return found
    return None


def commit_of(entry: list[LogLine], version: int) -> ViewCommit | None:
    """The numbered commit that a log entry is, or None."""
    metadata = metadata_of(entry)
    if metadata is None or "number" not in metadata:
        return None
    timestamp = next(a["commitInfo"].get("timestamp", 0) for a in entry if "commitInfo" in a)
    return ViewCommit(
        metadata["view"],
        metadata["number"],
        metadata["kind"],
        metadata["runner"],
        vector_from_json(metadata["vector"]),
        base_from_json(metadata["base"]),
        ranges_from_json(metadata["added"]),
        metadata["algorithm"],
        metadata["level"],
        metadata["rows"],
        version,
        timestamp,
        tuple(metadata.get("split", ())),
    )
