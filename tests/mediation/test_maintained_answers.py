"""Rewritten views maintained while their sources change, against the answers that are certain."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headwater.check.levels import Level
from headwater.errors import SqlError
from headwater.lab.run import run
from headwater.lab.scenario import Object, scenario_from_json
from headwater.lab.schedules import seeded
from headwater.lab.simulate import simulate
from tests.mediation.certain import Fact, Instance, Setting, certain, how_many
from tests.mediation.random_settings import (
    COLUMNS,
    answer_of,
    random_facts,
    random_setting,
)

EXAMPLES = settings(max_examples=max(1, settings().max_examples // 2))
ALGORITHMS = {"sweep": Level.COMPLETE, "nested-sweep": Level.STRONG, "pvm-cc": Level.COMPLETE}
MOST_INSTANCES = 3_000


@given(seed=st.integers(0, 2**32 - 1), algorithm=st.sampled_from(sorted(ALGORITHMS)))
@EXAMPLES
def test_every_state_shown_is_what_is_certain_at_some_moment(seed: int, algorithm: str) -> None:
    random = Random(seed)
    setting = random_setting(random)
    facts = random_facts(random, setting)
    try:
        sql = answer_of(setting).sql
    except SqlError:
        assume(False)
    changes = _changes(random, setting, facts)
    scenario = scenario_from_json(_scenario(setting, facts, changes, sql))
    done = run(simulate(scenario, algorithm), seeded(seed % 1000))
    assert done.verdict.level >= ALGORITHMS[algorithm]
    states = [frozenset(state) for state in done.trace.states]
    assert all(state.count(row) == 1 for state in done.trace.states for row in state)
    moments = _moments(facts, changes)
    assume(all(_size(setting, moment) <= MOST_INSTANCES for moment in moments.values()))
    found = {at: _certain(setting, moment) for at, moment in moments.items()}
    assert set(states) <= set(found.values())
    assert states[-1] == found[max(found)]


def _changes(random: Random, setting: Setting, facts: Instance) -> list[tuple[bool, Fact]]:
    """Insertions and deletions of single rows, in their order."""
    found: list[tuple[bool, Fact]] = []
    now = set(facts)
    for _ in range(random.randint(1, 3)):
        if now and random.random() < 0.5:
            fact = random.choice(sorted(now, key=str))
            now.remove(fact)
            found.append((False, fact))
        else:
            name = random.choice(sorted(setting.sources))
            row = tuple(random.choice([0, 1, 1, None]) for _ in range(setting.sources[name]))
            if (name, row) not in now and setting.fits(frozenset(now | {(name, row)})):
                now.add((name, row))
                found.append((True, (name, row)))
    return found


def _scenario(
    setting: Setting, facts: Instance, changes: list[tuple[bool, Fact]], sql: str
) -> Object:
    return {
        "relations": {
            name.partition(".")[2]: {
                "source": name.partition(".")[0],
                "columns": dict.fromkeys(COLUMNS[:width], "int"),
                "key": ["a"] if name in setting.keyed else [],
                "rows": [list(row) for n, row in sorted(facts, key=str) if n == name],
            }
            for name, width in setting.sources.items()
        },
        "view": sql,
        "transactions": [
            {
                "id": f"T{at}",
                "updates": [
                    {
                        "relation": name.partition(".")[2],
                        "insert" if inserts else "delete": list(row),
                    }
                ],
            }
            for at, (inserts, (name, row)) in enumerate(changes)
        ],
    }


def _moments(facts: Instance, changes: list[tuple[bool, Fact]]) -> dict[tuple[int, ...], Instance]:
    """What the sources have after so many transactions of each."""
    by_source = {s: [c for c in changes if c[1][0].startswith(f"{s}.")] for s in "pq"}
    found = {}
    for numbers in product(*(range(len(each) + 1) for each in by_source.values())):
        now = set(facts)
        for each, number in zip(by_source.values(), numbers, strict=True):
            for inserts, fact in each[:number]:
                (now.add if inserts else now.discard)(fact)
        found[numbers] = frozenset(now)
    return found


def _size(setting: Setting, facts: Instance) -> int:
    unknown = how_many(setting, facts)
    return int((5 + unknown) ** unknown)


def _certain(setting: Setting, facts: Instance) -> frozenset[object]:
    values = [0, 1, 2, None, *range(10, 11 + how_many(setting, facts))]
    return frozenset(certain(setting, facts, values))
