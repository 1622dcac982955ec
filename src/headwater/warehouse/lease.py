"""The lease: at most one runner works on a warehouse, and a new one has the higher epoch.

A runner renews its lease every few seconds. One that is dead, or has not renewed for a while,
is replaced: its epoch is over. What it might still do to a view is refused by the view's own
fence; what it might still tell a source is done under the lease's lock, where it finds out.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headwater.errors import BusyError, FencedError, HeadwaterError

RENEW_S = 2.0
STALE_S = 15.0
_LOCK_WAIT_S = 10.0


class Lease:
    """The right to run; `acquire` it first, `release` it last."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "lease.json"
        self._lock_file = folder / "lease.lock"
        self.epoch = 0
        self.warehouse = ""
        """What tells this warehouse from others, wherever it is reached from."""
        self.runner = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Become the runner; BusyError if another one is at work."""
        self._make_folder()
        with self._locked():
            current = self._read()
            if current and not _is_over(current):
                raise BusyError(
                    f"Another runner is at work on this warehouse: process {current['pid']} "
                    f"on {current['host']}.",
                    "Stop it first, or wait until it has been silent for "
                    f"{STALE_S:.0f} s if it is stuck.",
                )
            self.epoch = int(current.get("epoch", 0)) + 1
            self.warehouse = str(current.get("warehouse") or uuid.uuid4().hex[:12])
            self._write(released=False)
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Do something that only the present runner may do; FencedError if that is another."""
        with self._locked():
            self.check()
            yield

    def check(self) -> None:
        """FencedError if another is the runner by now."""
        current = self._read()
        if current.get("runner") != self.runner:
            raise FencedError(
                "Another runner has taken over this warehouse: "
                f"process {current.get('pid')} on {current.get('host')}.",
                "This one stops; nothing that it had not committed is lost.",
            )

    def release(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._locked():
            if not self.lost:
                self._write(released=True)

    @property
    def lost(self) -> bool:
        return self._read().get("runner") != self.runner

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_S):
            with suppress(OSError, BusyError), self._locked():  # a full disk may have room again
                if self.lost:
                    return
                self._write(released=False)

    def _make_folder(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._lock_file.open("a").close()
        except OSError as error:
            raise HeadwaterError(
                f"The warehouse cannot be written: {error.filename}: {error.strerror}.",
                "Look at the folder, its owner and its disk; nothing was changed.",
            ) from None

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, released: bool) -> None:
        data = {
            "epoch": self.epoch,
            "warehouse": self.warehouse,
            "runner": self.runner,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": _started(os.getpid()),
            "renewed": time.time(),
            "released": released,
        }
        temporary = self._file.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(data))
        temporary.replace(self._file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        deadline = time.monotonic() + _LOCK_WAIT_S
        with self._lock_file.open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise BusyError(
                            "The lease of this warehouse is locked by a process that does not "
                            f"go on: {self._read().get('pid', 'unknown')}.",
                            "End that process, then try again.",
                        ) from None
                    time.sleep(0.005)
            yield


def current_runner(folder: Path) -> dict[str, Any] | None:
    """Who runs now, if anybody does."""
    found = Lease(folder)._read()
    return found if found and not _is_over(found) else None


def _is_over(lease: dict[str, Any]) -> bool:
    if lease.get("released"):
        return True
    here = lease.get("host") == socket.gethostname()
    if here and _started(int(lease["pid"])) != lease.get("started"):
        return True  # that process is gone
    return time.time() - float(lease.get("renewed", 0)) > STALE_S


def _started(pid: int) -> str | None:
    """When a process of this machine started, to tell it from a later one of the same number."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if not _is_alive(pid) else "alive"
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
