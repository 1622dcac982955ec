"""The query processor as a machine: driven against fixed sources it gives what `evaluate` gives."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import Query, Term, negated, query_of, substitute
from headwater.algebra.values import INT
from headwater.algebra.views import View
from headwater.algorithms.parts.expected import ASSUMED
from headwater.algorithms.parts.source_evaluate import (
    Evaluation,
    Least,
    NextSource,
    begin,
    incorporate,
)
from headwater.protocol.effects import Ask
from headwater.protocol.events import AnswerArrived
from tests.strategies import random_bag, random_delta

SEEDS = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Case:
    view: View
    query: Query
    state: Mapping[str, Rows]


def random_case(seed: int) -> Case:
    """A view over up to four sources, whole or with updates substituted, once or twice."""
    random = Random(seed)
    count = random.randint(1, 5)
    sources = "wxyz"[: random.randint(1, 4)]
    relations = [
        Relation(f"r{n}", random.choice(sources), Schema.of([(f"A{n}", INT), (f"B{n}", INT)]))
        for n in range(1, count + 1)
    ]
    view = parse_view(_random_view(random, count), relations)
    query = query_of(view)
    for _ in range(random.randint(0, 2)):
        changed = random.sample(relations, random.randint(1, min(2, count)))
        inner = substitute(query, {r.name: random_delta(random, r.schema) for r in changed})
        query = inner if random.random() < 0.7 else query + negated(inner)
    state = {r.name: random_bag(random, r.schema) for r in relations}
    return Case(view, query, state)


def _random_view(random: Random, count: int) -> str:
    """Relations joined in a random tree, sometimes with a link missing or one too many."""
    joins = []
    for n in range(2, count + 1):
        other = random.randint(1, n - 1)
        if random.random() < 0.85:
            joins.append(f"{random.choice('AB')}{n} = {random.choice('AB')}{other}")
    if random.random() < 0.3:
        joins.append(f"A1 {random.choice(['<', '<=', '<>'])} B{count}")
    if random.random() < 0.2:
        joins.append(f"A1 + B{count} > 0")
    shown = random.sample([f"{c}{n}" for n in range(1, count + 1) for c in "AB"], 2)
    where = f" WHERE {' AND '.join(joins)}" if joins else ""
    names = ", ".join(f"r{n}" for n in range(1, count + 1))
    return f"SELECT {', '.join(shown)} FROM {names}{where}"


def answered(ask: Ask, state: Mapping[str, Rows]) -> AnswerArrived:
    """What the asked source answers; it has no other relations than its own."""
    results = tuple(evaluate(query, state) for query in ask.queries)
    return AnswerArrived(ask.source, ask.label, results)


def drive(
    case: Case, next_source: NextSource | None = None, fetches: bool = False
) -> tuple[Rows, list[Ask]]:
    """The result and the questions asked on the way."""
    evaluation, ask = begin("Q1", case.query, case.view.schema, next_source, fetches)
    asked: list[Ask] = []
    while ask is not None:
        assert len(asked) < 50, "it goes on for ever"
        asked.append(ask)
        evaluation, ask = incorporate(evaluation, answered(ask, case.state))
    assert evaluation.is_done
    return evaluation.collected, asked


def sources_of(terms: Iterable[Term]) -> set[str]:
    return {term.occurrence(at).relation.source for term in terms for at in term.base}


def pieces(term: Term) -> int:
    """Into how many pieces a term falls if only conditions and bound rows hold it together."""
    groups = [
        {factor.at} if isinstance(factor.at, int) else set(factor.at) for factor in term.factors
    ]
    reaches = [set(term.join.reach(condition)) for condition in term.join.condition]
    for reach in reaches:
        touched = [group for group in groups if group & reach]
        groups = [g for g in groups if not g & reach] + ([set().union(*touched)] if touched else [])
    return len(groups)


@given(SEEDS)
def test_the_answers_put_together_are_the_query(seed: int) -> None:
    case = random_case(seed)
    assert drive(case)[0] == evaluate(case.query, case.state, case.view.schema)


@given(SEEDS)
def test_the_order_least_gives_the_same_result(seed: int) -> None:
    case = random_case(seed)
    assert drive(case, Least(ASSUMED))[0] == evaluate(case.query, case.state, case.view.schema)


@given(SEEDS)
def test_partners_that_come_alone_give_the_same_result(seed: int) -> None:
    case = random_case(seed)
    found, asked = drive(case, fetches=True)
    assert found == evaluate(case.query, case.state, case.view.schema)
    assert len(asked) <= len(drive(case)[1])


def test_what_is_known_does_not_come_back_with_each_partner() -> None:
    schemas = [Schema.of([(f"{c}{n}", INT) for c in "ABC"]) for n in range(3)]
    one, two, three = (Relation(f"r{n}", "xyz"[n], schema) for n, schema in enumerate(schemas))
    sql = "SELECT B0, C0, A1, A2 FROM r0, r1, r2 WHERE B1 = A0 AND B2 = A1"
    view = parse_view(sql, [one, two, three])
    state = {
        "r0": Rows.empty(one.schema),
        "r1": Rows.of(two.schema, [(n, 1, 0) for n in range(9)]),
        "r2": Rows.of(three.schema, [(n, n, 0) for n in range(9)]),
    }
    query = substitute(query_of(view), {"r0": Rows.of(one.schema, [(1, 77, 88)])})
    case = Case(view, query, state)
    for fetches, names in ((False, ["r0.B0", "r0.C0", "r1.A1"]), (True, ["r1.A1", "r1.B1"])):
        result, (first, _) = drive(case, fetches=fetches)
        assert len(result) == 9
        assert list(first.queries[0][0].join.schema.names) == names


@given(SEEDS)
def test_each_question_is_about_one_source(seed: int) -> None:
    for ask in drive(random_case(seed))[1]:
        assert ask.queries
        assert all(sources_of(query) == {ask.source} for query in ask.queries)


@given(SEEDS)
def test_no_question_is_a_product_where_a_join_is_possible(seed: int) -> None:
    case = random_case(seed)
    if pieces(query_of(case.view)[0]) > 1:
        return
    for ask in drive(case)[1]:
        assert all(pieces(term) == 1 for query in ask.queries for term in query)


@given(SEEDS)
def test_questions_are_numbered_if_there_are_several_sources(seed: int) -> None:
    case = random_case(seed)
    labels = [ask.label for ask in drive(case)[1]]
    if len(sources_of(case.query)) == 1:
        assert labels == ["Q1"]
    else:
        assert labels == [f"Q1^{number}" for number in range(1, len(labels) + 1)]


# Cases that are seen by hand


def chain(places: str, *, joined: bool = True, shown: str = "A1") -> View:
    """r1, r2, ... at these sources, each joined with the next one."""
    relations = [
        Relation(f"r{n}", source, Schema.of([(f"A{n}", INT), (f"B{n}", INT)]))
        for n, source in enumerate(places, 1)
    ]
    joins = [f"B{n} = A{n + 1}" for n in range(1, len(places))] if joined else []
    where = f" WHERE {' AND '.join(joins)}" if joins else ""
    return parse_view(
        f"SELECT {shown} FROM {', '.join(r.name for r in relations)}{where}", relations
    )


def changed(view: View, relation: str, *rows: tuple[int, int]) -> Query:
    found = view.relation(relation)
    assert found is not None
    return substitute(query_of(view), {relation: Rows.of(found.schema, rows)})


def ones(view: View) -> dict[str, Rows]:
    return {relation.name: Rows.of(relation.schema, [(1, 1)]) for relation in view.relations}


def route(view: View, query: Query, next_source: NextSource | None = None) -> list[str]:
    return [ask.source for ask in drive(Case(view, query, ones(view)), next_source)[1]]


@pytest.mark.parametrize(
    ("places", "relation", "expected"),
    [
        ("xyz", "r2", ["x", "z"]),
        ("xyz", "r1", ["y", "z"]),
        ("xyz", "r3", ["y", "x"]),
        ("xxx", "r2", ["x"]),
        ("xxy", "r3", ["x"]),
        ("xyx", "r2", ["x"]),
        ("xyx", "r1", ["y", "x"]),
        ("xyxy", "r4", ["x", "y", "x"]),
    ],
)
def test_the_route_follows_the_joins(places: str, relation: str, expected: list[str]) -> None:
    view = chain(places)
    assert route(view, changed(view, relation, (1, 1))) == expected


def test_a_view_over_relations_that_are_not_adjacent_visits_their_source_twice() -> None:
    view = chain("xyx")
    assert route(view, query_of(view)) == ["x", "y", "x"]


def test_relations_that_nothing_joins_are_asked_for_one_after_the_other() -> None:
    view = chain("xy", joined=False)
    assert route(view, query_of(view)) == ["x", "y"]


def test_a_query_over_one_source_is_one_question_even_if_nothing_joins() -> None:
    view = chain("xxx", joined=False)
    assert route(view, query_of(view)) == ["x"]
    assert route(view, changed(view, "r2", (1, 1))) == ["x"]


def test_what_is_left_at_the_last_source_is_one_question() -> None:
    view = chain("xyy", joined=False)
    assert route(view, query_of(view)) == ["x", "y"]


def test_only_needed_columns_come_back() -> None:
    view = chain("xyz", shown="A3")
    _, asked = drive(Case(view, query_of(view), ones(view)))
    (term,) = asked[0].queries[0]
    assert term.join.schema.names == ("r1.B1",)


def test_nothing_is_asked_if_every_relation_is_bound() -> None:
    view = chain("xy")
    query = substitute(changed(view, "r1", (7, 1)), {"r2": ones(view)["r2"]})
    evaluation, ask = begin("Q1", query, view.schema)
    assert ask is None
    assert evaluation.collected == Rows.of(view.schema, [(7,)])


def test_nothing_is_asked_for_an_empty_query() -> None:
    view = chain("xy")
    evaluation, ask = begin("Q1", (), view.schema)
    assert (ask, evaluation.is_done, evaluation.collected) == (None, True, Rows.empty(view.schema))


def test_nothing_is_asked_if_something_bound_is_empty() -> None:
    view = chain("xyz")
    (term,) = changed(view, "r1", (1, 1))
    empty = (term.bind((0,), Rows.empty(term.occurrence(0).schema)),)
    evaluation, ask = begin("Q1", empty, view.schema)
    assert (ask, evaluation.collected) == (None, Rows.empty(view.schema))


def test_an_empty_answer_ends_the_evaluation() -> None:
    view = chain("xyz")
    evaluation, ask = begin("Q1", changed(view, "r1", (1, 1)), view.schema)
    assert ask is not None
    nothing = tuple(Rows.empty(query[0].join.schema) for query in ask.queries)
    evaluation, more = incorporate(evaluation, AnswerArrived(ask.source, ask.label, nothing))
    assert (more, evaluation.is_done) == (None, True)


def test_the_order_of_sources_can_be_chosen() -> None:
    view = chain("xyz")
    query = changed(view, "r2", (1, 1))

    def last(working: Query) -> str:
        term = working[0]
        return term.occurrence(term.base[-1]).relation.source

    assert route(view, query) == ["x", "z"]
    assert route(view, query, last) == ["z", "x"]


def test_a_source_at_which_nothing_can_go_on_is_a_mistake_of_the_chooser() -> None:
    view = chain("xyz")
    with pytest.raises(AssertionError, match="no term can go on at source z"):
        begin("Q1", changed(view, "r1", (1, 1)), view.schema, lambda working: "z")


@given(SEEDS)
def test_any_order_that_joins_gives_the_same_result(seed: int) -> None:
    case = random_case(seed)
    if pieces(query_of(case.view)[0]) > 1:
        return
    random = Random(seed)

    def any_neighbour(working: Query) -> str:
        term = working[0]
        bound = {at for factor in term.bound for at in factor.at}
        reaches = [reach for _, reach in term.join.safe_conjuncts]
        near = [at for at in term.base if not bound or any(at in r and r & bound for r in reaches)]
        return term.occurrence(random.choice(near or list(term.base))).relation.source

    found, asked = drive(case, any_neighbour)
    assert found == evaluate(case.query, case.state, case.view.schema)
    assert all(ask.queries for ask in asked)


def test_terms_that_a_source_can_finish_share_one_answer() -> None:
    view = chain("xx")
    _, ask = begin("Q1", substitute(query_of(view), ones(view)), view.schema)
    assert ask is not None
    assert [len(query) for query in ask.queries] == [2]


def test_an_evaluation_is_a_value() -> None:
    view = chain("xyz")
    first: tuple[Evaluation, Ask | None] = begin("Q1", query_of(view), view.schema)
    again = begin("Q1", query_of(view), view.schema)
    assert first == again
    assert hash(first[0]) == hash(again[0])
