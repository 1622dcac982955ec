"""Views with functions that only Spark computes, through the running pipeline."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import EngineError, HeadwaterError
from headwater.pipeline.verify import verify_view
from tests.cli.commands import quick
from tests.pipeline.small import Small

VIEWS = {
    "sounds": "AS SELECT SOUNDEX(o.note) AS sound, COUNT(*) AS n, MAX(o.amount) AS most "
    "FROM shop.orders o WHERE POWER(o.amount, 2) < 1000 GROUP BY SOUNDEX(o.note)",
    "dates": "IN GROUP both AS SELECT o.id, CAST(TO_DATE(o.state, 'd.M.yyyy') AS STRING) AS day "
    "FROM shop.orders o WHERE o.amount = 7",
}


@pytest.fixture
def small(tmp_path: Path) -> Small:
    texts = {name: f"CREATE MATERIALIZED VIEW {name} {text}" for name, text in VIEWS.items()}
    return Small(tmp_path / "project", texts)


def shown(small: Small, view: str, spark: SparkSession) -> set[tuple[object, ...]]:
    return set(map(tuple, small.project.view(view).df(spark).collect()))


def test_views_with_late_functions_follow_changes_fail_heal_and_verify(
    small: Small, spark: SparkSession
) -> None:
    small.run(spark)
    assert shown(small, "sounds", spark) == {("A000", 1, 10), ("B000", 1, 20)}
    small.write(
        "shop",
        "INSERT INTO orders VALUES (3, 7, 'Robert', '30.2.2024'), (4, 50, 'a', NULL)",
        "UPDATE orders SET note = 'b' WHERE id = 1",
    )
    fails = r"to_date.* fails for .*'30\.2\.2024'.*FEBRUARY 30"
    with pytest.raises(HeadwaterError, match=fails):
        small.run(spark)
    assert "30.2.2024" in quick("status", *small.arguments).out
    changed = {("R163", 1, 7), ("B000", 2, 20)}
    assert shown(small, "sounds", spark) == changed
    assert shown(small, "dates", spark) == set()  # readers keep the last state without an error
    with pytest.raises(HeadwaterError, match=fails):
        verify_view(small.project, "both", lambda: spark)
    small.write("shop", "UPDATE orders SET state = '29.2.2024' WHERE id = 3")
    small.run(spark)
    assert shown(small, "dates", spark) == {(3, "2024-02-29")}
    for name in ("sounds", "both"):
        assert verify_view(small.project, name, lambda: spark).holds
        small.warehouse.view(name).fold(lambda: spark, "f")
    assert set(small.warehouse.view("sounds").at().plain_rows()) == changed
    with pytest.raises(EngineError, match="without Spark"):
        small.warehouse.view("sounds").rows(2)


def test_it_is_told_what_is_left_to_spark(small: Small) -> None:
    explained = json.loads(quick("explain", "sounds", "--json", *small.arguments).out)
    assert explained["left_to_spark"] == ["power", "soundex"]
    assert "Spark computes power, soundex of that" in quick("check", *small.arguments).out


def test_a_constant_that_spark_refuses_is_told_with_its_place_before_anything_is_loaded(
    small: Small, spark: SparkSession
) -> None:
    for name in VIEWS:
        small.view_file(name).unlink()
    select = "SELECT SPLIT(note, ',') AS a,\n  SPLIT(note, '(') AS b FROM shop.orders"
    small.view_file("parts").write_text(f"CREATE MATERIALIZED VIEW parts AS\n{select}")
    with pytest.raises(HeadwaterError, match=r"parts\.sql:3:3: split\(.*no regular expression"):
        small.run(spark)


def test_a_value_that_a_function_of_sparks_cannot_take_is_named_by_the_load(
    small: Small, spark: SparkSession
) -> None:
    small.write("shop", "INSERT INTO orders VALUES (3, 7, 'Robert', '30.2.2024')")
    with pytest.raises(HeadwaterError, match=r"to_date.* fails for .*'30\.2\.2024'.*FEBRUARY 30"):
        small.run(spark)
