"""Hadoop's small YARN on this machine, where `make yarn` has put it: two nodes in one process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.clusters.executors import LIMIT_S, executors_in, kill_executor_in

PLACE = Path(__file__).parents[2] / "build" / "yarn"
_CLASSES = PLACE / "classpath"


class NoYarnError(Exception):
    """Why there is none."""


@dataclass
class YarnCluster:
    """A running cluster; `stop` ends all of it."""

    url: str = "yarn"
    folder: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="headwater-yarn-")).resolve()
    )
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls) -> YarnCluster:
        if not _CLASSES.exists():
            raise NoYarnError("there is no YARN here; make yarn has one")
        cluster = cls()
        try:
            cluster._start()
        except (OSError, NoYarnError):
            cluster.stop()
            raise
        return cluster

    def _start(self) -> None:
        classes = f"{PLACE}:{_CLASSES.read_text().strip()}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx400m", "-cp", classes, "MiniYarn", str(self.folder)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        until = time.monotonic() + LIMIT_S
        while not (self.folder / "yarn-site.xml").exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise NoYarnError(f"YARN did not start: {self.log.read_text()[-600:]}")
            time.sleep(0.1)

    @property
    def log(self) -> Path:
        return self.folder / "yarn.log"

    def stop(self) -> None:
        """End YARN, then what runs in its containers."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pid in executors_in(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill_executor(self) -> int:
        return kill_executor_in(self.folder)

    def logs(self) -> Iterator[Path]:
        """What YARN and its containers have written."""
        return (path for path in self.folder.rglob("*") if path.is_file())
