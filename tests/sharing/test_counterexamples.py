"""The rules as printed, where they do not hold, each with the smallest case that shows it.

A printed form is acted out with what the repaired one refuses: netted updategrams, a booster
passed off as another view's, rows cut to some columns, counts added up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.errors import ExpressionError
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.errors import PreconditionError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram

R = Relation("R", "x", Schema.of([("a", INT), ("b", INT)]))
S = Relation("S", "y", Schema.of([("a", INT), ("c", INT)]))
T = Relation("T", "z", Schema.of([("b", INT), ("c", INT)]))
Tuples = Iterable[Sequence[object]]


def view(
    where: str, outputs: str = "R.b, S.c", tables: str = "R, S", name: str = "V"
) -> SharedView:
    return SharedView.parse(name, f"SELECT {outputs} FROM {tables} WHERE {where}", (R, S, T))


def mu(first: int, last: int, plus: Tuples = (), minus: Tuples = ()) -> Updategram:
    return Updategram.of_relation("R", R.schema, first, last, inserted=plus, deleted=minus)


def netted(updategram: Updategram) -> Updategram:
    net = updategram.net
    return Updategram.of_net(updategram.subject, updategram.first, updategram.last, net)


def rows(relation: Relation, *tuples: Sequence[object]) -> Rows:
    return Rows.of(relation.schema, tuples)


def at(relation: Relation, version: int, *tuples: Sequence[object]) -> Contents:
    return Contents.of_relation(relation.name, version, rows(relation, *tuples))


V = view("R.a = S.a")
COMES, GOES = mu(0, 1, plus=[(1, 7)]), mu(1, 2, minus=[(1, 7)])
WHOLE = COMES.then(GOES)


def test_a1_for_sets_without_counts_loses_a_row_with_another_derivation() -> None:
    projected = view("R.a = S.a", outputs="R.b")
    before = {"R": rows(R, (1, 7), (2, 7)), "S": rows(S, (1, 0), (2, 0))}
    gone = rules.a1(projected, mu(0, 1, minus=[(1, 7)]), at(S, 0, (1, 0), (2, 0)))
    change = rules.finished(projected, gone)
    as_sets = set(evaluate_view(projected.view, before)) - set(change.deleted)
    assert as_sets == set()
    assert change.apply(evaluate_view(projected.view, before)) == Rows.of(projected.schema, [(7,)])


def test_a1_with_another_version_of_s_gives_a_view_of_no_version() -> None:
    """The view stands at S 0, which has (1, 5); S 1 has (1, 6) in its place."""
    newer = rules.finished(V, rules.a1(V, COMES, at(S, 1, (1, 6))))
    right = rules.finished(V, rules.a1(V, COMES, at(S, 0, (1, 5))))
    assert newer.net != right.net
    assert dict(newer.first) == {"R": 0, "S": 1}, "the vector tells, and the view refuses it"
    with pytest.raises(PreconditionError, match="does not apply to V at"):
        Contents("V", right.first, Rows.empty(V.schema)).after(newer)


def test_a3_for_a_net_change_lacks_a_row_that_came_and_went() -> None:
    s = at(S, 0, (1, 5))
    assert not rules.a3(V, netted(WHOLE), s).rows
    assert rules.a3(V, WHOLE, s).rows == rows(S, (1, 5)).renamed(V.columns(("S",)))


def test_a3_after_a_third_relation_lacks_rows_that_join_nothing_of_it_just_now() -> None:
    wide = view("R.a = S.a AND S.c = T.c", tables="R, S, T")
    s, empty = at(S, 0, (1, 5)), at(T, 0)
    late = rules.a1(wide, rules.a1(wide, COMES, s), empty).touched.only(wide.columns(("S",)))
    assert not late
    assert rules.a3(wide, COMES, s).rows
    with_t = rules.a1(wide, COMES, at(T, 0))
    found = rules.a3(wide, with_t, s)
    assert (len(found.rows), dict(found.through)) == (0, {"T": 0}), "it says what it went through"
    with pytest.raises(PreconditionError, match="join what lies between first"):
        rules.a8(wide, COMES, found)


def test_a4_is_only_a_super_booster() -> None:
    wide = view("R.a = S.a AND R.b = T.b", tables="R, S, T")
    change = mu(0, 1, plus=[(1, 1), (2, 2)])
    of_s = rules.a3(wide, change, at(S, 0, (1, 0), (2, 0)))
    of_t = rules.a3(wide, change, at(T, 0, (1, 0), (2, 0)))
    joined = rules.a4(wide, of_s, of_t)
    exact = rules.narrowed(wide, change, joined)
    assert (len(joined.rows), len(exact.rows)) == (4, 2)
    assert (joined.exact, exact.exact) == (False, True)


def test_a6_on_conditions_that_are_not_closed_uses_a_booster_that_lacks_rows() -> None:
    """As written, W says nothing about R and S together; its booster is for R.a = S.a only."""
    wide = view("R.a = T.b AND T.b = S.a", tables="R, S, T", name="W")
    other = view("R.b = S.c")
    s = at(S, 0, (9, 7))
    lacking = replace(rules.a3(wide, COMES, s), view=other)
    assert rules.a1(other, COMES, s).net
    assert not rules.a2(other, COMES, lacking).net
    with pytest.raises(PreconditionError, match="not known to be contained"):
        rules.a6(other, COMES, rules.a3(wide, COMES, s))


def test_a7_with_the_printed_precondition_lacks_rows() -> None:
    """S x_V T is contained in S x_U T: their conditions on S and T are one. On R, U has more."""
    narrow = view("R.a = S.a AND S.c = T.c AND R.b = 0", tables="R, S, T", name="U")
    wide = view("R.a = S.a AND S.c = T.c", tables="R, S, T")
    s, t = at(S, 0, (1, 5)), at(T, 0, (3, 5))
    of_s, of_t = rules.a3(narrow, COMES, s), rules.a3(wide, COMES, t)
    printed = rules.a7(wide, replace(of_s, view=wide), of_t)
    right = rules.a7(wide, rules.a3(wide, COMES, s), of_t)
    assert (len(printed.rows), len(right.rows)) == (0, 1)
    with pytest.raises(PreconditionError, match="not known to be contained"):
        rules.a7(wide, of_s, of_t)


def test_a8_for_net_updategrams_misses_what_came_and_went() -> None:
    s = at(S, 0, (1, 5))
    printed = rules.a8(V, COMES, rules.a3(V, netted(WHOLE), s))
    right = rules.a8(V, COMES, rules.a3(V, WHOLE, s))
    assert not printed.net
    assert right.net == rules.a1(V, COMES, s).net != Rows.empty(right.schema)


def test_a9_is_only_a_super_booster_and_fails_for_net_updategrams() -> None:
    wide = view("R.a = S.a AND R.b = T.b", tables="R, S, T")
    early, middle, late = mu(0, 1, plus=[(2, 2)]), COMES, GOES
    middle = replace(COMES, first=early.last, last=GOES.first.moved("R", 2))
    late = replace(GOES, first=middle.last, last=GOES.last.moved("R", 3))
    s, t = at(S, 0, (1, 0), (2, 0)), at(T, 0, (7, 0), (2, 0))
    of_s = rules.a3(wide, early.then(middle), s)
    joined = rules.a9(wide, of_s, rules.a3(wide, middle.then(late), t))
    assert str(joined.interval) == "R 1 to 2"
    exact = rules.narrowed(wide, middle, joined)
    assert (len(joined.rows), len(exact.rows)) == (2, 1)
    net = rules.a3(wide, netted(middle.then(late)), t)
    assert not rules.narrowed(wide, middle, rules.a9(wide, of_s, net)).rows


def test_a10_of_net_changes_forgets_rows_that_were_touched() -> None:
    assert not netted(WHOLE).touched
    assert set(WHOLE.touched) == {(1, 7)}
    assert not WHOLE.net


def boosters_of(s: Contents) -> tuple[Booster, Booster]:
    return rules.a3(V, COMES, s), rules.a3(V, GOES, s)


def test_a11_by_adding_counts_inflates_them() -> None:
    one, two = boosters_of(at(S, 0, (1, 5)))
    assert set((one.rows + two.rows).items()) == {((1, 5), 2)}
    assert set(rules.a11(V, one, two).rows.items()) == {((1, 5), 1)}


def test_a11_of_net_changes_lacks_a_row_that_both_overlapping_intervals_cancel() -> None:
    """It comes, goes and comes again: the net of 0 to 2 is nothing, that of 1 to 3 too."""
    again, s = mu(2, 3, plus=[(1, 7)]), at(S, 0, (1, 5))
    first, second = netted(COMES.then(GOES)), netted(GOES.then(again))
    printed = rules.a11(V, rules.a3(V, first, s), rules.a3(V, second, s))
    right = rules.a11(V, rules.a3(V, COMES.then(GOES), s), rules.a3(V, GOES.then(again), s))
    assert (len(printed.rows), len(right.rows)) == (0, 1)
    assert COMES.then(GOES).then(again).net


def test_a11_over_different_versions_of_s_mixes_them() -> None:
    one, two = rules.a3(V, COMES, at(S, 0, (1, 5))), rules.a3(V, GOES, at(S, 1, (1, 6)))
    printed = rules.a11(V, one, replace(two, versions=one.versions))
    assert len(printed.rows) == 2, "two rows that S never had together"
    with pytest.raises(PreconditionError, match="of one version"):
        rules.a11(V, one, two)
    change = Updategram.of_relation("S", S.schema, 0, 1, modified=[((1, 5), (1, 6))])
    assert len(rules.a11(V, rules.moved(V, COMES, one, change), two).rows) == 1


def test_a11_of_rows_that_were_cut_to_some_columns_loses_counts() -> None:
    """Two rows of S look the same without their last column, and are in one booster each."""
    narrow = Schema(V.columns(("S",)).columns[:1])
    later = replace(mu(1, 2, plus=[(1, 7)]))
    one = rules.a3(view("R.a = S.a AND S.c = 5", name="W"), COMES, at(S, 0, (1, 5), (1, 6)))
    two = rules.a3(view("R.a = S.a AND S.c = 6", name="X"), later, at(S, 0, (1, 5), (1, 6)))
    cut_one, cut_two = one.rows.only(narrow), two.rows.only(narrow)
    merged = cut_one + (cut_two - cut_two.among(cut_one))
    assert set(merged.items()) == {((1,), 1)}
    assert set((one.rows + two.rows).only(narrow).items()) == {((1,), 2)}
    with pytest.raises(PreconditionError, match="does not have all their columns"):
        replace(one, rows=cut_one)


def test_a11_over_a_gap_is_refused() -> None:
    far = mu(3, 4, plus=[(1, 7)])
    with pytest.raises(PreconditionError, match="nothing covers what lies between"):
        rules.a11(V, rules.a3(V, COMES, at(S, 0, (1, 5))), rules.a3(V, far, at(S, 0, (1, 5))))


def test_a_row_that_came_and_went_does_not_make_a_view_fail() -> None:
    fragile = view("R.a = S.a AND 10 / R.b > 1", outputs="S.c")
    change = mu(0, 1, plus=[(1, 0), (1, 2)]).then(mu(1, 2, minus=[(1, 0)]))
    joined = rules.a1(fragile, change, at(S, 0, (1, 5)))
    assert set(rules.finished(fragile, joined).net.items()) == {((5,), 1)}
    with pytest.raises(ExpressionError, match="division by zero"):
        rules.finished(fragile, rules.a1(fragile, mu(0, 1, plus=[(1, 0)]), at(S, 0, (1, 5))))


# Preconditions that are checked


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda b: rules.a10(COMES, mu(2, 3)), "must start exactly where"),
        (lambda b: rules.a10(mu(0, 2), mu(1, 3)), "must start exactly where"),
        (lambda b: rules.a2(V, WHOLE, b), "covers its own interval"),
        (lambda b: rules.a8(V, WHOLE, b), "covers its own interval"),
        (lambda b: rules.a9(V, b, replace(b, interval=GOES.interval)), "no change in common"),
        (lambda b: rules.a4(V, b, b), "Both boosters are of S"),
        (lambda b: rules.a2(view("R.a = S.c", name="W"), COMES, b), "A6, A7 or A8"),
        (lambda b: rules.finished(V, COMES), "not yet joined with S"),
        (lambda b: rules.a1(V, rules.a2(V, COMES, b), at(S, 0)), "has S in it already"),
        (lambda b: rules.moved(V, COMES, b, COMES), "does not move a booster"),
    ],
)  # fmt: skip
def test_a_rule_refuses_what_does_not_fit(apply: object, message: str) -> None:
    booster = rules.a3(V, COMES, at(S, 0, (1, 5)))
    with pytest.raises(PreconditionError, match=message):
        apply(booster)  # type: ignore[operator] # any of the rules
