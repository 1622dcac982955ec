"""Locks: statements that need strong ones are tried for a moment at a time, so that nobody queues.

Readers take theirs before they look what a name means. Else its owner could put something else
under the name while a question waits, such as a view that runs a function.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import psycopg
from psycopg import sql

from headwater.errors import SourceError
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.privileges import left_to_run, shown
from headwater.sources.postgres.types import Table

_LIMIT_MS = 1000
_TRIES = 15
_PAUSE_S = 1.0
_HOLDERS = """
SELECT DISTINCT a.pid, a.application_name FROM pg_catalog.pg_locks l
JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.locktype = 'relation' AND l.relation = ANY(%s::pg_catalog.oid[])
  AND a.datname = pg_catalog.current_database() AND a.pid <> pg_catalog.pg_backend_pid()
"""


class _NoLockError(Exception):
    """A lock could not be had in time, for this statement."""


class MarkedLog(Protocol):
    """A log that is a table, into which markers are written as rows."""

    @property
    def lock(self) -> str:
        """The statement that keeps it as it is."""

    @property
    def seal(self) -> str:
        """In SQL: a text that changes whenever it is altered."""

    def check(self, connection: Connection) -> None:
        """See that it is what setup makes."""


def run_steps(
    access: Access,
    connection: Connection,
    steps: Sequence[Sequence[str]],
    tables: Sequence[int],
    log: MarkedLog | None = None,
) -> None:
    """Run statements, each step whole or not at all; where the role may not, the rest is shown.

    A log that they write is locked and looked at before each step.
    """
    for at, step in enumerate(steps):
        try:
            _run_patiently(access, connection, step, tables, log)
        except SourceError as error:
            if "no privilege" not in error.message:
                raise
            left = [statement for step in steps[at:] for statement in step]
            raise SourceError(error.message, left_to_run(access.source, left)) from None


def _run_patiently(
    access: Access,
    connection: Connection,
    step: Sequence[str],
    tables: Sequence[int],
    log: MarkedLog | None,
) -> None:
    """Run a step; all of it is undone if a lock on the tables cannot be had at once."""
    limit = _LIMIT_MS if not step[0].startswith("SELECT") else 0  # a slot waits for transactions
    for left in reversed(range(_TRIES)):
        try:
            connection.execute(f"SET lock_timeout = {limit}".encode())
            with connection.transaction():
                if log is not None:
                    _run(access, connection, [log.lock])
                    log.check(connection)
                _run(access, connection, step)
            return
        except _NoLockError as error:
            if not left:
                raise _locked(access, connection, str(error), tables) from None
        finally:
            connection.execute(b"SET lock_timeout = 0")
        time.sleep(_PAUSE_S)


def _run(access: Access, connection: Connection, step: Sequence[str]) -> None:
    for statement in step:
        with access.errors(f"run {shown(statement)}"):
            try:
                connection.execute(statement.encode())
            except psycopg.errors.LockNotAvailable:
                raise _NoLockError(shown(statement)) from None


def _locked(
    access: Access, connection: Connection, statement: str, tables: Sequence[int]
) -> SourceError:
    with access.errors("read who holds locks"):
        rows = connection.execute(_HOLDERS, [list(tables)]).fetchall()
    holders = ", ".join(f"{pid} ({name})" if name else f"{pid}" for pid, name in rows)
    return SourceError(
        f"Source {access.source}: a lock could not be had in {_TRIES} tries, for {statement}; "
        "nothing waits for it any more.",
        f"Sessions with open transactions on the tables: {holders or 'none now'}. Run it again "
        "when they have ended.",
    )


def lock_statement(tables: Sequence[Table]) -> str:
    """Keeps what these names mean as it is until the transaction ends; takes no snapshot."""
    if not tables:
        return ""
    names = sql.SQL(", ").join(table.from_clause for table in tables)
    return sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE; ").format(names).as_string(None)


def still_named(tables: Sequence[Table]) -> str:
    """Asks whether the names mean these tables at this moment, whatever the snapshot says."""
    named = (
        sql.SQL("pg_catalog.to_regclass({})::oid IS NOT DISTINCT FROM {}::oid").format(
            sql.Literal(table.identifier.as_string(None)), sql.Literal(table.oid)
        )
        for table in tables
    )
    asked = sql.SQL(" AND ").join([sql.SQL("true"), *named])
    return sql.SQL("SELECT {}; ").format(asked).as_string(None)
