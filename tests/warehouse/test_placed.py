"""States read by Spark by the places of the rows that went: exactly those rows, and no others."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import FLOAT, INT, TEXT, Row, array_type, decimal_type
from headwater.frames.arrow import arrow_schema, plain_from_arrow
from headwater.warehouse import files, placed, scanning
from headwater.warehouse import located as locating
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.located import located
from headwater.warehouse.netting import local_frame
from headwater.warehouse.scanning import Scan
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.views import SCHEMA, definition, vector


@pytest.fixture(autouse=True)
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few rows lie in many row groups."""
    monkeypatch.setattr(files, "_GROUP_ROWS", 7)


@pytest.fixture(params=["by itself", "among others"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read by itself, or told by its size among others."""
    if request.param == "among others":
        monkeypatch.setattr(placed, "_MOST_ALONE", 0)


@pytest.fixture
def many_tasks(spark: SparkSession) -> Iterator[None]:
    """Each task reads few row groups of a file."""
    name = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(name)
    spark.conf.set(name, "400")
    yield
    spark.conf.set(name, str(before))


def load(
    warehouse: Warehouse,
    contents: Rows,
    key: tuple[str, ...] = (),
    spark: SparkSession | None = None,
    files: int = 1,
) -> ViewTable:
    loaded = definition(schema=contents.schema)
    put = local_frame(spark, contents).repartition(files) if spark else contents
    return warehouse.create(ViewLoad(loaded, vector(0), put, "strobe", "strong", "l", key=key))


def commit(view: ViewTable, *changes: Rows) -> None:
    with view.writer("r") as writer:
        for at, change in enumerate(changes, 1):
            writer.commit(change, vector(at))


def shown(view: ViewTable, spark: SparkSession, number: int | None = None) -> Rows:
    state = view.at(number)
    assert located(state) is not None
    return plain_from_arrow(state.dataframe(spark).toArrow(), state.shown_schema)


@pytest.mark.usefixtures("many_tasks", "told")
@pytest.mark.parametrize("seed", range(2))
def test_as_many_copies_go_as_count_from_any_file(
    warehouse: Warehouse, spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    contents: dict[Row, int] = {
        (n, random.choice(["a", "b", None])): random.randint(1, 3) for n in range(60)
    }
    view = load(warehouse, Rows(SCHEMA, contents), spark=spark, files=3)
    assert len(view.at().plain.files) == 3
    gone: dict[Row, int] = {
        row: -random.randint(1, count + 1) for row, count in random.sample([*contents.items()], 20)
    }
    commit(view, Rows(SCHEMA, gone), Rows(SCHEMA, {(99, None): 2, (1, "a"): 1}))
    assert shown(view, spark) == view.rows()
    assert shown(view, spark, 3) == Rows(SCHEMA, contents) + Rows(SCHEMA, gone).negative() + Rows(
        SCHEMA, {row: 1 for row, count in gone.items() if count + contents[row] < 0}
    )


@pytest.mark.usefixtures("many_tasks")
def test_where_there_is_a_key_it_tells(warehouse: Warehouse, spark: SparkSession) -> None:
    contents: dict[Row, int] = {(n, f"name {n}"): 1 for n in range(80)}
    view = load(warehouse, Rows(SCHEMA, contents), ("id",))
    changed = {n: f"new {n}" for n in (0, 7, 13, 14, 63, 64, 79)}
    change: dict[Row, int] = {(n, f"name {n}"): -1 for n in changed}
    commit(view, Rows(SCHEMA, change | dict.fromkeys(changed.items(), 1)))
    assert shown(view, spark) == view.rows()
    assert (64, "new 64") in dict(shown(view, spark).items())


def test_values_that_are_compared_in_our_own_way(warehouse: Warehouse, spark: SparkSession) -> None:
    schema = Schema.of(
        [("x", FLOAT), ("d", decimal_type(20, 3)), ("t", TEXT), ("many", array_type(INT))]
    )
    nan = float("nan")
    rows = [
        (nan, Decimal("1.500"), None, (1, None)),
        (0.0, None, "", ()),
        (-0.0, None, "", ()),
        (1.5, Decimal("-7"), "a", None),
        (None, None, None, None),
        (2.5, Decimal("0"), "é", (3,)),
    ]
    counts: dict[Row, int] = {schema.row(row): 2 for row in rows}
    view = load(warehouse, Rows(schema, counts))
    commit(view, Rows(schema, {schema.row(row): -1 for row in rows[:1] + rows[2:5]}))
    assert shown(view, spark) == view.rows()


@pytest.mark.usefixtures("many_tasks", "told")
def test_what_a_query_leaves_out_changes_nothing(warehouse: Warehouse, spark: SparkSession) -> None:
    """Columns are pruned, and row groups passed over, while rows keep their places."""
    view = load(warehouse, Rows(SCHEMA, {(n, f"name {n}"): 1 for n in range(100)}), ("id",))
    gone: dict[Row, int] = {(n, f"name {n}"): -1 for n in (41, 50, 77, 99)}
    commit(view, Rows(SCHEMA, gone | {(200, "x"): 3}))
    frame = view.dataframe(spark)
    assert frame.count() == 99
    some = frame.where("id > 40 AND id < 52").select("id")
    assert sorted(row[0] for row in some.collect()) == [*range(42, 50), 51]
    assert frame.where("id = 77").isEmpty()
    assert frame.where("name = 'x'").count() == 3
    assert frame.join(frame.select("id").distinct(), "id").count() == 99
    assert frame.columns == ["id", "name"]


def test_where_spark_has_no_such_array_a_query_tells_the_places(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(words: object, session: object) -> None:
        raise Py4JError("UnsafeArrayData does not exist in the JVM")

    monkeypatch.setattr(placed, "_unshown", missing)
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 2 for n in range(200)}))
    commit(view, Rows(SCHEMA, {(n, "a"): -1 for n in (0, 63, 64, 199)}))
    assert shown(view, spark) == view.rows()


def test_the_places_are_not_in_what_is_told_of_a_plan(
    warehouse: Warehouse, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(640)}), ("id",))
    commit(view, Rows(SCHEMA, {(63, "a"): -1}))
    view.dataframe(spark).explain(extended=True)
    told = capsys.readouterr().out
    assert "row_index" in told
    assert str(-(2**63)) not in told


@pytest.mark.usefixtures("told")
def test_files_of_one_size_are_told_apart(warehouse: Warehouse, spark: SparkSession) -> None:
    view = load(warehouse, Rows(Schema.of([("n", INT)]), {(n,): 1 for n in range(40)}), ("n",),
                spark, files=4)  # fmt: skip
    sizes = [file.size for file in view.at().plain.files]
    assert len(set(sizes)) < len(sizes)
    for n in range(0, 40, 3):
        commit(view, Rows(view.schema, {(n,): -1}))
    assert shown(view, spark) == view.rows()


def test_a_column_may_have_the_name_of_what_spark_tells_of_files(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    schema = Schema.of([("_metadata", INT), ("row_index", INT)])
    view = load(warehouse, Rows(schema, {(n, -n): 1 for n in range(20)}))
    commit(view, Rows(schema, {(5, -5): -1, (19, -19): -1}))
    assert shown(view, spark) == view.rows()


def test_a_spark_that_does_not_tell_places_is_no_reason_to_leave_rows_out(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed, "_index_name", lambda spark: "a_place")
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(9)}), ("id",))
    commit(view, Rows(SCHEMA, {(1, "a"): -1}))
    with pytest.raises(PySparkException, match="does not tell the places of rows"):
        view.dataframe(spark).collect()


def test_files_from_which_nothing_went_are_scanned_as_they_are(
    warehouse: Warehouse, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, f"{n}"): 1 for n in range(20)}), ("id",), spark, 4)
    held = view.at().plain.files
    assert len(held) == 4
    found = files.read_arrow(view.plain.folder, held[:1], arrow_schema(SCHEMA))
    commit(view, Rows(SCHEMA, dict.fromkeys(list(plain_from_arrow(found, SCHEMA))[:1], -1)))
    frame = view.dataframe(spark)
    frame.explain()
    assert capsys.readouterr().out.count("row_index:bigint>") == 1
    assert shown(view, spark) == view.rows()


def test_two_frames_of_one_state_are_joined_as_two(
    warehouse: Warehouse, spark: SparkSession
) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(9)}), ("id",))
    commit(view, Rows(SCHEMA, {(1, "a"): -1, (1, "b"): 1}))
    one, other = view.dataframe(spark), view.dataframe(spark)
    assert one.join(other, one["id"] == other["id"]).count() == 9
    assert one.join(other, one["id"] < other["id"]).count() == 36


def test_a_plan_is_made_once_for_a_state_and_a_session(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    before = placed._placed

    def noted(*arguments: Any) -> DataFrame:
        made.append("")
        return before(*arguments)

    monkeypatch.setattr(placed, "_placed", noted)
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(9)}), ("id",))
    commit(view, Rows(SCHEMA, {(1, "a"): -1}))
    for session in (spark, spark, spark.newSession()):
        assert view.dataframe(session).count() == 8
    assert len(made) == 2
    commit(view, Rows(SCHEMA, {(2, "a"): -1}))
    assert view.dataframe(spark).count() == 7


def test_a_state_is_looked_through_once(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    before = Scan.located

    def noted(self: Scan) -> Mapping[str, Sequence[int]] | None:
        looked.append(self.number)
        return before(self)

    monkeypatch.setattr(Scan, "located", noted)
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 1 for n in range(9)}), ("id",))
    commit(view, Rows(SCHEMA, {(1, "a"): -1}))
    for _ in range(2):
        assert warehouse.view("orders").dataframe(spark).count() == 8
        assert Warehouse(warehouse.path).view("orders").dataframe(spark).count() == 8
    commit(view, Rows(SCHEMA, {(2, "a"): -1}))
    assert view.dataframe(spark).count() == 7
    assert len(looked) == 2


def test_a_view_that_was_loaded_again_is_another(warehouse: Warehouse, spark: SparkSession) -> None:
    for row in ("a", "b"):
        view = load(warehouse, Rows(SCHEMA, {(1, row): 1, (2, row): 1}), ("id",))
        commit(view, Rows(SCHEMA, {(1, row): -1}))
        assert [*shown(view, spark)] == [(2, row)]
        warehouse.drop("orders")


def test_what_would_take_long_is_left_to_spark(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = load(warehouse, Rows(SCHEMA, {(n, "a"): 2 for n in range(9)}))
    commit(view, Rows(SCHEMA, {(n, "a"): -1 for n in range(5)}))
    for module, name in (
        (locating, "MOST_ROWS"),
        (locating, "MOST_BYTES"),
        (scanning, "_MOST_SUSPECTS"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, 2)
            assert located(view.at()) is None
            assert view.dataframe(spark).count() == 13
    assert located(view.at()) is not None
