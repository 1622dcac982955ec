"""A standalone cluster of Spark's own on this machine: processes of a master and small workers.

Their executors are processes too, each of which can be found and killed.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from tests.clusters.executors import LIMIT_S, executors_in, kill_executor_in

_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=64m"
_HOME = Path(pyspark.__file__).parent
SMALL = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": _OPTIONS,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Settings of applications that are tests."""


class NoClusterError(Exception):
    """Why no cluster can be started here."""


@dataclass
class StandaloneCluster:
    """A running cluster; `stop` ends all of it."""

    folder: Path
    url: str = ""
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def start(cls, workers: int = 2) -> StandaloneCluster:
        if not Path("/proc/self/cmdline").exists():
            raise NoClusterError("executors are found by /proc")
        cluster = cls(Path(tempfile.mkdtemp(prefix="headwater-cluster-")).resolve())
        try:
            cluster._start_master()
            for number in range(workers):
                cluster.start_worker(number)
            cluster._await(lambda: len(cluster._registered) >= workers)
        except (OSError, NoClusterError):
            cluster.stop()
            raise
        return cluster

    def _start_master(self) -> None:
        self._daemon("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        self._await(lambda: bool(self._address))
        self.url = self._address

    def start_worker(self, number: int) -> None:
        folder = self.folder / f"work-{number}"
        resources = ("-c", "1", "-m", "700m", "-d", str(folder))
        self._daemon(
            f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *resources, self.url
        )

    def _daemon(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons.append(
                subprocess.Popen(
                    [
                        str(_HOME / "bin" / "spark-class"),
                        *command,
                        "--host",
                        "127.0.0.1",
                        "--webui-port",
                        "0",
                    ],
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    env=os.environ
                    | {
                        "SPARK_HOME": str(_HOME),
                        "SPARK_DAEMON_MEMORY": "200m",
                        "SPARK_DAEMON_JAVA_OPTS": _OPTIONS,
                        "SPARK_LOCAL_IP": "127.0.0.1",
                    },
                )
            )

    @property
    def _address(self) -> str:
        found = re.search(r"Starting Spark master at (spark://\S+)", self._said("master"))
        return found[1] if found else ""

    @property
    def _registered(self) -> list[str]:
        return re.findall(r"Registering worker \S+ with", self._said("master"))

    def _said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _await(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT_S
        while not done():
            ended = [each for each in self.daemons if each.poll() is not None]
            if ended or time.monotonic() > until:
                raise NoClusterError(f"Spark's cluster did not start: {self._last_words()}")
            time.sleep(0.05)

    def _last_words(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return " | ".join(log.read_text(errors="replace")[-300:] for log in logs)

    def stop(self) -> None:
        for daemon in self.daemons:
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        for pid in self.executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Executors

    def executors(self) -> list[int]:
        """The processes of executors that workers of this cluster have started."""
        return executors_in(self.folder)

    def kill_executor(self) -> int:
        """Kill one as `kill -9` does, and what it has started; waits until there is one."""
        return kill_executor_in(self.folder)

    def logs(self) -> Iterator[Path]:
        """What daemons and executors have written."""
        return (path for path in self.folder.rglob("*") if path.is_file())


def with_settings(settings: Mapping[str, str]) -> str:
    """Settings as a project's file has them."""
    return "\n".join(f'"{name}" = "{value}"' for name, value in settings.items())
