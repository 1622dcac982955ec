"""The kinds of source that must pass the conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.sources.harness import Harness
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_versions import OTHER_VERSIONS, server_of
from tests.sources.sqlite_harness import SqliteHarness

HARNESSES: dict[str, Callable[[], Harness]] = {
    "sqlite": SqliteHarness,
    "postgres": PostgresHarness,
    "postgres by triggers": partial(PostgresHarness, changes="triggers"),
}


def _of_version(major: int, changes: str) -> Harness:
    return PostgresHarness(server_of(major), changes=changes)


VERSIONS: dict[str, Callable[[], Harness]] = {
    f"postgres {major} by {changes}": partial(_of_version, major, changes)
    for major in OTHER_VERSIONS
    for changes in ("replication", "triggers")
}
"""Other versions of PostgreSQL; which of them are here depends on the machine."""
