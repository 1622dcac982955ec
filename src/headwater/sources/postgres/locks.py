"""Locks: statements that need strong ones are tried for a moment at a time, so that nobody queues.

Readers take theirs before they look what a name means. Else its owner could put something else
under the name while a question waits, such as a view that runs a function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.types import Table

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


def lock_statement(tables: Sequence[Table]) -> str:
    """Keeps what these names mean as it is until the transaction ends; takes no snapshot."""
    if not tables:
        return ""
    names = sql.SQL(", ").join(sql.SQL("ONLY {}").format(table.identifier) for table in tables)
    return sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE; ").format(names).as_string(None)


def still_named(tables: Sequence[Table]) -> str:
    """Asks whether the names mean these tables at this moment, whatever the snapshot says."""
    named = (
        sql.SQL("pg_catalog.to_regclass({})::oid IS NOT DISTINCT FROM {}::oid").format(
            sql.Literal(table.identifier.as_string(None)), sql.Literal(table.oid)
        )
        for table in tables
    )
    return sql.SQL("SELECT {}").format(sql.SQL(" AND ").join(named)).as_string(None)
