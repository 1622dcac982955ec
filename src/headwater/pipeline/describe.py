"""How views and sources of a running system stand, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from headwater.pipeline.feed import Feed

if TYPE_CHECKING:
    from headwater.pipeline.runner import ViewStatus


def describe_feed(feed: Feed) -> dict[str, Any]:
    trouble = feed.channel.trouble
    return {
        "read": feed.channel.end,
        "logged": feed.log.end,
        "position": feed.log.position,
        "trouble": str(trouble) if trouble is not None else None,
    }


def describe_view(
    status: ViewStatus, feeds: Mapping[str, Feed], trouble: str = ""
) -> dict[str, Any]:
    """`trouble` is what keeps its plain table from being renewed."""
    found: dict[str, Any] = {
        "state": status.state,
        "message": status.message or trouble,
        "note": status.note,
    }
    if status.tally is not None:
        found["rows_read"] = status.tally.counted()
    maintainer = status.maintainer
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
        "committed_at": counters.committed_at or None,
    }
    fresh = sorted(counters.freshness_s)
    if fresh:
        found["freshness_ms"] = {
            "median": round(1000 * median(fresh), 2),
            "p99": round(1000 * fresh[int(0.99 * (len(fresh) - 1))], 2),
        }
    if (vector := maintainer.vector) is not None:
        found["lag"] = {
            source: _behind(feeds.get(source), reached.number) for source, reached in vector.items()
        }
    return found


def _behind(feed: Feed | None, number: int) -> int | None:
    """How many transactions a view is behind; None while the source cannot be read."""
    if feed is None or feed.channel.trouble is not None:
        return None
    return max(0, feed.channel.end - number)
