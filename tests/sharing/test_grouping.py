"""The rules A12 to A17: unions, groups and first rows, on random data and as they are printed.

The oracle is the definition: what the view shows at both versions, recomputed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headwater.algebra.evaluate import evaluate_shown, evaluate_view
from headwater.algebra.expressions import columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.frames.columns import Columns
from headwater.frames.frame import Frame
from headwater.sharing.errors import MissingContentsError, PreconditionError
from headwater.sharing.grouping import (
    GroupingBooster,
    a12,
    a13,
    a14,
    a15,
    a16,
    auxiliary,
    grouping_booster,
    later,
    of_auxiliary,
    shown,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sharing.windows import a17, window

R = Relation("r", "x", Schema.of([("a", INT), ("b", INT), ("c", INT)]))
Tuple = tuple[int, int, int]
Lift = Callable[[Rows], Rows]
FEW = settings(max_examples=max(1, settings().max_examples // 6))
GROUPED = (
    "SELECT a, AVG(c) AS o FROM r GROUP BY a, b",
    "SELECT a, b, SUM(c) AS o, COUNT(*) AS n FROM r GROUP BY a, b",
    "SELECT a, b, MAX(c) AS o FROM r WHERE c > 0 GROUP BY a, b",
    "SELECT DISTINCT a, b FROM r",
    "SELECT b, a, MIN(c) AS o, COUNT(DISTINCT c) AS n FROM r GROUP BY a, b HAVING COUNT(*) > 1",
)
COARSER = {
    GROUPED[0]: "SELECT a, AVG(c) AS o FROM r GROUP BY a",
    GROUPED[1]: "SELECT b, SUM(c) AS o, COUNT(*) AS n FROM r GROUP BY b",
    GROUPED[2]: "SELECT a, MAX(c) AS o FROM r WHERE c > 0 GROUP BY a",
}
FIRST = (
    "SELECT c, a FROM r ORDER BY c DESC LIMIT 2",
    "SELECT a, b FROM r ORDER BY b, a DESC LIMIT 3",
    "SELECT c + 1 AS d FROM r ORDER BY c DESC, a LIMIT 1 OFFSET 1",
)


def view(sql: str, name: str = "V") -> SharedView:
    return SharedView.parse(name, sql, [R])


def rows(*values: Tuple) -> Rows:
    return Rows.of(R.schema, values)


def at(number: int) -> Versions:
    return Versions({"r": number})


class History:
    """Versions of r, where rows come, go and come again."""

    def __init__(self, seed: int, lift: Lift = lambda found: found) -> None:
        random = Random(seed)
        self.lift = lift
        self.states = [rows(*(self._row(random) for _ in range(random.randint(2, 8))))]
        self.steps: list[Updategram] = []
        for version in range(4):
            here = self.states[-1]
            gone = [row for row in here if random.random() < 0.4]
            came = [self._row(random) for _ in range(random.randint(0, 3))]
            step = Updategram.of_relation(
                "r", R.schema, version, version + 1, inserted=came, deleted=gone
            )
            self.steps.append(step)
            self.states.append(step.apply(here))

    @staticmethod
    def _row(random: Random) -> Tuple:
        return random.randint(0, 2), random.randint(0, 1), random.randint(-1, 3)

    def change(self, first: int, last: int) -> Updategram:
        found = self.steps[first]
        for step in self.steps[first + 1 : last]:
            found = found.then(step)
        inserted, deleted = self.lift(found.inserted), self.lift(found.deleted)
        return replace(found, inserted=inserted, deleted=deleted)

    def stored(self, found: SharedView, version: int) -> Rows:
        return auxiliary(found, {"r": self.lift(self.states[version])})

    def booster(
        self, found: SharedView, first: int, last: int, by: Sequence[str] = ()
    ) -> GroupingBooster:
        change = self.change(first, last)
        return grouping_booster(found, change, self.stored(found, first), by)

    def shown(self, found: SharedView, first: int, last: int) -> Rows:
        """What the view's updategram must come to."""
        return self.at(found, last) - self.at(found, first)

    def at(self, found: SharedView, version: int) -> Rows:
        return evaluate_shown(found.view, {"r": self.states[version]})


# Laws


