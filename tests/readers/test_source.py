"""`spark.read.format("headwater")`: a view's state through Spark's own words."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import headwater
from tests.pipeline.small import AMOUNTS, NAMES, Small

TOTALS = (
    "CREATE MATERIALIZED VIEW totals AS "
    "SELECT state, SUM(amount) AS total FROM shop.orders GROUP BY state"
)
SOUNDS = "CREATE MATERIALIZED VIEW sounds AS SELECT amount, SOUNDEX(note) AS s FROM shop.orders"
VIEWS = {"amounts": AMOUNTS, "totals": TOTALS, "sounds": SOUNDS, "names": NAMES}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Small:
    """Loaded, and changed since; then its databases go away."""
    made = Small(tmp_path_factory.mktemp("source") / "project", VIEWS)
    made.run(spark)
    made.write(
        "shop",
        "UPDATE orders SET amount = 16 WHERE id = 1",
        "INSERT INTO orders VALUES (3, 5, 'c', NULL)",
    )
    made.run(spark)
    for database in ("shop", "crm"):
        (made.folder / f"{database}.db").unlink()
    return made


def session_with(spark: SparkSession, push_down: str) -> SparkSession:
    """A session as its user has it, to which the format is known."""
    own = spark.newSession()
    own.conf.set("spark.sql.python.filterPushdown.enabled", push_down)
    assert headwater.register(own) == []
    return own


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return session_with(spark, "true")


def loaded(session: SparkSession, small: Small, view: str, **options: object) -> DataFrame:
    reader = session.read.format("headwater").option("project", str(small.folder))
    return reader.options(**{name: str(value) for name, value in options.items()}).load(view)


def rows(frame: DataFrame) -> set[tuple[object, ...]]:
    return set(map(tuple, frame.collect()))


def test_the_newest_state_is_read(session: SparkSession, small: Small) -> None:
    assert rows(loaded(session, small, "amounts")) == {(1, 16), (2, 20), (3, 5)}
    assert rows(loaded(session, small, "totals")) == {("new", 36), (None, 5)}


def test_an_old_state_is_read_by_version_or_time(session: SparkSession, small: Small) -> None:
    assert rows(loaded(session, small, "amounts", version=1)) == {(1, 10), (2, 20)}
    first = list(small.warehouse.view("amounts").commits())[-1]
    moment = datetime.fromtimestamp(first.timestamp / 1000, UTC).isoformat()
    assert rows(loaded(session, small, "amounts", timestamp=moment)) == {(1, 10), (2, 20)}


@pytest.mark.parametrize("push_down", ["true", "false"])
def test_filters_hold_wherever_they_are_evaluated(
    spark: SparkSession, small: Small, push_down: str
) -> None:
    frame = loaded(session_with(spark, push_down), small, "totals")
    assert rows(frame.where("total > 5")) == {("new", 36)}
    assert rows(frame.where("state IS NULL")) == {(None, 5)}
    assert rows(frame.where("state IN ('new', 'old') AND total <> 1")) == {("new", 36)}


def test_a_filter_holds_for_its_own_query_only(session: SparkSession, small: Small) -> None:
    frame = loaded(session, small, "amounts")
    assert rows(frame.where("id = 1")) == {(1, 16)}
    assert frame.count() == 3
    assert rows(frame.where("id = 2 OR amount = 5")) == {(2, 20), (3, 5)}


def test_the_warehouse_may_be_named_and_the_view_by_an_option(
    session: SparkSession, small: Small
) -> None:
    reader = session.read.format("headwater").option("warehouse", str(small.warehouse.path))
    assert rows(reader.option("view", "names").load()) == {(1, "Ada")}


@pytest.mark.parametrize(
    ("view", "options", "said"),
    [
        ("nothing", {}, r"There is no view 'nothing'.*It has amounts"),
        ("amounts", {"version": 99}, r"has no version 99.*newest version is 4"),
        ("amounts", {"version": "x"}, r"The option version is 'x'"),
        ("amounts", {"verzion": 1}, r"The option 'verzion' is not known.*version"),
        ("amounts", {"timestamp": "yesterday"}, r"'yesterday' cannot be read"),
        ("amounts", {"warehouse": "w"}, r"Both are given"),
        ("sounds", {}, r"only Spark computes.*headwater.register\(spark, project\)"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(
    session: SparkSession, small: Small, view: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises(PySparkException, match=f"(?s){said}"):
        loaded(session, small, view, **options).collect()


def test_a_schema_is_refused(session: SparkSession, small: Small) -> None:
    reader = session.read.format("headwater").option("project", str(small.folder))
    with pytest.raises(PySparkException, match=r"it has id, amount"):
        reader.schema("id INT").load("amounts").collect()


def test_a_dataframe_is_fixed_to_one_state(
    session: SparkSession, spark: SparkSession, tmp_path: Path
) -> None:
    changing = Small(tmp_path / "project", {"amounts": AMOUNTS})
    changing.run(spark)
    before = loaded(session, changing, "amounts")
    changing.write("shop", "DELETE FROM orders")
    changing.run(spark)
    assert rows(before) == rows(before.unionAll(before)) == {(1, 10), (2, 20)}
    assert rows(loaded(session, changing, "amounts")) == set()


def test_changes_between_versions_are_read(session: SparkSession, small: Small) -> None:
    found = loaded(session, small, "amounts", changes="true", startingVersion=1)
    assert found.columns == ["id", "amount", "_change", "_version"]
    assert rows(found) == {(1, 10, -1, 4), (1, 16, 1, 4), (3, 5, 1, 4)}
    assert rows(loaded(session, small, "totals", startingVersion=1, endingVersion=2)) == set()
    with pytest.raises(PySparkException, match="begin behind a version"):
        loaded(session, small, "amounts", changes="true").collect()


def test_the_format_is_made_known_to_one_session_after_another(spark: SparkSession) -> None:
    first, second = session_with(spark, "true"), spark.newSession()
    first.createDataFrame([(1,)], "n INT").collect()  # it is the active one now
    assert headwater.register(second) == headwater.register(first) == []


def test_views_are_known_by_their_names(session: SparkSession, small: Small) -> None:
    assert sorted(headwater.register(session, small.folder)) == sorted(VIEWS)
    asked = session.sql("SELECT t.total, s.s FROM totals t JOIN sounds s ON s.amount = t.total")
    assert rows(asked) == {(5, "C000")}
    assert "amounts" in small.project.register(session)
