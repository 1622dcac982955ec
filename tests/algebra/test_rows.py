import pytest
from hypothesis import given

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import FLOAT, INT, NAN, TEXT
from tests.strategies import signed

AB = Schema.of([("a", INT), ("b", TEXT)])
NUMBER = Schema.of([("x", FLOAT)])
A = ColumnRef("a", INT)


def test_equal_rows_are_counted_together() -> None:
    rows = Rows.of(AB, [(1, "x"), (1, "x"), (2, None)])
    assert rows.count((1, "x")) == 2
    assert len(rows) == 2


def test_a_row_whose_count_becomes_zero_is_gone() -> None:
    rows = Rows.of(AB, [(1, "x")]) + Rows.of(AB, [(1, "x")], sign=-1)
    assert rows == Rows.empty(AB)
    assert not rows


def test_a_count_of_zero_is_not_kept() -> None:
    assert len(Rows(AB, {(1, "x"): 0})) == 0


def test_the_count_of_a_row_that_is_not_there_is_zero() -> None:
    assert Rows.empty(AB).count((1, "x")) == 0


def test_equal_rows_in_another_order_have_one_hash() -> None:
    one, other = Rows.of(AB, [(1, "x"), (2, "y")]), Rows.of(AB, [(2, "y"), (1, "x")])
    assert hash(one) == hash(other)
    assert one == other


def test_rows_under_other_names_are_not_equal() -> None:
    rows = Rows.of(AB, [(1, "x")])
    assert rows.renamed(AB.qualified("r")) != rows


def test_nan_is_counted_as_one_value() -> None:
    rows = Rows.of(NUMBER, [(float("nan"),), (float("-nan"),)])
    assert rows.count((NAN,)) == 2


def test_a_null_joins_nothing_not_even_a_null() -> None:
    left = Rows.of(Schema.of([("l", INT)]), [(None,), (1,)])
    right = Rows.of(Schema.of([("r", INT)]), [(None,), (1,)])
    joined = left.join(right, [(ColumnRef("l", INT), ColumnRef("r", INT))])
    assert dict(joined.items()) == {(1, 1): 1}


def test_one_null_among_several_keys_joins_nothing() -> None:
    left = Rows.of(AB.qualified("l"), [(1, None), (1, "x")])
    right = Rows.of(AB.qualified("r"), [(1, None), (1, "x")])
    on = [(ColumnRef(f"l.{n}", k), ColumnRef(f"r.{n}", k)) for n, k in (("a", INT), ("b", TEXT))]
    assert dict(left.join(right, on).items()) == {(1, "x", 1, "x"): 1}


def test_two_deletions_join_to_an_insertion() -> None:
    left, right = Schema.of([("l", INT)]), Schema.of([("r", INT)])
    joined = Rows.of(left, [(1,)], sign=-1).join(Rows.of(right, [(2,)], sign=-1))
    assert joined.count((1, 2)) == 1


def test_projection_adds_the_counts_of_rows_that_become_equal() -> None:
    rows = Rows.of(AB, [(1, "x"), (1, "y")]) + Rows.of(AB, [(2, "x")], sign=-1)
    projected = rows.project(Schema.of([("a", INT)]), [A])
    assert dict(projected.items()) == {(1,): 2, (2,): -1}


def test_a_projection_to_no_columns_counts_the_rows() -> None:
    rows = Rows.of(AB, [(1, "x"), (2, "y")])
    assert rows.project(Schema(()), []).count(()) == 2


def test_key_delete_takes_rows_of_either_sign() -> None:
    rows = Rows(AB, {(1, "x"): 2, (1, "y"): -1, (2, "x"): 1})
    assert dict(rows.key_delete(["a"], [(1,)]).items()) == {(2, "x"): 1}


def test_a_reader_sees_only_rows_with_a_positive_count() -> None:
    rows = Rows(AB, {(1, "x"): 2, (2, "x"): -1})
    assert dict(rows.positive().items()) == {(1, "x"): 2}
    assert dict(rows.negative().items()) == {(2, "x"): -1}


def test_rows_are_shown_as_often_as_they_count() -> None:
    assert repr(Rows(AB, {(1, "x"): 2, (2, None): -1})) == "([1, 'x'], [1, 'x'], -[2, NULL])"


def test_no_rows_are_shown_as_the_empty_set() -> None:
    assert repr(Rows.empty(AB)) == "∅"


def test_bytes_are_counted_for_each_copy_of_a_row() -> None:
    assert Rows(AB, {(1, "xyz"): -2}).byte_count == 2 * (8 + 3)


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1 values for 2 columns \(a, b\)"):
        Rows.of(AB, [(1,)])


def test_a_value_that_does_not_fit_is_refused_with_its_column() -> None:
    with pytest.raises(ValueError, match="column b: 5 is not a value of type text"):
        Rows.of(AB, [(1, 5)])


def test_the_key_of_a_row_is_taken_in_the_order_of_the_key() -> None:
    relation = Relation("r", "s", AB, key=("b", "a"))
    assert relation.key_of((1, "x")) == ("x", 1)


@given(signed(AB))
def test_the_sum_of_parts_is_their_addition(rows: Rows) -> None:
    assert Rows.sum(AB, [rows, rows, -rows]) == rows + rows - rows


@given(signed(AB), signed(AB))
def test_the_size_of_a_join_is_known_without_making_it(left: Rows, right: Rows) -> None:
    """Of joins over equal values and of all pairs; a NULL joins nothing."""
    right = right.renamed(Schema.of([("c", INT), ("d", TEXT)]))
    for on in ([], [(ColumnRef("b", TEXT), ColumnRef("d", TEXT))]):
        made = sum(abs(count) for _, count in left.join(right, on).items())
        assert left.join_size(right, on) == made
