"""Connections to PostgreSQL, and its errors in words that keep its secrets.

Every session begins with an empty search path: what stands unqualified in a statement is the
catalog's, whatever others have put into the schemas that they may write to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headwater.errors import LostConnectionError, RefusedError, SourceError
from headwater.sources.postgres.pooling import pooled, shares_sessions

Connection: TypeAlias = "psycopg.Connection[Any]"
OLDEST = 14
_SETTINGS = """
SET search_path = ''; SET client_encoding = 'UTF8'; SET DateStyle = 'ISO'; SET TimeZone = 'UTC';
SET IntervalStyle = 'postgres'; SET lc_monetary = 'C'; SET bytea_output = 'hex';
SET extra_float_digits = 3; SET quote_all_identifiers = off; SET row_security = off;
SET standard_conforming_strings = on; SET array_nulls = on; SET transform_null_equals = off;
SET constraint_exclusion = off; SET jit = off;
SET synchronous_commit = local; SET idle_in_transaction_session_timeout = 0;
SELECT CASE WHEN pg_catalog.current_setting('restrict_nonsystem_relation_kind', true) IS NOT NULL
  THEN pg_catalog.set_config('restrict_nonsystem_relation_kind', 'view, foreign-table', false) END,
  CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL
  THEN pg_catalog.set_config('transaction_timeout', '0', false) END
