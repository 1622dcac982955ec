from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algebra.views import View
from headwater.algorithms.pvm import Pvm
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.costs.statistics import RelationStatistics, SourceStatistics, Spent, Statistics
from headwater.errors import InputError
from headwater.project.choice import (
    Choice,
    as_loaded,
    as_stored,
    choose,
    costs,
    promised,
    usable,
)
from headwater.project.settings import RunSettings
from headwater.protocol.managers import Need

AB = Schema.of([("a", INT), ("b", INT)])
RELATIONS = [Relation("x.r", "x", AB, ("a",)), Relation("y.s", "y", AB, ("a",))]
JOIN = parse_view("SELECT r.a, s.b FROM x.r JOIN y.s ON r.b = s.a", RELATIONS)
ONE = parse_view("SELECT a FROM x.r", RELATIONS)
BY_KEY = ["strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe"]
LEVELS = [Level.CONVERGENT, Level.WEAK, Level.STRONG, Level.COMPLETE]


def manager(choice: Choice) -> Pvm:
    assert isinstance(choice.manager, Pvm)
    return choice.manager


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_chosen_keeps_the_level(level: Level) -> None:
    choice = choose(JOIN, level)
    assert promised(ALGORITHMS[choice.algorithm], choice.parameters, JOIN.sources) >= level


@pytest.mark.parametrize("level", LEVELS[:3])
def test_up_to_strong_transactions_are_taken_together(level: Level) -> None:
    choice = choose(JOIN, level, run=RunSettings(batch=77))
    assert (choice.algorithm, manager(choice).batch) == ("sweep", 77)
    assert "up to 77 waiting transactions" in choice.reason


@pytest.mark.parametrize("level", LEVELS[:2])
def test_less_than_strong_costs_the_same_and_is_said(level: Level) -> None:
    assert f"costs no more than {level}" in choose(JOIN, level).reason


def test_complete_keeps_several_in_work_one_at_a_time() -> None:
    choice = choose(JOIN, Level.COMPLETE, run=RunSettings(batch=77, in_work=9))
    assert choice.algorithm == "pvm-cc"
    assert (manager(choice).p, manager(choice).batch, manager(choice).in_order) == (9, 1, True)


def test_the_reason_says_what_a_view_does_not_need() -> None:
    assert "no source is asked" in choose(ONE, Level.STRONG).reason
    assert "no source is asked" not in choose(JOIN, Level.STRONG).reason
    assert "KEEP KEYS is not needed" in choose(JOIN, Level.STRONG, keep_keys=True).reason


@pytest.mark.parametrize("name", ["sweep", "nested-sweep", "posse", "pvm-cc"])
def test_using_forces_an_algorithm(name: str) -> None:
    choice = choose(JOIN, Level.STRONG, name, run=RunSettings(batch=5))
    assert (choice.algorithm, choice.parameters["batch"]) == (name, "5")
    assert choice.reason == ("USING names it; it is strong; transactions across databases: whole.")


def test_parameters_of_using_go_before_the_settings() -> None:
    choice = choose(JOIN, Level.COMPLETE, "pvm-cc", {"p": "2", "handle": "posse"})
    assert manager(choice).p == 2


def test_what_can_be_used() -> None:
    strong = ["t-strobe", "g-strobe", "c-t-strobe", "sweep", "nested-sweep", "posse", "pvm-cc"]
    strong += ["copies", "rings", "rings-star"]
    assert usable(Level.STRONG, JOIN.sources) == strong
    assert usable(Level.STRONG, ONE.sources) == [
        "recompute",
        *("eca", "eca-key", "eca-local", "lca"),
        *strong,
    ]
    complete = ["c-t-strobe", "sweep", "posse", "pvm-cc", "copies"]
    assert usable(Level.COMPLETE, JOIN.sources) == complete
    assert usable(Level.COMPLETE, ONE.sources) == ["lca", *complete]


