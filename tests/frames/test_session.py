"""The session has the settings that values rely on, and leaves others' sessions alone."""

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT
from headwater.errors import ExpressionError, StateLostError
from headwater.frames.failures import SPARK_ERRORS, explained
from headwater.frames.frame import Frame
from headwater.frames.naming import named, tell
from headwater.frames.session import MEANING, spark_session

SCHEMA = Schema.of([("n", INT)])


def test_a_session_that_runs_already_keeps_its_settings(spark: SparkSession) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.ansi.enabled", "false")
    theirs.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    ours = spark_session({"spark.sql.shuffle.partitions": "3"}, existing=theirs)
    assert theirs.conf.get("spark.sql.ansi.enabled") == "false"
    assert theirs.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert {key: ours.conf.get(key) for key in MEANING} == MEANING
    assert ours.conf.get("spark.sql.shuffle.partitions") == "3"


def test_settings_cannot_change_what_values_mean(spark: SparkSession) -> None:
    ours = spark_session({"spark.sql.ansi.enabled": "false"}, existing=spark)
    assert ours.conf.get("spark.sql.ansi.enabled") == "true"


def test_jobs_are_named_and_the_name_ends_with_the_step(spark: SparkSession) -> None:
    context = spark.sparkContext
    with named("orders: load"):
        with named("orders: join"):
            assert context.getLocalProperty("spark.job.description") is None  # nothing to do yet
            tell(spark).range(1).collect()
            assert context.getLocalProperty("spark.job.description") == "orders: join"
        assert context.getLocalProperty("spark.job.description") == "orders: load"
    assert context.getLocalProperty("spark.job.description") is None
    assert context.statusTracker().getJobIdsForGroup("orders: join")


def test_a_failing_expression_prints_nothing(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = Frame.of_rows(spark, Rows.of(SCHEMA, [(0,)]))
    capfd.readouterr()
    with pytest.raises(ExpressionError):
        bool(frame.project(SCHEMA, [call("%", ColumnRef("n", INT), ColumnRef("n", INT))]))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent "
            "failure: Lost task 0.3 in stage 3.0 (TID 9) (host executor 5): ExecutorLostFailure "
            "(executor 5 exited caused by one of the running tasks) Reason: exited with code 137\n"
            "Driver stacktrace:",
            "Spark has lost executors: ExecutorLostFailure (executor 5 exited caused by one of the "
            "running tasks) Reason: exited with code 137. It is begun again",
        ),
        ("Job 3 cancelled because SparkContext was shut down", "SparkContext was shut down. It is"),
        ("Cannot call methods on a stopped SparkContext.", "executors: stopped SparkContext."),
    ],
)
def test_a_job_that_spark_gives_up_with_its_executors_is_begun_again(said: str, words: str) -> None:
    lost = explained(RuntimeError(said), ())
    assert isinstance(lost, StateLostError)
    assert words in str(lost)


def test_rows_that_are_gone_with_an_executor_are_told_apart_from_other_failures(
    spark: SparkSession,
) -> None:
    rows = spark.range(3).localCheckpoint()
    rows._jdf.queryExecution().logical().rdd().unpersist(True)
    with pytest.raises(SPARK_ERRORS) as raised:
        rows.collect()
    assert isinstance(explained(raised.value, ()), StateLostError)
    assert not isinstance(explained(ValueError("no memory"), ()), StateLostError)
