"""The kinds of source that must pass the conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwater.testing.harness import Harness
from tests.sources.delta_harness import DeltaHarness
from tests.sources.files_harness import FilesHarness
from tests.sources.mariadb_harness import MariadbHarness, is_expected
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_versions import OTHER_VERSIONS, server_of
from tests.sources.sqlite_harness import SqliteHarness

HARNESSES: dict[str, Callable[[], Harness]] = {
    "sqlite": SqliteHarness,
    "postgres": PostgresHarness,
    "postgres by triggers": partial(PostgresHarness, changes="triggers"),
    "delta": DeltaHarness,
    "files: snapshots": FilesHarness,
    "files: replaced": partial(FilesHarness, "current", "parquet"),
    "files: reports": partial(FilesHarness, "changes", "jsonl"),
}
if is_expected():  # where it is not, tests that are of MariaDB alone say so and are skipped
    HARNESSES["mariadb"] = MariadbHarness
    HARNESSES["mariadb by lock"] = partial(MariadbHarness, snapshots="lock")


def _of_version(major: int, changes: str) -> Harness:
    return PostgresHarness(server_of(major), changes=changes)


VERSIONS: dict[str, Callable[[], Harness]] = {
    f"postgres {major} by {changes}": partial(_of_version, major, changes)
    for major in OTHER_VERSIONS
    for changes in ("replication", "triggers")
}
"""Other versions of PostgreSQL; which of them are here depends on the machine."""

SPEAKING_SQL = [kind for kind in HARNESSES if not kind.startswith(("delta", "files"))]
"""Those whose own statements tag transactions, make indexes, and are counted by statistics."""
