"""The rules A1 to A11 as laws: each takes a random case and asserts that the rule holds on it.

The oracle is always the definition: the view recomputed at both versions, and the rows of S
that satisfy the view's condition with a touched row of R.
"""

from collections.abc import Callable
from dataclasses import replace

from headwater.algebra.rows import Rows
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.containment import is_contained
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from tests.sharing.cases import LAST, Case

S_AT, T_AT = 1, 2


def booster(case: Case, view: SharedView, of: str, first: int, last: int) -> Booster:
    at = {"S": S_AT, "T": T_AT}[of]
    return rules.a3(view, case.updategram("R", first, last), case.contents(of, at))


def covers(found: Booster, exact: Booster, universe: Rows) -> None:
    """A super-booster: all rows of the exact one, and only rows that there are, by their counts."""
    for row, count in exact.rows.items():
        assert found.rows.count(row) == count
    for row, count in found.rows.items():
        assert universe.count(row) == count


def joined_exactly(case: Case, view: SharedView, first: int, last: int) -> tuple[Booster, Rows]:
    """beta_V(mu_R, S x_V T) by its definition, and S x_V T."""
    names = view.ordered(("S", "T"))
    rows = {
        name: case.states[name][at].renamed(view.columns((name,)))
        for name, at in (("S", S_AT), ("T", T_AT))
    }
    universe = view.joined([((name,), rows[name]) for name in names])
    whole = Booster(
        view,
        case.updategram("R", 0, LAST).interval,
        names,
        Versions({"S": S_AT, "T": T_AT}),
        universe,
    )
    return rules.narrowed(view, case.updategram("R", first, last), whole), universe


def expected(case: Case, first: int, last: int) -> Rows:
    vector = Versions({"R": first, "S": S_AT, "T": T_AT})
    return case.recomputed(vector.moved("R", last)) - case.recomputed(vector)


def finished(case: Case, joined: Updategram, other: Booster) -> Rows:
    """The net change of the view, from R joined with S."""
    return rules.finished(case.view, rules.a8(case.view, joined, other)).net


def same(one: Updategram, two: Updategram) -> None:
    assert (one.first, one.last) == (two.first, two.last)
    assert one.inserted == two.inserted
    assert one.deleted == two.deleted


def through_relations(case: Case, first: int, last: int) -> Updategram:
    mu = case.updategram("R", first, last)
    return rules.a1(case.view, mu, case.contents("S", S_AT))


def a1(case: Case) -> None:
    with_s = through_relations(case, 0, 3)
    done = rules.finished(case.view, rules.a1(case.view, with_s, case.contents("T", T_AT)))
    assert done.net == expected(case, 0, 3)


def a2(case: Case) -> None:
    mu = case.updategram("R", 1, 4)
    same(
        rules.a2(case.view, mu, booster(case, case.view, "S", 1, 4)),
        through_relations(case, 1, 4),
    )


def a3(case: Case) -> None:
    view, mu = case.view, case.updategram("R", 0, 3)
    found = rules.a3(view, mu, case.contents("S", S_AT))
    universe = case.states["S"][S_AT].renamed(view.columns(("S",)))
    steps = case.steps["R"][:3]
    mentioned = {row for step in steps for row in (*step.inserted, *step.deleted)}
    touched = Rows(view.columns(("R",)), dict.fromkeys(mentioned, 1))
    for row, count in universe.items():
        alone = Rows(universe.schema, {row: 1})
        relevant = bool(view.joined([(("R",), touched), (("S",), alone)]))
        assert found.rows.count(row) == (count if relevant else 0)


def a4(case: Case) -> None:
    view = case.view
    found = rules.a4(view, booster(case, view, "S", 0, 3), booster(case, view, "T", 0, 3))
    covers(found, *joined_exactly(case, view, 0, 3))


def a5(case: Case) -> None:
    view, mu = case.view, case.updategram("R", 0, 3)
    of_s, of_t = booster(case, view, "S", 0, 3), booster(case, view, "T", 0, 3)
    left = rules.a2(view, rules.a2(view, mu, of_s), of_t)
    same(left, rules.a5(view, mu, of_s, of_t))
    assert rules.finished(view, left).net == expected(case, 0, 3)


