"""Asking what is served, over real HTTP."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.dashboard.board import Board
from headwater.dashboard.server import Server


@dataclass(frozen=True)
class Answered:
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def get(
    address: str, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> Answered:
    with closing(http.client.HTTPConnection(address.partition("//")[2], timeout=600)) as asking:
        asking.request(method, path, headers=dict(headers or {}))
        answer = asking.getresponse()
        text = answer.read().decode()
        return Answered(answer.status, text, {k.lower(): v for k, v in answer.getheaders()})


@contextmanager
def served(board: Board, token: str = "") -> Iterator[str]:
    """A board at an address."""
    server = Server(board, "127.0.0.1", 0, token)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


@contextmanager
def events(address: str) -> Iterator[Iterator[tuple[str, Any]]]:
    """What a page is sent: the name of each event, and its data."""
    with closing(http.client.HTTPConnection(address.partition("//")[2], timeout=600)) as asking:
        asking.request("GET", "/events")
        answer = asking.getresponse()

        def each() -> Iterator[tuple[str, Any]]:
            name = ""
            while line := answer.readline().decode():
                kind, _, rest = line.rstrip("\n").partition(": ")
                if kind == "event":
                    name = rest
                elif kind == "data":
                    yield name, json.loads(rest)

        yield each()


def board_of(folder: Path, runs: bool = False) -> Board:
    return Board(folder, runs)
