"""Objects of a random case at hand in memory: what there is, and their rows by address."""

from dataclasses import dataclass, field
from random import Random

from headwater.sharing.available import (
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableUpdategram,
    Place,
)
from headwater.sharing.booster import Booster
from headwater.sharing.carrying_out import CarryingOut
from headwater.sharing.contents import Contents
from headwater.sharing.optimizer import Optimizer
from headwater.sharing.plan_costs import Scales
from headwater.sharing.plans import Change
from headwater.sharing.updategram import Updategram
from tests.sharing.cases import LAST, Case

Item = Updategram | Booster | Contents


@dataclass
class AtHand:
    """A case with what was published of it."""

    case: Case
    items: dict[str, Item] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def add(self, item: Item, place: Place = Place.LOCAL) -> None:
        address = f"{len(self.items):04}"
        self.items[address], self.places[address] = item, place

    @property
    def available(self) -> Available:
        updategrams, boosters, contents = [], [], []
        for address, item in self.items.items():
            place = self.places[address]
            match item:
                case Updategram(subject, first, last):
                    rows = len(item.touched)
                    updategrams.append(
                        AvailableUpdategram(address, subject, first, last, rows, 20 * rows, place)
                    )
                case Booster(view, interval, of, versions, found, _, through):
                    rows = len(found)
                    boosters.append(
                        AvailableBooster(
                            address, view, interval, of, versions, rows, 20 * rows, through, place
                        )
                    )
                case Contents(subject, versions, found):
                    rows = len(found)
                    contents.append(
                        AvailableContents(address, subject, versions, rows, 20 * rows, place)
                    )
        return Available(tuple(updategrams), tuple(boosters), tuple(contents))

    def optimizer(self) -> Optimizer:
        available = self.available
        return Optimizer(self.case.view, available, Scales(self.case.view, available))

    def carry_out(self, plan: Change) -> Updategram:
        return CarryingOut(self.case.view, self.items.__getitem__).done(plan)


def at_hand(case: Case, random: Random, *, contents: bool = True) -> AtHand:
    """All single steps, some wider ones, and contents at random versions and in random places."""
    found = AtHand(case)
    places = list(Place)
    for name, steps in case.steps.items():
        for step in steps:
            found.add(step)
        for _ in range(random.randint(0, 2)):
            first = random.randint(0, LAST - 1)
            last = random.randint(first + 1, LAST)
            if last > first + 1:
                found.add(case.updategram(name, first, last), random.choice(places))
        if contents:
            for _ in range(random.randint(1, 2)):
                found.add(case.contents(name, random.randint(0, LAST)), random.choice(places))
    return found
