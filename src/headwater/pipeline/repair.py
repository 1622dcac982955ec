"""Repair of a source whose log cannot be followed any more: it is set up again, in its place.

The change log goes on counting: a gap that concerns every view marks where the source begins
anew, and each view is loaded behind it. If a repair is cut short, the source's log and the change
log still do not fit each other, and it is repaired again.
"""

from __future__ import annotations

from headwater.sources.contract import Source
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import Lease


def repair_source(
    source: Source, log: ChangeLog, lease: Lease, after: int, reason: str = ""
) -> None:
    """Set a source up again; no view may be reading it. `after` is how far the views have come."""
    source.set_up_again()
    reason = reason or f"source {source.name} was repaired, so its log begins anew."
    begin_anew(log, lease, reason, after)


def begin_anew(log: ChangeLog, lease: Lease, reason: str, after: int = 0) -> None:
    """Note that what follows in the source's log has no connection to what was read before.

    The empty position is where a log begins after its setup. The change log is begun anew too,
    behind `after`, to which the views have come: it may be damaged, and nobody needs it.
    """
    log.open_anew(after, lease.epoch, lease.check)
    try:
        log.append([Break(log.end + 1, None, reason, {})])
    finally:
        log.close()
