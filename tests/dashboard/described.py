"""Descriptions of running projects, as a runner tells them and as they lie in a warehouse."""

from __future__ import annotations

from typing import Any

NOW = 1_800_000_000.0


def view(**members: Any) -> dict[str, Any]:
    """A view that is up to date."""
    return {
        "state": "running",
        "message": "",
        "since": None,
        "note": "",
        "algorithm": "sweep",
        "level": "strong",
        "transactions": 7,
        "commits": 5,
        "rows": 12,
        "questions": 6,
        "answered_by_copies": 0,
        "overlaps": 2,
        "retries": 1,
        "answer_bytes": 640,
        "number": 9,
        "unfolded_since": None,
        "committed_at": NOW - 2,
        "freshness_ms": {"median": 12.5, "p99": 80.0},
        "vector": {"shop": {"number": 7, "position": None}},
        "lag": {"shop": 0},
        **members,
    }


def source(**members: Any) -> dict[str, Any]:
    return {"read": 7, "logged": 7, "position": None, "asked": None, "trouble": None, **members}


def told(**members: Any) -> dict[str, Any]:
    """What a runner tells."""
    return {
        "runner": "r1",
        "written": NOW,
        "engine": "auto",
        "trouble": None,
        "views": {"amounts": view()},
        "sources": {"shop": source()},
        "global": {"waiting": [], "mistakes": []},
        **members,
    }


def stored(**members: Any) -> dict[str, Any]:
    """What lies in its warehouse."""
    return {
        "runner": {"pid": 1, "host": "here"},
        "trouble": None,
        "last_run": [],
        "views": {
            "amounts": {
                "state": "running",
                "number": 8,
                "vector": {"shop": {"number": 6, "position": None}},
                "lag": {"shop": None},
                "tail": {"files": 1, "rows": 3, "commits": 1},
            }
        },
        "sources": {
            "shop": {
                "end": 6,
                "first": 1,
                "kept": 6,
                "bytes": 900,
                "position": {},
                "position_text": "0/1A",
                "asked": None,
                "trouble": None,
                "retained": {"bytes": 4096, "rows": None, "left_bytes": None, "trouble": None},
            }
        },
        "global": {"waiting": [], "mistakes": []},
        **members,
    }
