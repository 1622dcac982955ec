"""Helpers of the PostgreSQL tests: reading a log to its end, and replaying it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, query_of
from headwater.algebra.values import INT, TEXT, Row
from headwater.sources.contract import Committed, Load, Logged, Monitor, Source
from headwater.testing.harness import local

LINES = Schema.of([("id", INT), ("part", TEXT)])


def read_log(monitor: Monitor, count: int, limit_s: float = 120.0) -> list[Committed]:
    """The next transactions; fails if there are fewer or more."""
    found: list[Committed] = []
    deadline = time.monotonic() + limit_s
    while len(found) < count and time.monotonic() < deadline:
        found += committed(monitor.read(0.2))
    found += committed(monitor.read(0.1))
    assert len(found) == count, [item.transaction for item in found]
    return found


def read_at_least(monitor: Monitor, count: int, limit_s: float = 120.0) -> list[Committed]:
    found: list[Committed] = []
    deadline = time.monotonic() + limit_s
    while len(found) < count:
        found += committed(monitor.read(0.2))
        assert time.monotonic() < deadline, f"only {len(found)} transactions came"
    return found


def read_to_end(monitor: Monitor) -> list[Committed]:
    """All transactions until the log is silent for a moment."""
    found: list[Committed] = []
    while logged := monitor.read(0.5):
        found += committed(logged)
    return found


def committed(logged: Iterable[Logged]) -> list[Committed]:
    return [item for item in logged if isinstance(item, Committed)]


def replay(state: Counter[Row], relation: str, items: Iterable[Committed]) -> Counter[Row]:
    for item in items:
        for row, count in local(item.transaction).get(relation, Rows(LINES, {})).items():
            state[row] += count
            assert state[row] >= 0, f"{row} deleted more often than inserted"
    return +state


def loaded(load: Load, relation: str, schema: Schema) -> Counter[Row]:
    """All parts of a relation, as canonical rows."""
    rows: Counter[Row] = Counter()
    for part in range(load.parts(relation)):
        for batch in load.read(relation, part):
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            rows.update(schema.row(row) for row in values)
    return rows


def whole(relations: Mapping[str, Relation], name: str) -> Query:
    """The query that reads a relation."""
    columns = ", ".join(f"`{column}`" for column in relations[name].schema.names)
    return query_of(parse_view(f"SELECT {columns} FROM `{name}`", relations))


def answered(source: Source, *queries: Query) -> Sequence[Mapping[Row, int]]:
    wrapper = source.open_wrapper()
    try:
        return [dict(rows.items()) for rows in wrapper.ask(queries).results]
    finally:
        wrapper.close()
