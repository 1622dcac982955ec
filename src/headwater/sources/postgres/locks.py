"""Statements that need a lock: tried for a moment at a time, so that nobody queues behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access, Connection

_LIMIT_MS = 1000
_TRIES = 15
_PAUSE_S = 1.0
_HOLDERS = """
SELECT DISTINCT a.pid, a.application_name FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = ANY(%s::pg_catalog.oid[]) AND l.granted AND a.pid <> pg_catalog.pg_backend_pid()
"""


class NoLockError(Exception):
    """A lock could not be had in time."""


@contextmanager
def locks_apart() -> Iterator[None]:
    """Lets a missing lock be known from the server's other errors."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise NoLockError from None


def patiently(
    access: Access, connection: Connection, tables: Sequence[int], run: Callable[[], None]
) -> None:
    """Do something all of which is undone if a lock on the tables cannot be had at once."""
    for _ in range(_TRIES):
        try:
            connection.execute(f"SET lock_timeout = {_LIMIT_MS}".encode())
            with connection.transaction():
                run()
            return
        except NoLockError:
            time.sleep(_PAUSE_S)
        finally:
            connection.execute(b"SET lock_timeout = 0")
    with access.errors("read who holds locks"):
        rows = connection.execute(_HOLDERS, [list(tables)]).fetchall()
    holders = ", ".join(f"{pid} ({name})" if name else f"{pid}" for pid, name in rows)
    raise SourceError(
        f"Source {access.source}: a lock could not be had in {_TRIES} tries; nothing waits for it "
        "any more.",
        f"Sessions with open transactions on the tables: {holders or 'none now'}. Run it again "
        "when they have ended.",
    )
