"""The lease: at most one runner works on a warehouse, and a new one has the higher epoch.

A runner renews its lease every few seconds. One that is dead, or has not renewed for a while,
is replaced: its epoch is over. The lease file is replaced only as it was when it was looked at, so
of two that claim it at once one does. What a replaced runner might still do to a view is refused by
the view's own fence; what it might still tell a source is done under the lease's lock, where it
finds out. On a storage without locks it finds out if it was replaced before it looked; what it
tells a source later concerns only what every later runner has found in the change log.

An epoch is never given twice. It follows the highest that anything in the warehouse carries: a
file of its own, the lease file, the names of the change logs' segments. So whoever deletes the
lease file loses nothing: the runner at work writes it again, unless there is a later epoch.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from headwater.errors import BusyError, EngineError, FencedError, HeadwaterError
from headwater.storage.bucket import StoreError
from headwater.storage.location import Location
from headwater.warehouse.forms import LEASE, has_form
from headwater.warehouse.identity import owner_of
from headwater.warehouse.own_files import read_own, read_own_bytes, stamped_own, store_trouble
from headwater.warehouse.segments import segment_name

RENEW_S = 2.0
STALE_S = 15.0
_REWRITES = 5
_LOCK_TRIES = 2000
_LOCK_PAUSE_S = 0.005


class LeaseClaim:
    """The right to run: `acquire` it first, `renew` it from time to time, `release` it last."""

    def __init__(self, folder: Location | Path, host: Host | None = None) -> None:
        self._host = host or ThisProcess()
        self._folder = Location.of(folder)
        self._file = self._folder / "lease.json"
        self._epoch_file = self._folder / "epoch"
        self._lock_file = self._folder / "lease.lock"
        self.epoch = 0
        self._token: object | None = None
        self.warehouse = ""
        """What tells this warehouse from others, wherever it is reached from."""
        self.runner = f"{self._host.name}/{self._host.pid}/{self._folder.storage.fresh_name()[:8]}"

    def acquire(self) -> None:
        """Become the runner; BusyError if another one is at work."""
        with self._writing():
            self._acquire()

    def _acquire(self) -> None:
        self._folder.make_folder()
        with self._locked():
            current, self._token = self._stamped()
            if current and not self._is_over(current):
                raise _busy(current)
            self.warehouse = owner_of(self._folder)
            self.epoch = self.highest_epoch() + 1
            if not self._write(released=False):
                self.epoch = 0
                raise _busy(self._read())
            self._raise_epoch()

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Do something that only the present runner may do; FencedError if that is another."""
        with self._locked():
            self.check()
            yield

    def check(self) -> None:
        """FencedError if another is the runner by now; EngineError if the warehouse is gone."""
        with self._present():
            current = self._read()
            if not current:
                self._folder.names()  # says so if it is gone
            lost = self._is_lost_to(current)
        if lost:
            other = current if current.get("runner") != self.runner else {}
            raise FencedError(
                "Another runner has taken over this warehouse: "
                f"process {other.get('pid', 'unknown')} on {other.get('host', 'unknown')}.",
                "This one stops; nothing that it had not committed is lost.",
            )

    def release(self) -> None:
        """Let the next runner in; never raises, so that the reason for an end is not hidden.

        Where the disk is full or the folder is gone, the end of this process tells the same.
        """
        with suppress(OSError, HeadwaterError), self._locked():
            self._rewrite(released=True)

    @property
    def lost(self) -> bool:
        """Whether another has become the runner; a file that was deleted says nothing of that."""
        return self._is_lost_to(self._read())

    def _is_lost_to(self, current: Mapping[str, Any]) -> bool:
        runner = current.get("runner", self.runner)
        return not self.epoch or runner != self.runner or self._stored_epoch() > self.epoch

    def renew(self) -> bool:
        """Say that this runner is still at work; False if it is not the runner any more."""
        with suppress(OSError, HeadwaterError), self._locked():  # a full disk may have room again
            return self._rewrite(released=False)
        return True

    def _rewrite(self, released: bool) -> bool:
        """Write the lease again as it is now; False if it is another's by now."""
        for _ in range(_REWRITES):
            current, self._token = self._stamped()
            if self._is_lost_to(current):
                return False
            if self._write(released):
                return True
        return True  # somebody writes to it without end; whether it is lost is seen the next time

    def current(self) -> dict[str, Any] | None:
        """Who runs now, if anybody does."""
        found = self._read()
        return found if found and not self._is_over(found) else None

    def _is_over(self, lease: dict[str, Any]) -> bool:
        return bool(
            lease.get("released")
            or self._host.is_gone(lease)
            or self._folder.storage.now() - lease["renewed"] > STALE_S
        )

    # Epochs

    def highest_epoch(self) -> int:
        """The highest epoch that anything in the warehouse carries."""
        logs = [log for folder in (self._folder / "changes").files() for log in folder.files()]
        segments = filter(None, (segment_name(log.name) for log in logs))
        leased: int = self._read().get("epoch", 0)
        return max(self._stored_epoch(), leased, *(epoch for epoch, _ in segments))

    def _stored_epoch(self) -> int:
        return _epoch_in(read_own_bytes(self._epoch_file) or b"")

    def _raise_epoch(self) -> None:
        """Store the epoch, unless a later one is there."""
        for _ in range(_REWRITES):
            content, token = self._epoch_file.stamped()
            if _epoch_in(content) >= self.epoch:
                return
            if self._epoch_file.replace_if(str(self.epoch).encode(), token) is not None:
                return

    # The files

    def _stamped(self) -> tuple[dict[str, Any], object | None]:
        """What the lease file says, with its token."""
        found, token = stamped_own(self._file)
        return (found if found is not None and has_form(LEASE, found) else {}), token

    def _read(self) -> dict[str, Any]:
        """What the lease file says; nothing if it is missing, empty or damaged."""
        found = read_own(self._file)
        return found if found is not None and has_form(LEASE, found) else {}

    def _write(self, released: bool) -> bool:
        """Whether it was as it was when it was looked at."""
        data = {
            "epoch": self.epoch,
            "warehouse": self.warehouse,
            "runner": self.runner,
            "host": self._host.name,
            "machine": self._host.machine,
            "pid": self._host.pid,
            "started": self._host.started,
            "renewed": self._folder.storage.now(),
            "released": released,
        }
        content = json.dumps(data).encode()
        return self._file.replace_if(content, self._token, durable=False) is not None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        for _ in range(_LOCK_TRIES):
            if (lock := self._try_lock()) is not None:
                with lock:
                    yield
                return
            self._folder.storage.pause(_LOCK_PAUSE_S)
        raise BusyError(
            "The lease of this warehouse is locked by a process that does not "
            f"go on: {self._read().get('pid', 'unknown')}.",
            "End that process, then try again.",
        )

    def _try_lock(self) -> AbstractContextManager[object] | None:
        """None while another holds it."""
        with self._present():
            return self._lock_file.try_lock()

    @contextmanager
    def _present(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise EngineError(
                f"The folder {self._folder} is gone, and with it the warehouse.",
                "Restore it from a backup, or start again: views that are missing are loaded.",
            ) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise store_trouble(error) from None
        except OSError as error:
            raise HeadwaterError(
                "The warehouse cannot be written: "
                f"{error.filename or self._folder}: {error.strerror or error}.",
                "Look at the folder, its owner and its disk; nothing was changed.",
            ) from None


def _busy(current: Mapping[str, Any]) -> BusyError:
    return BusyError(
        "Another runner is at work on this warehouse: process "
        f"{current.get('pid', 'unknown')} on {current.get('host', 'unknown')}.",
        f"Stop it first, or wait until it has been silent for {STALE_S:.0f} s if it is stuck.",
    )


def _epoch_in(content: bytes) -> int:
    found = re.fullmatch(rb"\s*([0-9]{1,18})\s*", content)
    return int(found[1]) if found else 0


class Lease(LeaseClaim):
    """A claim that a thread renews until it is released."""

    def __init__(self, folder: Location | Path) -> None:
        super().__init__(folder)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        super().acquire()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        super().release()

    def _keep(self) -> None:
        while not self._stop.wait(RENEW_S) and self.renew():
            pass


def current_runner(folder: Location | Path) -> dict[str, Any] | None:
    """Who runs now, if anybody does."""
    return LeaseClaim(folder).current()


class Host(Protocol):
    """The process that claims, and what it can tell of others."""

    name: str
    machine: str
    """Where process numbers mean the same."""
    pid: int
    started: str | None

    def is_gone(self, lease: Mapping[str, Any]) -> bool:
        """Whether the process that wrote a lease is known to have ended."""
        ...


class ThisProcess:
    """This process, on this machine."""

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.machine = _machine()
        self.pid = os.getpid()
        self.started = _started(self.pid)

    def is_gone(self, lease: Mapping[str, Any]) -> bool:
        ours = lease.get("machine") == self.machine
        return ours and _started(lease["pid"]) != lease.get("started")


def _machine() -> str:
    """Where process numbers mean the same: this start of this machine, and this container.

    Containers may share a host name and not their processes: of another's process only its
    silence tells that it is gone.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


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
