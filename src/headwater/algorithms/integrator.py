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

Both assume that any two global transactions come in the same order at all sources they share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
        queues = dict(self.held)
        queues[source] = (*queues.get(source, ()), event)
        passed: list[Event] = []
        while released := _release(queues):
            passed += released
        held = tuple((name, queue) for name, queue in sorted(queues.items()) if queue)
        return Integrator(held), tuple(passed)


def _release(queues: dict[str, tuple[Event, ...]]) -> list[Event]:
    """Take the next events that can go on off the queues."""
    for source, queue in queues.items():
        if not queue:
            continue
        part = _part(queue[0])
        if part is None:
            queues[source] = queue[1:]
            return [queue[0]]
        heads = [_part(queues[s][0]) if queues.get(s) else None for s in part.spans]
        parts = [head for head in heads if head is not None and head.id == part.id]
        if len(parts) == len(part.spans):
            for name in part.spans:
                queues[name] = queues[name][1:]
            return [TransactionArrived(joined(parts))]
    return []


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
