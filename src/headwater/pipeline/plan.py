"""How one view is to be maintained, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.costs.recomputing import Recompute
from headwater.protocol.managers import Need, ViewManager
from headwater.warehouse.definition import StoredDefinition

Ticks: TypeAlias = Literal["when quiet", "by clock", "when asked"]
"""When a manager that wants to know is told that nothing goes on: after a moment in which nothing
has happened; every `refresh_s`; when somebody wants to see everything."""


@dataclass(frozen=True)
class Plan:
    """How one view is to be maintained; its relations have only the columns that it uses."""

    view: View
    manager: ViewManager[Any]
    algorithm: str
    level: str
    definition: StoredDefinition
    refresh_s: float | None = None
    publish_s: float = 60.0
    changes: bool = False
    """Whether a table of its changes follows the plain table."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the algorithm."""
    ticks: Ticks = "when quiet"
    recompute: Recompute = "never"
    """When it is recomputed rather than maintained."""
    may_change: bool = False
    """Whether another algorithm may be taken, should this one wait in vain for sources to pause."""

    @property
    def is_by_arrival(self) -> bool:
        """Whether it matters in which order transactions of different sources are received: where
        one is committed before others that came earlier."""
        is_early = Need.EARLY in ALGORITHMS[self.algorithm].needs
        return is_early and len(self.view.sources) > 1

    def relations(self, source: str) -> frozenset[str]:
        """What of a source concerns the view."""
        return frozenset(r.name for r in self.view.relations if r.source == source)

    @property
    def shows_each_state(self) -> bool:
        return parse_level(self.level) >= Level.COMPLETE

    @property
    def shows_global_whole(self) -> bool:
        """Whether global transactions are taken in as a whole, and not each part by itself."""
        return len(self.view.sources) > 1 and ALGORITHMS[self.algorithm].is_given_wholes
