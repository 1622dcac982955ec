"""Every feature of the page of SQL shows the same on Spark as in memory."""

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.sql.view import parse_view
from headwater.algebra.tops import evaluate_top
from headwater.frames.frame import Frame
from tests.algebra.sql_features import RELATIONS
from tests.algebra.test_sql_meaning import QUERIES, STATE_LIST
from tests.frames.lifting import unsettled

LARGEST = max(STATE_LIST, key=lambda state: sum(map(len, state.values())))
EVERY = 40
"""Of so many queries one is tried in every run; the long ones try all."""


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(query, marks=() if at % EVERY == 7 else pytest.mark.stress, id=query)
        for at, (_, query) in enumerate(QUERIES)
    ],
)
def test_a_view_shows_the_same_on_spark(spark: SparkSession, query: str) -> None:
    view = parse_view(query, RELATIONS)
    stored = evaluate_view(view, LARGEST)
    shown = view.shown(unsettled(spark, stored))
    assert isinstance(shown, Frame)
    assert shown == view.shown(stored)
    if view.compact is not None:
        condensed = view.stored(unsettled(spark, stored))
        assert condensed == view.stored(stored)
        assert evaluate_top(view.compact.top, condensed) == shown
