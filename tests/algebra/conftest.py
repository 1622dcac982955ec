"""Each law runs on every engine; on Spark with few examples, because a job takes its time."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.algebra.engines import ENGINES, Engine

STRESS = os.environ.get("HEADWATER_STRESS") == "1"
SPARK_EXAMPLES = 100 if STRESS else 5
SPARK_EXAMPLES_OF = {} if STRESS else {"split_and_order": 1, "in_every_order": 1, "all_sets": 2}
"""Fewer for the laws, by how their names end or go on, in which one example is many queries."""


@pytest.fixture(scope="session", params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Hypothesis has one number of examples for a test; let it depend on the engine."""
    law: Any = getattr(item, "obj", None)
    parameters = getattr(item, "callspec", None)
    usual = getattr(law, "_hypothesis_internal_use_settings", None)
    if usual is None or parameters is None or parameters.params.get("engine") != "spark":
        return (yield)
    few = [n for part, n in SPARK_EXAMPLES_OF.items() if part in item.name]
    law._hypothesis_internal_use_settings = settings(
        usual, max_examples=min([SPARK_EXAMPLES, *few])
    )
    try:
        return (yield)
    finally:
        law._hypothesis_internal_use_settings = usual
