"""Nodes that are far away: served over HTTP, here or in a process of its own, by a network that
cuts connections off."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from headwater.sharing import Peer
from headwater.sharing.answers import Access, Answers
from headwater.sharing.remote import HttpPeer, Patience
from headwater.sharing.serving import Bounds, Served, Serving
from tests.cli.commands import PROGRAM

TOKEN = "a-token-of-these-tests"
HURRIED = Patience(seconds=120.0, pause_s=0.01, longest_pause_s=0.1)
"""For peers that are away on purpose."""
PERSISTENT = Patience(120.0, tries=200, first_tries=200, pause_s=0.01, longest_pause_s=0.05)
"""For peers whose connections are cut on purpose."""


@contextmanager
def served(
    folder: Path, token: str = TOKEN, bounds: Bounds | None = None, told: list[Served] | None = None
) -> Iterator[str]:
    """A node's folder at an address, by threads of this process."""
    tell = (lambda served: None) if told is None else told.append
    answers = Answers(Peer(folder), Access(token))
    serving = Serving("127.0.0.1", 0, answers, tell=tell, bounds=bounds)
    serving.start()
    try:
        yield serving.address
    finally:
        serving.stop()


@contextmanager
def far(url: str, token: str = TOKEN, patience: Patience = HURRIED) -> Iterator[HttpPeer]:
    with contextlib.closing(HttpPeer(url, token, patience=patience)) as peer:
        yield peer


class ServeCommand:
    """`headwater share serve` in a process that can be killed."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = ["share", "serve", "-c", str(folder), "--listen", "127.0.0.1:0", "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "HEADWATER_SHARE_TOKEN": TOKEN},
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("{"), first + self.process.stdout.read()
        self.url: str = json.loads(first)["address"]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def end(self) -> str:
        """After a signal: what it has said since."""
        assert self.process.stdout is not None
        said = self.process.stdout.read()
        self.process.wait()
        self.process.stdout.close()
        return said

    def kill(self) -> None:
        self.process.kill()
        self.end()


class CuttingProxy:
    """An address that leads to a port of this machine, and cuts connections off at random bytes.

    How many bytes of answers a connection passes on is drawn from a seed, for some of them. With
    `alters` it goes on then, with another byte in the place of the next.
    """

    def __init__(
        self, port: int, seed: int, share: float = 0.5, most: int = 4000, alters: bool = False
    ) -> None:
        self.leads_to = port
        self.cuts = 0
        self._alters = alters
        self._random, self._share, self._most = Random(seed), share, most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "CuttingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # it was closed
            room = self._random.randrange(self._most) if self._random.random() < self._share else -1
            self._threads.append(
                threading.Thread(target=self._lead, args=(near, room), daemon=True)
            )
            self._threads[-1].start()

    def _lead(self, near: socket.socket, room: int) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self.leads_to))
        except OSError:
            near.close()
            return
        with near, far:
            asking = threading.Thread(target=_pass_on, args=(near, far, -1), daemon=True)
            asking.start()
            self.cuts += _pass_on(far, near, room, self._alters)
            asking.join()


def _pass_on(from_: socket.socket, to: socket.socket, room: int, alters: bool = False) -> bool:
    """Until one side has gone, or as many bytes have passed; whether it was cut off."""
    is_cut = False
    with contextlib.suppress(OSError):
        while not is_cut and (data := from_.recv(1 << 16)):
            is_cut = 0 <= room < len(data)
            if is_cut and alters:
                data = data[:room] + bytes((data[room] ^ 1,)) + data[room + 1 :]
                is_cut, room = False, -1
            to.sendall(data[:room] if is_cut else data)
            room -= len(data) if room >= 0 else 0
    for each in (from_, to):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    return is_cut
