"""Connections to MariaDB and MySQL, each with the settings that values and answers depend on.

A server's errors become ours: lost and busy ones are tried again, refusals name the right that is
lacking. No message holds the password.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import SSCursor

from headwater.errors import LostConnectionError, RefusedError, SourceError

Connection: TypeAlias = Any
"""A connection of the driver, which has no types."""
Text: TypeAlias = str | bytes | None
"""A value as a server sends it: its text, or bytes where it has no characters."""

_SETTINGS = (
    "SET SESSION sql_mode = '', time_zone = '+00:00', autocommit = 1, completion_type = 0, "
    "sql_select_limit = DEFAULT, sql_big_selects = 1, wait_timeout = 172800, "
    "net_write_timeout = 3600, net_read_timeout = 3600"
)
_SNAPSHOTS = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_CONNECT_S = 20
_WAIT_S = 2
"""For a table's definition or lock: others may be waiting behind us."""
_OLDEST = {"mariadb": (10, 5), "mysql": (8, 0)}
_URI = re.compile(r"(mariadb|mysql)://")
_TLS = {"ssl_ca": "ca", "ssl_cert": "cert", "ssl_key": "key"}

_LOST = {1053, 1077, 1079, 1080, 1152, 1159, 1161, 1184, 1927, 2002, 2003, 2006, 2013, 2014, 2055}
_BUSY = {1040, 1203, 1205, 1213, 1020, 1317, 1412, 1615}
_TOO_LONG = {1969, 3024}
_GONE = {1049, 1054, 1146}
_UNKNOWN = {1044, 1045, 1049, 1129, 1130, 1698}
_NO_RIGHT = {1044, 1142, 1143, 1227, 1370}


