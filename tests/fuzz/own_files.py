"""The small files of a warehouse: its identity, lease, epoch, status, requests and answers."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

from headwater.pipeline.requests import ask_runner, forget_requests, waiting_requests
from headwater.project.example import make_project
from headwater.project.project import Project
from headwater.warehouse.identity import owner_of
from headwater.warehouse.lease import Lease
from tests.fuzz.commands import run
from tests.fuzz.mutations import VALUES, changed, json_text, noise, put, removed

_VALUES = [*VALUES, os.getpid(), "alive", 1e300, 4e9, "0123abcd", "drop", "repair"]
_VIEW = {"state": "running", "level": "strong", "algorithm": "sweep", "committed_at": 1.5e9,
         "lag": {"crm": 3, "shop": None}, "message": "m", "note": "n"}  # fmt: skip


class OwnFiles:
    def __init__(self, folder: Path, outside: Path) -> None:
        self._folder, self._outside = folder / "project", outside
        make_project(self._folder)
        self._own = self._folder / "warehouse" / "_headwater"
        owner_of(self._own)
        lease = Lease(self._own)
        lease.acquire()
        self._lease: dict[str, Any] = json.loads((self._own / "lease.json").read_bytes())
        lease.release()
        self._sound: dict[str, Any] = {
            "warehouse.json": json.loads((self._own / "warehouse.json").read_bytes()),
            "lease.json": self._lease,
            "epoch": 3,
            "status.json": {
                "trouble": None,
                "views": {"order_lines": _VIEW, "big_orders": _VIEW},
                "sources": {"crm": {"trouble": "t"}, "shop": {"trouble": None}},
            },
            "requests/0a.request": {"action": "drop", "name": "big_orders"},
        }
        self._project = Project.open(self._folder)
        self.input = self._own

    def attack(self, random: Random) -> None:
        shutil.rmtree(self._own)
        (self._own / "requests").mkdir(parents=True)
        at_work = {**self._lease, "renewed": time.time() + 1000}
        for name, value in {**self._sound, "lease.json": at_work}.items():
            (self._own / name).write_text(json.dumps(value))
        name = random.choice([*self._sound, "lease.lock", "requests", "requests/0b.answer"])
        self.input = self._own / name
        content = self._spoilt(random, self._sound.get(name, {"failures": ["f"], "input": True}))
        put(random, self.input, content, self._outside)
        self._read(random, content)

    def _spoilt(self, random: Random, value: Any) -> bytes:
        if random.random() < 0.3:
            return noise(random, json.dumps(value).encode())
        return json_text(random, changed(random, [value], _VALUES)[0:1] or None)[1:-1].encode()

    def _read(self, random: Random, content: bytes) -> None:
        arguments = ("status", "--project", str(self._folder))
        run(*arguments, *random.choice([("--json",), ()]))
        owner_of(self._own)
        waiting_requests(self._own)
        if random.random() < 0.01:
            self._ask(content)
        forget_requests(self._own)
        removed(self._own / "lease.json") if random.random() < 0.5 else None
        lease = Lease(self._own)
        lease.acquire()
        lease.check()
        lease.release()

    def _ask(self, content: bytes) -> None:
        """A command asks a runner that answers nonsense."""
        done = threading.Event()

        def answer() -> None:
            while not done.wait(0.01):
                for path in (self._own / "requests").glob("*.request"):
                    path.with_suffix(".answer").write_bytes(content)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        try:
            ask_runner(self._project, "drop", "big_orders")
        finally:
            done.set()
            thread.join()