"""
"""The last are for servers that know them: what was a table must not be read as somebody's view,
and a load takes as long as it takes. A backslash in a constant is one, or NULL is no NULL. To
compile a query that asks the catalog takes a server seconds, and to run it milliseconds."""
_WHERE = b"SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery()"
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "headwater",
    # A peer that vanished without a word is noticed within a minute.
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_REFUSALS = (
    "password",
    "authentication",
    "pg_hba.conf",
    'role "',
    'database "',
    "permission denied",
    "certificate",
    "must be superuser",
)
_LOST = ("08", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05")
"""The connection is gone, or cannot be had yet."""
_BUSY = ("40001", "40P01", "53", "55006", "55P03")
"""The server refuses for now: conflicts, a full disk, no memory, a lock that was not to be had."""
_ON_THIS_MACHINE = ("/", "@", "localhost", "127.", "::1")
_CANCELLED = "57014"
_BY_SOMEONE = "due to user request"
_READ_ONLY = "25006"
_GONE = ("42P01", "42703", "42704", "3F000")


@dataclass(frozen=True)
class Access:
    """How to reach one source."""

    source: str
    dsn: str = field(repr=False)
    limit_s: float = 3600.0
    pool: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """What is known of a connection pooler in between."""

    def connect(self) -> Connection:
        """A connection that commits each statement, under the settings that readers expect."""
        conninfo = self._conninfo()
        try:
            connection = psycopg.connect(conninfo, autocommit=True)
        except psycopg.Error as error:
            raise self._unreachable(str(error)) from None
        try:
            with self.errors("start a session"):
                self._check_version(connection.pgconn.server_version)
                connection.execute(_SETTINGS.encode())
                connection.execute(f"SET statement_timeout = {int(self.limit_s * 1000)}".encode())
                self._check_place(connection)
        except SourceError:
            connection.close()
            raise
        return connection

    def _check_place(self, connection: Connection) -> None:
        """That a session of the primary is at the other end, and stays there."""
        row = connection.execute(_WHERE, prepare=False).fetchone()
        assert row is not None
        process, is_standby = row
        if is_standby:
            raise SourceError(
                f"Source {self.source}: its connection string leads to a standby, and a standby "
                "does not tell which transactions a snapshot of it holds.",
                "Name the primary; where the string names several hosts, add "
                "target_session_attrs=read-write.",
            )
        if process != connection.pgconn.backend_pid and "keeps" not in self.pool:
            if shares_sessions(self._conninfo()):
                raise pooled(self.source)
            self.pool["keeps"] = True

    @property
    def is_unprotected(self) -> bool:
        """Whether the connection crosses a network and nobody said how to protect it."""
        known = conninfo_to_dict(self._conninfo())
        if "sslmode" in known or "PGSSLMODE" in os.environ:
            return False
        hosts = str(known.get("host") or known.get("hostaddr") or "").split(",")
        return not all(host.startswith(_ON_THIS_MACHINE) or not host for host in hosts)

    def connect_replication(self, **more: str) -> pq.abc.PGconn:
        """A connection that can read the log."""
        conninfo = self._conninfo(replication="database", **more)
        pgconn = pq.PGconn.connect(conninfo.encode())
        if pgconn.status != pq.ConnStatus.OK:
            message, role = pgconn.get_error_message(), pgconn.user.decode(errors="replace")
            pgconn.finish()
            raise self._unreachable(message, role)
        result = pgconn.exec_(_SETTINGS.encode())
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            failure = self.result_failure(result, "read the log")
            pgconn.finish()
            raise failure
        return pgconn

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns PostgreSQL's errors into ours."""
        try:
            yield
        except psycopg.Error as error:
            text = error.diag.message_primary or str(error)
            state = error.sqlstate
            if state is None and not isinstance(
                error, psycopg.OperationalError | psycopg.InterfaceError
            ):
                state = "XX000"
            raise self.failure(state, text, doing) from None

    def result_failure(self, result: pq.abc.PGresult, doing: str) -> SourceError:
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
        return self.failure(state.decode() if state else None, text.decode(errors="replace"), doing)

    def failure(self, state: str | None, text: str, doing: str) -> SourceError:
        """An error of the server as ours; without a state the connection itself failed."""
        text = self._scrubbed(text).rstrip(".")
        if state is None or state.startswith(_LOST):
            return LostConnectionError(
                f"Source {self.source}: the connection was lost while trying to {doing}: {text}."
            )
        if state.startswith(_BUSY) or (state == _CANCELLED and _BY_SOMEONE in text):
            return LostConnectionError(
                f"Source {self.source}: cannot {doing} for now: {text}.", "It is tried again."
            )
        if state == _CANCELLED:
            return SourceError(
                f"Source {self.source}: it took more than {self.limit_s:g} s to {doing}.",
                "Raise limit_s, or look for long transactions and missing indexes at the source.",
            )
        if state == "42501" and "row-level security" in text:
            return RefusedError(
                f"Source {self.source}: cannot {doing}, since row-level security would hide rows "
                f"from this role: {text}.",
                "Give the role BYPASSRLS, or connect as the table's owner.",
            )
        if state == "42501":
            return RefusedError(
                f"Source {self.source}: no privilege to {doing}: {text}.",
                "docs/sources/postgres.md lists the privileges that a role needs.",
            )
        if state == _READ_ONLY:
            return SourceError(
                f"Source {self.source}: cannot {doing}, since sessions of this role are read-only: "
                f"{text}.",
                "Set default_transaction_read_only = off for the role, or in this database "
                "(ALTER ROLE ... IN DATABASE ... SET).",
            )
        if state in _GONE:
            return SourceError(
                f"Source {self.source}: cannot {doing}: {text}.",
                "The database has changed; see that its tables are as they were, and run "
                f"'headwater repair {self.source}'.",
            )
        return SourceError(f"Source {self.source}: cannot {doing}: {text}.")

    def _conninfo(self, **more: str) -> str:
        try:
            known = conninfo_to_dict(self.dsn)
        except psycopg.Error:
            raise SourceError(
                f"Source {self.source}: its connection string cannot be read.",
                "Write it like postgresql://role@host:5432/database?sslmode=verify-full.",
            ) from None
        if _is_torn(self.dsn, str(known.get("host") or "")):
            raise SourceError(
                f"Source {self.source}: its connection string has an @ that ends nothing: what "
                "stands before it would be taken for a host or a database.",
                "Write %40 for an @ in a role's name or a password, and %2F for a /; or write "
                "${NAME} for the password alone, whose value is encoded for you.",
            )
        return make_conninfo("", **{**_DEFAULTS, **known, **more})

    def _scrubbed(self, text: str) -> str:
        """A message without anything that the connection string keeps secret."""
        try:
            known = conninfo_to_dict(self.dsn)
        except psycopg.Error:
            return "its message may hold a secret and is not shown"
        for name in ("password", "sslpassword"):
            if secret := known.get(name):
                for form in (str(secret), quote(str(secret), safe="")):
                    text = text.replace(form, "***")
        return " ".join(text.split())

    def _unreachable(self, text: str, role: str = "") -> SourceError:
        text = self._scrubbed(text).rstrip(".")
        message = f"Source {self.source}: cannot connect: {text}."
        if "unsupported startup parameter" in text:
            return SourceError(
                f"Source {self.source}: its connection string leads to a connection pooler, over "
                "which the database's log cannot be read.",
                'Name the database server itself, or use changes = "triggers".',
            )
        if "WAL sender" in text or "walsender" in text:
            named = sql.Identifier(role).as_string(None)
            return RefusedError(message, f"As a superuser run: ALTER ROLE {named} REPLICATION;")
        starting = "starting up" in text or "shutting down" in text or "too many" in text
        if "FATAL" in text and not starting and any(word in text for word in _REFUSALS):
            return RefusedError(message, "Check the role, the password and the database's name.")
        if "no password supplied" in text:
            return RefusedError(message, "Give a password in the connection string or a passfile.")
        return LostConnectionError(message, "See whether the server runs and can be reached.")

    def _check_version(self, version: int) -> None:
        if version < OLDEST * 10000:
            raise SourceError(
                f"Source {self.source}: PostgreSQL {version // 10000} is too old.",
                f"Headwater needs PostgreSQL {OLDEST} or newer.",
            )


def _is_torn(dsn: str, hosts: str) -> bool:
    """Whether a URI is cut at another @ or / than was meant, inside a password."""
    scheme, found, rest = dsn.partition("://")
    if not found or scheme not in ("postgresql", "postgres"):
        return False
    if "@" in rest.partition("/")[0]:
        rest = rest.partition("@")[2]
    return "@" in rest.partition("?")[0] or any("@" in host[1:] for host in hosts.split(","))
