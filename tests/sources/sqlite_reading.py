"""Reading a monitor to its end, for tests of the SQLite source."""

from __future__ import annotations

from headwater.sources.contract import Broken, Committed, Monitor, Position
from headwater.sources.sqlite.source import SqliteSource


def drain(monitor: Monitor) -> list[Committed]:
    """Everything that is committed by now."""
    found: list[Committed] = []
    while logged := monitor.read(0):
        found += [item for item in logged if isinstance(item, Committed)]
    return found


def committed(source: SqliteSource, after: Position | None = None) -> list[Committed]:
    """Everything after a position, read by a monitor of its own."""
    monitor = source.open_monitor(after)
    try:
        return drain(monitor)
    finally:
        monitor.close()


def gaps(source: SqliteSource) -> list[Broken]:
    """Every gap in a log, read by a monitor of its own."""
    monitor = source.open_monitor(None)
    found: list[Broken] = []
    try:
        while logged := monitor.read(0):
            found += [item for item in logged if isinstance(item, Broken)]
    finally:
        monitor.close()
    return found
