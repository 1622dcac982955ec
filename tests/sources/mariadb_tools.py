"""What tests of MariaDB sources do again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.frames.arrow import plain_from_arrow
from headwater.sources.contract import Broken, Committed, Logged, Monitor, Position, Source
from headwater.testing.harness import local
from tests.sources.mariadb_harness import MariadbHarness


@contextmanager
def reading(source: Source, after: Position | None = None) -> Iterator[Monitor]:
    monitor = source.open_monitor(after)
    try:
        yield monitor
    finally:
        monitor.close()


def read_until(monitor: Monitor, enough: Callable[[list[Logged]], bool]) -> list[Logged]:
    """What is logged, until there is enough of it; fails after a minute."""
    found: list[Logged] = []
    deadline = time.monotonic() + 60
    while not enough(found):
        assert time.monotonic() < deadline, found
        found += monitor.read(0.5)
    return found


def committed(found: Sequence[Logged]) -> list[Committed]:
    return [item for item in found if isinstance(item, Committed)]


def gaps(found: Sequence[Logged]) -> list[Broken]:
    return [item for item in found if isinstance(item, Broken)]


def net(found: Sequence[Logged], relation: str) -> Rows:
    """What transactions changed in a relation, all together."""
    parts = [delta for item in committed(found) for name, delta in
             local(item.transaction).items() if name == relation]  # fmt: skip
    return Rows.sum(parts[0].schema, parts)


def loaded(source: Source, relation: str, readers: int = 1) -> Rows:
    load = source.open_load([relation], readers)
    try:
        schema = source.relations()[relation].schema
        parts = [
            plain_from_arrow(batch, schema)
            for part in range(load.parts(relation))
            for batch in load.read(relation, part)
        ]
        return Rows.sum(schema, parts)
    finally:
        load.close()


def answered(source: Source, relation: str, where: str = "") -> Rows:
    described = source.relations()[relation]
    columns = ", ".join('"' + name + '"' for name in described.schema.names)
    table = f'{described.source}."{relation}"'
    view = parse_view(f"SELECT {columns} FROM {table} {where}", [described])
    wrapper = source.open_wrapper()
    try:
        (answer,) = wrapper.ask([query_of(view)]).results
    finally:
        wrapper.close()
    return Rows(described.schema, dict(answer.items()))


def as_columns(rows: Rows) -> Mapping[str, object]:
    """The only row by its columns."""
    ((row, count),) = rows.items()
    assert count == 1
    return dict(zip(rows.schema.names, row, strict=True))


@pytest.fixture
def harness() -> Iterator[MariadbHarness]:
    made = MariadbHarness()
    yield made
    made.close()
