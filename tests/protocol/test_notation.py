"""Queries print as the papers print them."""

from collections.abc import Sequence

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, negated, query_of, substitute
from headwater.algebra.values import INT, TEXT
from headwater.protocol.notation import show_query

RELATIONS = {
    relation.name: relation
    for relation in (
        Relation("r1", "x", Schema.of([("W", INT), ("X", INT)])),
        Relation("r2", "y", Schema.of([("X", INT), ("Y", INT)])),
        Relation("r3", "z", Schema.of([("Y", INT), ("Z", INT)])),
        Relation("n", "x", Schema.of([("id", INT), ("name", TEXT)])),
    )
}
PROJECTED = "SELECT r1.W FROM r1, r2 WHERE r1.X = r2.X"
CHAIN = "SELECT r1.W FROM r1, r2, r3 WHERE r1.X = r2.X AND r2.Y = r3.Y"


def query(sql: str) -> Query:
    return query_of(parse_view(sql, RELATIONS))


def change(relation: str, *rows: Sequence[object], sign: int = 1) -> dict[str, Rows]:
    return {relation: Rows.of(RELATIONS[relation].schema, rows, sign)}


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (PROJECTED, "Π_W(r1 ⋈ r2)"),
        ("SELECT r1.W, r2.Y FROM r1, r2 WHERE r1.X = r2.X", "Π_{W,Y}(r1 ⋈ r2)"),
        ("SELECT W, r1.X, Y FROM r1, r2 WHERE r1.X = r2.X", "r1 ⋈ r2"),
        ("SELECT * FROM r1", "r1"),
        ("SELECT W FROM r1 WHERE X = 3", "Π_W(σ_{X = 3}(r1))"),
        ("SELECT W FROM r1, r3 WHERE W > Z", "Π_W(σ_{W > Z}(r1 ⋈ r3))"),
        ("SELECT W FROM r1, r3 WHERE W = Z", "Π_W(σ_{W = Z}(r1 ⋈ r3))"),
        ("SELECT W FROM r1, r3 WHERE W = Z AND X < 2", "Π_W(σ_{W = Z ∧ X < 2}(r1 ⋈ r3))"),
        ("SELECT W FROM r1 WHERE W = 1 OR X = 2", "Π_W(σ_{(W = 1) OR (X = 2)}(r1))"),
        (
            "SELECT W FROM r1 WHERE (W = 1 OR W = 2) AND X < 2",
            "Π_W(σ_{((W = 1) OR (W = 2)) ∧ X < 2}(r1))",
        ),
        ("SELECT 1 AS one FROM r1", "Π_{1 AS one}(r1)"),
        ("SELECT r1.X, r2.X AS B FROM r1, r2", "Π_{r1.X,r2.X}(r1 ⋈ r2)"),
        ("SELECT W + 1 AS v FROM r1", "Π_{W + 1 AS v}(r1)"),
        ("SELECT W, X * 2 AS v FROM r1", "Π_{W,X * 2 AS v}(r1)"),
        ("SELECT W, X, W AS again FROM r1", "Π_{W,X,W}(r1)"),
        ("SELECT a.W FROM r1 AS a", "Π_W(a)"),
        ("SELECT id FROM n WHERE name = 'it''s'", "Π_id(σ_{name = 'it''s'}(n))"),
    ],
)
def test_a_view_prints_as_one_term(sql: str, shown: str) -> None:
    assert show_query(query(sql)) == shown


def test_an_update_stands_in_the_place_of_its_relation() -> None:
    assert show_query(substitute(query(PROJECTED), change("r2", [2, 3]))) == "Π_W(r1 ⋈ [2, 3])"


def test_several_rows_stand_in_parentheses() -> None:
    found = substitute(query(PROJECTED), change("r2", [2, 3], [5, 6]))
    assert show_query(found) == "Π_W(r1 ⋈ ([2, 3], [5, 6]))"


def test_a_deleted_row_has_its_sign_in_parentheses() -> None:
    found = substitute(query(PROJECTED), change("r1", [1, 2], sign=-1))
    assert show_query(found) == "Π_W((-[1, 2]) ⋈ r2)"


def test_a_term_that_is_taken_off_has_its_sign_before_it() -> None:
    found = negated(substitute(query(PROJECTED), change("r1", [1, 2])))
    assert show_query(found) == "-Π_W([1, 2] ⋈ r2)"


def test_a_compensated_query_is_a_difference() -> None:
    first = substitute(query(PROJECTED), change("r2", [2, 3]))
    found = first + negated(substitute(first, change("r1", [4, 2])))
    assert show_query(found) == "Π_W(r1 ⋈ [2, 3]) - Π_W([4, 2] ⋈ [2, 3])"


def test_a_transaction_over_two_relations_is_three_terms() -> None:
    found = substitute(query(PROJECTED), change("r1", [4, 2]) | change("r2", [2, 3]))
    assert show_query(found) == ("Π_W([4, 2] ⋈ r2) + Π_W(r1 ⋈ [2, 3]) - Π_W([4, 2] ⋈ [2, 3])")


def test_a_coefficient_stands_before_its_term() -> None:
    (term,) = query(PROJECTED)
    assert show_query((term.scaled(3), term.scaled(-2))) == "3·Π_W(r1 ⋈ r2) - 2·Π_W(r1 ⋈ r2)"


def test_nothing_prints_as_the_empty_relation() -> None:
    assert show_query(()) == "∅"


def test_a_part_prints_without_the_rest() -> None:
    (term,) = substitute(query(CHAIN), change("r2", [2, 3]))
    assert show_query((term.part((0, 1)),)) == "Π_{W,Y}(r1 ⋈ [2, 3])"


def test_an_answer_is_bound_for_several_relations_at_once() -> None:
    (term,) = substitute(query(CHAIN), change("r2", [2, 3]))
    answer = Rows.of(term.part((0, 1)).join.schema, [[1, 3]])
    assert show_query((term.bind((0, 1), answer),)) == "Π_W([1, 3] ⋈ r3)"
