"""The embedded server is nobody's but its user's, and root follows nothing that this user made."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.embedded.postgres import PostgresServer

as_root = pytest.mark.skipif(os.getuid() != 0, reason="needs another user's rights")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    before = os.umask(0o022)
    server = PostgresServer()
    yield server
    server.stop()
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_nobody_else_comes_to_the_socket(server: PostgresServer) -> None:
    assert mode(server.folder) == 0o700
    assert mode(server.folder.parent) & 0o007 == 0
    assert mode(server.folder / ".s.PGSQL.5432") == 0o700
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@as_root
def test_another_user_cannot_connect(server: PostgresServer) -> None:
    other = next(u for u in pwd.getpwall() if u.pw_uid not in (0, server.folder.stat().st_uid))
    program = 'test -e "$1" && echo found'
    done = subprocess.run(
        ["sh", "-c", program, "sh", str(server.folder / ".s.PGSQL.5432")],
        capture_output=True,
        user=other.pw_uid,
        group=other.pw_gid,
        extra_groups=[],
        check=False,
    )
    assert done.stdout == b""


@as_root
def test_the_server_has_no_group_of_root(server: PostgresServer) -> None:
    pid = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split(":")[0]: line.split(":")[1].split() for line in lines}
    assert "0" not in found["Uid"] + found["Gid"] + found["Groups"]


@as_root
def test_root_writes_reads_and_kills_nothing_by_what_the_servers_user_says(
    server: PostgresServer, tmp_path: Path
) -> None:
    tmp_path.chmod(0o711)
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    victim.chmod(0o600)
    sleeper = subprocess.Popen(["sleep", "600"])
    server.halt()
    for name in ("log", "commands", "data/postgresql.auto.conf", "data/pg_hba.conf"):
        (server.folder / name).unlink(missing_ok=True)
        (server.folder / name).symlink_to(victim)
    with pytest.raises(RuntimeError) as caught:
        server.start()
    assert "root's own" not in str(caught.value)
    (server.folder / "data" / "postmaster.pid").write_text(f"{sleeper.pid}\n")
    server.stop()
    assert victim.read_text() == "root's own"
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.wait()


@as_root
def test_settings_are_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    server = PostgresServer()
    try:
        server.halt()
        for name in ("postgresql.conf", "pg_hba.conf"):
            (server.folder / "data" / name).unlink()
            (server.folder / "data" / name).symlink_to(victim)
        server._configure({"work_mem": "'1MB'"})
        assert victim.read_text() == "root's own"
    finally:
        server.stop()


def test_nothing_is_left_when_the_server_is_stopped(server: PostgresServer) -> None:
    folder = server.folder.parent
    server.stop()
    assert not folder.exists()
