"""A place in PostgreSQL's log, with all that shows later whether it is still the same log.

Beside the place it has the server's identity, the last transaction that was read, and what the
catalog said of the tables. A server that was restored from a copy shows another transaction at
the place of the last one, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

from headwater.algebra.values import Json
from headwater.sources.contract import Position
from headwater.sources.postgres.pgoutput import lsn_text, parse_lsn
from headwater.sources.postgres.snapshot import XidSnapshot


@dataclass(frozen=True)
class Server:
    """Whose log it is: a cluster's identity, and the timeline, which every promotion renews."""

    system: str
    timeline: int

    @classmethod
    def parse(cls, text: str) -> Server:
        system, _, timeline = text.partition("/")
        return cls(system, int(timeline))

    @cached_property
    def text(self) -> str:
        return f"{self.system}/{self.timeline}"


@dataclass(frozen=True, slots=True)
class Last:
    """The last transaction that was read: where its commit stands, its number, its time."""

    commit_lsn: int
    xid: int
    committed_at: int

    @classmethod
    def parse(cls, text: str) -> Last:
        lsn, xid, committed_at = text.split(" ")
        return cls(parse_lsn(lsn), int(xid), int(committed_at))

    def __str__(self) -> str:
        return f"{lsn_text(self.commit_lsn)} {self.xid} {self.committed_at}"


@dataclass(frozen=True)
class Held:
    """A gap made by something that waits for no writer, and who was open then: what these have done
    before it is in the log as it was before, or not at all, and comes when they commit."""

    columns: Mapping[str, frozenset[str] | None] | None
    reason: str
    running: frozenset[int]

    @property
    def json(self) -> Json:
        listed = None
        if self.columns is not None:
            listed = {n: None if of is None else sorted(of) for n, of in self.columns.items()}
        return cast("Json", [listed, self.reason, sorted(self.running)])

    @classmethod
    def of(cls, told: Json) -> Held:
        listed, reason, running = cast("tuple[dict[str, list[str] | None] | None, str, Any]", told)
        columns = None
        if listed is not None:
            columns = {n: None if of is None else frozenset(of) for n, of in listed.items()}
        return cls(columns, reason, frozenset(running))


@dataclass(frozen=True)
class Seen:
    """What the catalog said when it was last looked at: when, and a digest of each relation."""

    snapshot: XidSnapshot
    digests: Mapping[str, str]
    recent: frozenset[int] = frozenset()
    """Who wrote what it said, of transactions that are not older than all that ran then. A part of
    a transaction (SAVEPOINT) has a number of its own there, of which snapshots know nothing."""
    doubted: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns that were written in the catalog and are as they were: they may have had another
    name when rows were changed that the log has not shown yet."""
    doubted_upto: int = 0
    """Behind this place in the log they are in doubt no more."""

    held: tuple[Held, ...] = ()

    @cached_property
    def json(self) -> Position:
        found: Position = {"catalog": str(self.snapshot), "tables": cast("Json", self.digests)}
        if self.recent:
            found["recent"] = cast("Json", sorted(self.recent))
        if self.doubted:
            found["doubted"] = cast("Json", self.doubted)
            found["doubted_upto"] = lsn_text(self.doubted_upto)
        if self.held:
            found["held"] = [held.json for held in self.held]
        return found

    def knows(self, xid: int) -> bool:
        """Whether something that a transaction wrote in the catalog was there already."""
        return xid < self.snapshot.xmin or xid in self.recent


@dataclass(frozen=True)
class LogPosition:
    """A place in the log; after a load also which transactions before `until` it had seen.

    `told` is the place of a commit behind the position whose gap has been reported already.
    """

    lsn: int
    snapshot: XidSnapshot | None = None
    until: int = 0
    server: Server | None = None
    last: Last | None = None
    seen: Seen | None = None
    told: int = 0

    @classmethod
    def of(cls, position: Position) -> LogPosition:
        def text(name: str) -> str | None:
            return str(position[name]) if name in position else None

        snapshot, server, last = text("snapshot"), text("server"), text("last")
        catalog = text("catalog")
        tables = cast("Mapping[str, str]", position.get("tables", {}))
        held = tuple(map(Held.of, cast("Sequence[Json]", position.get("held", ()))))
        upto = parse_lsn(text("doubted_upto") or "0/0")
        recent = frozenset(cast("Sequence[int]", position.get("recent", ())))
        doubted = cast("Mapping[str, Sequence[str]]", position.get("doubted", {}))
        return cls(
            parse_lsn(str(position["lsn"])),
            XidSnapshot.parse(snapshot) if snapshot else None,
            parse_lsn(text("until") or "0/0"),
            Server.parse(server) if server else None,
            Last.parse(last) if last else None,
            Seen(XidSnapshot.parse(catalog), tables, recent, doubted, upto, held)
            if catalog
            else None,
            parse_lsn(text("told") or "0/0"),
        )

    def json(self) -> Position:
        found: Position = {"lsn": lsn_text(self.lsn)}
        if self.snapshot is not None:
            found["snapshot"] = str(self.snapshot)
            found["until"] = lsn_text(self.until)
        if self.server is not None:
            found["server"] = self.server.text
        if self.last is not None:
            found["last"] = str(self.last)
        if self.seen is not None:
            found.update(self.seen.json)
        if self.told:
            found["told"] = lsn_text(self.told)
        return found

    @property
    def start(self) -> int:
        """From where the server is to send again: the last transaction, to see that it is there."""
        return self.lsn if self.last is None else self.last.commit_lsn

    def moved(self, lsn: int, last: Last | None = None) -> LogPosition:
        """Further on; what commits after `until` cannot be in the snapshot any more."""
        last = last or self.last
        if lsn < self.until:
            return replace(self, lsn=lsn, last=last, told=0)
        return LogPosition(lsn, server=self.server, last=last, seen=self.seen)

    def covers(self, commit_lsn: int, xid: int) -> bool:
        """Whether a transaction is before this position."""
        if commit_lsn < self.lsn:
            return True
        if self.snapshot is None or commit_lsn >= self.until:
            return False
        return self.snapshot.includes(xid)
