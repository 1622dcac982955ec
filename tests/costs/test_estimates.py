"""Estimates are what the lab counts, and grow with what they should grow with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.algebra.views import View
from headwater.algorithms.registry import ALGORITHMS
from headwater.bench.comparison import comparable
from headwater.costs.estimating import Estimator
from headwater.costs.statistics import Prices, RelationStatistics, SourceStatistics, Statistics
from headwater.costs.trial import Estimate
from headwater.lab.generate import Shape, chain, generate
from headwater.lab.run import run
from headwater.lab.scenario import Scenario, scenario_from_json
from headwater.lab.simulate import simulate
from headwater.project.choice import variants

APART_S = 1000.0
RUNNING = [n for n, a in ALGORITHMS.items() if a.nodes is None and n not in ("copies", "recompute")]


def changes_of(scenario: Scenario) -> list[tuple[str, str]]:
    """What happens in a scenario of single updates: which relation changes, and how."""
    found = []
    for transaction in scenario.transactions:
        (update,) = transaction.updates
        signs = {count > 0 for _, count in update.delta.items()}
        kind = "updates" if len(signs) == 2 else "inserts" if True in signs else "deletes"
        found.append((update.relation, kind))
    return found


def estimated(scenario: Scenario, name: str, settings: dict[str, str]) -> float:
    estimator = Estimator(scenario.view, Statistics(), each_state=True)
    changes = changes_of(scenario)
    return estimator.tried(ALGORITHMS[name], settings, changes, 1, APART_S).messages


def counted(scenario: Scenario, name: str, settings: dict[str, str]) -> float:
    simulation = simulate(scenario, name, {**settings, "timing": "serial"})
    done = run(simulation, lambda enabled: enabled[0])
    return done.trace.message_count / len(scenario.transactions)


@pytest.mark.parametrize("relations", [2, 3, 4])
@pytest.mark.parametrize("name", [name for name in comparable() if name in RUNNING])
def test_messages_are_those_that_the_lab_counts(name: str, relations: int) -> None:
    scenario = chain(relations, 4 * relations)
    assert estimated(scenario, name, {}) == counted(scenario, name, {})


def at_one_source(scenario: Scenario) -> Scenario:
    data = dict(scenario.data)
    relations = data["relations"]
    assert isinstance(relations, dict)
    for described in relations.values():
        assert isinstance(described, dict)
        described["source"] = "s"
    return scenario_from_json(data, "one source")


@pytest.mark.parametrize("name", ["eca", "eca-key", "lca", "sweep", "posse", "t-strobe"])
def test_over_one_source_too(name: str) -> None:
    scenario = at_one_source(chain(3, 12))
    assert estimated(scenario, name, {}) == counted(scenario, name, {})


@pytest.mark.parametrize("name", RUNNING)
def test_parameters_change_nothing_that_the_lab_does_not_see(name: str) -> None:
    scenario = chain(3, 12)
    if ALGORITHMS[name].promises["multi-source"] == "none":
        scenario = at_one_source(scenario)
    for settings in variants(ALGORITHMS[name]):
        if settings.get("local") != "on":  # what the view holds is not known to an estimate
            assert estimated(scenario, name, settings) == counted(scenario, name, settings)


# The papers' formulas


TABLES = [
    Relation(f"s{n}.r{n}", f"s{n}", Schema.of([("k", INT), ("a", INT), ("b", TEXT)]), ("k",))
    for n in (1, 2, 3)
]
CHAIN = parse_view(
    "SELECT r1.k AS k1, r2.k AS k2, r3.k AS k3, r3.b FROM s1.r1 JOIN s2.r2 ON r1.a = r2.k "
    "JOIN s3.r3 ON r2.a = r3.k",
    TABLES,
)


def only(kind: str, **more: float) -> Statistics:
    rates: dict[str, Any] = {"inserts": 0.0, "deletes": 0.0, "updates": 0.0, kind: 1.0}
    return Statistics({r.name: RelationStatistics(**{**rates, **more}) for r in TABLES})


def estimate(name: str, statistics: Statistics, view: View = CHAIN, **settings: str) -> Estimate:
    return Estimator(view, statistics, each_state=False).estimate(ALGORITHMS[name], settings)


@pytest.mark.parametrize(
    ("name", "kind", "messages"),
    [
        ("sweep", "inserts", 4),  # PVM, Table 4: 2(n - 1) whatever happens
        ("sweep", "deletes", 4),
        ("t-strobe", "inserts", 4),  # Strobe: 2(n - 1) for an insertion, none for a deletion
        ("t-strobe", "deletes", 0),
        ("c-t-strobe", "deletes", 0),
    ],
)
def test_messages_are_those_of_the_papers(name: str, kind: str, messages: float) -> None:
    assert estimate(name, only(kind)).messages == messages


def test_eca_asks_once_for_each_update() -> None:
    one = [replace(relation, source="s", name=f"s.{relation.short_name}") for relation in TABLES]
    sql = CHAIN.sql.replace("s1.", "s.").replace("s2.", "s.").replace("s3.", "s.")
    assert estimate("eca", Statistics(), parse_view(sql, one)).messages == 2


# What grows with what


def test_more_partners_move_more() -> None:
    found = [estimate("sweep", only("deletes", rows=rows)).bytes for rows in (1e3, 1e4, 1e5)]
    assert found[0] <= found[1] <= found[2]
    few, many = (
        Statistics(
            {r.name: RelationStatistics(rows=1e4, distinct={"a": different}) for r in TABLES}
        )
        for different in (1e4, 10)
    )
    assert estimate("sweep", few).bytes < estimate("sweep", many).bytes


@pytest.mark.parametrize("name", ["sweep", "posse", "t-strobe", "c-t-strobe", "pvm-cc"])
def test_dearer_questions_and_commits_take_longer(name: str) -> None:
    def time_s(question_s: float, prices: Prices) -> float:
        sources = {s: SourceStatistics(question_s=question_s) for s in CHAIN.sources}
        return estimate(name, Statistics({}, sources, prices)).time_s

    times = [time_s(question_s, Prices()) for question_s in (0.001, 0.01, 0.1)]
    assert times == sorted(times)
    assert times[0] < times[2]
    assert time_s(0.01, Prices(commit_s=0.001)) < time_s(0.01, Prices(commit_s=0.1))


def at_once(name: str, together: int) -> Estimate:
    sources = {s: SourceStatistics(together=together) for s in CHAIN.sources}
    batch: dict[str, Any] = {"batch": "1000"} if "batch" in ALGORITHMS[name].parameters else {}
    return estimate(name, Statistics({}, sources), **batch)


@pytest.mark.parametrize("name", ["sweep", "t-strobe", "pvm-cc"])
def test_what_comes_together_waits_longer_and_is_asked_for_together(name: str) -> None:
    alone, many = at_once(name, 1), at_once(name, 20)
    assert alone.time_s < many.time_s
    assert many.messages < alone.messages


def test_c_strobe_asks_more_for_what_deletions_hid() -> None:
    assert at_once("c-t-strobe", 20).messages > at_once("c-t-strobe", 1).messages


def test_who_waits_for_silence_waits_where_there_is_none() -> None:
    def under(rate: float) -> float:
        sources = {s: SourceStatistics(transactions=rate) for s in CHAIN.sources}
        return estimate("t-strobe", Statistics({}, sources), batch="1000").time_s

    assert under(0.1) < under(1000.0)


def test_asking_by_key_first_moves_less_where_others_have_many_partners() -> None:
    star = parse_view(
        "SELECT r1.k AS k1, r2.k AS k2, r3.k AS k3 FROM s1.r1 JOIN s2.r2 ON r1.a = r2.k "
        "JOIN s3.r3 ON r3.k = r2.a",
        TABLES,
    )
    rates: dict[str, Any] = {"inserts": 0.0, "deletes": 0.0, "updates": 0.0}
    statistics = Statistics(
        {
            "s1.r1": RelationStatistics(1e5, distinct={"a": 1e3}, **rates),
            "s2.r2": RelationStatistics(1e3, **{**rates, "updates": 1.0}),
            "s3.r3": RelationStatistics(1e3, **rates),
        }
    )
    usual, least = (estimate("sweep", statistics, star, order=o) for o in ("nearest", "least"))
    assert least.messages == usual.messages
    assert least.bytes < usual.bytes


def test_an_estimate_is_always_the_same() -> None:
    assert estimate("posse", Statistics()) == estimate("posse", Statistics())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "shape",
    [
        Shape(kind="source-local", keys=True, by_key=True),
        Shape(kind="source-local", self_join=True),
        Shape(kind="source-local", terms=2, sources=2),
    ],
)
def test_views_of_all_shapes_can_be_estimated(seed: int, shape: Shape) -> None:
    view = generate(seed, shape).view
    for name in ("recompute", "sweep", "nested-sweep", "posse", "pvm-cc"):
        found = estimate(name, Statistics(), view)
        assert found.messages > 0
        assert found.time_s > 0


# Copies


@pytest.mark.parametrize("name", ["sweep", "nested-sweep", "posse", "pvm-cc", "t-strobe"])
def test_what_copies_answer_is_no_message_and_moves_nothing(name: str) -> None:
    view = CHAIN.with_copies(CHAIN.joined)
    found = estimate(name, only("inserts"), view)
    assert (found.messages, found.bytes) == (0, 0)
    assert found.time_s < estimate(name, only("inserts")).time_s


def test_copies_of_some_relations_save_the_questions_about_these() -> None:
    every = estimate("sweep", only("updates"))
    some = estimate("sweep", only("updates"), CHAIN.with_copies(["s2.r2"]))
    assert every.messages == 4
    assert some.messages == pytest.approx(8 / 3)  # r2 asks twice still
    assert some.bytes < every.bytes


def test_one_source_is_asked_as_a_whole_unless_all_that_a_question_reads_is_copied() -> None:
    one = [replace(relation, source="s", name=f"s.{relation.short_name}") for relation in TABLES]
    sql = CHAIN.sql.replace("s1.", "s.").replace("s2.", "s.").replace("s3.", "s.")
    view = parse_view(sql, one).with_copies(["s.r1", "s.r2"])
    assert estimate("eca", Statistics(), view).messages == pytest.approx(4 / 3)
    assert estimate("sweep", Statistics(), view).messages == pytest.approx(4 / 3)
