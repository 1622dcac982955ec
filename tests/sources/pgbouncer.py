"""A connection pooler in front of a test's server, where its program is on this machine.

Debian has it as the package pgbouncer; HEADWATER_PGBOUNCER may name the program.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

PROGRAM = os.environ.get("HEADWATER_PGBOUNCER") or shutil.which(
    "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"
)
_PORT = 6432
_SETTINGS = """
[databases]
* = host={server}
[pgbouncer]
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = {mode}
logfile = {folder}/log
"""


@contextmanager
def pooled(dsn: str, mode: str) -> Iterator[str]:
    """A connection string that leads to the same database by a pool."""
    if PROGRAM is None:
        pytest.skip("pgbouncer is not on this machine: Debian's package pgbouncer has it")
    known = conninfo_to_dict(dsn)
    folder = Path(tempfile.mkdtemp(prefix="hwpool", dir="/tmp"))
    server = str(known["host"])
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        _SETTINGS.format(server=server, port=_PORT, folder=folder, mode=mode).replace(
            "* = ", f"{known['dbname']} = user=postgres "
        ),
        encoding="utf-8",
    )
    rights: dict[str, Any] = {}
    if os.getuid() == 0:  # the pooler refuses to be root, and the server's socket is its user's
        nobody = pwd.getpwnam("nobody")
        rights = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        os.chown(folder, nobody.pw_uid, -1)
        settings.chmod(0o644)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([PROGRAM, str(settings)], cwd="/", **quiet, **rights)
    reached = make_conninfo(dsn, host=str(folder), port=_PORT)
    try:
        _wait(reached)
        yield reached
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(dsn: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
