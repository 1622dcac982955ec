"""In which order logged transactions became visible, as far as that can be known.

The order of commits cannot be read from a table. But every logged change carries the snapshot
under which it was written, and a snapshot is a real state of the database: what is in it came
before what is not. All snapshots of one server are nested, so they are states in one order,
and what lies between two neighbouring ones is a **unit**. A unit is mostly one transaction.
Several that committed with no snapshot between them cannot be told apart, and are delivered as
one: every state that is shown is then a real one.

A writer that waited for another's row sees the other's commit in its next snapshot, so two
transactions that changed the same row are never in one unit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from headwater.sources.postgres.snapshot import XidSnapshot

MERGED = (
    "triggers do not see the order of commits, so transactions that commit at the same moment may "
    "be shown as one step"
)


@dataclass(frozen=True)
class TriggerUnit:
    """Transactions that cannot be told apart, and the state that they lead to."""

    xids: tuple[int, ...]
    state: XidSnapshot


def seen_by(xid: int, snapshot: XidSnapshot) -> XidSnapshot:
    """A transaction's own snapshot as others would have it.

    It does not list the transaction itself as running, since that sees its own changes.
    """
    if not snapshot.includes(xid):
        return snapshot
    running = snapshot.running | {xid}
    return replace(snapshot, xmin=min(snapshot.xmin, xid), running=running)


def units(
    xids: Collection[int], snapshots: Iterable[XidSnapshot], now: XidSnapshot
) -> Iterator[TriggerUnit]:
    """The finest cut of some transactions, all of which are in `now`, by snapshots before it."""
    coming = sorted(xids, reverse=True)
    open_now: set[int] = set()
    for state in [*sorted(set(snapshots), key=_age), now]:
        while coming and coming[-1] < state.xmax:
            open_now.add(coming.pop())
        done = [xid for xid in open_now if state.includes(xid)]
        if done:
            open_now.difference_update(done)
            yield TriggerUnit(tuple(sorted(done)), state)


def _age(snapshot: XidSnapshot) -> tuple[int, int]:
    """Snapshots grow by numbers that were given out, and by those that are no longer running."""
    return snapshot.xmax, -len(snapshot.running)
