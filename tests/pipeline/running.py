"""The command as a process of its own, and what can be seen of it from outside."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import PROGRAM
from tests.pipeline.world import Shop

LIMIT_S = 600.0


class Running:
    """`headwater run`, started in a process that can be stopped, continued and killed."""

    def __init__(
        self,
        shop: Shop,
        *options: str,
        name: str = "run",
        before: Callable[[], None] | None = None,
    ) -> None:
        self._out = shop.folder / f"{name}.out"
        self._err = shop.folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", PROGRAM, "run"),
                    *("--project", str(shop.folder), "--json", *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=before,
            )

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to stop; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What it has said, a JSON object a line; the last may be cut off."""
        found = []
        for line in self._out.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def state(self, view: str) -> str:
        """The state of a view that was told last."""
        return next((x["state"] for x in reversed(self.lines) if x.get("view") == view), "")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.02)

    def wait_stopped_in(self, condition: Callable[[], bool], random: Random) -> None:
        """Stop it again and again until it stands still where the condition holds."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            self.signal(signal.SIGSTOP)
            _wait_stopped(self.process.pid)
            if condition():
                return
            self.signal(signal.SIGCONT)
            assert self.process.poll() is None, self.errors
            assert time.monotonic() < deadline, self.errors
            time.sleep(random.uniform(0.001, 0.03))


def _wait_stopped(pid: int) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        time.sleep(0.0005)


class Files:
    """Data files in a warehouse that no commit refers to, beyond those that were there."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._read: set[Path] = set()
        self._known: dict[Path, set[str]] = {}
        self._before = {*self.of_logs(), *self.of_plain_tables(), *self._staged()}

    def in_commit(self) -> bool:
        """Whether a signed log has a file whose commit is not there yet."""
        return bool(self.of_logs() - self._before)

    def in_fold(self) -> bool:
        """Whether a plain table has a file without its commit, or one is being written."""
        return bool((self.of_plain_tables() | self._staged()) - self._before)

    def of_logs(self) -> set[Path]:
        return self._orphans((self._warehouse.internal / "views").glob("*"))

    def of_plain_tables(self) -> set[Path]:
        names = self._warehouse.view_names()
        return self._orphans(self._warehouse.path / name for name in names)

    def _staged(self) -> set[Path]:
        return set((self._warehouse.internal / "staging").glob("*"))

    def _orphans(self, tables: Iterator[Path]) -> set[Path]:
        found: set[Path] = set()
        for table in tables:
            known = self._known.setdefault(table, set())
            files = set(table.glob("*.parquet"))  # before the entries, which come later
            for entry in (table / "_delta_log").glob("*.json"):
                if entry not in self._read:
                    known |= _added(entry)
                    self._read.add(entry)
            found |= {file for file in files if file.name not in known}
        return found


def _added(entry: Path) -> set[str]:
    actions = map(json.loads, entry.read_text().splitlines())
    return {action["add"]["path"] for action in actions if "add" in action}


@contextlib.contextmanager
def locked(dsn: str, table: str) -> Iterator[None]:
    """Nobody can read a PostgreSQL table meanwhile."""
    with psycopg.connect(dsn) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def is_asking(dsn: str) -> bool:
    """Whether a question of Headwater's waits for a lock."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'headwater' AND wait_event_type = 'Lock'
    """
    with psycopg.connect(dsn) as connection:
        row = connection.execute(waiting.encode()).fetchone()
    return row is not None and row[0] > 0
