"""Every rule on random data: sets and multisets, in memory and on Spark."""

import os
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.frames.frame import Frame
from headwater.sharing import rules
from headwater.sharing.updategram import Updategram
from tests.sharing.cases import random_case
from tests.sharing.laws import LAWS

EXAMPLES = settings(max_examples=max(1, settings().max_examples * 2 // 5))
SPARK_CASES = 20 if os.environ.get("HEADWATER_STRESS") == "1" else 1


@pytest.mark.parametrize("law", LAWS)
@given(seed=st.integers(0, 2**32 - 1), sets=st.booleans())
@EXAMPLES
def test_the_rule_holds_in_memory(law: str, seed: int, sets: bool) -> None:
    LAWS[law](random_case(seed, sets=sets))


def _net_only(updategram: Updategram) -> Rows:
    return updategram.net.positive() - updategram.net.negative()


def _added_up(rows: Rows, other: Rows) -> Rows:
    return Rows.empty(rows.schema)


@pytest.mark.parametrize(
    ("law", "weaken"),
    [
        ("a3", lambda patch: patch.setattr(Updategram, "touched", property(_net_only))),
        ("a8", lambda patch: patch.setattr(Updategram, "touched", property(_net_only))),
        ("a9", lambda patch: patch.setattr(Updategram, "touched", property(_net_only))),
        ("a11", lambda patch: patch.setattr(Rows, "among", _added_up)),
        ("moved", lambda patch: patch.setattr(rules, "moved", lambda v, m, b, c: b)),
    ],
)
def test_the_laws_catch_what_is_weakened(
    law: str, weaken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    weaken(monkeypatch)
    cases = (random_case(seed, sets=False) for seed in range(100))
    with pytest.raises(AssertionError):
        all(LAWS[law](case) is None for case in cases)


@pytest.mark.parametrize("law", LAWS)
def test_the_rule_holds_on_spark(law: str, spark: SparkSession) -> None:
    """Few cases, different ones for each rule, because a case is dozens of jobs."""
    first = list(LAWS).index(law)
    for seed in range(first, first + SPARK_CASES):
        case = random_case(seed, sets=bool(seed % 2), lift=lambda rows: Frame.of_rows(spark, rows))
        LAWS[law](case)
