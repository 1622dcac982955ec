"""Views of joins in which an expression may fail: their errors are rows of the signed log alone."""

from typing import NoReturn

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, Row
from headwater.errors import ExpressionError
from headwater.frames.arrow import plain_from_arrow
from headwater.warehouse import states
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.definition import StoredDefinition
from headwater.warehouse.failing import failure
from headwater.warehouse.folding import Unfolded
from headwater.warehouse.loads import Shown, ViewLoad
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse
from tests.warehouse.topped import vector

RELATION = Relation("shop.t", "shop", Schema.of([("k", INT), ("x", INT), ("y", INT)]), ("k",))
VIEW = parse_view("SELECT k, x / y AS q FROM shop.t", [RELATION], "quotients")
ERROR = "x / y fails for y = 0"


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


def stored(counts: dict[Row, int]) -> Rows:
    """Rows without an error, or, with two values beside the key, with one."""
    return Rows(VIEW.schema, {(*row, None)[:3]: count for row, count in counts.items()})


def loaded(warehouse: Warehouse, counts: dict[Row, int]) -> ViewTable:
    contents = stored(counts)
    load = ViewLoad(
        StoredDefinition.of(VIEW),
        vector(0),
        contents,
        "sweep",
        "strong",
        "loader",
        VIEW.key,
        shown=Shown.of(VIEW, contents),
    )
    return warehouse.create(load)


def plain_rows(view: ViewTable) -> dict[Row, int]:
    table = DeltaTable(str(view.plain.folder.local)).to_pyarrow_table()
    return dict(plain_from_arrow(table, VIEW.shown_schema).items())


def test_what_is_shown_is_all_that_is_kept_of_what_is_stored(warehouse: Warehouse) -> None:
    view = loaded(warehouse, {(1, 2.0): 1})
    assert view.schema.names == ("k", "q", "_error")
    assert not view.stored.folder.exists()
    assert plain_rows(view) == dict(view.rows().items()) == {(1, 2.0): 1}


@pytest.mark.parametrize("engine", ["memory", "spark", "spark, a long tail"])
def test_while_an_error_is_left_readers_keep_the_state_before_and_correcting_it_heals(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    if engine == "spark, a long tail":
        monkeypatch.setattr(states, "SMALL_TAIL", 0)
    view = loaded(warehouse, {(1, 2.0): 1})
    session = no_spark if engine == "memory" else spark

    def read() -> dict[Row, int]:
        if engine == "memory":
            return dict(view.rows().items())
        found = plain_from_arrow(view.dataframe(spark).toArrow(), VIEW.shown_schema)
        return dict(found.items())

    writer = view.writer("r")
    writer.commit(stored({(2, 3.0): 1}), vector(1))
    bad = writer.commit(stored({(3, None, ERROR): 1, (1, 2.0): -1}), vector(2))
    later = writer.commit(stored({(4, 4.0): 1}), vector(3))
    assert read() == {(1, 2.0): 1, (2, 3.0): 1}
    assert ERROR in failure(view)
    with pytest.raises(ExpressionError, match=ERROR):
        view.rows(bad.number)
    waiting = view.fold(session, "f")
    assert isinstance(waiting, Unfolded)
    assert not waiting.is_unsound
    assert f"at version {later.number} {ERROR}" in waiting.reason
    assert plain_rows(view) == read() == {(1, 2.0): 1, (2, 3.0): 1}
    writer.commit(stored({(3, None, ERROR): -1, (3, 1.5): 1}), vector(4))
    healed = {(2, 3.0): 1, (3, 1.5): 1, (4, 4.0): 1}
    assert read() == healed
    assert not failure(view)
    assert isinstance(view.fold(session, "f"), ViewCommit)
    assert plain_rows(view) == read() == healed


def test_changes_between_versions_are_told_without_the_errors_between(
    warehouse: Warehouse,
) -> None:
    view = loaded(warehouse, {(1, 2.0): 1})
    with view.writer("r") as writer:
        bad = writer.commit(stored({(3, None, ERROR): 1}), vector(1))
        healed = writer.commit(stored({(3, None, ERROR): -1, (3, 1.5): 1}), vector(2))
    found = view.shown_changes(1, healed.number, no_spark)
    assert dict(found.items()) == {(3, 1.5): 1}
    with pytest.raises(ExpressionError, match=ERROR):
        view.shown_changes(1, bad.number, no_spark)


def test_a_view_is_loaded_anew_without_and_with_errors_that_are_possible(
    warehouse: Warehouse,
) -> None:
    plain = parse_view("SELECT k, CAST(x AS DOUBLE) AS q FROM shop.t", [RELATION], "quotients")
    contents = Rows.of(plain.schema, [(1, 8.0)])
    view = loaded(warehouse, {(1, 2.0): 1})
    load = ViewLoad(StoredDefinition.of(plain), vector(3), contents, "sweep", "strong", "loader")
    number = view.replace(load).number
    assert view.rows() == contents
    assert dict(view.rows(1).items()) == {(1, 2.0): 1}
    again = loaded_anew(view, {(2, 5.0): 1})
    assert again == number + 1
    assert plain_rows(view) == dict(view.rows().items()) == {(2, 5.0): 1}


def loaded_anew(view: ViewTable, counts: dict[Row, int]) -> int:
    contents = stored(counts)
    definition = StoredDefinition.of(VIEW)
    shown = Shown.of(VIEW, contents)
    load = ViewLoad(definition, vector(4), contents, "sweep", "strong", "loader", shown=shown)
    return view.replace(load).number
