"""What the Strobe family asks and how late its views are, counted in the lab.

Continuous updates in virtual time: an update every so often, sources that answer one question at a
time, each for one unit of time; messages take none. An update is late by the time from its commit
until the view shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean

from headwater.algebra.values import Json
from headwater.lab.generate import Shape, chain, generate
from headwater.lab.run import Run, run
from headwater.lab.scenario import Object, Scenario, scenario_from_json
from headwater.lab.schedules import replayed, seeded
from headwater.lab.simulate import simulate
from headwater.lab.virtual_time import run_timed
from headwater.lab.weakened.c_strobe import GroupedByRelation
from headwater.lab.world import Move, Simulation
from headwater.protocol.trace import Sent

TICKS = 20
"""Of a question."""


@dataclass(frozen=True)
class Flow:
    """An algorithm under continuous updates."""

    messages: float
    """Questions and answers per update."""
    late: float
    """On the average, in what a question takes."""
    latest: float
    steps: int
    """How often the view changed."""


def under_updates(
    name: str, updates: int, interval: float, settings: Mapping[str, str] | None = None
) -> Flow:
    """Of a chain of three relations at three sources."""
    scenario = chain(3, updates)
    timed = run_timed(simulate(scenario, name, settings or {}), TICKS, round(interval * TICKS))
    commits = {t.id: at * interval for at, t in enumerate(scenario.transactions)}
    late = [tick / TICKS - commits[name] for tick, shown in timed.commits for name in shown]
    return Flow(
        2 * len(timed.served) / updates, mean(late), max(late), sum(1 for _ in timed.commits)
    )


# C-Strobe's compensating questions


def compensating(relations: int, grouped: str) -> int:
    """How many C-Strobe asks for an insertion while all rows of the other relations go, twice over:
    grouped by the `set` of relations that are replaced, or by their `order`, as the paper counts.
    """
    others = "".join(str(number) for number in range(2, relations + 1))
    scenario = joined_by_one_value(relations, others + others)
    simulation = simulate(scenario, "c-strobe")
    if grouped == "order":
        simulation = Simulation(scenario, GroupedByRelation(scenario.view))
    commits = [Move("commit", *transaction.spans) for transaction in scenario.transactions]
    return len(asked_for_the_first(run(simulation, replayed(commits))))


def one_update_at_a_time() -> int:
    """The same for four relations and K = 1: one update between any question and its answer."""
    steps = ["commit s1", "answer s2", "answer s3", "commit s2", "answer s4"]
    steps += ["answer s3", "commit s3", "answer s4", "commit s4", "answer s4"]
    scenario = joined_by_one_value(4, "234")
    moves = [Move(*step.split()) for step in steps]
    return len(asked_for_the_first(run(simulate(scenario, "c-strobe"), replayed(moves))))


def asked_for_the_first(done: Run) -> set[str]:
    """The compensating queries that were sent for U1; parts of one query count once."""
    sent = {e.label.split("^")[0] for e in done.trace.entries if isinstance(e, Sent)}
    return {label for label in sent if label.startswith(("Q1,", "Q1."))} - {"Q1,1,0"}


def joined_by_one_value(relations: int, deletions: str) -> Scenario:
    """r1 to rn, each at a source of its own: an insertion into r1, then deletions.

    `deletions` names the relations from which one row after the other is deleted.
    """
    names = [f"r{number}" for number in range(1, relations + 1)]
    described: Object = {
        name: {
            "source": f"s{name[1:]}",
            "columns": {"K": "int", "A": "int"},
            "key": ["K"],
            "rows": [[key, 0] for key in range(deletions.count(name[1:]) + 1)],
        }
        for name in names
    }
    joins = " AND ".join(f"{a}.A = {b}.A" for a, b in pairwise(names))
    shown = ", ".join(f"{name}.K AS {name}_K" for name in names)
    left = {number: list(range(deletions.count(number))) for number in set(deletions)}
    transactions: list[Json] = [{"id": "U1", "updates": [{"relation": "r1", "insert": [9, 0]}]}]
    for at, number in enumerate(deletions, 2):
        update: Object = {"relation": f"r{number}", "delete": [left[number].pop(), 0]}
        transactions.append({"id": f"U{at}", "updates": [update]})
    view = f"SELECT {shown} FROM {', '.join(names)} WHERE {joins}"
    return scenario_from_json(
        {"relations": described, "view": view, "transactions": transactions}, "one value"
    )


# Section 9: what makes it cheaper


@dataclass(frozen=True)
class Gain:
    """What a workload costs by Strobe, per update."""

    messages: float
    bytes: float
    """Of answers."""


def orders(customers: int = 4, inserted: int = 24, copies: bool = False) -> Scenario:
    """Orders of customers in regions, at three sources; new orders of customers who have some."""
    relations: Object = {
        "orders": {
            "source": "x",
            "columns": {"O": "int", "C": "int"},
            "key": ["O"],
            "rows": [[number, number] for number in range(customers)],
        },
        "customers": {
            "source": "y",
            "columns": {"C": "int", "R": "int"},
            "key": ["C"],
            "rows": [[number, number % 2] for number in range(customers)],
        },
        "regions": {
            "source": "z",
            "columns": {"R": "int", "N": "int"},
            "key": ["R"],
            "rows": [[0, 10], [1, 11]],
        },
    }
    view = (
        "SELECT orders.O, customers.C, customers.R, regions.N FROM orders, customers, regions "
        "WHERE orders.C = customers.C AND customers.R = regions.R"
    )
    transactions: list[Json] = [
        {"id": f"U{at + 1}", "updates": [
            {"relation": "orders", "insert": [100 + at, at % customers]}
        ]}
        for at in range(inserted)
    ]  # fmt: skip
    data: Object = {"relations": relations, "view": view, "transactions": transactions}
    if copies:
        data["keep_copies"] = ["customers", "regions"]
    return scenario_from_json(data, "orders")


def random_references(seeds: Sequence[int]) -> list[Scenario]:
    """Random relations that refer to each other's keys."""
    shape = Shape(relations=3, sources=3, transactions=8, keys=True, by_key=True)
    return [generate(seed, shape) for seed in seeds]


def at_two_sources(updates: int) -> Scenario:
    """The chain of four relations, two neighbours at each of two sources."""
    data = chain(4, updates, deletions=False).data
    relations = data["relations"]
    assert isinstance(relations, dict)
    together: Object = {
        name: {**described, "source": "x" if name in ("r1", "r2") else "y"}
        for name, described in relations.items()
        if isinstance(described, dict)
    }
    return scenario_from_json({**data, "relations": together}, "two sources")


def cost(scenarios: Sequence[Scenario], settings: Mapping[str, str], seed: int) -> Gain:
    """By Strobe, over seeded schedules."""
    messages = size = updates = 0
    for scenario in scenarios:
        done = run(simulate(scenario, "strobe", settings), seeded(seed))
        messages += done.trace.message_count
        size += done.trace.byte_count
        updates += len(scenario.transactions)
    return Gain(messages / updates, size / updates)
