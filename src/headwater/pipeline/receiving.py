"""In which order one view receives what comes from its sources: what comes too early waits.

It matters only after a crash, and where an algorithm commits early over several sources: what was
received once has to be received in the same order again (see `reflected.InArrivalOrder`). All else
is received as it comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from headwater.pipeline.reflected import InArrivalOrder, Reflected
from headwater.protocol.events import TransactionArrived
from headwater.sources.subscription import Delivery


class Receiving:
    """What has come for one view and waits for its turn."""

    def __init__(self, sources: Iterable[str], reflected: Reflected) -> None:
        self._order = reflected if isinstance(reflected, InArrivalOrder) else None
        self._held: dict[str, deque[Delivery]] = {source: deque() for source in sources}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def in_turn(self, delivery: Delivery) -> Iterator[Delivery]:
        """What is received now: what has come, unless others are to be received before it.

        Each that changes the view is to be told to `reflected` before the next is taken.
        """
        if self._order is None:
            yield delivery
            return
        self._held[delivery.source].append(delivery)
        while (ready := self._next(self._order)) is not None:
            yield ready

    def _next(self, order: InArrivalOrder) -> Delivery | None:
        """What may be received now, of which nothing of its source is in the way."""
        for waiting in self._held.values():
            if waiting and (_changes_nothing(waiting[0]) or _may_come(waiting[0], order)):
                return waiting.popleft()
        return None


def _changes_nothing(delivery: Delivery) -> bool:
    """Whether it is no transaction that changes the view."""
    event = delivery.event
    return not (isinstance(event, TransactionArrived) and event.transaction.updates)


def _may_come(delivery: Delivery, order: InArrivalOrder) -> bool:
    return order.may_come(delivery.source, delivery.number)