def law_a12(history: History) -> None:
    parts = ["SELECT a, b FROM r WHERE c > 0", "SELECT b, c FROM r", "SELECT a, c FROM r"]
    union = view(" UNION ALL ".join(parts))
    change, own = history.change(1, 4), union.view.schema
    every = [
        Updategram(
            f"V{number}", change.first, change.last,
            *(evaluate_view(view(sql).view, {"r": side}).renamed(own)
              for side in (change.inserted, change.deleted)),
        )
        for number, sql in enumerate(parts)
    ]  # fmt: skip
    assert a12(union, every, (change.first, change.last)).net == history.shown(union, 1, 4)


def law_a13(history: History) -> None:
    for sql in GROUPED:
        found, change = view(sql), history.change(1, 3)
        expected = history.shown(found, 1, 3)
        assert a13(found, change, history.booster(found, 1, 3)).net == expected
        assert a13(found, change, history.booster(found, 1, 4)).net == expected, "a larger one"
        whole = history.stored(found, 1)
        everything = replace(history.booster(found, 1, 4), rows=whole)
        assert a13(found, change, everything).net == expected, "V_A itself"


def law_a14(history: History) -> None:
    for sql, coarser in COARSER.items():
        fine, wide, change = view(sql), view(coarser, "W"), history.change(0, 3)
        names = dict(zip(("a", "b"), columns(fine), strict=True))
        by = [names["b" if "BY b" in coarser else "a"]]
        whole = history.booster(fine, 0, 3, by)
        assert a14(wide, change, whole).net == history.shown(wide, 0, 3)
        assert a13(fine, change, whole).net == history.shown(fine, 0, 3)


def columns(found: SharedView) -> tuple[str, ...]:
    """The stored columns of a and b."""
    compact = found.view.compact
    if compact is None:
        return "a", "b"
    part = compact.parts[None]
    named = {min(columns_of(key)): name for key, name in zip(part.keys, part.columns, strict=True)}
    return named["a"], named["b"]


def law_a15(history: History) -> None:
    for sql in GROUPED:
        found, whole = view(sql), history.booster(view(sql), 0, 4)
        earlier, change = history.change(0, 2), history.change(2, 3)
        assert a15(found, earlier, change, whole).net == history.shown(found, 2, 3)
        moved = later(whole, earlier)
        exact = history.booster(found, 2, 4)
        by = whole.by
        assert moved.rows.restricted(exact.groups, by, by) == exact.rows


def law_a16(history: History) -> None:
    for sql in GROUPED:
        found = view(sql)
        for middle in (1, 2):
            one, two = history.booster(found, 0, 2), history.booster(found, middle, 4)
            merged, whole = a16(one, two), history.booster(found, 0, 4)
            assert merged.rows == whole.rows
            assert merged.groups == whole.groups
            change = history.change(0, 4)
            assert a13(found, change, merged).net == history.shown(found, 0, 4)


def law_a17(history: History) -> None:
    for sql in FIRST:
        found = view(sql)
        mine, larger = (window(found, at(0), history.stored(found, 0), n) for n in (3, 6))
        change = history.change(0, 1)
        try:
            done = a17(found, change, mine, larger)
        except MissingContentsError:
            assert larger.after(change).size < mine.size
            continue
        expected = window(found, at(1), history.stored(found, 1), mine.size).rows
        assert done.apply(mine.rows) == expected


def windows(history: History) -> None:
    """As long as a window suffices, it shows what the view does; refilled it does again."""
    for sql in FIRST:
        found = view(sql)
        here = window(found, at(0), history.stored(found, 0), 4)
        for version in range(1, 5):
            here = here.after(history.change(version - 1, version))
            whole = window(found, at(version), history.stored(found, version), 100)
            if not here.suffices:
                with pytest.raises(MissingContentsError, match="Refill it"):
                    here.shown()
                here = here.refilled(whole, 4)
            assert here.shown() == history.at(found, version)


LAWS: dict[str, Callable[[History], None]] = {
    law.__name__: law for law in (law_a12, law_a13, law_a14, law_a15, law_a16, law_a17, windows)
}


@pytest.mark.parametrize("law", LAWS)
@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_the_rule_holds_in_memory(law: str, seed: int) -> None:
    LAWS[law](History(seed))


@pytest.mark.parametrize("law", LAWS)
def test_the_rule_holds_in_columns(law: str) -> None:
    for seed in range(5):
        LAWS[law](History(seed, Columns.of_rows))


