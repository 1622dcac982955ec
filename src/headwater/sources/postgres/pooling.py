"""Recognises a connection pooler that gives each transaction another session.

Headwater's sessions have settings, prepared statements, exported snapshots; in somebody else's
session values would be printed otherwise, and nothing would tell. A pooler answers a new client
itself, so the process that it names is not the one that runs the statements. That alone is no
harm: a pool may keep a session for as long as its client stays. If two clients that are both
connected get the same process, or one gets two, it does not.
"""

from __future__ import annotations

from contextlib import ExitStack

import psycopg

from headwater.errors import SourceError

_PROCESS = b"SELECT pg_catalog.pg_backend_pid()"
_TRIES = 3
"""Further clients that are connected at once; a pooler gives the session that was used last, or
takes turns, and then the first client is the one that gets another."""


def shares_sessions(conninfo: str) -> bool:
    """Whether clients of what answers there get each other's sessions."""
    with ExitStack() as stack:
        first = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
        seen = {_process(first)}
        for _ in range(_TRIES):
            other = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
            other.execute(b"BEGIN")  # keeps its session from now on
            if _process(other) in seen or _process(first) not in seen:
                return True
    return False


def _process(connection: psycopg.Connection) -> int:
    row = connection.execute(_PROCESS, prepare=False).fetchone()
    assert row is not None
    return int(row[0])


def pooled(source: str) -> SourceError:
    return SourceError(
        f"Source {source}: its connection string leads to a connection pooler that gives each "
        "transaction another session (pool_mode = transaction), and Headwater needs sessions that "
        "last.",
        "Name the database server itself, or a pool with pool_mode = session.",
    )
