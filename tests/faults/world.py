"""One world of a round: databases, a project over them, and what may be wrong with it just now."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable

from headwater.embedded.mariadb import is_installed
from headwater.embedded.postgres import PostgresServer
from headwater.warehouse.warehouse import Warehouse
from tests.faults.commands import FaultError, Outcome, headwater
from tests.faults.databases import Database
from tests.faults.mariadb_database import MariadbDatabase, own_mariadb
from tests.faults.oracle import Bag, difference, expected
from tests.faults.postgres_database import PostgresDatabase, WholePostgresDatabase, own_server
from tests.faults.schemas import Schema, random_schema
from tests.faults.sqlite_database import SqliteDatabase
from tests.faults.statements import first_rows
from tests.faults.tally import Tally
from tests.faults.views import LEVELS, View, random_view

KINDS = ("sqlite", "postgres by log", "postgres by triggers", "mariadb")
_REMEDY = re.compile(r"headwater (reload|repair|setup|teardown|drop) ([A-Za-z]\w*)")
_ATTEMPTS = 8


@dataclass
class World:
    """A project over one or two databases, made from a seed."""

    folder: Path
    databases: dict[str, Database]
    views: dict[str, View]
    settings: dict[str, str]
    tally: Tally
    reasons: list[str] = field(default_factory=list)
    """What was done since everything was right that Headwater may answer by stopping."""
    lasting: list[str] = field(default_factory=list)
    """What it may come to notice only later."""
    breaks: int = 0
    """How many reasons there ever were."""
    undo: list[Callable[[], None]] = field(default_factory=list)
    """What an operator would put right by hand, where a message says so."""
    removed: dict[str, tuple[View, int]] = field(default_factory=dict)
    """Views whose files are gone, and how many reasons there were then."""
    ever_used: set[tuple[str, str, str]] = field(default_factory=set)
    """The columns that any view has named, now or before."""
    clone: World | None = None
    """Somebody else's project over the same databases."""
    history: list[str] = field(default_factory=list)
    """What was said, for whoever has to understand a failure."""

    @classmethod
    def make(
        cls, folder: Path, random: Random, server: Callable[[], PostgresServer], tally: Tally
    ) -> World:
        chosen = random.choices(KINDS, (4, 3, 3, 3), k=random.choice([1, 1, 2]))
        if not is_installed() or chosen.count("mariadb") > 1:  # a server for each is too many
            chosen = [kind if kind != "mariadb" else "sqlite" for kind in chosen]
        databases: dict[str, Database] = {}
        for source, kind in zip(("one", "two"), chosen, strict=False):
            databases[source] = _database(random, source, kind, folder, server, len(chosen) == 1)
        settings = {"retention": random.choice(["1 day", "1 second"])}
        world = cls(folder, databases, {}, settings, tally)
        for name in ("v1", "v2", "v3")[: random.randint(1, 3)]:
            world.views[name] = world.new_view(random, name)
        tally.begin()
        world._populate(random)
        world.write_project()
        world.note(", ".join(f"{d.source}: {d.kind}" for d in databases.values()))
        return world

    def _populate(self, random: Random) -> None:
        for database in self.databases.values():
            database.create()
            database.apply(first_rows(random, database.schema, database.dialect))

    def close(self) -> None:
        for database in self.databases.values():
            database.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # The project

    @property
    def schemas(self) -> dict[str, Schema]:
        return {source: database.schema for source, database in self.databases.items()}

    @property
    def warehouse(self) -> Warehouse:
        return Warehouse(self.folder / "warehouse")

    def write_project(self) -> None:
        lines = ["[warehouse]", 'path = "warehouse"', 'publish_every = "1 hour"']
        lines += [f'{key} = "{value}"' for key, value in self.settings.items()]
        lines += ["[spark]", 'master = "local[2]"']
        for source, database in self.databases.items():
            relations = [_relation(name, database) for name in database.schema.names()]
            lines += [
                f"[sources.{source}]",
                *database.settings(),
                f"relations = {json.dumps(relations)}",
            ]
        (self.folder / "headwater.toml").write_text("\n".join(lines))
        (self.folder / "views").mkdir(exist_ok=True)
        for view in self.views.values():
            self.write_view(view)

    def write_view(self, view: View) -> None:
        self.views[view.name] = view
        self.ever_used |= view.columns()
        (self.folder / "views" / f"{view.name}.sql").write_text(view.file())

    def remove_view(self, name: str) -> None:
        self.removed[name] = self.views.pop(name), self.breaks
        (self.folder / "views" / f"{name}.sql").unlink()

    def new_view(self, random: Random, name: str) -> View:
        return self.with_level(random, random_view(random, name, self.schemas))

    def with_level(self, random: Random, view: View) -> View:
        """At any level that its sources can keep."""
        level = random.choice(LEVELS)
        if any(self.databases[source].is_unordered for source in view.sources):
            level = random.choice([other for other in LEVELS if other != "COMPLETE"])
        return replace(view, level=level)

    def may_stop(self, reason: str, lasting: bool = False) -> None:
        """Something was done that Headwater may answer by stopping, now or later."""
        self.breaks += 1
        (self.lasting if lasting else self.reasons).append(reason)

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing that Headwater could stop for."""
        return not self.reasons and not self.lasting

    # Commands

    def headwater(self, *arguments: str) -> Outcome:
        outcome = headwater(self.folder, *arguments)
        self.note(f"{outcome.command} -> {outcome.code}: {_told(outcome.said)}")
        return outcome

    def note(self, text: str) -> None:
        self.history.append(text)

    def command(self, *arguments: str) -> bool:
        """A command that ought to work, unless something stands in its way."""
        outcome = self.headwater(*arguments)
        if outcome.code and self.is_sound:
            raise FaultError(f"{outcome.command} failed, and nothing was wrong: {outcome.said}")
        return outcome.code == 0

    # Judging

    def run(self) -> bool:
        """Run to the end: everything is right, or it has stopped for a reason."""
        outcome = self.headwater("run", "--once")
        if outcome.code == 0:
            self.compare()
            self.tally.right()
            self.reasons.clear()
            self.undo.clear()
            return True
        if self.is_sound:
            raise FaultError(f"it stopped, and nothing was wrong: {outcome.said}")
        self.tally.stopped()
        return False

    def settle(self, random: Random) -> None:
        """Run to the end, carrying out what the messages ask for, until everything is right."""
        said: list[str] = []
        for _ in range(_ATTEMPTS):
            if self.run():
                return
            said.append(self.history[-1])
            self.carry_out_remedies(said[-1], random, again=len(said) > 2)
        listed = "\n  ".join(said)
        raise FaultError(f"the remedies did not help:\n  {listed}")

    def carry_out_remedies(self, said: str, random: Random, again: bool) -> None:
        """Do what a message says; what it says in words is known here as `undo`."""
        found = list(dict.fromkeys(_REMEDY.findall(said)))
        rewritten = self._rewrite_views(said, random)
        if not found or again:
            while self.undo:
                self.undo.pop()()
        for action, name in [*found, *(("reload", name) for name in rewritten)]:
            self._carry_out(action, name)

    def _carry_out(self, action: str, name: str) -> None:
        """A command that a message names; what stands in its way is done first."""
        outcome = self.headwater(action, name)
        first = [pair for pair in _REMEDY.findall(outcome.said) if pair != (action, name)]
        if outcome.code and first:
            for other in dict.fromkeys(first):
                self.headwater(*other)
            self.headwater(action, name)

    def _rewrite_views(self, said: str, random: Random) -> list[str]:
        """Views that name what is gone are written anew, where a message names them."""
        found = [n for n, view in self.views.items() if n in said and not view.fits(self.schemas)]
        for name in found:
            self.write_view(self.new_view(random, name))
        return found

    def compare(self) -> None:
        """Every view is what the databases say."""
        for name, view in self.views.items():
            if not view.fits(self.schemas):
                raise FaultError(f"{name} names what is gone, and nothing was said: {view.file()}")
            wrong = difference(self.shown(name), expected(view, self.databases))
            if wrong:
                raise FaultError(f"{name} is wrong, and nothing was said: {wrong}")

    def shown(self, name: str) -> Bag:
        """A view as Headwater's reader shows it."""
        rows: dict[tuple[Any, ...], int] = dict(self.warehouse.view(name).rows().items())
        return Counter(rows)

    def published(self, name: str) -> Bag:
        """A view's plain table as every other reader sees it."""
        table = DeltaTable(str(self.warehouse.path / name)).to_pyarrow_table()
        columns = [column.to_pylist() for column in table.columns]
        return Counter(zip(*columns, strict=True))


def _database(
    random: Random,
    source: str,
    kind: str,
    folder: Path,
    server: Callable[[], PostgresServer],
    alone: bool,
) -> Database:
    if kind == "sqlite":
        schema = random_schema(random, "sqlite")
        pragmas = [
            f"foreign_keys = {random.choice([0, 1])}",
            f"recursive_triggers = {random.choice([0, 0, 1])}",
        ]
        return SqliteDatabase(source, schema, folder, pragmas, random.random() < 0.5)
    if kind == "mariadb":
        schema = random_schema(random, "mariadb")
        return MariadbDatabase(source, schema, own_mariadb(), random.choice(["status", "lock"]))
    schema = random_schema(random, "postgres")
    by_triggers = kind.endswith("triggers")
    if alone and random.random() < 0.15:
        return WholePostgresDatabase(source, schema, own_server(), by_triggers)
    return PostgresDatabase(source, schema, server(), by_triggers)


def _relation(name: str, database: Database) -> str:
    if database.dialect == "postgres" and '"' in name:
        return '"' + name.replace('"', '""') + '"'
    return name


def _told(said: str) -> str:
    """The last lines that are no JSON."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("{")]
    return " / ".join(lines[-4:])