@pytest.mark.stress
@pytest.mark.parametrize("law", LAWS)
def test_the_rule_holds_on_spark(law: str, spark: SparkSession) -> None:
    LAWS[law](History(list(LAWS).index(law), lambda found: Frame.of_rows(spark, found)))


def test_a_grouping_booster_serves_on_spark(spark: SparkSession) -> None:
    history = History(3, lambda found: Frame.of_rows(spark, found))
    found = view(GROUPED[0])
    done = a13(found, history.change(1, 2), history.booster(found, 1, 2))
    assert done.net == history.shown(found, 1, 2)


# The paper's examples


def test_an_average_follows_from_the_sum_and_the_count_of_its_group() -> None:
    """(a, b, c) comes: (a, d/e) goes, and (a, (d + c)/(e + 1)) comes."""
    found = view(GROUPED[0])
    base = rows((1, 1, 10), (1, 1, 20), (1, 2, 7), (2, 1, 5))
    change = Updategram.of_relation("r", R.schema, 0, 1, inserted=[(1, 1, 60)])
    booster = grouping_booster(found, change, auxiliary(found, {"r": base}))
    assert len(booster.groups) == 1
    assert len(booster.rows) < len(auxiliary(found, {"r": base}))
    done = a13(found, change, booster)
    assert (set(done.inserted), set(done.deleted)) == ({(1, 30.0)}, {(1, 15.0)})


def test_the_next_value_takes_the_place_of_a_maximum_that_is_deleted() -> None:
    found = view("SELECT a, MAX(c) AS most FROM r GROUP BY a")
    base = rows((1, 1, 10), (1, 1, 20), (2, 1, 99))
    change = Updategram.of_relation("r", R.schema, 0, 1, deleted=[(1, 1, 20)])
    booster = grouping_booster(found, change, auxiliary(found, {"r": base}))
    done = a13(found, change, booster)
    assert (set(done.inserted), set(done.deleted)) == ({(1, 10)}, {(1, 20)})


def test_a_peer_with_a_larger_window_refills_a_smaller_one() -> None:
    found = view("SELECT c FROM r ORDER BY c DESC LIMIT 2")
    stored = auxiliary(found, {"r": rows(*((n, 0, n) for n in range(10)))})
    mine, larger = (window(found, at(0), stored, size) for size in (3, 6))
    gone = Updategram.of_relation("r", R.schema, 0, 1, deleted=[(9, 0, 9), (8, 0, 8)])
    after = mine.after(gone)
    assert (after.size, after.suffices) == (1, False)
    with pytest.raises(MissingContentsError, match="has 1 rows left and needs 2"):
        after.shown()
    again = after.refilled(larger.after(gone), 3)
    assert set(again.shown()) == {(7,), (6,)}
    assert a17(found, gone, mine, larger).apply(mine.rows) == again.rows


# As printed


def test_a12_for_sets_deletes_a_row_that_another_part_still_has() -> None:
    """A row in V1 and V2, deleted from V1 only."""
    union = view("SELECT a FROM r WHERE c = 1 UNION SELECT a FROM r WHERE c = 2")
    before = {"r": rows((7, 0, 1), (7, 0, 2))}
    gone = {"r": rows((7, 0, 1))}
    parts = [view(f"SELECT a FROM r WHERE c = {n}") for n in (1, 2)]
    lost = {row for part in parts for row in evaluate_view(part.view, gone)}
    printed = set(evaluate_shown(union.view, before)) - lost
    assert printed == set()
    stored = evaluate_view(union.view, before) - evaluate_view(union.view, gone)
    assert set(union.view.shown(stored)) == {(7,)}


def fine_and_coarse() -> tuple[SharedView, SharedView]:
    return view(GROUPED[1]), view("SELECT a, SUM(c) AS o, COUNT(*) AS n FROM r GROUP BY a", "W")


COMES = Updategram.of_relation("r", R.schema, 0, 1, inserted=[(1, 1, 5)])


