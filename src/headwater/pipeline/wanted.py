"""What the maintenance of a view wants done, besides asking and sending: commits and look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.copies import CopyParts
from headwater.algebra.rows import Rows
from headwater.pipeline.copied import Consult
from headwater.pipeline.joining import identity
from headwater.pipeline.reflected import ranges
from headwater.protocol.action_lists import StoredView, change_by, seen_behind
from headwater.protocol.copies import OwnRows
from headwater.protocol.effects import Action, Ask, Send
from headwater.protocol.events import TransactionArrived
from headwater.protocol.look_ups import LookUp
from headwater.sources.contract import Position
from headwater.warehouse.commits import Kind
from headwater.warehouse.vectors import VersionVector


@dataclass(frozen=True)
class Arrival:
    """A transaction on its way through the manager."""

    source: str
    number: int
    position: Position | None
    read_at: float
    split: tuple[str, ...] = ()
    """The global transactions of which it is a part that is taken in without the others."""

    @property
    def id(self) -> str:
        return identity(self.source, self.number)


@dataclass(frozen=True)
class Commit:
    """Make a change of the view visible, in one step, with the vector that it stands for."""

    actions: tuple[Action, ...]
    """What is to be done to what is stored."""
    vector: VersionVector
    received: Sequence[Arrival] = ()
    kind: Kind = "change"
    parts: CopyParts | None = None
    """How copies of relations are stored beside the view's rows, if there are any."""
    copied: Sequence[Rows] = ()
    """What the copies change by, as it is stored."""

    def change(self, stored: StoredView) -> Rows:
        """The signed rows to be added to what is stored now, behind every earlier commit."""
        if self.parts is None:
            return change_by(self.actions, stored)
        own = self.parts.stored(change_by(self.actions, OwnRows(stored, self.parts)))
        return Rows.sum(self.parts.schema, [own, *self.copied])

    @property
    def needed(self) -> dict[str, int]:
        """Up to which numbers the change logs have to hold everything before it is written."""
        return needed(self.vector)

    @property
    def added(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """The numbers of the transactions that it takes in."""
        numbers: dict[str, list[int]] = {}
        for received in self.received:
            numbers.setdefault(received.source, []).append(received.number)
        return {source: ranges(found) for source, found in numbers.items()}

    @property
    def split(self) -> tuple[str, ...]:
        """The global transactions of which it takes in a part without the others."""
        return tuple(sorted({name for received in self.received for name in received.split}))


@dataclass(frozen=True)
class Look:
    """Look rows of the view up for the manager, which takes a transaction in when it has seen them;
    nothing else is to be done to the view before."""

    event: TransactionArrived
    wanted: tuple[LookUp, ...]
    pending: tuple[Action, ...]
    """What is still to be committed."""
    parts: CopyParts | None = None
    """How copies of relations are stored beside the view's rows, if there are any."""

    def found(self, stored: StoredView) -> TransactionArrived:
        """The transaction with what was looked up."""
        stored = stored if self.parts is None else OwnRows(stored, self.parts)
        return self.event.seeing(self.wanted, seen_behind(self.pending, self.wanted, stored))


Wanted: TypeAlias = Ask | Send | Commit | Look | Consult
"""What is to be done for a view. A look, or a consultation, comes last."""


def waits(wanted: Sequence[Wanted]) -> bool:
    """Whether nothing else is to be done to the view before something was looked up."""
    return bool(wanted) and isinstance(wanted[-1], Look | Consult)


def needed(vector: VersionVector) -> dict[str, int]:
    """Up to which numbers the change logs have to hold everything before a vector is written
    down: else a crash would leave a view that has come further than its log."""
    return {
        source: max([reached.number, *reached.also, *(number for number, _ in reached.arrived)])
        for source, reached in vector.items()
    }
