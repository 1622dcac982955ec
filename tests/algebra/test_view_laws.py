"""The law suite, part two: how views and queries change when relations do.

On random views over one to three relations, where a relation may occur more than once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, permutations

from hypothesis import given, settings

from headwater.algebra.evaluate import telescoped_delta
from headwater.algebra.expressions import columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.terms import (
    Query,
    Term,
    bind_delta,
    changed_occurrences,
    negated,
    query_of,
    substitute,
)
from headwater.algebra.views import View
from tests.algebra.engines import Engine
from tests.strategies import Case, cases

MANY = settings(max_examples=3 * settings().max_examples)


def value(engine: Engine, view: View, state: Mapping[str, Rows]) -> Rows:
    return engine.evaluate(query_of(view), state, view.schema)


# Substitution


@given(case=cases(transactions=1, most_changed=1))
@MANY
def test_a_query_before_one_change_is_the_query_after_less_its_substitution(
    engine: Engine, case: Case
) -> None:
    query, schema = query_of(case.view), case.view.schema
    correction = engine.evaluate(substitute(query, case.delta), case.new, schema)
    assert value(engine, case.view, case.old) == value(engine, case.view, case.new) - correction


@given(case=cases(transactions=1, self_joins=True))
@MANY
def test_a_query_before_a_transaction_is_the_query_after_less_its_substitution(
    engine: Engine, case: Case
) -> None:
    query, schema = query_of(case.view), case.view.schema
    correction = engine.evaluate(substitute(query, case.delta), case.new, schema)
    assert value(engine, case.view, case.old) == value(engine, case.view, case.new) - correction


@given(case=cases(transactions=3, self_joins=True))
@MANY
def test_repeated_substitutions_take_a_query_back_over_several_transactions(
    engine: Engine, case: Case
) -> None:
    query = query_of(case.view)
    for delta in reversed(case.deltas):
        query += negated(substitute(query, delta))
    assert engine.evaluate(query, case.new, case.view.schema) == value(engine, case.view, case.old)


@given(case=cases(transactions=3, self_joins=True))
def test_substitutions_of_all_sets_of_transactions_cancel_to_the_first_state(
    engine: Engine, case: Case
) -> None:
    query: Query = ()
    for chosen in _subsets(case.deltas):
        part = query_of(case.view)
        for delta in chosen:
            part = substitute(part, delta)
        query += part if len(chosen) % 2 == 0 else negated(part)
    assert engine.evaluate(query, case.new, case.view.schema) == value(engine, case.view, case.old)


@given(case=cases(transactions=1, most_changed=1))
def test_substituting_two_changes_of_one_relation_leaves_nothing(case: Case) -> None:
    once = substitute(query_of(case.view), case.delta)
    assert substitute(once, {name: case.old[name] for name in case.delta}) == ()


@given(case=cases(transactions=1))
def test_the_order_in_which_relations_are_substituted_does_not_matter(
    engine: Engine, case: Case
) -> None:
    answers = set()
    for order in permutations(case.delta):
        query = query_of(case.view)
        for name in order:
            query = substitute(query, {name: case.delta[name]})
        answers.add(engine.evaluate(query, case.new, case.view.schema))
    assert len(answers) == 1


@given(case=cases(transactions=1))
def test_a_query_with_every_relation_substituted_reads_no_base_relation(
    engine: Engine, case: Case
) -> None:
    query = query_of(case.view)
    for name, rows in case.old.items():
        query = substitute(query, {name: rows})
    assert all(not term.base for term in query)
    assert engine.evaluate(query, {}, case.view.schema) == value(engine, case.view, case.old)


# A transaction's delta


@given(case=cases(transactions=1, self_joins=True))
@MANY
def test_the_telescoped_delta_is_the_difference_of_the_states(engine: Engine, case: Case) -> None:
    delta = telescoped_delta(case.view, case.delta, case.old, case.new)
    assert delta == value(engine, case.view, case.new) - value(engine, case.view, case.old)


@given(case=cases(transactions=1, self_joins=True, unions=True))
def test_the_delta_of_a_union_is_the_difference_of_the_states(engine: Engine, case: Case) -> None:
    old, new = (value(engine, case.view, state) for state in (case.old, case.new))
    assert new - old == telescoped_delta(case.view, case.delta, case.old, case.new)
    correction = engine.evaluate(
        substitute(query_of(case.view), case.delta), case.new, case.view.schema
    )
    assert old == new - correction


@given(case=cases(transactions=1, self_joins=True))
@MANY
def test_inclusion_and_exclusion_agrees_with_telescoping(engine: Engine, case: Case) -> None:
    substituted = substitute(query_of(case.view), case.delta)
    assert engine.evaluate(substituted, case.new, case.view.schema) == telescoped_delta(
        case.view, case.delta, case.old, case.new
    )


# Parts of a term


@given(case=cases(transactions=1, self_joins=True))
@MANY
def test_parts_answered_one_by_one_give_the_whole_term_for_every_split_and_order(
    engine: Engine, case: Case
) -> None:
    for term in _terms(case):
        whole = engine.evaluate((term,), case.new, case.view.schema)
        for split in _ordered_splits(range(len(term.join.occurrences))):
            answered = term
            for places in split:
                answered = _answer(engine, answered, places, case)
            assert not answered.base
            assert engine.evaluate((answered,), {}, case.view.schema) == whole


@given(case=cases(transactions=1, self_joins=True))
@MANY
def test_parts_that_include_earlier_answers_give_the_whole_term_in_every_order(
    engine: Engine, case: Case
) -> None:
    for term in _terms(case):
        whole = engine.evaluate((term,), case.new, case.view.schema)
        for split in _ordered_splits(range(len(term.join.occurrences))):
            answered = term
            covered: tuple[int, ...] = ()
            for places in split:
                covered += places
                answered = _answer(engine, answered, covered, case)
            assert engine.evaluate((answered,), {}, case.view.schema) == whole


@given(case=cases(transactions=1, self_joins=True))
def test_a_part_keeps_no_column_that_nothing_needs(engine: Engine, case: Case) -> None:
    (term,) = query_of(case.view)
    everything = range(len(term.join.occurrences))
    outputs = {name for output in term.join.outputs for name in columns_of(output)}
    late = {name for c in term.join.late_conjuncts for name in columns_of(c)}
    assert set(term.part(everything).join.schema.names) == outputs | late


def _answer(engine: Engine, term: Term, places: Sequence[int], case: Case) -> Term:
    part = term.part(places)
    return term.bind(places, engine.evaluate((part,), case.new, part.join.schema))


def _terms(case: Case) -> Iterator[Term]:
    """The view's own term, and one with each of the changes bound."""
    (term,) = query_of(case.view)
    yield term
    for at in changed_occurrences(term, case.delta):
        delta = case.delta[term.occurrence(at).relation.name]
        yield bind_delta(term, at, delta).scaled(-1)