@pytest.mark.parametrize(
    ("level", "name", "parameters", "message"),
    [
        (Level.STRONG, "swep", {}, "there is no algorithm 'swep'. Did you mean 'sweep'?"),
        (
            Level.CONVERGENT,
            "eca",
            {},
            "eca needs that all relations of the view are at one source; they are at x, y. "
            "For convergent the view can use: recompute, sweep, nested-sweep, posse, pvm, pvm-cc, "
            f"copies, rings, rings-star; with KEEP KEYS also: {', '.join(BY_KEY)}.",
        ),
        (Level.STRONG, "strobe", {}, "strobe is convergent, and strong was asked for."),
        (Level.COMPLETE, "c-strobe", {}, "c-strobe is convergent, and complete was asked for."),
        (Level.WEAK, "recompute", {}, "recompute is convergent, and weak was asked for."),
        (
            Level.COMPLETE,
            "nested-sweep",
            {},
            "nested-sweep is strong, and complete was asked for. "
            "For complete the view can use: sweep, posse, pvm-cc, copies; with KEEP KEYS also: "
            "c-t-strobe.",
        ),
        (
            Level.COMPLETE,
            "sweep",
            {"batch": "10"},
            "with batch = 10 sweep is strong, and complete was asked for.",
        ),
        (
            Level.COMPLETE,
            "pvm-cc",
            {"handle": "nested-sweep"},
            "with handle = nested-sweep pvm-cc is strong, and complete was asked for.",
        ),
        (
            Level.COMPLETE,
            "c-t-strobe",
            {"every": "3"},
            "with every = 3 c-t-strobe is strong, and complete was asked for. Leave every out, or "
            "write WITH STRONG CONSISTENCY.",
        ),
        (
            Level.STRONG,
            "sweep",
            {"p": "3"},
            "sweep has no parameter p. Its parameters: batch, order.",
        ),
        (
            Level.STRONG,
            "t-strobe",
            {"parts": "held"},
            "with parts = held t-strobe runs in the lab only: it needs that each part of a global "
            "transaction tells which sources it spans. Leave parts out.",
        ),
        (Level.STRONG, "sweep", {"batch": "0"}, "batch = 0: '0' is not a whole number from 1 on."),
        (
            Level.CONVERGENT,
            "conventional",
            {},
            "conventional keeps no level unless nothing happens at the sources while a question "
            "is under way. "
            "For convergent the view can use: recompute, sweep, nested-sweep, ",
        ),
    ],
)
def test_what_cannot_be_forced_is_refused_with_what_can(
    level: Level, name: str, parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        choose(JOIN, level, name, parameters)
    assert str(caught.value).startswith(message)


def test_what_promises_nothing_is_for_who_asks_for_nothing() -> None:
    choice = choose(JOIN, Level.NONE, "conventional")
    assert choice.reason == "USING names it; it promises nothing, and is for demonstrations."
    assert "conventional" not in usable(Level.CONVERGENT, JOIN.sources)


@pytest.mark.parametrize(("name", "level"), [("eca", Level.STRONG), ("lca", Level.COMPLETE)])
def test_an_algorithm_for_one_source_may_be_used_there(name: str, level: Level) -> None:
    assert choose(ONE, level, name).algorithm == name


def test_pvm_is_for_joins_without_copies() -> None:
    assert choose(ONE, Level.CONVERGENT, "pvm").parameters == {"p": "4", "batch": "1"}
    assert choose(JOIN, Level.CONVERGENT, "pvm").algorithm == "pvm"
    copied = JOIN.with_copies([JOIN.relations[0].name])
    with pytest.raises(InputError, match=r"pvm takes transactions in before earlier ones"):
        choose(copied, Level.CONVERGENT, "pvm")
    sums = parse_view("SELECT a, sum(b) AS b FROM x.r GROUP BY a", RELATIONS)
    with pytest.raises(InputError, match=r"pvm shows counts below zero .* can use: recompute, eca"):
        choose(sums, Level.CONVERGENT, "pvm")


SEVERAL = "SELECT a FROM x.r UNION ALL SELECT a FROM y.s"
PADDED = "SELECT r.a, s.b FROM x.r LEFT JOIN y.s ON r.b = s.a"
TWICE = "SELECT o.a, p.b FROM x.r o JOIN x.r p ON o.b = p.a"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["swep", "conventional", "eca", "pvm", "recompute", "c-t-strobe"])
@pytest.mark.parametrize("sql", [JOIN.sql, SEVERAL, PADDED, TWICE])
@pytest.mark.parametrize("keep_keys", [False, True])
def test_what_is_offered_instead_can_maintain_the_view(
    level: Level, name: str, sql: str, keep_keys: bool
) -> None:
    plain = parse_view(sql, RELATIONS)
    view = as_stored(plain, name, keep_keys)
    try:
        choose(view, level, name, keep_keys=keep_keys)
    except InputError as error:
        if "can use: " not in str(error):
            return
        offered = str(error).partition("can use: ")[2].partition(".")[0]
    else:
        return
    now, _, with_keys = offered.partition("; with KEEP KEYS also: ")
    assert "sweep" in now.split(", ")
    for other in now.split(", "):
        choose(as_stored(plain, other, keep_keys), level, other, keep_keys=keep_keys)
    for other in filter(None, with_keys.split(", ")):
        choose(as_stored(plain, other, True), level, other, keep_keys=True)
        with pytest.raises(InputError):
            choose(as_stored(plain, other, False), level, other)


