"""The kinds of source that must pass the conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.sources.harness import Harness
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.sqlite_harness import SqliteHarness

HARNESSES: dict[str, Callable[[], Harness]] = {
    "sqlite": SqliteHarness,
    "postgres": PostgresHarness,
    "postgres by triggers": partial(PostgresHarness, changes="triggers"),
}
