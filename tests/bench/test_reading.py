"""`headwater bench reading`: small, over made-up rows."""

import pytest
from pyspark.sql import SparkSession

from headwater.bench import reading
from headwater.bench.reading import KINDS, QUERIES, measure
from headwater.errors import InputError


def test_every_query_of_every_view_is_measured(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "spark_session", lambda *_, **__: spark)
    found = measure(1000, 20, 1, list(KINDS))
    assert [(each.view, each.query) for each in found] == [(k, q) for k in KINDS for q in QUERIES]
    assert all(each.as_json()["ratio"] > 0 for each in found)


def test_a_view_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"no view bare\. There are with a key, without a key, by"):
        reading.reading(1000, 2, 1, ["bare"], as_json=True)
