"""The shop of other tests (see `tests.pipeline.world`) on a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import psycopg
from psycopg import conninfo

from headwater import Project
from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError
from tests.clusters.standalone import SMALL, with_settings
from tests.pipeline.running import Running
from tests.pipeline.world import VIEWS, Oracle, Shop, start_writers

PASSWORD = "hush-4f7a c"
"""In every connection string, the databases do not ask for it."""


class Cluster(Protocol):
    """Where executors run that can be killed."""

    @property
    def url(self) -> str: ...

    def kill_executor(self) -> int: ...

    def logs(self) -> Iterator[Path]: ...


class ClusterShop(Shop):
    """The shop, with a master in its project and secrets in its connection strings."""

    def __init__(
        self,
        folder: Path,
        servers: Sequence[PostgresServer],
        master: str,
        views: Sequence[str] = tuple(VIEWS),
        settings: Mapping[str, str] = SMALL,
        engine: str = "spark",
    ) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, servers, engine, {name: VIEWS[name] for name in views})
        self.events = folder / "events"
        self.events.mkdir()
        self.names = tuple(views)
        told = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.executorEnv.SHOP_DSN": f"postgresql://u:{PASSWORD}@h/d",
            **settings,
        }
        path = folder / "headwater.toml"
        text = path.read_text().replace('master = "local[2]"', f'master = "{master}"')
        for dsn in self.dsns.values():
            text = text.replace(dsn, conninfo.make_conninfo(dsn, password=PASSWORD))
        path.write_text(f"{text}\n[spark.settings]\n{with_settings(told)}\n")
        self.project = Project.open(folder)

    def check(self) -> dict[str, int]:
        """Every version is right, and the last ones reflect everything."""
        oracle, checked = Oracle(self), {}
        for name in self.names:
            checked[name] = len(oracle.check_view(name))
            oracle.check_reached_the_end(name)
        return checked

    def told(self) -> Iterator[dict[str, Any]]:
        """All that Spark has noted in its event logs."""
        for path in sorted(self.events.rglob("*")):
            if path.is_file():
                for line in path.read_text().splitlines():
                    if line.startswith("{"):
                        yield json.loads(line)

    def started(self, step: str) -> int:
        """How many jobs of a step have begun so far, in all sessions."""
        lines: list[str] = []
        for path in filter(Path.is_file, self.events.rglob("*")):
            with suppress(FileNotFoundError):  # it has another name when its session has ended
                lines += path.read_text().splitlines()
        found = 0
        for line in lines:
            with suppress(ValueError):  # the last may be cut off
                each = json.loads(line)
                found += each["Event"] == "SparkListenerJobStart" and step in _name_of(each)
        return found

    def at_work(self) -> list[str]:
        """The names of the jobs that are under way, by the event log of the last session."""
        running: dict[int, str] = {}
        for path in sorted(self.events.rglob("*.inprogress"))[-1:]:
            for line in path.read_text().splitlines():
                with suppress(ValueError):  # the last may be cut off
                    each = json.loads(line)
                    if each["Event"] == "SparkListenerJobStart":
                        running[each["Job ID"]] = _name_of(each)
                    elif each["Event"] == "SparkListenerJobEnd":
                        running.pop(each["Job ID"], None)
        return list(running.values())

    def has_reached(self) -> bool:
        """Whether all views reflect everything that the databases hold."""
        try:
            oracle = Oracle(self)
            oracle.check_log()
            for name in self.names:
                oracle.check_reached_the_end(name)
        except (AssertionError, HeadwaterError):
            return False
        return True

    def job_names(self) -> list[str]:
        """What Spark's pages call each job; empty where it has no name."""
        started = [each for each in self.told() if each["Event"] == "SparkListenerJobStart"]
        return [_name_of(each) for each in started]

    def lost_executors(self) -> int:
        """How many executors were removed while sessions went on."""
        return sum(each["Event"] == "SparkListenerExecutorRemoved" for each in self.told())

    def with_secret(self) -> list[Path]:
        """The files of warehouse and event logs that hold the planted secret."""
        return holding(path for path in self.folder.rglob("*") if path.name != "headwater.toml")


def kill_in(
    shop: ClusterShop, cluster: Cluster, running: Running, step: str, before: int = 0
) -> None:
    """Kill an executor as soon as more jobs of this step have begun."""
    running.wait_until(lambda: shop.started(step) > before)
    cluster.kill_executor()


def wait_running(shop: ClusterShop, running: Running) -> None:
    running.wait_until(lambda: all(running.state(name) == "running" for name in shop.names))


def change(shop: ClusterShop, seed: int) -> None:
    for writer in start_writers(shop, 0.0, seed, most=1):
        writer.join()


def bulk_change(shop: ClusterShop, seed: int, rows: int) -> None:
    """So many new lines of one order, in one transaction."""
    with psycopg.connect(shop.dsns["stock"]) as stock:
        stock.execute(
            "INSERT INTO lines SELECT 1, n, 2, 1.5 FROM generate_series(%s, %s) AS g (n)",
            ((seed + 1) * 10**6, (seed + 1) * 10**6 + rows - 1),
        )


def never_recomputed(shop: ClusterShop, view: str) -> None:
    """However much changes, the view takes it in."""
    path = shop.folder / "views" / f"{view}.sql"
    text = path.read_text()
    path.write_text(text.replace(" AS\n", " RECOMPUTE NEVER AS\n", 1))


def follow_while_executors_are_killed(
    folder: Path, servers: Sequence[PostgresServer], cluster: Cluster
) -> None:
    """A load and some changes, with a kill in each: every version is right, every job has a name,
    and no secret is left."""
    shop = ClusterShop(folder, servers, cluster.url, ["order_lines"])
    running = Running(shop)
    try:
        kill_in(shop, cluster, running, "order_lines: load")
        wait_running(shop, running)
        change(shop, 1)
        kill_in(shop, cluster, running, "answer of")
        running.wait_until(shop.has_reached)
        assert running.stop() == 0, running.errors
        names = shop.job_names()
        assert all(names), sorted(set(names))
        assert "order_lines: load" in names
        assert any(name.startswith("order_lines: answer of") for name in names)
        assert shop.lost_executors() >= 2
        assert shop.with_secret() == []
        assert holding(cluster.logs()) == []
        assert shop.check()["order_lines"] > 1
    finally:
        running.kill()
        shop.teardown()


def _name_of(started: Mapping[str, Any]) -> str:
    return (started.get("Properties") or {}).get("spark.job.description") or ""


def holding(paths: Iterator[Path]) -> list[Path]:
    secret = re.compile(re.escape(PASSWORD.split()[0].encode()))
    return [path for path in paths if path.is_file() and secret.search(path.read_bytes())]
