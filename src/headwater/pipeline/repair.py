"""Repair of a source whose log cannot be followed any more: it is set up again, in its place.

The change log goes on counting: a gap that concerns every view marks where the source begins
anew, and each view is loaded behind it. If a repair is cut short, the source's log and the change
log may still not fit each other, and it is repaired again.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError
from headwater.sources.contract import Source
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim


def repair_source(
    source: Source, log: ChangeLog, lease: LeaseClaim, after: int, reason: str = ""
) -> None:
    """Set a source up again; no view may be reading it. `after` is how far the views have come."""
    lease.check()
    source.set_up_again()
    reason = reason or f"source {source.name} was repaired, so its log begins anew."
    begin_anew(log, lease, reason, after)


def begin_anew(log: ChangeLog, lease: LeaseClaim, reason: str, after: int = 0) -> None:
    """Note that what follows in the source's log has no connection to what was read before.

    The empty position is where a log begins after its setup. The change log is begun anew too,
    behind `after`, to which the views have come: it may be damaged, and nobody needs it.
    """
    with lease.guard():  # of a runner that was replaced, nothing must go
        try:
            log.begin_anew(reason, after, lease.epoch, lease.check)
        finally:
            log.close()


def though_repaired(source: str, error: HeadwaterError) -> HeadwaterError:
    """Why a view does not go on although its source was repaired: another may be at fault."""
    return HeadwaterError(
        f"Source {source} is set up again, but not every view of it could be loaded: "
        f"{error.message}",
        error.hint,
    )
