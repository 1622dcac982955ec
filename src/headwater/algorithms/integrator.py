"""The integrator: joins the parts of a global transaction before a view manager sees it.

WHIPS architecture of the Strobe paper, section 6.2. Each source reports its own part. The
channel that delivered a part stops, answers included, until every part is there; then the
whole transaction is passed on as one event. So nothing overtakes a held part of its source,
and an answer still reflects exactly what was passed on before it.

Assumes that any two global transactions come in the same order at all sources they share.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.protocol.events import Event, TransactionArrived
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
