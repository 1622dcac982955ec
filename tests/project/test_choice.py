from __future__ import annotations

import pytest

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT
from headwater.algorithms.pvm import Pvm
from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level
from headwater.errors import InputError
from headwater.project.choice import Choice, choose, promised, usable
from headwater.project.settings import RunSettings
from headwater.protocol.managers import Need

AB = Schema.of([("a", INT), ("b", INT)])
RELATIONS = [Relation("x.r", "x", AB), Relation("y.s", "y", AB)]
JOIN = parse_view("SELECT r.a, s.b FROM x.r JOIN y.s ON r.b = s.a", RELATIONS)
ONE = parse_view("SELECT a FROM x.r", RELATIONS)
BY_KEY = "what is in the view can be looked up, and that rows of the view can be deleted by key"
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
    assert choice.reason == "USING names it; it is strong."


def test_parameters_of_using_go_before_the_settings() -> None:
    choice = choose(JOIN, Level.COMPLETE, "pvm-cc", {"p": "2", "handle": "posse"})
    assert manager(choice).p == 2


def test_what_can_be_used() -> None:
    several = usable(Level.STRONG, JOIN.sources)
    assert several == ["sweep", "nested-sweep", "posse", "pvm-cc"]
    assert usable(Level.STRONG, ONE.sources) == ["recompute", "eca", "lca", *several]
    assert usable(Level.COMPLETE, JOIN.sources) == ["sweep", "posse", "pvm-cc"]
    assert usable(Level.COMPLETE, ONE.sources) == ["lca", "sweep", "posse", "pvm-cc"]


@pytest.mark.parametrize(
    ("level", "name", "parameters", "message"),
    [
        (Level.STRONG, "swep", {}, "there is no algorithm 'swep'. Did you mean 'sweep'?"),
        (
            Level.CONVERGENT,
            "eca",
            {},
            "eca needs that all relations of the view are at one source; they are at x, y. "
            "For convergent the view can use: recompute, sweep, nested-sweep, posse, pvm-cc.",
        ),
        (Level.WEAK, "recompute", {}, "recompute is convergent, and weak was asked for."),
        (
            Level.COMPLETE,
            "nested-sweep",
            {},
            "nested-sweep is strong, and complete was asked for. "
            "For complete the view can use: sweep, posse, pvm-cc.",
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
        (Level.STRONG, "sweep", {"p": "3"}, "sweep has no parameter p. Its parameters: batch."),
        (Level.STRONG, "sweep", {"batch": "0"}, "batch = 0: '0' is not a whole number from 1 on."),
        *(
            (
                Level.CONVERGENT,
                name,
                {},
                f"{name} runs in the lab only: it needs that {needs}. "
                "The view can use: recompute, sweep, nested-sweep, posse, pvm-cc.",
            )
            for name, needs in {
                "strobe": BY_KEY,
                "t-strobe": BY_KEY,
                "copies": "all base relations may be copied to the warehouse",
                "conventional": "nothing happens at the sources while a question is under way, "
                "and that rows of the view can be deleted by key",
                "pvm": "a transaction may be shown before earlier ones of its source",
            }.items()
        ),
        *((Level.WEAK, n, {}, f"{n} runs in the lab only: it") for n in ("eca-key", "eca-local")),
        *((Level.WEAK, n, {}, f"{n} runs in the lab only: it") for n in ("rings", "rings-star")),
    ],
)
def test_what_cannot_be_forced_is_refused_with_what_can(
    level: Level, name: str, parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        choose(JOIN, level, name, parameters)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("name", "level"), [("eca", Level.STRONG), ("lca", Level.COMPLETE)])
def test_an_algorithm_for_one_source_may_be_used_there(name: str, level: Level) -> None:
    assert choose(ONE, level, name).algorithm == name


def test_what_the_pipeline_comes_to_provide_decides_what_can_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headwater.project.choice.PROVIDES", frozenset({Need.EARLY}))
    assert usable(Level.CONVERGENT, JOIN.sources) == [
        "sweep",
        "nested-sweep",
        "posse",
        "pvm",
        "pvm-cc",
    ]
