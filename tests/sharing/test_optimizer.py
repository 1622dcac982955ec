"""The optimizer: no plan is cheaper by its own model, and what it chooses comes to what it must."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT
from headwater.sharing.available import (
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.optimizer import Optimizer
from headwater.sharing.plan_costs import Scales, Speed, Speeds
from headwater.sharing.plans import (
    Change,
    Finished,
    Joined,
    JoinedOperands,
    Operand,
    Published,
    PublishedBooster,
    walk,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import NOTHING, Interval, Versions
from tests.sharing.at_hand import at_hand
from tests.sharing.cases import LAST, random_case
from tests.sharing.test_plans import random_boosters

FEW = settings(max_examples=max(1, settings().max_examples // 5))

# Every plan there is


def every_plan(
    optimizer: Optimizer, change: Change, names: Sequence[str], here: Mapping[str, int]
) -> Iterator[Change]:
    """All trees over all ways to have each relation, without a thought."""
    if not names:
        yield change
    for part in parts(names):
        rest = [name for name in names if name not in part]
        for before in every_plan(optimizer, change, rest, here):
            for operand in every_operand(optimizer, change, part, here):
                yield Joined(before, operand)
            if len(part) == 1 and rest:
                for operand in optimizer._through(before, part[0], here):
                    yield Joined(before, operand)


def every_operand(
    optimizer: Optimizer, change: Change, names: Sequence[str], here: Mapping[str, int]
) -> Iterator[Operand]:
    if len(names) == 1:
        yield from optimizer._single(change, names[0], here[names[0]])
    yield from optimizer._published(change, frozenset(names), here)
    for part in parts(names):
        rest = [name for name in names if name not in part]
        if rest and names[0] in part:
            for one in every_operand(optimizer, change, part, here):
                for other in every_operand(optimizer, change, rest, here):
                    yield JoinedOperands(one, other)


def parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for size in range(1, len(names) + 1):
        yield from combinations(names, size)


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_no_plan_of_an_exhaustive_search_is_cheaper(seed: int) -> None:
    case, random = random_case(seed, sets=False), Random(seed)
    found = at_hand(case, random, contents=random.random() < 0.8)
    for booster in random_boosters(random, case):
        found.add(booster, random.choice(list(Place)))
    optimizer = found.optimizer()
    first = random.randint(0, LAST - 1)
    change = optimizer.way("R", first, random.randint(first + 1, LAST))
    here = {"S": random.choice([1, 2]), "T": random.choice([1, 2])}
    assert change is not None
    chosen = optimizer.step(change, here)
    others = list(every_plan(optimizer, change, ["S", "T"], here))
    assert (chosen is None) == (not others)
    if chosen is not None:
        weighed = [optimizer.scales.weigh(plan).seconds for plan in others]
        assert optimizer.scales.weigh(chosen).seconds <= min(weighed) * (1 + 1e-9)
        done = found.carry_out(Finished(chosen))
        assert done.net == case.recomputed(done.last) - case.recomputed(done.first)


# Four relations in a chain, of made-up sizes: R(a) - S(a, b) - T(b, c) - U(c)

CHAIN = tuple(
    Relation(name, "x", Schema.of([(column, INT) for column in columns]), (columns[0],))
    for name, columns in (("R", "ka"), ("S", "ab"), ("T", "bc"), ("U", "cd"))
)
VIEW = SharedView.parse(
    "V", "SELECT R.k, U.d FROM R, S, T, U WHERE R.a = S.a AND S.b = T.b AND T.c = U.c", CHAIN
)
HERE = {"R": 0, "S": 0, "T": 0, "U": 0}


def updategram(rows: int, first: int = 0, last: int = 1) -> AvailableUpdategram:
    ends = (Versions({"R": first}), Versions({"R": last}))
    return AvailableUpdategram(f"R{first}-{last}", "R", *ends, rows, 20 * rows)


def contents(place: Place = Place.LOCAL, **sizes: int) -> tuple[AvailableContents, ...]:
    return tuple(
        AvailableContents(name, name, Versions({name: 0}), rows, 20 * rows, place)
        for name, rows in sizes.items()
    )


def booster(*of: str, rows: int, last: int = 1, place: Place = Place.LOCAL) -> AvailableBooster:
    versions = Versions(dict.fromkeys(of, 0))
    return AvailableBooster(
        "b" + "".join(of), VIEW, Interval("R", 0, last), of, versions, rows, 20 * rows,
        NOTHING, place,
    )  # fmt: skip


def chosen(available: Available, speeds: Speeds | None = None) -> tuple[Change, Optimizer]:
    optimizer = Optimizer(VIEW, available, Scales(VIEW, available, speeds))
    plan = optimizer.step(Published(available.updategrams[0]), HERE)
    assert plan is not None
    return plan, optimizer


def used(plan: Change) -> set[str]:
    return {part.found.address for part in walk(plan) if isinstance(part, PublishedBooster)}


def of_chain(
    boosters: Iterable[AvailableBooster], rows: int = 10, place: Place = Place.LOCAL
) -> Available:
    everything = contents(place, R=10_000, S=10_000, T=10_000, U=10_000)
    return Available((updategram(rows),), tuple(boosters), everything)


def test_a_booster_is_used_where_it_is_cheaper_than_the_relation() -> None:
    assert used(chosen(of_chain([booster("S", rows=10)]))[0]) == {"bS"}
    slow = [booster("S", rows=10, place=Place.STORE)]
    far = replace(Speeds().places[Place.STORE], seconds=60.0)
    speeds = Speeds({**Speeds().places, Place.STORE: far})
    assert used(chosen(of_chain(slow))[0]) == {"bS"}
    assert used(chosen(of_chain(slow), speeds)[0]) == set(), "from far away it is not worth it"


def test_a_booster_of_several_relations_is_used_as_it_is() -> None:
    """Example 2.4."""
    found, _ = chosen(of_chain([booster("S", "T", rows=10), booster("T", rows=5000)]))
    assert used(found) == {"bST"}


def test_operands_are_joined_first_where_that_is_cheaper() -> None:
    """A bushy tree: a small booster of S with a booster of T, before the large updategram."""
    many = of_chain([booster("S", rows=3), booster("T", rows=3)], rows=500_000)
    plan, optimizer = chosen(many)
    bushy = [part for part in walk(plan) if isinstance(part, JoinedOperands)]
    assert bushy
    lefts = Published(many.updategrams[0]), *(
        optimizer._single(Published(many.updategrams[0]), name, 0)[0] for name in "STU"
    )  # fmt: skip
    left: Change = lefts[0]  # type: ignore[assignment] # the updategram comes first
    for operand in lefts[1:]:
        left = Joined(left, operand)  # type: ignore[arg-type] # then what it is joined with
    assert optimizer.scales.weigh(plan).seconds < optimizer.scales.weigh(left).seconds


def test_no_cheaper_plan_for_four_relations() -> None:
    for seed in range(20):
        random = Random(seed)
        names = [random.sample("STU", random.randint(1, 2)) for _ in range(random.randint(0, 4))]
        boosters = {
            "".join(sorted(of)): booster(
                *sorted(of), rows=random.choice([1, 30, 900]), place=random.choice(list(Place))
            )
            for of in names
        }
        available = of_chain(boosters.values(), rows=random.choice([1, 100, 10_000]))
        plan, optimizer = chosen(available)
        change = Published(available.updategrams[0])
        weigh = optimizer.scales.weigh
        every = every_plan(optimizer, change, ["S", "T", "U"], HERE)
        assert weigh(plan).seconds <= min(weigh(p).seconds for p in every) * (1 + 1e-9)


@pytest.mark.parametrize("many", [6, 10, 16])
def test_views_of_many_relations_have_plans_too(many: int) -> None:
    relations = tuple(
        Relation(f"A{n}", "x", Schema.of([("k", INT), ("n", INT)]), ("k",)) for n in range(many)
    )
    joins = " AND ".join(f"A{n}.n = A{n + 1}.k" for n in range(many - 1))
    tables = ", ".join(found.name for found in relations)
    view = SharedView.parse("W", f"SELECT A0.k FROM {tables} WHERE {joins}", relations)
    ends = Versions({"A0": 0}), Versions({"A0": 1})
    available = Available(
        (AvailableUpdategram("u", "A0", *ends, 5, 100),),
        (),
        contents(Place.LOCAL, **{found.name: 1000 for found in relations}),
    )
    optimizer = Optimizer(view, available, Scales(view, available))
    here = {found.name: 0 for found in relations}
    plan = optimizer.step(Published(available.updategrams[0]), here)
    assert plan is not None
    assert set(plan.first) == set(here)


def test_what_is_far_away_costs_more_than_what_is_here() -> None:
    speeds = Speeds({place: Speed(n * 0.01, 1e6) for n, place in enumerate(Place)})
    costs = []
    for place in Place:
        plan, optimizer = chosen(of_chain([], place=place), speeds)
        costs.append(optimizer.scales.weigh(plan).seconds)
    assert costs == sorted(costs)
    assert len(set(costs)) == len(costs)
