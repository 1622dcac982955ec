"""How everything stands, of two descriptions: what lies in the warehouse, and what a runner tells.

The first is asked for seldom and has what it takes files, or sources, to know; the second is told
several times a second. Both are plain data, and so is what comes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Described = Mapping[str, Any]
_STATES_OF_FILES = ("no file",)


def combined(stored: Described, told: Described | None) -> dict[str, Any]:
    """What is `stored`, renewed by what a runner has `told` since; None: no runner tells here."""
    if told is None:
        return dict(stored)
    views = {
        name: _view(stored.get("views", {}).get(name, {}), view)
        for name, view in told["views"].items()
    }
    sources = {**stored.get("sources", {})}
    for name, source in told["sources"].items():
        sources[name] = _source(sources.get(name, {}), source)
    left = {name: view for name, view in stored.get("views", {}).items() if name not in views}
    return {
        **stored,
        **{name: value for name, value in told.items() if name not in ("views", "sources")},
        "runner": stored.get("runner") or told.get("runner"),
        "last_run": [],
        "views": {**views, **left},
        "sources": sources,
    }


def _view(stored: Described, told: Described) -> dict[str, Any]:
    known = {name: value for name, value in told.items() if value is not None}
    if not told.get("message"):
        known["message"] = ""
    if stored.get("state") in _STATES_OF_FILES:
        known["state"] = stored["state"]
    gone = {"rows_read", "progress"} - told.keys()
    kept = {name: value for name, value in stored.items() if name not in gone}
    return {**kept, **known, "since": told.get("since"), "remedy": told.get("remedy")}


def _source(stored: Described, told: Described) -> dict[str, Any]:
    return {
        **stored,
        "end": told.get("read", stored.get("end")),
        "logged": told.get("logged"),
        "asked": told.get("asked"),
        "trouble": told.get("trouble"),
        "remedy": told.get("remedy"),
        "since": told.get("since"),
    }
