"""`headwater head`, and views as tables of Arrow and pandas: read at once, without Spark."""

import json

import pytest
from pyspark.sql import SparkSession

from headwater.pipeline import sessions
from headwater.warehouse.scanning import LeftToSparkError
from tests.cli.commands import loaded_by, quick
from tests.pipeline.small import AMOUNTS, Small

LATE = "CREATE MATERIALIZED VIEW sounds AS SELECT amount, SOUNDEX(note) AS s FROM shop.orders"
TOTALS = (
    "CREATE MATERIALIZED VIEW totals AS "
    "SELECT state, SUM(amount) AS total FROM shop.orders GROUP BY state"
)

FOLDED = "CREATE MATERIALIZED VIEW folded AS SELECT name FROM crm.customers"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Small:
    """Loaded, and changed since; the tests only read it."""
    folder = tmp_path_factory.mktemp("head")
    made = Small(
        folder / "project", {"amounts": AMOUNTS, "totals": TOTALS, "sounds": LATE, "folded": FOLDED}
    )
    made.run(spark)
    made.write("shop", "UPDATE orders SET amount = 16 WHERE id = 1")
    made.run(spark)
    return made


@pytest.fixture(autouse=True)
def no_spark(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on nobody may start Spark."""
    monkeypatch.setattr(sessions, "spark_session", None)


def test_head_shows_the_newest_state(small: Small) -> None:
    out = quick("head", "amounts", *small.arguments).out
    assert out.splitlines()[0].split() == ["id", "amount"]
    assert "2 rows; version 4, committed " in out
    lines = quick("head", "amounts", "--json", *small.arguments).out.splitlines()
    assert list(map(json.loads, lines)) == [{"id": 1, "amount": 16}, {"id": 2, "amount": 20}]


@pytest.mark.parametrize("command", [("status",), ("head", "folded")])
def test_what_needs_no_spark_does_not_load_it(small: Small, command: tuple[str, ...]) -> None:
    loaded = loaded_by(*command, *small.arguments)
    assert "headwater.warehouse.warehouse" in loaded
    assert "pyspark" not in loaded


def test_head_shows_a_top_and_an_old_version(small: Small) -> None:
    now = quick("head", "totals", "--json", *small.arguments).out
    then = quick("head", "totals", "--version", "1", "--json", *small.arguments).out
    assert (json.loads(now)["total"], json.loads(then)["total"]) == (36, 30)


def test_head_shows_as_many_rows_as_wanted_and_that_there_are_more(small: Small) -> None:
    out = quick("head", "amounts", "-n", "1", *small.arguments).out
    assert "1 rows; there are more; version 4" in out


def test_where_only_spark_knows_head_shows_the_plain_table_and_its_age(small: Small) -> None:
    out = quick("head", "sounds", *small.arguments).out
    assert ["10", "A000"] in [line.split() for line in out.splitlines()]  # as it was loaded
    assert "version 1" in out
    assert "has expressions that only Spark computes" in out
    assert "the newest version is 4" in out


def test_a_view_is_a_table_of_arrow_and_of_pandas(small: Small) -> None:
    view = small.project.view("amounts")
    assert sorted(view.arrow().to_pylist(), key=str) == [
        {"id": 1, "amount": 16},
        {"id": 2, "amount": 20},
    ]
    assert view.pandas(version=1)["amount"].sum() == 30
    with pytest.raises(LeftToSparkError, match=r"headwater.register\(spark, project\)"):
        small.project.view("sounds").arrow()
