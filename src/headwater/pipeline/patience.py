"""For how long a view has shown nothing because its sources do not pause: a machine.

Some algorithms show nothing while a question is unanswered (Strobe, ECA and their kin). They are
chosen where sources are expected to pause, by rates that are averages. Where sources have become
busier since, such a view would never come to show anything, and nobody would say so. So, where
another algorithm may be taken, it is given up after a while, and the next one is chosen knowing
how late this one was.

Only what answers let wait counts: a source that is away, a part of a global transaction that does
not come, or a commit that waits for its time is no reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.pipeline.life import ImpatientError

LIMIT_S = 10.0
"""For how long a view may show nothing, beside what it was told to wait."""
FEWEST_ANSWERS = 20
"""Fewer answers meanwhile show that questions take long, and not that sources do not pause."""


@dataclass
class Patience:
    """One view's; `is_limited` where another algorithm may be taken."""

    is_limited: bool
    refresh_s: float = 0.0
    """How long a commit may wait for others."""
    _since: float | None = None
    _answers: int = 0

    def received(self, now: float) -> None:
        """A transaction that concerns the view has come."""
        if self._since is None:
            self._since = now

    def answered(self, now: float) -> None:
        """An answer has come; ImpatientError if nothing was shown for too long by now."""
        self._answers += 1
        if not self.is_limited or self._since is None or self._answers < FEWEST_ANSWERS:
            return
        waited = now - self._since
        if waited > LIMIT_S + self.refresh_s:
            raise ImpatientError(waited)

    def shown(self) -> None:
        """Something was shown, or waits for something else."""
        self._since, self._answers = None, 0
