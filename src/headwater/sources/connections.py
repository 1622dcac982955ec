"""The connections over which a source is asked: a few, shared by all who ask it.

Each belongs to a thread that does one question at a time. A question that has to wait at the
source holds up only its own thread; there are more as they are needed, up to a bound.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from headwater.algebra.terms import Query
from headwater.sources.contract import Lift, Reply, Source, Wrapper
from headwater.sources.workers import Job, Workers

_MOST = 8


class Connections:
    """`source` gives the source as it is read now, whose columns may become more."""

    def __init__(self, name: str, source: Callable[[], Source], lift: Lift) -> None:
        self._source = source
        self._lift = lift
        self._own = threading.local()
        self._workers = Workers(f"questions to {name}", _MOST, self._hang_up)

    def do(self, job: Job) -> None:
        """Have a job done that asks."""
        self._workers.do(job)

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        """Ask in one snapshot, in a job. After an error the connection is opened anew."""
        try:
            return self._wrapper().ask(queries, marker)
        except BaseException:
            self._hang_up()
            raise

    def stop(self) -> None:
        self._workers.stop()

    def join(self, limit_s: float) -> None:
        """Wait for questions. Who waits for a database that does not answer is left behind."""
        self._workers.join(limit_s)

    def _wrapper(self) -> Wrapper:
        source = self._source()
        held: tuple[Source, Wrapper] | None = getattr(self._own, "held", None)
        if held is None or held[0] is not source:
            self._hang_up()
            held = self._own.held = (source, source.open_wrapper(self._lift))
        return held[1]

    def _hang_up(self) -> None:
        held: tuple[Source, Wrapper] | None = getattr(self._own, "held", None)
        self._own.held = None
        if held is not None:
            held[1].close()