def test_a14_from_the_groups_that_are_touched_lacks_the_others_of_a_coarser_group() -> None:
    fine, wide = fine_and_coarse()
    base = {"r": rows((1, 1, 10), (1, 2, 7))}
    booster = grouping_booster(fine, COMES, auxiliary(fine, base))
    printed = a14(wide, COMES, replace(booster, groups=booster.groups.only(
        Schema(booster.groups.schema.columns[:1]))))  # fmt: skip
    assert set(printed.deleted) == {(1, 10, 1)}, "it was (1, 17, 2)"
    with pytest.raises(PreconditionError, match="has others too"):
        a14(wide, COMES, booster)
    by = booster.by[:1]
    whole = grouping_booster(fine, COMES, auxiliary(fine, base), by)
    assert set(a14(wide, COMES, whole).deleted) == {(1, 17, 2)}


def test_a15_without_the_earlier_part_takes_the_first_state_for_a_later_one() -> None:
    fine, _ = fine_and_coarse()
    then = Updategram.of_relation("r", R.schema, 1, 2, inserted=[(1, 1, 1)])
    stored = auxiliary(fine, {"r": rows((1, 1, 10))})
    whole = grouping_booster(fine, COMES.then(then), stored)
    printed = a13(fine, then, replace(whole, first=then.first))
    assert set(printed.deleted) == {(1, 1, 10, 1)}, "it was (1, 1, 15, 2)"
    assert set(a15(fine, COMES, then, whole).deleted) == {(1, 1, 15, 2)}
    with pytest.raises(PreconditionError, match="state at its first version"):
        a13(fine, then, whole)


def test_a16_by_union_mixes_states_of_a_group_and_brings_an_empty_one_back() -> None:
    fine, _ = fine_and_coarse()
    then = Updategram.of_relation("r", R.schema, 1, 2, inserted=[(1, 1, 1)])
    empty = auxiliary(fine, {"r": rows()})
    one = grouping_booster(fine, COMES, empty)
    two = grouping_booster(fine, then, auxiliary(fine, {"r": rows((1, 1, 5))}))
    assert shown(fine, one.rows + two.rows), "a group that was not there at version 0"
    assert not a16(one, two).rows
    done = a13(fine, COMES.then(then), a16(one, two))
    assert (set(done.inserted), len(done.deleted)) == ({(1, 1, 6, 2)}, 0)
    unknown = replace(one, groups=Rows.empty(one.groups.schema))
    assert a16(unknown, two).rows, "without the groups that it covers it would come back"


def test_a17_from_a_larger_window_that_ran_dry_is_refused() -> None:
    found = view("SELECT c FROM r ORDER BY c DESC LIMIT 1")
    stored = auxiliary(found, {"r": rows(*((n, 0, n) for n in range(10)))})
    mine, larger = (window(found, at(0), stored, size) for size in (2, 3))
    gone = Updategram.of_relation("r", R.schema, 0, 1, deleted=[(9, 0, 9), (8, 0, 8)])
    assert larger.after(gone).size < mine.size, "the second is 6, which it does not know"
    with pytest.raises(MissingContentsError, match="Ask a node with a larger one"):
        a17(found, gone, mine, larger)


def test_what_does_not_fit_is_refused() -> None:
    fine, wide = fine_and_coarse()
    booster = grouping_booster(fine, COMES, auxiliary(fine, {"r": rows()}))
    far = Updategram.of_relation("r", R.schema, 3, 4, inserted=[(1, 1, 5)])
    with pytest.raises(PreconditionError, match="does not go with"):
        a13(fine, far, booster)
    with pytest.raises(PreconditionError, match="does not follow from what is stored"):
        a14(view(GROUPED[2], "X"), COMES, booster)
    with pytest.raises(PreconditionError, match="do not follow each other"):
        a16(booster, grouping_booster(fine, far, auxiliary(fine, {"r": rows()})))
    with pytest.raises(PreconditionError, match="not computed group by group"):
        grouping_booster(view("SELECT a FROM r"), COMES, rows())
    with pytest.raises(PreconditionError, match="does not show the first"):
        window(fine, at(0), rows(), 2)
    small = window(view(FIRST[0]), at(0), auxiliary(view(FIRST[0]), {"r": rows()}), 2)
    with pytest.raises(PreconditionError, match="exactly where the window stands"):
        small.after(far)
    with pytest.raises(PreconditionError, match="does not refill"):
        small.refilled(replace(small, versions=at(5)), 2)
    assert of_auxiliary(wide, COMES).net
