"""Events: facts that reach a view manager, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.hashing import cached_hash
from headwater.algebra.rows import Rows
from headwater.protocol.look_ups import LookUp, together
from headwater.protocol.messages import Message
from headwater.protocol.transactions import Transaction


@cached_hash
@dataclass(frozen=True)
class TransactionArrived:
    """A source reports a committed transaction, or its part of a global one."""

    transaction: Transaction
    looked_up: tuple[LookUp, ...] = ()
    """What the manager wanted to see of the view first."""
    seen: Rows | None = None
    """At least the rows that were looked up, as the view has them now; None if none were."""

    def seeing(self, wanted: tuple[LookUp, ...], rows: Rows) -> TransactionArrived:
        """The same, when these were looked up too."""
        known = self.seen if self.seen is not None else Rows.empty(rows.schema)
        seen = Rows(rows.schema, dict(known.items()) | dict(rows.items()))
        return TransactionArrived(self.transaction, together([*self.looked_up, *wanted]), seen)


@cached_hash
@dataclass(frozen=True)
class AnswerArrived:
    """A source answers the question `label`: one relation for each query in it.

    The channel contract: the answer reflects exactly the transactions of that source that
    arrived before it.
    """

    source: str
    label: str
    results: tuple[Rows, ...]
    reflects: int | None = None
    """How many transactions of the source it reflects; None if not told."""


@dataclass(frozen=True)
class Idled:
    """Nothing has happened for a while; only sent to a manager that wants to know."""


@cached_hash
@dataclass(frozen=True)
class MessageArrived:
    """A message from another party, for protocols in which the sources have nodes."""

    sender: str
    receiver: str
    message: Message


Event: TypeAlias = TransactionArrived | AnswerArrived | Idled | MessageArrived
