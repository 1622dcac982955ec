"""A subscriber of a channel with a thread of its own, which hands on what it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from headwater.errors import HeadwaterError
from headwater.sources.channel import Channel
from headwater.sources.subscription import Delivery, Subscription


def follow(
    channel: Channel,
    receive: Callable[[Delivery], None],
    failed: Callable[[HeadwaterError], None] = lambda error: None,
    after: int | None = None,
    relations: Collection[str] | None = None,
) -> Subscription:
    """Subscribe; `receive` may block, and `failed` is told why nothing more comes."""
    woken = threading.Event()
    subscription = channel.subscribe(lambda at: woken.set(), after, relations=relations)

    def run() -> None:
        try:
            while not (channel.is_stopping and channel.error is None):
                woken.clear()
                deliveries = subscription.take(256)
                for delivery in deliveries:
                    receive(delivery)
                if not deliveries:
                    woken.wait(60)
        except HeadwaterError as error:
            failed(error)

    threading.Thread(target=run, daemon=True).start()
    return subscription