def a6(case: Case) -> None:
    wide = case.wider[0]
    assert is_contained(case.view, wide, ("R", "S"))
    mu = case.updategram("R", 0, 3)
    same(
        rules.a6(case.view, mu, booster(case, wide, "S", 0, 3)),
        through_relations(case, 0, 3),
    )


def a7(case: Case) -> None:
    u, w = case.wider
    found = rules.a7(case.view, booster(case, u, "S", 0, 3), booster(case, w, "T", 0, 3))
    covers(found, *joined_exactly(case, case.view, 0, 3))


def a8(case: Case) -> None:
    mu, whole = case.updategram("R", 1, 3), booster(case, case.view, "S", 0, LAST)
    done = rules.a8(case.view, mu, whole)
    same(done, through_relations(case, 1, 3))
    back = rules.a8(case.view, mu.inverse(), whole)
    same(back, done.inverse())


def a9(case: Case) -> None:
    view = case.view
    found = rules.a9(view, booster(case, view, "S", 0, 3), booster(case, view, "T", 1, 4))
    assert (found.interval.first, found.interval.last) == (1, 3)
    covers(found, *joined_exactly(case, view, 1, 3))


def a10(case: Case) -> None:
    whole = rules.a10(case.updategram("R", 0, 2), case.updategram("R", 2, 4))
    same(whole, case.updategram("R", 0, 4))
    assert whole.net == case.states["R"][4] - case.states["R"][0]
    view = case.view
    parts = [rules.a8(view, case.updategram("R", *i), booster(case, view, "S", 0, 4))
             for i in ((0, 2), (2, 4))]  # fmt: skip
    same(rules.a10(*parts), through_relations(case, 0, 4))


def a11(case: Case) -> None:
    u, w = case.wider
    universe = case.states["S"][S_AT].renamed(case.view.columns(("S",)))
    for middle in (1, 2):
        merged = rules.a11(
            case.view, booster(case, u, "S", 0, 2), booster(case, w, "S", middle, LAST)
        )
        covers(merged, booster(case, case.view, "S", 0, LAST), universe)
        mu = case.updategram("R", 0, LAST)
        assert finished(case, rules.a8(case.view, mu, merged), booster(
            case, case.view, "T", 0, LAST)) == expected(case, 0, LAST)  # fmt: skip


def moved(case: Case) -> None:
    """A booster moved by an updategram of its relation is the booster of the other version."""
    mu = case.updategram("R", 1, 3)
    whole = booster(case, case.wider[0], "S", 0, LAST)
    for version in (0, 3):
        change = case.updategram("S", S_AT, version)
        exact = rules.a3(case.view, mu, case.contents("S", version))
        found = rules.moved(case.view, mu, whole, change)
        assert found.rows == exact.rows
        assert replace(found, rows=exact.rows) == exact


def through(case: Case) -> None:
    """A booster of T for R joined with S is what that joins with, also narrowed and moved."""
    view = case.view
    whole = through_relations(case, 0, LAST)
    wide = rules.a3(case.wider[0], whole_of(case, case.wider[0]), case.contents("T", T_AT))
    part = through_relations(case, 1, 3)
    exact = rules.a3(view, part, case.contents("T", T_AT))
    same(rules.a8(view, part, exact), rules.a1(view, part, case.contents("T", T_AT)))
    assert rules.narrowed(view, part, wide).rows == exact.rows
    change = case.updategram("T", T_AT, 0)
    found = rules.moved(view, part, wide, change)
    assert found.rows == rules.a3(view, part, case.contents("T", 0)).rows
    together = rules.a4(
        view, booster(case, view, "S", 0, LAST), rules.a3(view, whole, case.contents("T", T_AT))
    )
    covers(together, *joined_exactly(case, view, 0, LAST))
    assert not together.through


def whole_of(case: Case, view: SharedView) -> Updategram:
    return rules.a1(view, case.updategram("R", 0, LAST), case.contents("S", S_AT))


LAWS: dict[str, Callable[[Case], None]] = {
    law.__name__: law for law in (a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, moved, through)
}
