"""A Frame is a Rows: computed once, mixed freely with rows in memory, exact where it is read."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that everybody uses)

from headwater.algebra.evaluate import evaluate
from headwater.algebra.expressions import ColumnRef, Literal
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import query_of
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, TEXT
from headwater.errors import EngineError, ExpressionError
from headwater.frames import frame as frame_module
from headwater.frames import held
from headwater.frames.frame import Frame
from headwater.frames.naming import named
from tests.frames.lifting import unsettled

SCHEMA = Schema.of([("k", INT), ("t", TEXT)])
OTHER = SCHEMA.qualified("o")
K, OTHER_K = ColumnRef("k", INT), ColumnRef("o.k", INT)
ROWS = Rows(SCHEMA, {(1, "a"): 2, (2, None): -1, (None, "b"): 1})
PARTNERS = Rows(OTHER, {(1, "x"): 1, (2, "y"): 3, (None, "z"): 1})


# Mixed with rows in memory


def test_sums_of_rows_and_frames_are_frames(spark: SparkSession) -> None:
    frame, expected = unsettled(spark, ROWS), ROWS + ROWS
    for total in (ROWS + frame, frame + ROWS, Rows.sum(SCHEMA, [ROWS, frame])):
        assert isinstance(total, Frame)
        assert total == expected
    assert isinstance(Rows.empty(SCHEMA) + frame, Frame)
    assert Rows.empty(SCHEMA) + frame == ROWS
    assert not ROWS - frame
    assert not frame - ROWS


def test_joins_of_rows_and_frames_are_frames_and_run_on_spark(spark: SparkSession) -> None:
    expected = ROWS.join(PARTNERS, [(K, OTHER_K)])
    left, right = unsettled(spark, ROWS), unsettled(spark, PARTNERS)
    joined_before = Rows.rows_joined
    for joined in (left.join(PARTNERS, [(K, OTHER_K)]), ROWS.join(right, [(K, OTHER_K)])):
        assert isinstance(joined, Frame)
        assert joined == expected
    assert Rows.rows_joined == joined_before
    ROWS.join(PARTNERS, [(K, OTHER_K)])
    assert Rows.rows_joined == joined_before + len(expected)


@pytest.mark.parametrize(
    ("names", "is_once"),
    [(["k", "t", "o.t"], True), (["o.t", "o.k", "t"], True), (["k", "t"], False)],
)
def test_rows_are_added_up_again_only_where_a_column_is_gone_that_no_other_tells(
    spark: SparkSession, names: list[str], is_once: bool
) -> None:
    """What a join has found equal tells one column by the other."""
    more = PARTNERS + Rows(OTHER, {(1, "y"): 1})
    joined = unsettled(spark, ROWS)._merged().join(unsettled(spark, more)._merged(), [(K, OTHER_K)])
    schema = joined.schema.only(names)
    outputs = [ColumnRef(column.name, column.type) for column in schema.columns]
    found = joined.project(schema, outputs)
    assert found._held.merged == is_once
    assert found == ROWS.join(more, [(K, OTHER_K)]).project(schema, outputs)
    again = found.settled().project(schema.only(names[:1]), outputs[:1])
    assert again.is_settled, "what is at hand takes no job"
    assert again == found.collected().project(schema.only(names[:1]), outputs[:1])


def test_a_frame_and_its_rows_are_one_value(spark: SparkSession) -> None:
    frame = unsettled(spark, ROWS)
    assert frame == ROWS
    assert frame == ROWS
    assert hash(frame) == hash(ROWS)
    assert ROWS in {frame}
    assert (len(frame), frame.count((1, "a")), frame.byte_count) == (3, 2, ROWS.byte_count)
    assert frame.sorted_items() == ROWS.sorted_items()
    assert repr(frame) == repr(ROWS)
    assert frame != ROWS + ROWS


def test_positive_and_negative_parts_are_those_of_merged_rows(spark: SparkSession) -> None:
    mixed = unsettled(spark, ROWS) - ROWS.positive() + Rows(SCHEMA, {(2, None): 3})
    assert mixed.positive() == Rows(SCHEMA, {(2, None): 2})
    assert not mixed.negative()
    assert (-mixed).negative() == Rows(SCHEMA, {(2, None): -2})


def test_a_relation_without_columns_counts_its_one_row(spark: SparkSession) -> None:
    nothing = Schema(())
    frame = unsettled(spark, ROWS).project(nothing, [])
    assert frame == Rows(nothing, {(): 2})
    assert frame.join(unsettled(spark, ROWS)) == ROWS.scaled(2)
    assert not frame - Rows(nothing, {(): 2})


def test_plain_data_counts_each_row_as_often_as_it_is_there(spark: SparkSession) -> None:
    data = spark.createDataFrame([(1, "a"), (1, "a"), (2, None)], "k int, t string")
    frame = Frame.of_dataframe(data, SCHEMA, signed=False)
    assert frame == Rows(SCHEMA, {(1, "a"): 2, (2, None): 1})


def test_the_dataframe_has_the_columns_by_name(spark: SparkSession) -> None:
    schema = Schema.of([("a.b", INT), ("it's `odd`", TEXT)])
    data = (unsettled(spark, ROWS.renamed(schema)) + ROWS.renamed(schema)).dataframe
    assert data.columns == ["a.b", "it's `odd`", "_count"]
    assert data.where(F.col("`a.b`") == 1).toArrow().to_pylist() == [
        {"a.b": 1, "it's `odd`": "a", "_count": 4}
    ]


# Settling


def jobs_of(spark: SparkSession, group: str) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


@pytest.mark.parametrize("small", [2, 20_000], ids=["large", "small"])
def test_a_settled_frame_reads_its_source_no_more(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(held, "SMALL", small)
    path = str(tmp_path / "data")
    Frame.of_rows(spark, ROWS).dataframe.write.parquet(path)
    stored = Frame.of_dataframe(spark.read.parquet(path), SCHEMA, signed=True)
    assert not stored.is_settled
    settled = stored.settled()
    for file in Path(path).iterdir():
        file.unlink()
    assert settled.is_settled
    assert (len(settled), bool(settled), settled.size_hint) == (3, True, 3)
    assert settled.renamed(OTHER).join(ROWS, [(OTHER_K, K)]) == ROWS.renamed(OTHER).join(
        ROWS, [(OTHER_K, K)]
    )
    assert settled == ROWS
    settled.release()


def test_rows_that_are_made_of_many_are_computed_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "SMALL", 2)
    computed = spark.sparkContext.accumulator(0)

    def count(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    many = Frame.of_rows(spark, Rows(OTHER, {(at, "x"): 1 for at in range(5)}))
    counted = spark.range(5).selectExpr("id AS k", "'a' AS t").mapInArrow(count, "k long, t string")
    joined = Frame.of_dataframe(counted, SCHEMA, signed=False).join(many, [(K, OTHER_K)])
    assert len(joined) == 5
    assert joined.number == 5
    assert computed.value == 5


@pytest.mark.parametrize("small", [1, 20_000], ids=["large", "small"])
def test_distinct_values_are_those_of_all_rows_whatever_their_counts(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    for module in (held, frame_module):
        monkeypatch.setattr(module, "SMALL", small)
    rows = ROWS + Rows(SCHEMA, {(1, "c"): -2})
    for names in (["k"], ["t", "k"], ["k", "k"]):
        assert unsettled(spark, rows).distinct(names) == rows.distinct(names)
    gone = unsettled(spark, rows) + -rows
    assert gone.distinct(["k"]) == set()


def test_renamed_frames_are_settled_together(spark: SparkSession) -> None:
    frame = unsettled(spark, ROWS)
    renamed = frame.renamed(OTHER)
    assert len(frame) == 3
    assert renamed.is_settled


def test_what_is_known_to_be_empty_costs_no_job(spark: SparkSession) -> None:
    empty = Frame.of_rows(spark, Rows.empty(SCHEMA))
    derived = empty.join(unsettled(spark, PARTNERS), [(K, OTHER_K)]).scaled(-1)
    assert derived.is_settled
    assert not derived


def test_evaluating_a_view_runs_no_job_before_its_result_is_read(spark: SparkSession) -> None:
    relations = [Relation(name, "x", SCHEMA) for name in ("r", "s")]
    view = parse_view("SELECT r.t, s.t AS u FROM r JOIN s ON r.k = s.k", relations, name="v")
    state = {"r": unsettled(spark, ROWS), "s": unsettled(spark, ROWS)}
    expected = evaluate(query_of(view), {"r": ROWS, "s": ROWS}, view.schema)
    with named("evaluating"):
        result = evaluate(query_of(view), state, view.schema)
        assert jobs_of(spark, "evaluating") == 0
        assert result == expected
        assert jobs_of(spark, "evaluating") > 0


# Failures


RATIO = call(">", call("/", K, call("-", K, Literal(1, INT))), Literal(0, INT))


def test_an_expression_is_not_evaluated_on_rows_without_a_partner(spark: SparkSession) -> None:
    partner = Rows(OTHER, {(2, "y"): 1})
    joined = unsettled(spark, ROWS).settled().join(unsettled(spark, partner), [(K, OTHER_K)])
    expected = ROWS.join(partner, [(K, OTHER_K)])
    assert joined.select(RATIO) == expected.select(RATIO)
    ratios = Schema.of([("ratio", RATIO.type)])
    projected = joined.project(ratios, [RATIO])
    assert projected.select(ColumnRef("ratio", RATIO.type)) == expected.project(ratios, [RATIO])


def test_an_expression_is_not_evaluated_on_rows_that_cancel(spark: SparkSession) -> None:
    cancelled = unsettled(spark, ROWS) - Rows(SCHEMA, {(1, "a"): 2})
    assert cancelled.select(RATIO) == (ROWS - Rows(SCHEMA, {(1, "a"): 2})).select(RATIO)


def test_a_failure_behind_a_join_names_the_row(spark: SparkSession) -> None:
    joined = unsettled(spark, ROWS).join(unsettled(spark, PARTNERS), [(K, OTHER_K)])
    with pytest.raises(ExpressionError, match=r"fails for k = 1, .*: division by zero"):
        bool(joined.select(RATIO))


def test_a_failure_of_spark_itself_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "gone"
    Frame.of_rows(spark, ROWS).dataframe.write.parquet(str(path))
    frame = Frame.of_dataframe(spark.read.parquet(str(path)), SCHEMA, signed=True)
    for file in path.iterdir():
        file.unlink()
    with pytest.raises(EngineError) as caught:
        frame.settled()
    assert "\n" not in str(caught.value)
    assert "does not exist" in str(caught.value)


@pytest.mark.parametrize("rows", [3, 30])
def test_what_is_thought_to_be_large_is_computed_once_whatever_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(held, "SMALL", 10)
    times = tmp_path / "times"

    def noted(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        with times.open("a") as file:
            file.write("x")
        yield from batches

    data = spark.range(0, rows, 1, 1).mapInArrow(noted, "id bigint")
    frame = Frame.of_dataframe(data, Schema.of([("a", INT)]), signed=False).settled(large=True)
    assert (len(frame), set(frame)) == (rows, {(at,) for at in range(rows)})
    frame.release()
    assert times.read_text() == "x"
