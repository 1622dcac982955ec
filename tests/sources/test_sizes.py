"""How large relations are, as their databases know or can tell soon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.algebra.schema import Schema
from headwater.algebra.values import INT
from headwater.testing.harness import Harness
from tests.sources.kinds import HARNESSES, SPEAKING_SQL


@pytest.fixture(params=SPEAKING_SQL)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    made = HARNESSES[request.param]()
    try:
        made.create_table("lines", Schema.of([("id", INT), ("order", INT)]), ["id"])
        values = ", ".join(f"({n}, {n % 5})" for n in range(40))
        made.writer().execute(f"INSERT INTO lines VALUES {values}")
        yield made
    finally:
        made.close()


def test_rows_and_different_values_are_told(harness: Harness) -> None:
    harness.writer().execute("ANALYZE TABLE lines" if harness.kind == "mariadb" else "ANALYZE")
    found = harness.source(["lines"]).sizes({"lines": ["order", "id"], "gone": ["a"]})
    assert list(found) == ["lines"]
    assert found["lines"].rows == 40
    assert found["lines"].distinct == {"order": 5.0, "id": 40.0}
