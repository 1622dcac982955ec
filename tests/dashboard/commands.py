"""Commands that serve, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.cli.commands import PROGRAM


class Serving:
    """A command that has said where it serves."""

    def __init__(self, *command: str, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("{"), first + self.process.stdout.read()
        self.address: str = json.loads(first)["address"]

    @property
    def rest(self) -> str:
        """What it has said since, once it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
