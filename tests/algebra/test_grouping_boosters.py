"""The examples of the updategrams paper, section 4.2: AVG by groups, and the first k.

The rows that are stored for a view are its auxiliary view, and those with the keys that an update
touches are the grouping booster: with it, and without anything else, the view's own updategram is
computed.
"""

from __future__ import annotations

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algebra.views import View

R = Relation("r", "x", Schema.of([("a", INT), ("b", INT), ("c", INT)]))
AVERAGES = parse_view("SELECT a, AVG(c) AS mean FROM r GROUP BY a, b", [R])
GREATEST = parse_view("SELECT a, MAX(c) AS most FROM r GROUP BY a", [R])
FIRST_TWO = parse_view("SELECT c FROM r ORDER BY c DESC LIMIT 2", [R])


def rows(*values: tuple[int, int, int]) -> Rows:
    return Rows.of(R.schema, values)


def booster(view: View, stored: Rows, delta: Rows) -> Rows:
    """Those of the stored rows whose keys a change touches."""
    assert view.top is not None
    keys = keying(view.top)
    assert keys is not None
    touched = delta.positive() - delta.negative()
    return stored.restricted(touched, keys[None], keys[None])


def updategram(view: View, stored: Rows, change: Rows) -> Rows:
    """What goes and what comes in what is shown, told from the booster alone."""
    delta = evaluate_view(view, {"r": change})
    touched = booster(view, stored, delta)
    return view.shown(touched + delta) - view.shown(touched)


def test_an_insertion_replaces_the_average_of_its_group() -> None:
    """(a, b, c) comes: (a, d/e) goes, and (a, (d + c)/(e + 1)) comes."""
    base = rows((1, 1, 10), (1, 1, 20), (1, 2, 7), (2, 1, 5))
    stored = evaluate_view(AVERAGES, {"r": base})
    found = updategram(AVERAGES, stored, rows((1, 1, 60)))
    gone, come = [(1, 30 / 2)], [(1, 90 / 3)]
    assert found == Rows.of(found.schema, come) - Rows.of(found.schema, gone)


def test_the_booster_is_the_group_that_an_update_touches_and_nothing_else() -> None:
    stored = evaluate_view(AVERAGES, {"r": rows((1, 1, 10), (1, 2, 7), (2, 1, 5))})
    delta = evaluate_view(AVERAGES, {"r": rows((1, 1, 60))})
    assert set(booster(AVERAGES, stored, delta)) == {(1, 1, 10)}


def test_the_next_value_takes_the_place_of_a_maximum_that_is_deleted() -> None:
    base = rows((1, 1, 10), (1, 1, 20), (2, 1, 99))
    stored = evaluate_view(GREATEST, {"r": base})
    found = updategram(GREATEST, stored, -rows((1, 1, 20)))
    assert found == Rows.of(found.schema, [(1, 10)]) - Rows.of(found.schema, [(1, 20)])


def test_a_group_that_loses_its_last_row_disappears() -> None:
    stored = evaluate_view(GREATEST, {"r": rows((1, 1, 10), (2, 1, 99))})
    found = updategram(GREATEST, stored, -rows((2, 1, 99)))
    assert found == -Rows.of(found.schema, [(2, 99)])


def test_the_first_k_are_refilled_from_what_is_stored() -> None:
    stored = evaluate_view(FIRST_TWO, {"r": rows((1, 1, 10), (1, 1, 20), (1, 1, 30))})
    after = stored + evaluate_view(FIRST_TWO, {"r": -rows((1, 1, 30))})
    assert set(FIRST_TWO.shown(stored)) == {(30,), (20,)}
    assert set(FIRST_TWO.shown(after)) == {(20,), (10,)}
