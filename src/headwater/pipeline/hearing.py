"""Where the sources stand at moments: a thread that asks them now and then, for who publishes.

What was committed before a moment, and nothing else has to be published for it to be known how new
that is. Each source is asked as for an answer, so it costs it what a question about nothing costs.
One that is away is asked again the next time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from headwater.errors import HeadwaterError
from headwater.pipeline.feed import Feed

LEAST_S = 5.0
"""So long a source is left alone at least."""
_KEPT = 1000
_LIMIT_S = 10.0


class Hearing:
    """What one runner has heard of its sources."""

    def __init__(self, feeds: Callable[[], Mapping[str, Feed]], every_s: float) -> None:
        self._feeds = feeds
        self._every_s = max(every_s, LEAST_S)
        self._stood: dict[str, deque[tuple[int, float]]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hearing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It may end later: it holds nothing."""
        self._stopping.set()

    def moment(self, source: str, number: int) -> float | None:
        """The last moment at which the source had committed nothing behind a number."""
        found = [at for heard, at in list(self._stood.get(source, ())) if heard <= number]
        return max(found, default=None)

    def _run(self) -> None:
        while True:
            for name, feed in self._feeds().items():
                if self._stopping.is_set():
                    return
                self._ask(name, feed)
            if self._stopping.wait(self._every_s):
                return

    def _ask(self, name: str, feed: Feed) -> None:
        at = time.time()
        try:
            feed.channel.catch_up(_LIMIT_S)
        except (HeadwaterError, OSError):  # the source is away, which is told elsewhere
            return
        self._stood.setdefault(name, deque(maxlen=_KEPT)).append((feed.channel.end, at))