def test_algorithms_for_one_source_cannot_be_used_over_two_whatever_the_level() -> None:
    assert "eca" not in usable(Level.NONE, JOIN.sources)
    assert "eca" in usable(Level.NONE, ONE.sources)


@pytest.mark.parametrize("parameters", [{"batch": "2"}, {"handle": "nested-sweep"}])
def test_pvm_takes_each_transaction_by_itself(parameters: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"pvm would take a transaction that the view shows"):
        choose(ONE, Level.CONVERGENT, "pvm", parameters)


def test_recomputing_is_refused_where_it_would_mix_two_states_of_a_source() -> None:
    there_and_back = "SELECT r.a FROM x.r JOIN y.s ON r.b = s.a JOIN x.r AS t ON t.b = s.b"
    with pytest.raises(InputError, match=r"recompute would ask a source of the view twice for"):
        choose(parse_view(there_and_back, RELATIONS), Level.CONVERGENT, "recompute")
    assert choose(JOIN, Level.CONVERGENT, "recompute").algorithm == "recompute"


def test_an_algorithm_that_looks_rows_up_needs_the_keys() -> None:
    with pytest.raises(InputError, match=r"t-strobe needs the key of every .* missing: s \(a\)"):
        choose(
            parse_view("SELECT r.a FROM x.r JOIN y.s ON r.b = s.a", RELATIONS),
            Level.STRONG,
            "t-strobe",
        )


def test_keys_may_be_kept_out_of_sight() -> None:
    view = parse_view("SELECT s.b FROM x.r JOIN y.s ON r.b = s.a", RELATIONS)
    kept = as_stored(view, "t-strobe", keep_keys=True)
    assert (kept.schema.names, kept.shown_schema.names) == (("b", "r_a", "s_a"), ("b",))
    assert choose(kept, Level.STRONG, "t-strobe", keep_keys=True).algorithm == "t-strobe"
    assert as_stored(view, "t-strobe", keep_keys=False) == view
    assert as_stored(view, "sweep", keep_keys=True) == view


def test_rows_that_are_looked_up_are_not_condensed() -> None:
    sums = (
        "SELECT r.a, s.a AS c, sum(s.b) AS total FROM x.r JOIN y.s ON r.b = s.a GROUP BY r.a, s.a"
    )
    view = parse_view(sums, RELATIONS)
    assert view.compact is not None
    kept = as_stored(view, "c-t-strobe", keep_keys=True)
    assert kept.compact is None
    assert kept.shown_schema == view.shown_schema


# By cost


KEYED = parse_view("SELECT r.a, s.a AS c, s.b FROM x.r JOIN y.s ON r.b = s.a", RELATIONS)
BESIDE = [Relation("x.t", "x", AB, ("a",)), RELATIONS[0]]
AT_ONE = parse_view("SELECT r.a, t.a AS c FROM x.r JOIN x.t ON r.b = t.a", BESIDE)


