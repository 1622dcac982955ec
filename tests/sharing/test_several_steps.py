"""Several steps: landmarks, the heuristics, and several relations."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import parse_type
from headwater.sharing import rules
from headwater.sharing.available import (
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.carrying_out import CarryingOut
from headwater.sharing.history import farthest
from headwater.sharing.optimizer import Optimizer, together
from headwater.sharing.plan_costs import Scales
from headwater.sharing.plans import Coalesced, Finished, Published, walk
from headwater.sharing.several_steps import Heuristic, SeveralSteps
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.ways import landmarks
from tests.sharing.at_hand import Item, at_hand
from tests.sharing.cases import LAST, random_case
from tests.sharing.genes import GENES, V1, VARIANTS
from tests.sharing.test_plans import random_boosters

FEW = settings(max_examples=max(1, settings().max_examples // 8))


def edge(first: int, last: int) -> AvailableUpdategram:
    ends = Versions({"R": first}), Versions({"R": last})
    return AvailableUpdategram(f"{first}-{last}", "R", *ends, 1, 20)


def test_landmarks_are_versions_that_a_way_can_meet() -> None:
    edges = [edge(0, 1), edge(1, 4), edge(2, 4), edge(1, 3), edge(0, 2), edge(5, 6), edge(4, 6)]
    ending = landmarks(edges, "R", 0, 4)
    assert {end: [found.address for found in there] for end, there in ending.items()} == {
        1: ["0-1"],
        2: ["0-2"],
        4: ["1-4", "2-4"],
    }, "3 leads nowhere, 5 is not reached, 6 is too far"
    assert landmarks(edges, "R", 3, 4) == {}


def random_steps(seed: int, heuristic: Heuristic = Heuristic.BASE) -> SeveralSteps:
    case, random = random_case(seed, sets=False), Random(seed)
    found = at_hand(case, random)
    for booster in random_boosters(random, case):
        found.add(booster, random.choice(list(Place)))
    return SeveralSteps(found.optimizer(), heuristic)


def every_way(optimizer: Optimizer, first: int, last: int) -> list[list[AvailableUpdategram]]:
    if first == last:
        return [[]]
    return [
        [step, *rest]
        for step in optimizer.available.updategrams_of("R")
        if step.first["R"] == first and step.last["R"] <= last
        for rest in every_way(optimizer, step.last["R"], last)
    ]


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_base_is_as_cheap_as_the_papers_best_way_or_cheaper(seed: int) -> None:
    """The paper adds up what steps cost; carried out, what they share is had once."""
    steps = random_steps(seed)
    optimizer, here = steps.optimizer, Versions({"R": 0, "S": 1, "T": 2})
    scales, plan = optimizer.scales, steps.along("R", here, LAST)
    assert plan is not None
    ways = []
    for way in every_way(optimizer, 0, LAST):
        plans = [optimizer.step(Published(found), here) for found in way]
        finished = [Finished(found) for found in plans if found is not None]
        added = sum(scales.weigh(found).seconds for found in finished)
        ways.append((added, scales.carried_out(together(finished))))
    least = min(added for added, _ in ways)
    best = min(once for added, once in ways if added == pytest.approx(least))
    assert scales.carried_out(plan) <= best * (1 + 1e-9)


def test_what_steps_share_is_had_once() -> None:
    """Contents of T that both steps read cost their place twice in the sum, and once in truth."""
    case = random_case(1, sets=False)
    found = at_hand(case, Random(1), contents=False)
    for name, at in (("S", 1), ("T", 2)):
        found.add(case.contents(name, at), Place.STORE)
    optimizer, here = found.optimizer(), Versions({"R": 0, "S": 1, "T": 2})
    single = found.available.updategrams_of("R")[:2]
    steps = [optimizer.step(Published(step), here) for step in single]
    plan = Coalesced(tuple(Finished(step) for step in steps if step is not None))
    scales = optimizer.scales
    stores = [c for c in scales.costs(plan) if c in {x.address for x in found.available.contents}]
    assert len(stores) == 2
    assert scales.weigh(plan).seconds - scales.carried_out(plan) >= 2 * 0.03
    loaded: list[str] = []

    def load(address: str) -> Item:
        loaded.append(address)
        return found.items[address]

    CarryingOut(case.view, load).done(plan)
    assert sorted(loaded) == sorted(set(loaded))


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_coalescing_is_never_dearer_and_greed_never_cheaper_than_its_base(seed: int) -> None:
    here, seconds = Versions({"R": 0, "S": 1, "T": 2}), {}
    for heuristic in Heuristic:
        steps = random_steps(seed, heuristic)
        plan = steps.along("R", here, LAST)
        assert plan is not None
        seconds[heuristic] = steps.optimizer.scales.carried_out(plan)
    assert seconds[Heuristic.COALESCE] <= seconds[Heuristic.BASE] + 1e-12
    assert seconds[Heuristic.BOTH] <= seconds[Heuristic.GREEDY] + 1e-12


def test_greed_plans_the_longest_steps_however_many_updategrams_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[object] = []
    whole = Optimizer.step

    def counted(self: Optimizer, *arguments: object) -> object:
        looked.append(arguments)
        return whole(self, *arguments)  # type: ignore[arg-type] # as they were given

    monkeypatch.setattr(Optimizer, "step", counted)
    counts = {}
    case = random_case(1, sets=False)
    for heuristic in (Heuristic.BASE, Heuristic.GREEDY):
        for wide in (False, True):
            found = at_hand(case, Random(1))
            if wide:
                for first in range(LAST - 1):
                    for last in range(first + 2, LAST + 1):
                        found.add(case.updategram("R", first, last))
            looked.clear()
            SeveralSteps(found.optimizer(), heuristic).along(
                "R", Versions({"R": 0, "S": 1, "T": 2}), LAST
            )
            counts[heuristic, wide] = len(looked)
    assert counts[Heuristic.GREEDY, False] <= LAST
    assert counts[Heuristic.GREEDY, True] == 1
    assert counts[Heuristic.BASE, True] > counts[Heuristic.BASE, False]


@given(many=st.integers(0, 60), leads=st.integers(0, 60))
def test_the_farthest_version_is_found_in_few_attempts(many: int, leads: int) -> None:
    tried: list[int] = []

    def is_reached(version: int) -> bool:
        tried.append(version)
        return version <= leads

    versions = list(range(many, 0, -1))
    expected = next((version for version in versions if version <= leads), None)
    assert farthest(versions, is_reached) == expected
    assert len(tried) <= 16


@pytest.mark.parametrize("boosted_from", [None, 1000])
def test_thousands_of_small_steps_are_not_planned_one_by_one(
    monkeypatch: pytest.MonkeyPatch, boosted_from: int | None
) -> None:
    many, looked = 2000, []
    whole = Optimizer.step

    def counted(self: Optimizer, *arguments: object) -> object:
        looked.append(arguments)
        return whole(self, *arguments)  # type: ignore[arg-type] # as they were given

    monkeypatch.setattr(Optimizer, "step", counted)
    genes, variants_of = (
        Relation(name, name, Schema.of((c, parse_type(t)) for c, t in columns.items()), key)
        for name, columns, key in (
            ("Genes", GENES, ("GeneID",)),
            ("Variants", VARIANTS, ("VariantID",)),
        )
    )
    view = SharedView.parse("V1", V1, [genes, variants_of])
    updategrams = tuple(
        AvailableUpdategram(f"g{n}", "Genes", Versions({"Genes": n}), Versions({"Genes": n + 1}),
                            2, 200)
        for n in range(many)
    )  # fmt: skip
    variants = Versions({"Variants": 7})
    if boosted_from is None:
        contents = AvailableContents("v", "Variants", variants, 1000, 50_000)
        available = Available(updategrams, (), (contents,))
    else:
        interval = Interval("Genes", boosted_from, many)
        booster = AvailableBooster("b", view, interval, ("Variants",), variants, 9, 900)
        available = Available(updategrams, (booster,))
    steps = SeveralSteps(Optimizer(view, available, Scales(view, available)))
    here = Versions({"Genes": 0, "Variants": 7})
    plan = steps.along("Genes", here, many)
    assert (plan is None) == (boosted_from is not None)
    assert len(looked) < 5


@given(seed=st.integers(0, 2**32 - 1), heuristic=st.sampled_from(Heuristic))
@FEW
def test_a_plan_leads_from_any_vector_to_any_other(seed: int, heuristic: Heuristic) -> None:
    case, random = random_case(seed, sets=False), Random(seed)
    found = at_hand(case, random)
    for booster in random_boosters(random, case):
        found.add(booster)
    first, last = (Versions({name: random.randint(0, LAST) for name in "RST"}) for _ in range(2))
    plan = SeveralSteps(found.optimizer(), heuristic).between(first, last)
    if first == last:
        assert plan is None
        return
    assert plan is not None
    assert (plan.first, plan.last) == (first, last)
    assert found.carry_out(plan).net == case.recomputed(last) - case.recomputed(first)


def test_the_relation_that_makes_the_others_cheap_comes_first() -> None:
    """A booster of S at its old version serves R's change only while S is still there."""
    for old in (True, False):
        case = random_case(3, sets=False)
        found = at_hand(case, Random(3), contents=False)
        first = Versions({"R": 0, "S": 0, "T": 1})
        last = Versions({"R": 1, "S": 1, "T": 1})
        for name, at in (("S", 0), ("T", 1), ("R", 0)):
            found.add(case.contents(name, at), Place.STORE)
        mu = case.updategram("R", 0, 1)
        found.add(rules.a3(case.view, mu, case.contents("S", 0 if old else 1)))
        plan = SeveralSteps(found.optimizer()).between(first, last)
        assert isinstance(plan, Coalesced)
        order = [next(n for n in step.first if step.first[n] != step.last[n])
                 for step in plan.steps]  # fmt: skip
        assert order[0] == ("R" if old else "S")
        assert any(isinstance(part, Published) for part in walk(plan))
