"""Advancing views by whatever boosters there are: of any versions, overlapping, through others."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.carrying_out import CarryingOut
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.entries import RelationEntry, ViewEntry
from headwater.sharing.errors import MissingBoosterError
from headwater.sharing.planning import Planner
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from tests.sharing.cases import LAST, RELATIONS, Case, random_case

FEW = settings(max_examples=max(1, settings().max_examples // 3))


def catalog_of(case: Case, folder: Path) -> Catalog:
    """All updategrams, one version at a time, and no rows of base relations."""
    catalog = Catalog.create(folder / "c", "N", "s", durable=False)
    catalog.add_all(RelationEntry(relation, "N") for relation in RELATIONS)
    catalog.add(ViewEntry(case.view))
    catalog.add_all(step for steps in case.steps.values() for step in steps)
    return catalog


def intervals(random: Random) -> list[tuple[int, int]]:
    """Some that cover all versions, touching, overlapping or nested."""
    found, reached = [], 0
    while reached < LAST:
        first = random.randint(max(0, reached - 1), reached)
        reached = random.randint(reached + 1, LAST)
        found.append((first, reached))
    return found


def random_boosters(random: Random, case: Case, view: SharedView) -> list[Booster]:
    made = []
    for changed in view.relations:
        for other in view.relations:
            if other == changed:
                continue
            between = view.between(changed, other)
            for first, last in intervals(random):
                part: Updategram = case.updategram(changed, first, last)
                if between is not None:
                    there = case.contents(between, random.randint(0, LAST))
                    part = rules.a1(view, part, there)
                made.append(rules.a3(view, part, case.contents(other, random.randint(0, LAST))))
    return made


def random_vector(random: Random) -> Versions:
    return Versions({relation.name: random.randint(0, LAST) for relation in RELATIONS})


def advanced(
    catalog: Catalog, view: SharedView, first: Versions, last: Versions
) -> tuple[Updategram, CarryingOut]:
    planner = Planner(catalog)
    carrying = planner.carrying_out(view)
    return carrying.done(planner.between(view, first, last).change), carrying


@given(seed=st.integers(0, 2**32 - 1), sets=st.booleans())
@FEW
def test_boosters_alone_take_a_view_from_any_vector_to_any_other(seed: int, sets: bool) -> None:
    case, random = random_case(seed, sets=sets), Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        catalog = catalog_of(case, Path(folder))
        view = random.choice([case.view, *case.wider])
        catalog.add_all(random_boosters(random, case, view))
        first, last = random_vector(random), random_vector(random)
        if first == last:
            return
        found, carrying = advanced(catalog, case.view, first, last)
        before = Contents("V", first, case.recomputed(first))
        assert before.after(found) == Contents("V", last, case.recomputed(last))
        assert not carrying.copies


@given(seed=st.integers(0, 2**32 - 1))
@FEW
def test_boosters_of_several_relations_are_used_where_they_fit(seed: int) -> None:
    case = random_case(seed, sets=False)
    view, here = case.view, Versions({"R": 1, "S": 2, "T": 3})
    mu = case.updategram("R", 0, LAST)
    singles = [rules.a3(view, mu, case.contents(name, here[name])) for name in ("S", "T")]
    with tempfile.TemporaryDirectory() as folder:
        catalog = catalog_of(case, Path(folder))
        catalog.add(rules.a4(view, *singles))
        found, carrying = advanced(catalog, view, here, here.moved("R", 4))
        assert found.apply(case.recomputed(here)) == case.recomputed(here.moved("R", 4))
        assert len(carrying.used) == 1
        with pytest.raises(MissingBoosterError, match="there is none"):
            advanced(catalog, view, here, here.moved("S", 4))


def test_a_booster_of_a_view_that_does_not_contain_it_is_not_used(tmp_path: Path) -> None:
    case = random_case(1, sets=False)
    narrow = SharedView.parse(
        "N", f"{case.view.sql} AND R.x = 2 AND S.c = 0 AND T.b = 0", RELATIONS
    )
    catalog = catalog_of(case, tmp_path)
    catalog.add_all(random_boosters(Random(1), case, narrow))
    with pytest.raises(MissingBoosterError):
        advanced(
            catalog,
            case.view,
            Versions({"R": 0, "S": 0, "T": 0}),
            Versions({"R": 2, "S": 1, "T": 1}),
        )
