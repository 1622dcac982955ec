"""Whether the log of a server is the one that a position belongs to.

A cluster has an identity, and every promotion of a standby begins a timeline that says where it
left the one before. A data folder that was put back has both as before: there the log is too
short, or shows another transaction at the place of the last one that was read, which the
interpreter of the log sees.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import pq

from headwater.errors import BrokenLogError
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.pgoutput import lsn_text, parse_lsn
from headwater.sources.postgres.position import LogPosition, Server

_DOING = "identify the server"


@dataclass(frozen=True)
class Identified:
    """A server, and where its log ends."""

    server: Server
    end: int


def identify(access: Access, pgconn: pq.abc.PGconn) -> Identified:
    system, timeline, end = _row(access, pgconn, "IDENTIFY_SYSTEM")[:3]
    return Identified(Server(system, int(timeline)), parse_lsn(end))


def check_history(access: Access, pgconn: pq.abc.PGconn, at: LogPosition, now: Identified) -> None:
    """BrokenLogError if what was read up to a position is not in this server's log."""
    if at.server is None:
        return
    if at.server.system != now.server.system:
        raise BrokenLogError(
            access.source,
            f"this is another server: its identifier is {now.server.system}, and the log was read "
            f"from {at.server.system}.",
        )
    if at.lsn > now.end:
        raise BrokenLogError(
            access.source,
            f"the server's log ends at {lsn_text(now.end)} and was already read up to "
            f"{lsn_text(at.lsn)}: the database was restored to an earlier state.",
        )
    if at.server.timeline != now.server.timeline:
        left = _left(access, pgconn, at.server.timeline, now.server.timeline)
        if left is None or at.lsn > left:
            raise BrokenLogError(
                access.source,
                f"the server is on timeline {now.server.timeline}, which does not hold what was "
                f"read on timeline {at.server.timeline} up to {lsn_text(at.lsn)}: a standby was "
                "promoted that was behind, or the database was restored.",
            )


def check_known(access: Access, at: LogPosition) -> None:
    """BrokenLogError if a position does not say whose it is; that of a fresh load need not."""
    if at.server is None and at.snapshot is None:
        raise BrokenLogError(
            access.source,
            "its position was written by an earlier version and does not say which server it "
            "belongs to.",
        )


def other_history(source: str, lsn: int) -> BrokenLogError:
    return BrokenLogError(
        source,
        f"its log is not the one that was read before: at {lsn_text(lsn)} there is something else. "
        "The database was restored from a copy.",
    )


def _left(access: Access, pgconn: pq.abc.PGconn, timeline: int, now: int) -> int | None:
    """Where a timeline was left on the way to the present one; None if it is not on the way."""
    if now <= timeline:
        return None
    _, content = _row(access, pgconn, f"TIMELINE_HISTORY {now}")[:2]
    for line in content.splitlines():
        fields = line.split("\t")
        if fields[0].strip() == str(timeline):
            return parse_lsn(fields[1])
    return None


def _row(access: Access, pgconn: pq.abc.PGconn, command: str) -> list[str]:
    result = pgconn.exec_(command.encode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise access.result_failure(result, _DOING)
    values = (result.get_value(0, at) for at in range(result.nfields))
    return [(value or b"").decode() for value in values]
