"""How views and sources of a running system stand, as plain data, and written down for others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from statistics import median
from typing import Any

from headwater.algorithms.hosted import Hosted
from headwater.pipeline.feed import Feed
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.known_parts import KnownParts
from headwater.pipeline.publisher import Publisher
from headwater.warehouse.lease import Lease
from headwater.warehouse.notes import notes_token, read_notes, write_notes
from headwater.warehouse.warehouse import Warehouse


def describe_feed(feed: Feed) -> dict[str, Any]:
    trouble = feed.channel.trouble
    return {
        "read": feed.channel.end,
        "logged": feed.log.end,
        "position": feed.log.position,
        "asked": feed.channel.connections.counted,
        "trouble": str(trouble) if trouble is not None else None,
        "remedy": trouble.hint if trouble is not None else None,
        "since": feed.channel.trouble_since if trouble is not None else None,
    }


def describe_view(
    view: KeptView,
    feeds: Mapping[str, Feed],
    trouble: str = "",
    publisher: Publisher | None = None,
    unfolded_since: float | None = None,
) -> dict[str, Any]:
    """`trouble` is what keeps its plain table from being renewed."""
    found: dict[str, Any] = {
        "state": view.state,
        "message": view.message or trouble,
        "since": view.since or None,
        "remedy": view.failure.hint if view.failure is not None else None,
        "note": " ".join(filter(None, [view.note, _told_of_split(view)])),
    }
    if view.is_to_be_loaded and view.tally is not None:
        progress = view.tally.progress
        found |= {"rows_read": dict(progress.read), "progress": progress.to_json()}
    if publisher is not None and (published := publisher.describe_view(view.name)):
        found["published"] = published
    maintainer = view.maintainer
    if maintainer is None:
        return found
    counters = maintainer.counters
    found |= {
        "algorithm": maintainer.plan.algorithm,
        "level": maintainer.plan.level,
        "transactions": counters.transactions,
        "commits": counters.commits,
        "rows": counters.rows,
        "questions": counters.questions,
        "answered_by_copies": counters.saved,
        "overlaps": counters.overlaps,
        "retries": maintainer.retries,
        "answer_bytes": counters.answer_bytes,
        "number": maintainer.version,
        "unfolded_since": unfolded_since,
        "committed_at": counters.committed_at or None,
    }
    manager = maintainer.plan.manager
    if isinstance(manager, Hosted):
        found["rings"] = {"epoch": list(manager.epoch), "token_at": list(maintainer.token_at)}
    fresh = sorted(counters.freshness_s)
    if fresh:
        found["freshness_ms"] = {
            "median": round(1000 * median(fresh), 2),
            "p99": round(1000 * fresh[int(0.99 * (len(fresh) - 1))], 2),
        }
    if (vector := maintainer.vector) is not None:
        found["vector"] = {
            source: {"number": reached.number, "position": reached.position}
            for source, reached in vector.items()
        }
        found["lag"] = {
            source: _behind(feeds.get(source), reached.number) for source, reached in vector.items()
        }
    return found


def describe_across(parts: KnownParts, views: Iterable[KeptView]) -> dict[str, Any]:
    """What is held of transactions across databases, and what is wrong with their tags."""
    waiting: dict[str, list[str]] = {}
    for view in views:
        for name in view.maintainer.holding if view.maintainer is not None else ():
            waiting.setdefault(name, []).append(view.name)
    ago = time.time() - time.monotonic()
    found = ((parts.find(name), names) for name, names in waiting.items())
    return {
        "waiting": [
            {
                "id": known.id,
                "parts": known.count,
                "there": {source: part.number for source, part in known.parts.items()},
                "since": ago + min(part.since for part in known.parts.values()),
                "views": names,
            }
            for known, names in found
            if known is not None
        ],
        "mistakes": [
            {"what": str(mistake), "since": ago + mistake.since} for mistake in parts.mistakes
        ],
    }


def _told_of_split(view: KeptView) -> str:
    """Of which global transactions a view has shown a part by itself, in words."""
    released = view.maintainer.released if view.maintainer is not None else ()
    if not released:
        return ""
    name, part = released[-1]
    more = f", and so of {len(released) - 1} more" if len(released) > 1 else ""
    return (
        f"Of the transaction across databases {name!r} it took in {part} by itself, since the "
        f"other parts did not come{more}."
    )


def _behind(feed: Feed | None, number: int) -> int | None:
    """How many transactions a view is behind; None while the source cannot be read."""
    if feed is None or feed.channel.trouble is not None:
        return None
    return max(0, feed.channel.end - number)


def write_status(warehouse: Warehouse, described: Mapping[str, Any]) -> None:
    path = warehouse.own / "status.json"
    with suppress(OSError):  # a full disk is told by what cannot do without it
        path.replace(json.dumps(described).encode(), durable=False)


def note_progress(warehouse: Warehouse, lease: Lease, views: Iterable[KeptView]) -> None:
    """Note how far views have come that did not change since their last commits."""
    token = notes_token(warehouse.own)
    before = read_notes(warehouse.own)
    notes = dict(before)
    for view in views:
        if view.maintainer is not None and (note := view.maintainer.note) is not None:
            notes[view.name] = note
    if notes == before:
        return
    with lease.guard(), suppress(OSError):  # a full disk is told by what needs it
        write_notes(warehouse.own, notes, token)
