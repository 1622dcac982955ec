"""Nodes as processes of their own beside both databases of `Orders`, and their runner."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.cli.commands import PROGRAM

LIMIT_S = 600.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def with_nodes(folder: Path, port: int, *sources: str, nodes: str = "") -> None:
    """Let the nodes of some sources be processes of their own."""
    path = folder / "headwater.toml"
    text = path.read_text()
    for source in sources:
        text = text.replace(f"[sources.{source}]", f"[sources.{source}]\nnode = 'by itself'")
    path.write_text(f"{text}\n[nodes]\nlisten = '127.0.0.1:{port}'\n{nodes}\n")


class MovingAddress:
    """An address that leads to another port of this machine, now this one and then that."""

    def __init__(self, port: int) -> None:
        self.leads_to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """When both sides of every connection have gone."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIMIT_S)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            self._threads.append(threading.Thread(target=self._lead, args=(near,), daemon=True))
            self._threads[-1].start()

    def _lead(self, near: socket.socket) -> None:
        to = ("127.0.0.1", self.leads_to)
        with near, contextlib.suppress(OSError), socket.create_connection(to) as far:
            back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
            back.start()
            _pass_on(near, far)
            back.join()


def _pass_on(from_: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := from_.recv(1 << 16):
            to.sendall(data)
    for each in (from_, to):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


class NodeCommand:
    """`headwater node`, started in a process that can be stopped, continued and killed."""

    def __init__(self, folder: Path, source: str, **env: str) -> None:
        self._out = folder / f"node-{source}-{time.monotonic_ns()}.out"
        with self._out.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "node", source, "--project", str(folder), "--json"],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env},
            )

    @property
    def text(self) -> str:
        return self._out.read_text()

    @property
    def events(self) -> list[dict[str, Any]]:
        found = []
        for line in self.text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                found.append(json.loads(line))
        return found

    def has_said(self, event: str, part: str = "") -> bool:
        return any(e["event"] == event and part in e.get("message", "") for e in self.events)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, self.text
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.process.wait(LIMIT_S)


@contextlib.contextmanager
def node(folder: Path, source: str, **env: str) -> Iterator[NodeCommand]:
    found = NodeCommand(folder, source, **env)
    try:
        yield found
    finally:
        found.kill()
