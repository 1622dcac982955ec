"""What changes over time, as samples that are kept for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

KEPT = 900
"""How many samples are kept."""


def sample_of(found: Mapping[str, Any], now: float) -> dict[str, Any]:
    """What a picture over time needs of a description."""
    return {
        "at": round(now, 2),
        "views": {
            name: {
                "lag": _sum(view.get("lag")),
                "fresh": (view.get("freshness_ms") or {}).get("median"),
                "commits": view.get("commits"),
            }
            for name, view in found["views"].items()
        },
        "sources": {name: source.get("end") for name, source in found["sources"].items()},
    }


def _sum(lag: Mapping[str, int | None] | None) -> int | None:
    """How much a view is behind in all; None if that is not known of each source."""
    behind = list((lag or {}).values())
    return None if not behind or None in behind else sum(n for n in behind if n is not None)


class History:
    """The last samples, oldest first."""

    def __init__(self, kept: int = KEPT) -> None:
        self._samples: deque[dict[str, Any]] = deque(maxlen=kept)

    def add(self, sample: dict[str, Any]) -> None:
        self._samples.append(sample)

    @property
    def samples(self) -> list[dict[str, Any]]:
        return list(self._samples)
