"""Nodes as processes of their own beside both databases of `Orders`, and their runner."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
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
