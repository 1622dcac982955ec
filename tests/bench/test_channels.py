from __future__ import annotations

import pytest

from headwater.bench.channel_databases import DATABASES
from headwater.bench.channels import as_json, measure
from tests.sources.mariadb_harness import needs_mariadb


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=needs_mariadb if k == "mariadb" else ()) for k in DATABASES],
)
def test_every_figure_of_a_kind_is_measured(kind: str) -> None:
    figures = as_json(measure(kind, rows=200, rounds=10))
    assert figures.pop("kind") == kind
    assert all(isinstance(value, float) and value > 0 for value in figures.values())
