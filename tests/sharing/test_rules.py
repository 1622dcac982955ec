"""Every rule on random data: sets and multisets, in memory and on Spark."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.frames.frame import Frame
from tests.sharing.cases import random_case
from tests.sharing.laws import LAWS

EXAMPLES = settings(max_examples=max(1, settings().max_examples * 2 // 5))
SPARK_CASES = 20 if os.environ.get("HEADWATER_STRESS") == "1" else 1


@pytest.mark.parametrize("law", LAWS)
@given(seed=st.integers(0, 2**32 - 1), sets=st.booleans())
@EXAMPLES
def test_the_rule_holds_in_memory(law: str, seed: int, sets: bool) -> None:
    LAWS[law](random_case(seed, sets=sets))


@pytest.mark.parametrize("law", LAWS)
def test_the_rule_holds_on_spark(law: str, spark: SparkSession) -> None:
    """Few cases, different ones for each rule, because a case is dozens of jobs."""
    first = list(LAWS).index(law)
    for seed in range(first, first + SPARK_CASES):
        case = random_case(seed, sets=bool(seed % 2), lift=lambda rows: Frame.of_rows(spark, rows))
        LAWS[law](case)
