"""A small driver: one view manager over real sources, the view in memory.

One event at a time, as in production: each channel's deliveries go into one queue, questions
go to the channel of their source.
"""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.algebra.rows import Rows
from headwater.check.certificate import Claim
from headwater.check.history import History
from headwater.errors import HeadwaterError
from headwater.protocol.effects import Apply, Ask, apply_actions
from headwater.protocol.events import TransactionArrived
from headwater.protocol.managers import ViewManager
from headwater.protocol.transactions import Transaction
from headwater.sources.channel import Channel
from headwater.sources.contract import Source
from headwater.sources.subscription import Delivery
from headwater.testing.following import follow


class Driver:
    def __init__(
        self,
        manager: ViewManager[Any],
        sources: Sequence[Source],
        view: Rows,
        base: Mapping[str, Rows],
    ) -> None:
        self.manager = manager
        self.base = dict(base)
        self.view = view
        self.state = manager.start()
        self.inbox: queue.Queue[Delivery] = queue.Queue(maxsize=1000)
        self.channels = {source.name: Channel(source) for source in sources}
        self.failures: list[HeadwaterError] = []
        self.subscriptions = {
            name: follow(channel, self.inbox.put, self.failures.append)
            for name, channel in self.channels.items()
        }
        self.received: dict[str, list[Transaction]] = {name: [] for name in self.channels}
        self.claims: list[Claim] = []
        self.questions = 0
        for channel in self.channels.values():
            channel.start()

    def step(self, timeout_s: float) -> bool:
        """Take one event in; False if none came."""
        for failure in self.failures:
            raise failure
        try:
            delivery = self.inbox.get(timeout=timeout_s)
        except queue.Empty:
            return False
        assert delivery.event is not None
        if isinstance(delivery.event, TransactionArrived):
            self.received[delivery.source].append(delivery.event.transaction)
        self.state, effects = self.manager.handle(self.state, delivery.event)
        for effect in effects:
            match effect:
                case Ask(source=source):
                    self.questions += 1
                    self.subscriptions[source].ask(effect)
                case Apply(actions=actions, transactions=transactions):
                    self.view = apply_actions(self.view, actions)
                    self.claims.append(Claim(self.view.positive(), transactions))
        return True

    def history(self) -> History:
        """What the sources did, as it was delivered."""
        transactions = {name: tuple(found) for name, found in self.received.items()}
        return History(self.manager.view, self.base, tuple(self.channels), transactions)

    def close(self) -> None:
        for subscription in self.subscriptions.values():
            subscription.close()
        while self.step_off():
            pass
        for channel in self.channels.values():
            channel.close()

    def step_off(self) -> bool:
        """Take a delivery off the queue, so that no channel waits for room in it."""
        try:
            self.inbox.get(timeout=0.05)
        except queue.Empty:
            return False
        return True