@dataclass(frozen=True)
class Access:
    """How a database is reached; `limit_s` bounds how long one statement may take."""

    source: str
    kind: str
    dsn: str = field(repr=False)
    limit_s: float = 3600.0
    stamping: threading.RLock = field(
        default_factory=threading.RLock, compare=False, repr=False, hash=False
    )
    """Held while a snapshot is taken and its place read: the status that tells it is not safe
    between sessions."""

    @property
    def database(self) -> str:
        return unquote(urlsplit(self._checked()).path.lstrip("/"))

    def connect(self, *, is_streaming: bool = False, waits: bool = True) -> Connection:
        """A session; `is_streaming` brings rows as they are asked for.

        One that does not wait reads tables that another session of ours holds: an ALTER TABLE that
        waits for that one would make it wait for itself.
        """
        more = {"cursorclass": SSCursor} if is_streaming else {}
        connection = self.connect_plainly(**more)
        try:
            with self.errors("start a session"):
                self._check_version(connection)
                limit_s = 0.0 if is_streaming else self.limit_s  # a load takes as long as it takes
                limits = self._limit(limit_s, _WAIT_S if waits else 0)
                for statement in (_SETTINGS, _SNAPSHOTS, limits):
                    run(connection, statement)
        except SourceError:
            connection.close()
            raise
        return connection

    def connect_plainly(self, **more: Any) -> Connection:
        """A connection that has only been let in."""
        known = self._parameters()
        try:
            connection = pymysql.connect(**known, **more, defer_connect=True)
            connection.connect(_local_socket(known.get("unix_socket")))
        except (pymysql.Error, OSError) as error:
            raise self._unreachable(error) from None
        with suppress(OSError, AttributeError):
            _keep_alive(connection._sock)
        return connection

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A session for a short while."""
        connection = self.connect()
        try:
            yield connection
        finally:
            close(connection)

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns the server's errors into ours."""
        try:
            yield
        except pymysql.Error as error:
            raise self.failure(error, doing) from None
        except (OSError, AttributeError, struct.error) as error:
            # The driver's own state is gone when a connection is closed by another thread.
            raise LostConnectionError(
                f"Source {self.source}: the connection was lost while trying to {doing}: "
                f"{self.scrubbed(str(error)).rstrip('.')}."
            ) from None

    def failure(self, error: Exception, doing: str) -> SourceError:
        """An error of the server as ours."""
        code, text = _parts(error)
        text = self.scrubbed(text).rstrip(".")
        if code in _LOST or code == 0:
            return LostConnectionError(
                f"Source {self.source}: the connection was lost while trying to {doing}: {text}."
            )
        if code in _BUSY:
            return LostConnectionError(
                f"Source {self.source}: cannot {doing} for now: {text}.", "It is tried again."
            )
        if code in _TOO_LONG:
            return SourceError(
                f"Source {self.source}: it took more than {self.limit_s:g} s to {doing}.",
                "Raise limit_s, or look for long transactions and missing indexes at the source.",
            )
        if code in _NO_RIGHT:
            return RefusedError(
                f"Source {self.source}: no privilege to {doing}: {text}.",
                "docs/sources/mariadb.md lists the privileges that an account needs.",
            )
        if code in _GONE:
            return SourceError(
                f"Source {self.source}: cannot {doing}: {text}.",
                "The database has changed; see that its tables are as they were, and run "
                f"'headwater repair {self.source}'.",
            )
        return SourceError(f"Source {self.source}: cannot {doing}: {text}.")

    @property
    def is_unprotected(self) -> bool:
        """Whether the connection crosses a network and nobody said how to protect it."""
        known = self._parameters()
        host = str(known.get("host") or "")
        is_here = "unix_socket" in known or host in ("", "localhost", "127.0.0.1", "::1")
        return not is_here and "ssl" not in known

    def scrubbed(self, text: str) -> str:
        """A message without the password."""
        secret = urlsplit(self.dsn).password if _URI.match(self.dsn) else None
        for form in {secret, unquote(secret or "")} - {None, ""}:
            text = text.replace(str(form), "***")
        return " ".join(text.split())

    def _parameters(self) -> dict[str, Any]:
        parts = urlsplit(self._checked())
        try:
            port = parts.port
        except ValueError:
            raise self._unreadable("its port is no number") from None
        known: dict[str, Any] = {
            "host": unquote(parts.hostname or "localhost"),
            "port": port or 3306,
            "user": unquote(parts.username) if parts.username else None,
            "password": unquote(parts.password or ""),
            "database": self.database or None,
            "charset": "utf8mb4",
            "conv": {},
            "connect_timeout": _CONNECT_S,
            "read_timeout": self.limit_s + 60,
            "client_flag": CLIENT.FOUND_ROWS,
            "local_infile": False,
            "autocommit": True,
        }
        tls: dict[str, Any] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name == "unix_socket":
                known["unix_socket"] = value
            elif name in _TLS:
                tls[_TLS[name]] = value
            elif name == "ssl_verify":
                tls["check_hostname"] = value.lower() in ("1", "true", "yes")
                tls.setdefault("verify_mode", "required" if tls["check_hostname"] else "none")
            else:
                raise self._unreadable(f"it has an option {name} that is not known")
        if tls:
            tls.setdefault("check_hostname", "ca" in tls)
            known["ssl"] = tls
        return known

    def _checked(self) -> str:
        """The connection string, if it is one; what is torn by a password is none."""
        match = _URI.match(self.dsn)
        if match is None:
            raise self._unreadable("it does not begin with mariadb:// or mysql://")
        rest = self.dsn[match.end() :]
        authority, _, behind = rest.partition("/")
        if authority.count("@") > 1 or "@" in behind.partition("?")[0]:
            raise SourceError(
                f"Source {self.source}: its connection string has an @ that ends nothing: what "
                "stands before it would be taken for a host or a database.",
                "Write %40 for an @ in an account's name or a password, and %2F for a /; or write "
                "${NAME} for the password alone, whose value is encoded for you.",
            )
        return self.dsn

    def _unreadable(self, reason: str) -> SourceError:
        return SourceError(
            f"Source {self.source}: its connection string cannot be read: {reason}.",
            "Write it like mariadb://account@host:3306/database?ssl_ca=ca.pem; the options are "
            "unix_socket, ssl_ca, ssl_cert, ssl_key and ssl_verify.",
        )

    def _unreachable(self, error: Exception) -> SourceError:
        code, text = _parts(error)
        message = f"Source {self.source}: cannot connect: {self.scrubbed(text).rstrip('.')}."
        if code in _UNKNOWN:
            return RefusedError(message, "Check the account, the password and the database's name.")
        return LostConnectionError(message, "See whether the server runs and can be reached.")

    def _check_version(self, connection: Connection) -> None:
        told = str(connection.get_server_info())
        is_mariadb = "mariadb" in told.lower()
        kind = "mariadb" if is_mariadb else "mysql"
        if kind != self.kind:
            raise SourceError(
                f"Source {self.source}: the server is {_NAMES[kind]}, and the settings say "
                f"{_NAMES[self.kind]}.",
                f'Write kind = "{kind}".',
            )
        found = re.search(r"(\d+)\.(\d+)\.\d+", told.removeprefix("5.5.5-"))
        version = (int(found[1]), int(found[2])) if found else (0, 0)
        if version < _OLDEST[kind]:
            oldest = ".".join(map(str, _OLDEST[kind]))
            raise SourceError(
                f"Source {self.source}: {_NAMES[kind]} {version[0]}.{version[1]} is too old.",
                f"Headwater needs {_NAMES[kind]} {oldest} or newer.",
            )

    def _limit(self, limit_s: float, wait_s: int) -> str:
        if self.kind == "mariadb":
            return f"SET SESSION max_statement_time = {limit_s:g}, lock_wait_timeout = {wait_s}"
        limit = int(limit_s * 1000)
        return f"SET SESSION max_execution_time = {limit}, lock_wait_timeout = {max(1, wait_s)}"


_NAMES = {"mariadb": "MariaDB", "mysql": "MySQL"}


def run(connection: Connection, statement: str) -> Sequence[tuple[Any, ...]]:
    """Run one statement that has no values in it; its rows as texts."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()  # type: ignore[no-any-return] # the driver has no types


def close(connection: Connection) -> None:
    """End a connection, whatever state it is in."""
    with suppress(pymysql.Error, OSError, AttributeError):
        connection.close()


def quoted(*names: str) -> str:
    """A name, or a name in another, as SQL has it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def text_literal(text: str) -> str:
    """A text as SQL has it, whatever is in it: nothing but digits are written."""
    return f"_utf8mb4 X'{text.encode().hex()}'" if text else "_utf8mb4 ''"


def _parts(error: Exception) -> tuple[int, str]:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, text


def _local_socket(path: str | None) -> socket.socket | None:
    """A socket of this machine, connected; the driver would leave one open that refuses."""
    if path is None:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_CONNECT_S)
        sock.connect(path)
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    return sock


def _keep_alive(sock: Any) -> None:
    """Notice in some minutes that the other end has gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE") and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
