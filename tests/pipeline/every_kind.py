"""One view over a source of every kind, each with a writer of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from headwater import Project
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.testing.harness import Harness
from tests.pipeline.world import Shop
from tests.sources.delta_harness import DeltaHarness
from tests.sources.files_harness import FilesHarness
from tests.sources.mariadb_harness import MariadbHarness, is_expected
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.sqlite_harness import SqliteHarness

ITEMS = Schema.of([("k", INT), ("v", INT)])
KEYS = 12


@dataclass(frozen=True)
class Kind:
    """A database of a kind, and what `headwater.toml` has of it."""

    make: Callable[[], Harness]
    settings: Callable[[Any], str]


def _postgres(changes: str, harness: Any) -> str:
    return f'kind = "postgres"\ndsn = "{harness.dsn}"\nchanges = "{changes}"'


def _in_folder(kind: str, harness: Any) -> str:
    return f'kind = "{kind}"\npath = "{harness.path}"'


KINDS: Mapping[str, Kind] = {
    "log": Kind(PostgresHarness, partial(_postgres, "replication")),
    "triggers": Kind(partial(PostgresHarness, changes="triggers"), partial(_postgres, "triggers")),
    "lite": Kind(SqliteHarness, partial(_in_folder, "sqlite")),
    "files": Kind(
        FilesHarness,
        lambda h: f'{_in_folder("files", h)}\nlayout = "series"\ncomplete = "renamed"',
    ),
    "lake": Kind(DeltaHarness, partial(_in_folder, "delta")),
    **(
        {"maria": Kind(MariadbHarness, lambda h: f'kind = "mariadb"\ndsn = "{h.dsn}"')}
        if is_expected()
        else {}
    ),
}


def view_over(kinds: Mapping[str, Kind]) -> str:
    """All that is known of each key, where every source has it."""
    first, *others = kinds
    columns = ", ".join(f"{name}.v AS of_{name}" for name in kinds)
    joins = "".join(f"\n   JOIN {name}.items AS {name} ON {name}.k = {first}.k" for name in others)
    return (
        "CREATE MATERIALIZED VIEW everything WITH STRONG CONSISTENCY\n"
        f"AS SELECT {first}.k, {columns}\n   FROM {first}.items AS {first}{joins}"
    )


class EveryKind(Shop):
    """A project over a database of each kind."""

    def __init__(self, folder: Path, kinds: Mapping[str, Kind] = KINDS) -> None:
        self.folder = folder
        self.harnesses = {name: kind.make() for name, kind in kinds.items()}
        texts = ['[warehouse]\npath = "warehouse"\npublish_every = "2 seconds"']
        for name, harness in self.harnesses.items():
            harness.create_table("items", ITEMS, key=["k"])
            with (writer := harness.writer()).transaction():
                for key in range(KEYS):
                    writer.execute("INSERT INTO items (k, v) VALUES (?, ?)", (key, 0))
            writer.close()
            key_words = 'relations = ["items"]\nkeys = {items = ["k"]}'
            texts.append(f"[sources.{name}]\n{kinds[name].settings(harness)}\n{key_words}")
        (folder / "headwater.toml").write_text("\n".join(texts))
        (folder / "views").mkdir()
        (folder / "views" / "everything.sql").write_text(view_over(kinds))
        self.project = Project.open(folder)
        for source in self.project.sources.values():
            source.setup()
        self.base = self.contents()

    def contents(self) -> dict[str, Rows]:
        return {
            f"{name}.items": Rows(ITEMS, harness.contents("items"))
            for name, harness in self.harnesses.items()
        }

    def close(self) -> None:
        for source in self.project.sources.values():
            source.teardown()
        for harness in self.harnesses.values():
            harness.close()


class KindWriter(threading.Thread):
    """Changes one database, a transaction of a few statements at a time."""

    def __init__(self, harness: Harness, seed: int, pause_s: float) -> None:
        super().__init__(name=f"writer of {harness.kind}", daemon=True)
        self.harness = harness
        self.random = Random(seed)
        self.pause_s = pause_s
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            writer = self.harness.writer()
            while not self.stopping.wait(self.pause_s):
                with writer.transaction():
                    for _ in range(self.random.randint(1, 3)):
                        key, value = self.random.randrange(KEYS), self.random.randrange(1000)
                        if self.random.random() < 0.2:
                            writer.execute("DELETE FROM items WHERE k = ?", (key,))
                            writer.execute("INSERT INTO items (k, v) VALUES (?, ?)", (key, value))
                        else:
                            writer.execute("UPDATE items SET v = ? WHERE k = ?", (value, key))
            writer.close()
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def start_writers(world: EveryKind, pause_s: float) -> list[KindWriter]:
    writers = [
        KindWriter(harness, seed, pause_s)
        for seed, harness in enumerate(world.harnesses.values(), 1)
    ]
    for writer in writers:
        writer.start()
    return writers
