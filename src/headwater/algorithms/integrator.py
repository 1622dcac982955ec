"""The integrator: a view manager behind it sees whole transactions, in the order of every source.

WHIPS architecture of the Strobe paper, section 6.2. There are two, by what the sources report.

`Integrator`, where each source reports its own part: the channel that delivered a part stops,
answers included, until every part is there; then the whole transaction is passed on as one
event. So nothing overtakes a held part of its source, and an answer still reflects exactly what
was passed on before it.

`ByNumber`, where one site reports a transaction for all: a transaction is passed on when all
earlier ones of its sources were, and an answer when everything that it reflects was. Messages
may come in any order. An answer may reflect less than was passed on before it: one that was on
its way while another site's report arrived.

Choices: the paper numbers the updates only. An answer that has seen a transaction which nobody
has reported yet would still be passed on; so answers carry a number too, and wait.

The running system has the first one's rules (`parts.held_channels`), where sources do not
tell which others have parts of a transaction: what is known of that is asked there.

Both assume that any two global transactions come in the same order at all sources they share.
Where they do not, the first passes on as one transaction what cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algorithms.parts.held_channels import HeldChannels
from headwater.protocol.events import AnswerArrived, Event, TransactionArrived
from headwater.protocol.transactions import Transaction, joined


@dataclass(frozen=True)
class Integrator:
    """The channels that stand still: each source with its messages, oldest first."""

    held: tuple[tuple[str, tuple[Event, ...]], ...] = ()

    def receive(self, source: str, event: Event) -> tuple[Integrator, tuple[Event, ...]]:
        """Take a message from a source; the events that may go on now, in order."""
        if not self.held and _part(event) is None:
            return self, (event,)
        channels = HeldChannels(_BY_SPANS)
        for name, queue in (*self.held, (source, (event,))):
            for message in queue:
                channels.receive(name, message)
        passed = tuple(map(_as_one, channels.passed()))
        assert not channels.put_off, "global transactions come in one order"
        return Integrator(tuple((s, tuple(q)) for s, q in channels.held.items())), passed


class _BySpans:
    """Every part tells itself where the others are."""

    def name(self, item: Event) -> str | None:
        return item.transaction.id if isinstance(item, TransactionArrived) else None

    def needs(self, item: Event) -> frozenset[tuple[str, str]]:
        part = _part(item)
        if part is None:
            return frozenset()
        return frozenset((source, part.id) for source in part.spans if source not in part.sources)


_BY_SPANS = _BySpans()


def _as_one(events: Sequence[Event]) -> Event:
    if len(events) == 1:
        return events[0]
    parts = [event.transaction for event in events if isinstance(event, TransactionArrived)]
    if len({part.id for part in parts}) == 1:
        parts.sort(key=lambda part: part.spans.index(part.sources[0]))
    return TransactionArrived(joined(parts))


def _part(event: Event) -> Transaction | None:
    """The part of a global transaction in this event, if it is one."""
    match event:
        case TransactionArrived(transaction) if not transaction.is_whole:
            return transaction
    return None


@dataclass(frozen=True)
class ByNumber:
    """How many transactions of each source were passed on, and what waits, oldest first."""

    passed: tuple[tuple[str, int], ...] = ()
    waiting: tuple[Event, ...] = ()

    def receive(self, source: str, event: Event) -> tuple[ByNumber, tuple[Event, ...]]:
        """Take a message from a source; the events that may go on now, in order."""
        passed, waiting, released = dict(self.passed), [*self.waiting, event], []
        while ready := next((e for e in waiting if _is_next(e, passed)), None):
            waiting.remove(ready)
            released.append(ready)
            if isinstance(ready, TransactionArrived):
                passed |= _numbers(ready.transaction)
        return ByNumber(tuple(sorted(passed.items())), tuple(waiting)), tuple(released)


AnyIntegrator: TypeAlias = Integrator | ByNumber


def _is_next(event: Event, passed: dict[str, int]) -> bool:
    match event:
        case TransactionArrived(transaction):
            numbers = _numbers(transaction)
            return all(passed.get(source, 0) == n - 1 for source, n in numbers.items())
        case AnswerArrived(source=source, reflects=int(reflects)):
            return passed.get(source, 0) >= reflects
    return True


def _numbers(transaction: Transaction) -> dict[str, int]:
    assert transaction.numbers, f"{transaction.id} was reported without numbers"
    return dict(zip(transaction.sources, transaction.numbers, strict=True))
