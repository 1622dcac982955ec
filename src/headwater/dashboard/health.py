"""Whether a runner lives, and whether its views can be read: for those who start and route.

`lives` is what restarts a process that hangs: nothing that a view or a source does makes it false.
`unready` is for those who send readers: a view that has never been loaded has nothing to show. One
that has stopped, or waits for its source, shows its last state; metrics and `status` tell of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SILENT_S = 60.0
"""How long a runner may say nothing before it is taken to hang."""
_UNREADABLE = ("loading", "waiting", "not loaded", "damaged", "stopped")


def lives(told_at: float | None, now: float) -> bool:
    """Whether a runner that tells how it stands has done so lately; None: not yet."""
    return told_at is not None and now - told_at < SILENT_S


def unready(found: Mapping[str, Any]) -> list[str]:
    """The views that nobody can read, a sentence each."""
    return [
        f"{name} cannot be read yet: {view.get('message') or view['state']}"
        for name, view in found["views"].items()
        if not view.get("number") and view["state"] in _UNREADABLE
    ]
