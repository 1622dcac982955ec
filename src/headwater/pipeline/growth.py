"""What sources keep while nobody reads them: how much it is, and giving up what is too much.

Nothing that writers do depends on it: a limit inside the application's own transactions would
either stop them or have to be noticed exactly there. So the limit is kept from outside, by a
command for a schedule. What is given up becomes a gap, and the views are loaded anew behind it.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from headwater.errors import HeadwaterError, LostConnectionError, SeveralError, SourceError
from headwater.pipeline.repair import repair_source
from headwater.project.needs import narrowed_sources
from headwater.project.project import Project
from headwater.sources.contract import Retained, Source
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse

_LIMIT_S = 5.0


def retained(project: Project) -> dict[str, dict[str, Any] | None]:
    """For each source what it keeps, as plain data; None where there is no log, or no answer soon.

    A source that is down is no reason to wait.
    """
    found: dict[str, Retained | SourceError] = {}

    def look(source: Source) -> None:
        try:
            kept: Retained | SourceError | None = source.retained()
        except LostConnectionError:
            return
        except SourceError as error:
            kept = error
        if kept is not None:
            found[source.name] = kept

    threads = [
        threading.Thread(target=look, args=[source], daemon=True)
        for source in project.sources.values()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _LIMIT_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    known = dict(found)
    return {name: _described(project, name, known.get(name)) for name in project.sources}


def _described(
    project: Project, name: str, kept: Retained | SourceError | None
) -> dict[str, Any] | None:
    if kept is None:
        return None
    if isinstance(kept, SourceError):
        return {"bytes": None, "rows": None, "left_bytes": None, "trouble": str(kept)}
    excess = project.settings.sources[name].excess(kept)
    trouble = (
        f"Source {name}: {excess}. Start 'headwater run', which reads it; or give it up with "
        "'headwater trim': the next run then loads its views anew."
    )
    return {
        "bytes": kept.size_bytes,
        "rows": kept.rows,
        "left_bytes": kept.left_bytes,
        "trouble": trouble if excess else None,
    }


def trim(project: Project) -> dict[str, str]:
    """Begin the logs anew that are larger than their limit; for each source what was given up.

    Refused while a runner is at work: that one reads them.
    """
    warehouse = Warehouse(project.warehouse)
    lease = Lease(warehouse.own)
    lease.acquire()
    given_up: dict[str, str] = {}
    failures: list[HeadwaterError] = []
    try:
        for name, source in narrowed_sources(project, warehouse).items():
            try:
                kept = source.retained()
                excess = "" if kept is None else project.settings.sources[name].excess(kept)
                if excess:
                    _give_up(source, warehouse, lease, excess)
                    given_up[name] = excess
            except SourceError as error:  # the others are looked at all the same
                failures.append(error)
    finally:
        lease.release()
    if failures:
        raise failures[0] if len(failures) == 1 else SeveralError(failures)
    return given_up


def _give_up(source: Source, warehouse: Warehouse, lease: Lease, excess: str) -> None:
    after = max(warehouse.reached(source.name), default=0)
    reason = f"the log of source {source.name} was given up unread, since {excess}."
    repair_source(source, ChangeLog(warehouse.changes, source.name), lease, after, reason)
