"""When a view's manager that wants to know is told that nothing goes on."""

from __future__ import annotations

import math

from headwater.pipeline.plan import Plan

IDLE_S = 0.05
"""After how long without anything a manager that wants to know is told that nothing goes on."""


class Idling:
    """One view's, by the plan's `ticks`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._heard_at = 0.0
        self._told_at = 0.0
        self._is_asked = False

    def heard(self, now: float) -> None:
        """Something has happened that the manager was told."""
        self._heard_at = now

    def ask(self, asked: bool) -> None:
        """Whether somebody waits until everything is shown."""
        self._is_asked = asked

    @property
    def due(self) -> float:
        """When it is to be told."""
        if self._is_asked:
            return 0.0
        match self._plan.ticks:
            case "when quiet":
                return self._heard_at + IDLE_S
            case "by clock":
                return self._told_at + (self._plan.refresh_s or IDLE_S)
            case "when asked":
                return math.inf

    def is_quiet(self, more: bool) -> bool:
        """Whether that something else has arrived does not matter, or nothing has."""
        return not (more and self._plan.ticks == "when quiet")

    def told(self, now: float) -> None:
        self._is_asked, self._told_at = False, now