def measured(view: View, mostly: str = "inserts", **of_source: float) -> Statistics:
    rates: dict[str, Any] = {"inserts": 0.01, "deletes": 0.01, "updates": 0.01, mostly: 1.0}
    return Statistics(
        {relation.name: RelationStatistics(**rates) for relation in view.relations},
        {source: SourceStatistics(observed_s=60.0, **of_source) for source in view.sources},
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("view", [JOIN, KEYED, AT_ONE])
@pytest.mark.parametrize("mostly", ["inserts", "deletes"])
@pytest.mark.parametrize("together", [1, 20])
def test_what_is_chosen_by_cost_keeps_the_level(
    level: Level, view: View, mostly: str, together: int
) -> None:
    statistics = measured(view, mostly, together=together)
    choice = choose(view, level, statistics=statistics)
    assert promised(ALGORITHMS[choice.algorithm], choice.parameters, view.sources) >= level
    again = choose(view, level, statistics=statistics)
    assert (again.algorithm, again.parameters) == (choice.algorithm, choice.parameters)
    for each in costs(view, level, statistics=statistics):
        assert each.out or promised(ALGORITHMS[each.algorithm], {}, view.sources) >= level


def test_deletions_by_key_are_cheaper_where_most_changes_are_deletions() -> None:
    choice = choose(KEYED, Level.STRONG, statistics=measured(KEYED, "deletes", question_s=0.02))
    assert choice.algorithm == "t-strobe"
    assert "the quickest of" in choice.reason


def test_without_keys_they_are_out_and_the_way_in_is_told() -> None:
    statistics = measured(JOIN, "deletes", question_s=0.02)
    assert choose(JOIN, Level.STRONG, statistics=statistics).algorithm not in BY_KEY
    out = {each.algorithm: each.out for each in costs(JOIN, Level.STRONG, statistics=statistics)}
    assert out["t-strobe"] == "needs keys that the view does not show: KEEP KEYS, and a reload"
    assert out["strobe"] == "convergent only"
    assert out["eca"] == "needs that all relations of the view are at one source"
    assert out["copies"] == "is taken only where USING names it"


def test_sums_have_no_rows_to_delete_by_key() -> None:
    sums = parse_view(
        "SELECT r.a, sum(s.b) AS b FROM x.r JOIN y.s ON r.b = s.a GROUP BY r.a", RELATIONS
    )
    out = {each.algorithm: each.out for each in costs(sums, Level.STRONG)}
    assert out["t-strobe"].startswith("needs rows, and sums are stored: KEEP KEYS")
    kept = as_stored(sums, None, keep_keys=True)
    assert kept.kept == "keys"
    assert not {c.algorithm: c.out for c in costs(kept, Level.STRONG)}["t-strobe"]


def test_who_waits_for_silence_is_out_where_there_is_none() -> None:
    busy = measured(KEYED, "inserts", transactions=1000.0, question_s=0.01)
    out = {each.algorithm: each.out for each in costs(KEYED, Level.STRONG, statistics=busy)}
    assert "hardly pause" in out["t-strobe"]


def test_who_is_slow_with_a_backlog_is_out() -> None:
    out = {each.algorithm: each.out for each in costs(AT_ONE, Level.COMPLETE)}
    assert "the more transactions wait" in out["lca"]
    assert "the more transactions wait" in out["c-t-strobe"]


def test_a_view_that_asks_nothing_costs_nothing() -> None:
    assert costs(ONE, Level.STRONG) == ()


def test_what_a_view_was_loaded_with_is_kept() -> None:
    assert as_loaded(JOIN, "keys").kept == "keys"
    assert as_loaded(JOIN, "") is JOIN


def test_what_the_pipeline_comes_to_provide_decides_what_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.project.choice.PROVIDES", frozenset({Need.EARLY}))
    can_use = usable(Level.CONVERGENT, ONE.sources)
    assert can_use == ["eca", "lca", "sweep", "nested-sweep", "posse", "pvm", "pvm-cc"]


def test_what_runs_so_far_is_told_where_the_next_start_takes_another() -> None:
    statistics = measured(KEYED, "deletes", question_s=0.02)
    choice = choose(KEYED, Level.STRONG, statistics=statistics, running="sweep")
    assert "its last commit was by sweep, and the next start takes t-strobe" in choice.reason
    for running in ("t-strobe", None):
        again = choose(KEYED, Level.STRONG, statistics=statistics, running=running)
        assert "last commit" not in again.reason


def test_who_waited_in_vain_for_silence_is_out_at_the_next_start() -> None:
    """Rates are averages over an hour: they do not know yet that the sources got busy."""
    statistics = measured(KEYED, "deletes", question_s=0.02)
    assert choose(KEYED, Level.STRONG, statistics=statistics).algorithm == "t-strobe"
    for seconds, chosen in ((0.5, True), (6.0, False)):
        spent = {KEYED.name: {"t-strobe": Spent(1.0, 10.0, seconds, 500)}}
        known = replace(statistics, spent=spent)
        choice = choose(KEYED, Level.STRONG, statistics=known, running="t-strobe")
        assert (choice.algorithm == "t-strobe") == chosen
    out = {c.algorithm: c.out for c in costs(KEYED, Level.STRONG, statistics=known)}
    assert out["t-strobe"] == "showed changes after 6.0 s when it ran last, for want of pauses"
    # What else needs pauses would wait for the same.
    late = "showed changes after 6.0 s when t-strobe ran last, for want of pauses"
    assert out["g-strobe"] == late


def test_who_does_not_wait_is_never_out_for_being_late() -> None:
    spent = {KEYED.name: {"sweep": Spent(1.0, 10.0, 60.0, 500)}}
    known = replace(measured(KEYED), spent=spent)
    assert not {c.algorithm: c.out for c in costs(KEYED, Level.STRONG, statistics=known)}["sweep"]
