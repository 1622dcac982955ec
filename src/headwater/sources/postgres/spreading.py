"""A question by more keys than the driver should hold: Spark's workers read what belongs to theirs.

Each worker has a connection of its own, which joins the snapshot that the question's transaction
has exported. That transaction holds its locks and stays open until all of it has been read, so what
it checks of tables, before and after, holds for what workers have read meanwhile.

A worker needs locks too, and one that somebody else waits for with a stronger one waits behind
them, while they wait for the question: so it does not wait long, and the question is asked anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.sources.fetch import Far, Fetch, by_own_keys, run_in_parts
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.load import EXPORT, join_snapshot
from headwater.sources.postgres.reading import DOING, Reading
from headwater.sources.postgres.types import Table

_LOCK_WAIT = b"SET lock_timeout = '10s'"


@dataclass(frozen=True)
class KeyedReader:
    """What a worker needs to read what belongs to its keys."""

    access: Access
    tables: Mapping[str, Table]
    snapshot: str
    fetch: Fetch
    at: int
    """Which of the statement's keys are the worker's."""

    def read(self, keys: Iterable[Sequence[Row]]) -> Iterator[Rows]:
        connection = self.access.connect()
        try:
            reading = Reading(self.access, connection, self.tables, {})
            with self.access.errors(DOING):
                connection.execute(_LOCK_WAIT)
                connection.execute(EXPORT)
                join_snapshot(self.access, connection, self.snapshot)
            for some in keys:
                asked = list(self.fetch.keys)
                asked[self.at] = replace(asked[self.at], values=tuple(some))
                part = replace(self.fetch, keys=tuple(asked))
                yield by_own_keys(run_in_parts(part, reading.run), part, self.fetch)
        finally:
            connection.close()


def spread_out(
    access: Access, tables: Mapping[str, Table], snapshot: str, fetch: Fetch, far: Far
) -> Rows:
    """What a statement finds for keys that are far, as Spark keeps it."""
    from headwater.frames.spread import read_by_keys  # who needs no Spark does not import it

    at = next(at for at, keys in enumerate(fetch.keys) if keys.far is far)
    keys = tuple(replace(each, far=None) for each in fetch.keys)
    if any(not each.values for place, each in enumerate(keys) if place != at):
        return Rows.empty(fetch.schema)
    plain = {name: replace(table) for name, table in tables.items()}  # can be sent
    reader = KeyedReader(access, plain, snapshot, replace(fetch, keys=keys), at)
    return read_by_keys(far.rows, far.columns, reader, fetch.schema)
