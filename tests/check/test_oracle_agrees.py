"""The checker against the oracle, on right runs, nearly right ones and wrong ones."""

from functools import lru_cache
from random import Random

import pytest

from headwater.algebra.rows import Rows
from headwater.check.history import History
from headwater.check.levels import PROPERTIES
from headwater.check.verdict import check
from headwater.lab.generate import KINDS, Shape, generate
from tests.check.oracle import LEVELS, judge
from tests.scenarios import counters

SUMS = ("x.n + y.n AS s", "(x.n + y.n) % 2 AS s", "x.n AS s", "x.n * y.n AS s", "x.n, y.n % 2 AS p")
PER_GROUP, GROUPS = 250, 16


@lru_cache(maxsize=2048)
def history(seed: int) -> History:
    """Counters, distinct or mixed up, with global transactions; or a random scenario."""
    random = Random(f"history {seed}")
    if random.random() < 0.7:
        steps = random.choices(["x", "y", "xy"], [3, 3, 2], k=random.randint(0, 4))
        return counters(*steps, shown=random.choice(["", *SUMS])).history
    shape = Shape(random.choice(KINDS), relations=2, sources=2, transactions=random.randint(1, 4))
    return generate(seed, shape).history


def random_states(random: Random, known: History) -> list[Rows]:
    """The views along a random merge, some repeated, then damaged up to three times."""
    vector, states = known.origin, [known.view_at(known.origin)]
    while steps := list(known.steps(vector)):
        vector = random.choice(steps)[1]
        states += [known.view_at(vector)] * random.choice([1, 1, 1, 2])
    for _ in range(random.randint(0, 3)):
        _damage(random, known, states)
    return states


def _damage(random: Random, known: History, states: list[Rows]) -> None:
    at = random.randrange(len(states))
    other = known.view_at(random.choice(list(known.vectors())))
    match random.randrange(7):
        case 0 if len(states) > 1:
            del states[at]
        case 1:
            states.insert(at, other)
        case 2:
            states[at] = other
        case 3:
            states[at], states[-1] = states[-1], states[at]
        case 4:
            states.append(other)
        case 5:
            states[at] = states[at] + states[at]
        case _:
            states.insert(at, states[at])


@pytest.mark.parametrize("group", range(GROUPS))
def test_the_checker_agrees_with_the_definitions(group: int) -> None:
    for number in range(PER_GROUP):
        random = Random(f"{group}/{number}")
        known = history(random.randrange(600))
        states = random_states(random, known)
        verdict = check(known, states)
        level, properties = judge(known, states)
        shown = f"{known.view.sql} {dict(known.transactions)} showing {states}"
        assert str(verdict.level) == level, shown
        assert verdict.properties == properties, shown


def test_the_random_runs_reach_every_level_and_break_every_property() -> None:
    levels: set[str] = set()
    outcomes: set[tuple[str, bool]] = set()
    for number in range(PER_GROUP):
        random = Random(f"0/{number}")
        known = history(random.randrange(600))
        level, properties = judge(known, random_states(random, known))
        levels.add(level)
        outcomes |= set(properties.items())
    assert levels == set(LEVELS)
    assert outcomes == {(p.name, holds) for p in PROPERTIES for holds in (True, False)}


@pytest.mark.parametrize("group", range(4))
def test_the_rings_papers_properties_are_strong_consistency_without_global_transactions(
    group: int,
) -> None:
    for number in range(PER_GROUP):
        random = Random(f"rings {group}/{number}")
        known = history(random.randrange(600))
        parts = [part for parts in known.transactions.values() for part in parts]
        states = random_states(random, known)
        if states[0] == known.view_at(known.origin) and all(part.is_whole for part in parts):
            found = check(known, states).properties
            assert found["view_management"] == found["strong_consistency"]


@pytest.mark.parametrize("group", range(4))
def test_what_properties_imply_holds_of_every_run(group: int) -> None:
    implied = [(p.name, other) for p in PROPERTIES for other in p.implies]
    for number in range(PER_GROUP):
        random = Random(f"implied {group}/{number}")
        known = history(random.randrange(600))
        verdict = check(known, random_states(random, known))
        for name, other in implied:
            assert verdict.properties[other] or not verdict.properties[name], (name, other)
        chain = ["convergence", "weak_consistency", "strong_consistency", "completeness"]
        held = [bool(verdict.properties[name]) for name in chain]
        assert all(held[: int(verdict.level)])
        assert verdict.level == 4 or not all(held[: int(verdict.level) + 1])
