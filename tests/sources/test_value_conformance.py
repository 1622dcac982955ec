"""Every type's edge values, joined pairwise between kinds of source: one meaning everywhere.

The source's answer must be what Rows gives. What a source would compare in another way (case,
padding, signed zeros) it may only find too much of, and Headwater decides.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.values import NAN, Value
from headwater.sources.contract import Source
from headwater.testing.harness import Harness
from headwater.testing.values import EDGES, check_join, check_read_back, fill
from tests.sources.kinds import HARNESSES

UNSUPPORTED: dict[tuple[str, str, Value], str] = {
    ("sqlite", "float", NAN): "SQLite stores NaN as NULL",
    **{
        ("mariadb", "float", value): "MariaDB has only numbers"
        for value in (NAN, EDGES["float"][1][5], EDGES["float"][1][6])
    },
    ("mariadb", "timestamp_tz", EDGES["timestamp_tz"][1][0]): "MariaDB's begin a second later",
}


def stores(kind: str, name: str, value: Value) -> bool:
    """Whether a kind of source can hold a value at all."""
    return not any(kind.startswith(k) and name == n and value is v for k, n, v in UNSUPPORTED)


def stored_by(kind: str, name: str) -> list[Value]:
    return [value for value in EDGES[name][1] if stores(kind, name, value)]


@pytest.fixture(scope="module")
def databases() -> Iterator[dict[str, Harness]]:
    """One database of each kind, with a table of edge values for each type, and NULLs."""
    made: dict[str, Harness] = {}
    try:
        for kind, make in HARNESSES.items():
            made[kind] = make()
            for name in EDGES:
                fill(made[kind], name, stored_by(kind, name))
        yield made
    finally:
        for harness in made.values():
            harness.close()


@pytest.fixture(scope="module")
def sources(databases: dict[str, Harness]) -> Iterator[dict[str, Source]]:
    made = {
        kind: harness.source([f"edge_{name}" for name in EDGES])
        for kind, harness in databases.items()
    }
    for source in made.values():
        source.setup()
    yield made
    for source in made.values():
        source.teardown()


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("kind", HARNESSES)
def test_edge_values_are_read_back_as_they_were_written(
    databases: dict[str, Harness], kind: str, name: str
) -> None:
    check_read_back(databases[kind], name, stored_by(kind, name))


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("other", HARNESSES)
@pytest.mark.parametrize("kind", HARNESSES)
def test_join_with_values_of_another_kind_is_what_rows_give(
    databases: dict[str, Harness], sources: dict[str, Source], kind: str, other: str, name: str
) -> None:
    there = sources[other].relations()[f"edge_{name}"].without_texts()
    bound = Rows(there.schema, databases[other].contents(f"edge_{name}"))
    check_join(databases[kind], sources[kind], name, there, bound)
