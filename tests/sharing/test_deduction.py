"""What conditions imply, and which views contain which; never more than is so."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT, Row, decimal_type
from headwater.sharing.containment import is_contained
from headwater.sharing.errors import PreconditionError
from headwater.sharing.shared_views import SharedView
from tests.sharing.cases import CONDITIONS, RELATIONS

P = Relation("P", "x", Schema.of([("a", INT), ("b", INT), ("p", decimal_type(6, 2)), ("t", TEXT)]))
Q = Relation("Q", "y", Schema.of([("a", INT), ("c", INT), ("t", TEXT)]))


def view(where: str, name: str = "V", known: tuple[Relation, ...] = (P, Q)) -> SharedView:
    tables = ", ".join(relation.name for relation in known)
    sql = f"SELECT {known[0].name}.a AS o FROM {tables} WHERE {where}"
    return SharedView.parse(name, sql, known)


CONTAINED = [
    ("P.a = Q.a AND P.b = 1", "P.a = Q.a"),
    ("P.a = P.b AND P.b = Q.c", "Q.c = P.a"),
    ("P.a < Q.a AND Q.a <= Q.c", "P.a < Q.c"),
    ("P.a < Q.a", "Q.a > P.a AND Q.a >= P.a AND P.a <> Q.a"),
    ("P.a > 5", "P.a > 3 AND P.a >= 5 AND P.a <> 5 AND P.a IS NOT NULL"),
    ("P.p > 1.5", "P.p > 1"),
    ("P.p = 2", "P.p >= 1.99"),
    ("P.a = 1", "P.a IN (1, 2)"),
    ("P.a = Q.a AND Q.a = 3", "P.a = 3"),
    ("P.t LIKE 'x%' AND P.t = Q.t", "Q.t LIKE 'x%'"),
    ("P.t LIKE 'x%'", "P.t IS NOT NULL"),
    ("P.a = Q.a", "P.a IS NOT DISTINCT FROM Q.a"),
    ("P.a = 1 OR Q.a = 2", "Q.a = 2 OR P.a = 1"),
    ("P.a < 1 AND P.a > 2", "P.b = 7"),
    ("P.a = 1 AND P.a <> 1", "P.b = 7"),
    ("P.a = Q.a", "true"),
]
NOT_KNOWN = [
    ("P.a = Q.a", "P.b = 1"),
    ("P.a >= 5", "P.a > 5"),
    ("P.a > 3", "P.a > 5"),
    ("P.a <= Q.a", "P.a = Q.a"),
    ("P.a IS NOT DISTINCT FROM Q.a", "P.a = Q.a"),
    ("P.a IS NULL", "P.a = P.a"),
    ("P.a = 1 OR P.b = 2", "P.a = 1"),
    ("P.t LIKE 'x%'", "P.t LIKE 'xy%'"),
    ("P.a <> 1", "P.a <> 2"),
    ("P.a = Q.a", "false"),
    ("P.a > 1 AND P.a < 3", "P.a = 2"),  # so for whole numbers, and not known
]


@pytest.mark.parametrize(("narrow", "wide"), CONTAINED)
def test_a_view_is_contained_where_its_conditions_imply_the_others(narrow: str, wide: str) -> None:
    assert is_contained(view(narrow), view(wide, "W"), ("P", "Q"))


@pytest.mark.parametrize(("narrow", "wide"), NOT_KNOWN)
def test_what_does_not_follow_or_is_not_known_is_no(narrow: str, wide: str) -> None:
    assert not is_contained(view(narrow), view(wide, "W"), ("P", "Q"))


def test_relations_of_other_columns_are_not_contained() -> None:
    other = Relation("P", "x", Schema.of([("a", INT)]))
    assert not is_contained(view("P.a = 1"), view("P.a = 1", known=(other, Q)), ("P",))
    assert not is_contained(view("P.a = 1", known=(P,)), view("P.a = 1"), ("P", "Q"))


def test_parts_that_may_fail_are_left_to_the_end() -> None:
    found = view("P.a = Q.a AND 10 / P.b > 1 AND P.b > 0")
    assert len(found.join.late_conjuncts) == 1
    assert all("/" not in repr(conjunct) for conjunct in found.condition(("P", "Q")))


def test_conditions_are_closed_over_a_third_relation() -> None:
    wide = SharedView.parse(
        "V", "SELECT R.b FROM R, S, T WHERE R.a = T.b AND T.b = S.a AND S.c < T.c AND T.c < 2",
        RELATIONS,
    )  # fmt: skip
    closed = {repr(conjunct) for conjunct in wide.condition(("R", "S"))}
    assert len(closed) == 2
    assert is_contained(
        wide, view("R.a = S.a AND S.c < 2", known=(RELATIONS[0], RELATIONS[1])), ("R", "S")
    )


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT x.a FROM P AS x JOIN P AS y ON x.a = y.b", "reads P twice"),
        ("SELECT a FROM P UNION ALL SELECT b FROM P", "is a UNION ALL"),
        ("SELECT a, COUNT(*) AS n FROM P GROUP BY a", "is more than a join of relations"),
    ],
)
def test_the_rules_do_not_apply_to_what_is_more_than_a_join(sql: str, said: str) -> None:
    definition = SharedView.parse("V", sql, [P])
    assert definition.beyond_rules == said
    with pytest.raises(PreconditionError, match=f"View V {said}"):
        definition.facts  # noqa: B018


# Against every row of a small domain

VALUES = {INT: (0, 1, 2, 3, None), TEXT: ("u", "v", None)}
ROWS: dict[str, list[Row]] = {
    r.name: list(product(*(VALUES[kind] for kind in r.schema.types))) for r in RELATIONS
}


def satisfied(definition: SharedView, rows: dict[str, Rows]) -> bool:
    return bool(definition.joined([((name,), found) for name, found in rows.items()]))


def row_of(random: Random, name: str, definition: SharedView) -> Rows:
    return Rows(definition.columns((name,)), {random.choice(ROWS[name]): 1})


@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_said_to_be_contained_is(seed: int) -> None:
    random = Random(seed)
    chosen = random.sample(CONDITIONS, 3)
    narrow = view(" AND ".join(f"({c})" for c in chosen), "V", RELATIONS)
    wide = view(random.choice([*CONDITIONS, *chosen, "R.a = T.b", "S.a <= 1"]), "W", RELATIONS)
    for names in (("R", "S"), ("S", "T"), ("R", "S", "T")):
        if is_contained(narrow, wide, names):
            for _ in range(40):
                rows = {name: row_of(random, name, narrow) for name in names}
                assert satisfied(wide, rows) or not satisfied(narrow, rows)


@given(seed=st.integers(0, 2**32 - 1))
def test_a_pair_that_some_database_joins_is_relevant(seed: int) -> None:
    """Definition 2.3: if a row of T completes r and s, then their closed condition holds."""
    random = Random(seed)
    found = view(" AND ".join(f"({c})" for c in random.sample(CONDITIONS, 3)), "V", RELATIONS)
    every_t = Rows(found.columns(("T",)), dict.fromkeys(ROWS["T"], 1))
    for _ in range(20):
        rows = {name: row_of(random, name, found) for name in ("R", "S")}
        if satisfied(found, {**rows, "T": every_t}):
            assert satisfied(found, rows)
