"""Real MariaDB servers for tests and benchmarks, from the system's `mariadbd`: here in a second.

Debian's package mariadb-server-core is enough, which starts no service. Its tables are made by the
server itself from the SQL that it ships, so that no other program is needed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pymysql

from headwater.embedded.server import EmbeddedServer
from headwater.errors import InputError

_SETTINGS = {
    "skip-networking": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "binlog-row-metadata": "FULL",
    "server-id": "1",
    "innodb-buffer-pool-size": "32M",
    "innodb-flush-log-at-trx-commit": "0",
    "sync-binlog": "0",
    "performance-schema": "OFF",
    "aria-pagecache-buffer-size": "8M",
    "key-buffer-size": "1M",
    "max-connections": "200",
}
_SYSTEM_TABLES = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
)
_START_S = 60


class MariadbServer(EmbeddedServer):
    """One server with its own files; everybody who reaches its socket is `root` there."""

    process_file = "pid"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._program, self._shared = installed()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._begin()
        self._bootstrap()
        self.start()

    @property
    def socket(self) -> str:
        return str(self.folder / "s")

    def dsn(self, database: str = "", user: str = "root") -> str:
        return f"mariadb://{user}@localhost/{database}?unix_socket={self.socket}"

    def execute(self, *statements: str, database: str | None = None) -> None:
        connection = self.connect(database)
        try:
            for statement in statements:
                connection.cursor().execute(statement)
        finally:
            connection.close()

    def connect(self, database: str | None = None) -> pymysql.Connection:
        return pymysql.connect(
            unix_socket=self.socket,
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def start(self, **settings: str) -> None:
        """Serve; with other settings from here on."""
        self._settings.update(settings)
        self._server = subprocess.Popen(
            [*self._command(), f"--socket={self.socket}", f"--pid-file={self.folder / 'pid'}"],
            cwd="/",
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._user,
        )
        deadline = time.monotonic() + _START_S
        while True:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                    probe.connect(self.socket)
                self.connect().close()
                return
            except (OSError, pymysql.err.OperationalError):
                if self._server.poll() is not None or time.monotonic() > deadline:
                    log = self._shell('tail -n 40 "$1"', str(self.folder / "log"))
                    raise RuntimeError(f"mariadbd does not start: {log}") from None
                time.sleep(0.02)

    def halt(self, *, kill: bool = False) -> None:
        """Stop serving; `start` goes on with the same data."""
        (self._server.kill if kill else self._server.terminate)()
        self._server.wait(timeout=_START_S)
        self._shell('rm -f "$1" "$2"', str(self.folder / "pid"), self.socket)

    def copy_data(self, name: str) -> None:
        """Keep a copy of its files, as a backup does, while it does not serve."""
        self._shell('rm -rf "$2"; cp -a "$1" "$2"', str(self._data), str(self.folder / name))

    def restore_data(self, name: str) -> None:
        """Put a copy in the place of its files, while it does not serve."""
        self._shell('rm -rf "$1"; cp -a "$2" "$1"', str(self._data), str(self.folder / name))

    def stop(self) -> None:
        super().stop()
        self._server.wait(timeout=30)

    def _command(self) -> list[str]:
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        return [
            str(self._program),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--log-error={self.folder / 'log'}",
            *options,
        ]

    def _bootstrap(self) -> None:
        """Make the server's own tables."""
        self._shell('mkdir "$1"', str(self._data))
        script = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n" + "".join(
            (self._shared / name).read_text(encoding="utf-8") for name in _SYSTEM_TABLES
        )
        done = subprocess.run(
            [str(self._program), "--no-defaults", f"--datadir={self._data}", "--bootstrap",
             "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"],
            input=script.encode(),
            capture_output=True,
            cwd="/",
            umask=0o077,
            check=False,
            **self._user,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            raise RuntimeError(f"mariadbd cannot make its tables: {said[-2000:]}")


def installed() -> tuple[Path, Path]:
    """The server's program, and the folder of its SQL; InputError if it is not here."""
    path = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin"
    program = shutil.which("mariadbd", path=path)
    if program is not None:
        for folder in ("mysql", "mariadb"):
            shared = Path(program).resolve().parents[1] / "share" / folder
            if (shared / _SYSTEM_TABLES[0]).exists():
                return Path(program), shared
    raise InputError(
        "This needs a MariaDB server, and there is none here.",
        "Install one: on Debian and Ubuntu apt install mariadb-server-core (it starts no service).",
    )


def is_installed() -> bool:
    try:
        installed()
    except InputError:
        return False
    return True


@cache
def shared_server() -> MariadbServer:
    """The server that this process's tests share; each takes a database of its own."""
    return MariadbServer()
