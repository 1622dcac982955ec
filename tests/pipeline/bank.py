"""A bank whose owners have an account in each of two databases, and money that moves between them.

Transfers inside one database are transactions of it; those between both are two transactions, each
tagged as a part of one. Whoever sums all accounts of both sees the same sum at all times, if
transfers between both are shown whole.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psycopg

from headwater import Project
from headwater.algorithms.registry import ALGORITHMS
from headwater.embedded.postgres import PostgresServer
from headwater.protocol.managers import Need
from headwater.warehouse.changes import ChangeLog
from tests.pipeline.world import Shop

OWNERS, AMOUNT = 6, 100
TOTAL = 2 * OWNERS * AMOUNT
ACCOUNTS = "accounts (owner INTEGER PRIMARY KEY, amount INTEGER)"
SELECT = (
    "SELECT n.owner, n.amount AS here, s.amount AS there FROM north.accounts n "
    "JOIN south.accounts s ON s.owner = n.owner"
)
WHOLE = ("sweep", "nested-sweep", "posse", "pvm-cc", "g-strobe", "c-t-strobe")
PARTS = ("t-strobe", "recompute")
LEVELS = {"pvm-cc": "COMPLETE", "c-t-strobe": "COMPLETE", "recompute": "CONVERGENCE"}


def views() -> dict[str, str]:
    found = {}
    for name in (*WHOLE, *PARTS):
        view, level = name.replace("-", "_"), LEVELS.get(name, "STRONG")
        keys = "KEEP KEYS " if Need.KEYS in ALGORITHMS[name].needs else ""
        header = f"CREATE MATERIALIZED VIEW {view} WITH {level} USING {name} {keys}"
        found[view] = f"{header}AS {SELECT}"
    found["total"] = (
        "CREATE MATERIALIZED VIEW total AS SELECT sum(n.amount + s.amount) AS total "
        "FROM north.accounts n JOIN south.accounts s ON s.owner = n.owner"
    )
    return found


class Bank(Shop):
    """North is a PostgreSQL server; south another, or a SQLite file if it is not given."""

    def __init__(
        self,
        folder: Path,
        north: PostgresServer,
        south: PostgresServer | None = None,
        settings: str = "",
        views: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.file = folder / "south.db"
        self.dsns = {"north": north.dsn()} | ({"south": south.dsn()} if south else {})
        (folder / "views").mkdir()
        for source in ("north", "south"):
            self.write(source, *_making())
        (folder / "headwater.toml").write_text(self._settings(settings))
        for name, text in (views or VIEWS).items():
            text = text.replace("COMPLETE", "STRONG") if south else text
            (folder / "views" / f"{name}.sql").write_text(text)
        self.project = Project.open(folder)
        for followed in self.project.sources.values():
            followed.setup()
        self.base = self.contents()

    def _settings(self, more: str) -> str:
        south = 'kind = "sqlite"\npath = "south.db"'
        if "south" in self.dsns:
            south = f'kind = "postgres"\nchanges = "triggers"\ndsn = "{self.dsns["south"]}"'
        return (
            '[warehouse]\npublish_every = "1 second"\n[spark]\nmaster = "local[2]"\n'
            f'{more}\n[sources.north]\nkind = "postgres"\ndsn = "{self.dsns["north"]}"\n'
            f'relations = ["accounts"]\n[sources.south]\n{south}\nrelations = ["accounts"]\n'
        )

    @contextmanager
    def transaction(self, source: str) -> Iterator[psycopg.Connection | sqlite3.Connection]:
        if source in self.dsns:
            with psycopg.connect(self.dsns[source]) as postgres:
                yield postgres
            return
        connection = sqlite3.connect(self.file, timeout=60, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    def write(self, source: str, *statements: str) -> None:
        """Run statements, all of them in one transaction."""
        with self.transaction(source) as connection:
            for statement in statements:
                connection.execute(statement)

    def part(self, source: str, name: str, owner: int, amount: int) -> None:
        """One part of a transfer between both databases."""
        tag = self.project.sources[source].tagging.replace("transfer 17", name)
        self.write(source, _added(owner, amount), tag)

    def transfer(self, random: Random) -> None:
        """Move money: inside a database, or from one to the other."""
        amount, first, second = random.randint(1, 9), *random.sample(range(OWNERS), 2)
        order = random.sample(["north", "south"], 2)
        if random.random() < 0.4:
            moved = sorted([(first, -amount), (second, amount)])  # or two clerks wait in a circle
            self.write(order[0], *(_added(owner, change) for owner, change in moved))
            return
        name = uuid.UUID(int=random.getrandbits(128)).hex
        self.part(order[0], name, first, -amount)
        self.part(order[1], name, second, amount)

    def _select(self, source: str, query: str) -> list[tuple[object, ...]]:
        with self.transaction(source) as connection:
            return list(connection.execute(query).fetchall())

    def sums(self, view: str) -> list[int]:
        """What a reader of each version sums up."""
        commits = self.warehouse.view(view).commits()
        return [self.sum(view, commit.number) for commit in commits]

    def sum(self, view: str, version: int | None = None) -> int:
        """What a reader sums up, now or of a version."""
        rows = self.warehouse.view(view).rows(version).items()
        return sum(n * int(str(value)) for row, n in rows for value in _money(view, row))

    def is_shown(self, view: str) -> bool:
        """Whether a view has come to the end of both change logs."""
        vector = self.warehouse.view(view).latest().vector
        logs = {source: ChangeLog(self.warehouse.changes, source) for source in vector}
        for log in logs.values():
            log.scan()
        return all(reached.number == logs[source].end for source, reached in vector.items())


def _making() -> Iterator[str]:
    yield "DROP TABLE IF EXISTS accounts"
    yield f"CREATE TABLE {ACCOUNTS}"
    for owner in range(OWNERS):
        yield f"INSERT INTO accounts VALUES ({owner}, {AMOUNT})"


def _added(owner: int, amount: int) -> str:
    return f"UPDATE accounts SET amount = amount + ({amount}) WHERE owner = {owner}"


def _money(view: str, row: tuple[object, ...]) -> tuple[object, ...]:
    return row if view == "total" else row[1:]


class Clerk(threading.Thread):
    """Makes so many transfers, one after the other."""

    def __init__(self, bank: Bank, seed: int, transfers: int) -> None:
        super().__init__(name=f"clerk {seed}", daemon=True)
        self.bank, self.random, self.transfers = bank, Random(seed), transfers
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in range(self.transfers):
                self.bank.transfer(self.random)
        except BaseException as error:
            self.failure = error


VIEWS = views()
