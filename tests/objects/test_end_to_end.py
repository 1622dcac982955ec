"""The command over a warehouse in an object store that is ill: killed, replaced, verified."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import PROGRAM
from tests.objects.proxy import FaultyProxy, faulty_proxy
from tests.objects.servers import SECRET, endpoint_of, location, options, servers

LIMIT_S = 600.0
VIEWS = {
    "both": "SELECT c.name, o.id, o.price FROM crm.customers c JOIN crm.orders o "
    "ON o.customer = c.id",
    "totals": "SELECT o.customer, count(*) AS n, sum(o.price) AS total FROM crm.orders o "
    "GROUP BY o.customer",
}


class Deployment:
    """A project over one SQLite database, whose warehouse is behind a proxy."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        told = options(endpoint) | {"aws_secret_access_key": "${TEST_SECRET}"}
        lines = "\n".join(f'{key} = "{value}"' for key, value in told.items())
        (folder / "headwater.toml").write_text(
            '[warehouse]\npath = "s3://lake/warehouse"\npublish_every = "1 second"\n'
            f"[warehouse.options]\n{lines}\n"
            '[sources.crm]\nkind = "sqlite"\npath = "crm.db"\n'
            'relations = ["customers", "orders"]\n'
        )
        (folder / "views").mkdir()
        for name, select in VIEWS.items():
            text = f"CREATE MATERIALIZED VIEW {name} AS {select}\n"
            (folder / "views" / f"{name}.sql").write_text(text)
        with contextlib.closing(self.database()) as database:
            database.execute("PRAGMA journal_mode = wal")
            database.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
            database.execute(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, "
                "price INTEGER NOT NULL)"
            )
            with database:
                rows = [(n, f"customer {n}") for n in range(5)]
                database.executemany("INSERT INTO customers VALUES (?, ?)", rows)

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.folder / "crm.db", timeout=60)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        out = (self.folder / "out.txt").open("ab")
        with out:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *arguments, "--project", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TEST_SECRET": SECRET},
            )
        self.started.append(process)
        return process

    def do(self, *arguments: str) -> None:
        assert self.start(*arguments).wait(LIMIT_S) == 0, self.said()

    def said(self) -> str:
        return (self.folder / "out.txt").read_text(errors="replace")

    def stop_all(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    kind = [kind for kind in servers() if kind != "azurite"][-1]
    with endpoint_of(kind) as endpoint, faulty_proxy(endpoint, seed=1, share=0.05) as found:
        yield found


@pytest.fixture
def deployment(tmp_path: Path, proxy: FaultyProxy) -> Iterator[Deployment]:
    found = Deployment(tmp_path, proxy.endpoint)
    try:
        yield found
    finally:
        found.stop_all()


def write(deployment: Deployment, seed: int, done: threading.Event, made: list[int]) -> None:
    random = Random(seed)
    with contextlib.closing(deployment.database()) as database:
        number = 0
        while not done.is_set():
            number += 1
            with database:
                for _ in range(random.randint(1, 3)):
                    if random.random() < 0.7:
                        database.execute(
                            "INSERT INTO orders (customer, price) VALUES (?, ?)",
                            (random.randrange(5), random.randrange(100)),
                        )
                    else:
                        database.execute(
                            "DELETE FROM orders WHERE id = (SELECT min(id) FROM orders)"
                        )
            made.append(number)
            done.wait(0.3)


@pytest.mark.stress
def test_nothing_is_lost_or_twice_although_the_store_is_ill_and_runners_are_killed(
    deployment: Deployment, proxy: FaultyProxy
) -> None:
    deployment.do("setup", "crm")
    done, made = threading.Event(), list[int]()
    writer = threading.Thread(target=write, args=(deployment, 1, done, made))
    writer.start()
    random = Random(2)
    try:
        for is_killed in (True, False, True):
            runner = deployment.start("run")
            before = deployment.said().count("commits")
            wait_for(lambda n=before: deployment.said().count("commits") > n + 4, deployment)
            time.sleep(random.random())
            if is_killed:
                runner.kill()
            else:  # it stands still until another has taken over, and then goes on
                runner.send_signal(signal.SIGSTOP)
                while deployment.start("run", "--once").wait(LIMIT_S):
                    time.sleep(1)  # the other counts as at work until it has been silent for long
                runner.send_signal(signal.SIGCONT)
                runner.wait(LIMIT_S)
            runner.kill()
            runner.wait()
    finally:
        done.set()
        writer.join()
    deployment.do("run", "--once")
    deployment.do("fold", "both", "totals")
    deployment.do("verify", "both", "totals")
    assert proxy.done["lose answer"] > 0
    assert SECRET not in deployment.said()
    proxy.share = 0.0
    warehouse = Warehouse(location(proxy.endpoint))
    with contextlib.closing(deployment.database()) as database:
        found = database.execute(
            "SELECT c.name, o.id, o.price FROM customers c JOIN orders o ON o.customer = c.id"
        ).fetchall()
    assert dict(warehouse.view("both").rows().items()) == dict.fromkeys(found, 1)


def wait_for(condition: object, deployment: Deployment) -> None:
    assert callable(condition)
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, deployment.said()
        time.sleep(0.1)
