"""Views beyond joins: every algorithm keeps its promise for what they show, over all schedules.

What is stored is a sum of joins, and what is shown a function of it, so that levels carry over;
the checker judges what is shown.
"""

from __future__ import annotations

import os

import pytest

from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import Level, parse_level
from headwater.lab.explore import explore
from headwater.lab.generate import Shape, generate
from headwater.lab.scenario import scenario_from_json
from headwater.lab.simulate import simulate
from headwater.protocol.managers import Need

SEEDS = range(40) if os.environ.get("HEADWATER_STRESS") == "1" else range(2)
VIEWS = {
    "groups": "SELECT B1, COUNT(*) AS n, SUM(A1) AS s FROM r1 GROUP BY B1",
    "groups of a join": "SELECT B1, COUNT(*) AS n, MAX(B2) AS m FROM r1, r2 WHERE B1 = A2 "
    "GROUP BY B1",
    "one group": "SELECT COUNT(*) AS n, AVG(B2) AS m FROM r1 JOIN r2 ON B1 = A2",
    "having": "SELECT A1, COUNT(DISTINCT B1) AS n FROM r1, r2 GROUP BY A1 HAVING COUNT(*) > 1",
    "distinct": "SELECT DISTINCT A1, B2 FROM r1 JOIN r2 ON B1 = A2",
    "left join": "SELECT A1, B1, B2 FROM r1 LEFT JOIN r2 ON B1 = A2",
    "full join": "SELECT A1, B1, A2, B2 FROM r1 FULL JOIN r2 ON B1 = A2 AND B2 > 0",
    "exists": "SELECT A1 FROM r1 WHERE EXISTS (SELECT 1 FROM r2 WHERE A2 = B1)",
    "not exists": "SELECT A1 FROM r1 WHERE NOT EXISTS (SELECT 1 FROM r2 WHERE A2 = B1)",
    "not in": "SELECT A1 FROM r1 WHERE B1 NOT IN (SELECT A2 FROM r2)",
    "a value": "SELECT A1, (SELECT COUNT(*) FROM r2 WHERE A2 = B1) AS n FROM r1",
    "union": "SELECT A1 FROM r1 UNION SELECT A2 FROM r2",
    "except": "SELECT B1 FROM r1 EXCEPT ALL SELECT B2 FROM r2",
    "self-join": "SELECT x.A1, COUNT(*) AS n FROM r1 x JOIN r1 y ON x.A1 = y.B1 GROUP BY x.A1",
    "first rows": "SELECT A1, B2 FROM r1 JOIN r2 ON B1 = A2 ORDER BY B2 DESC, A1 LIMIT 2",
    "recursion": "WITH RECURSIVE p AS (SELECT A1, B1 FROM r1 UNION SELECT p.A1, B2 FROM p JOIN r2 "
    "ON p.B1 = A2) SELECT A1, B1 FROM p",
    "functions": "CREATE FUNCTION pairs(least INT) RETURNS TABLE RETURN SELECT A1, twice(B2) AS b "
    "FROM r1 JOIN r2 ON B1 = A2 WHERE A1 >= least; CREATE FUNCTION twice(x INT) RETURNS INT RETURN "
    "x + x; SELECT b, COUNT(*) AS n FROM pairs(1) GROUP BY b",
    "window": "SELECT A1, ROW_NUMBER() OVER (PARTITION BY B1 ORDER BY A1) AS n FROM r1, r2",
}
TRIED = sorted(
    name
    for name, algorithm in ALGORITHMS.items()
    if not algorithm.needs & {Need.KEYS, Need.MESSAGES}
)


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("name", TRIED)
def test_levels_carry_over_to_what_is_shown(name: str, view: str) -> None:
    kind = "single-source" if Need.ONE_SOURCE in ALGORITHMS[name].needs else "multi-source"
    promised = parse_level(ALGORITHMS[name].promises[kind])
    if promised == Level.NONE:
        pytest.skip("promises nothing where updates meet")
    for seed in SEEDS:
        shape = Shape(kind, relations=2, sources=1 + (kind == "multi-source"), transactions=3)
        scenario = scenario_from_json(dict(generate(seed, shape).data) | {"view": view})
        found = explore(simulate(scenario, name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


KEYED = {
    "groups of a join": VIEWS["groups of a join"],
    "distinct": VIEWS["distinct"],
    "first rows": VIEWS["first rows"],
}


@pytest.mark.parametrize("view", KEYED.values(), ids=KEYED.keys())
@pytest.mark.parametrize("name", ["strobe", "t-strobe", "c-strobe"])
def test_an_algorithm_that_deletes_by_key_keeps_keys_that_are_not_shown(
    name: str, view: str
) -> None:
    promised = parse_level(ALGORITHMS[name].promises["multi-source"])
    for seed in SEEDS:
        shape = Shape("multi-source", relations=2, sources=2, transactions=3, keys=True)
        data = dict(generate(seed, shape).data) | {"view": view, "keep_keys": True}
        found = explore(simulate(scenario_from_json(data), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"


IN_PARTS = {name: VIEWS[name] for name in ("left join", "full join", "not exists", "union")} | {
    "union all": "SELECT A1 FROM r1 UNION ALL SELECT B2 FROM r1, r2 WHERE B1 = A2",
    "self-union": "SELECT A1 FROM r1 WHERE B1 > 0 UNION ALL SELECT B1 FROM r1",
}


@pytest.mark.parametrize("view", IN_PARTS.values(), ids=IN_PARTS.keys())
@pytest.mark.parametrize(
    "name", ["strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe", "eca-key", "eca-local"]
)
def test_keys_are_kept_for_each_part(name: str, view: str) -> None:
    kind = "single-source" if Need.ONE_SOURCE in ALGORITHMS[name].needs else "multi-source"
    promised = parse_level(ALGORITHMS[name].promises[kind])
    for seed in SEEDS:
        sources = 1 + (kind == "multi-source")
        shape = Shape(kind, relations=2, sources=sources, transactions=3, keys=True)
        data = dict(generate(seed, shape).data) | {"view": view, "keep_keys": True}
        found = explore(simulate(scenario_from_json(data), name))
        assert found.level >= promised, f"seed {seed}: {found.counterexample}"