# The order of occurrences


@given(case=cases(self_joins=True))
@MANY
def test_the_order_of_occurrences_does_not_matter(engine: Engine, case: Case) -> None:
    (join,) = case.view.joins
    expected = value(engine, case.view, case.old)
    for order in permutations(join.occurrences):
        view = replace(case.view, joins=(replace(join, occurrences=order),))
        assert value(engine, view, case.old) == expected


@given(case=cases(self_joins=True))
def test_the_order_of_conjuncts_does_not_matter(engine: Engine, case: Case) -> None:
    (join,) = case.view.joins
    turned = replace(join, condition=join.condition[::-1])
    view = replace(case.view, joins=(turned,))
    assert value(engine, view, case.old) == value(engine, case.view, case.old)


@given(case=cases(self_joins=True))
def test_a_view_of_two_joins_is_their_sum(engine: Engine, case: Case) -> None:
    twice = replace(case.view, joins=case.view.joins * 2)
    once = value(engine, case.view, case.old)
    assert value(engine, twice, case.old) == once + once


# That the laws are not true of nothing


def test_the_random_changes_change_many_of_the_views() -> None:
    changes: list[bool] = []
    repeated: list[bool] = []

    @settings(max_examples=200, derandomize=True, database=None)
    @given(cases(transactions=1, self_joins=True))
    def collect(case: Case) -> None:
        changes.append(bool(telescoped_delta(case.view, case.delta, case.old, case.new)))
        occurrences = case.view.joins[0].occurrences
        repeated.append(len(occurrences) > len(case.view.relations))

    collect()
    assert sum(changes) >= 0.4 * len(changes)
    assert sum(repeated) >= 0.25 * len(repeated)


# Helpers


def _subsets(items: Sequence[dict[str, Rows]]) -> Iterator[tuple[dict[str, Rows], ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def _ordered_splits(items: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Every way to divide the items into parts, with the parts in every order."""
    if not items:
        yield ()
    for size in range(1, len(items) + 1):
        for first in combinations(items, size):
            rest = [item for item in items if item not in first]
            for others in _ordered_splits(rest):
                yield (first, *others)
