"""Plans as people and programs read them: each node with its rule, its rows and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.sharing.available import AvailableStored
from headwater.sharing.plan_costs import Scales
from headwater.sharing.plans import (
    Change,
    Coalesced,
    ComputedStored,
    Finished,
    Inverse,
    Joined,
    JoinedOperands,
    LaterStored,
    MadeBooster,
    MergedBoosters,
    MergedStored,
    MovedBooster,
    OfPart,
    Plan,
    Published,
    PublishedBooster,
    PublishedStored,
    Recomputed,
    RedirectedBooster,
    Regrouped,
    RelationAt,
    Summed,
    children,
    interval_of,
    rule,
)


@dataclass(frozen=True)
class ShownPlan:
    """A node of a plan, what is below it, and what both cost together."""

    rule: str
    about: str
    rows: float
    seconds: float
    place: str
    address: str
    below: tuple[ShownPlan, ...]

    def lines(self) -> Iterator[tuple[str, ShownPlan]]:
        """Every node, from the top, with its place in the tree drawn before what it says."""
        yield self.text, self
        yield from self._below("")

    @property
    def text(self) -> str:
        return f"{self.rule}: {self.about}" if self.rule else self.about

    def _below(self, margin: str) -> Iterator[tuple[str, ShownPlan]]:
        for at, part in enumerate(self.below):
            is_last = at == len(self.below) - 1
            yield f"{margin}{'└─ ' if is_last else '├─ '}{part.text}", part
            yield from part._below(margin + ("   " if is_last else "│  "))

    def to_json(self) -> dict[str, Any]:
        about = {"rule": self.rule, "about": self.about, "rows": round(self.rows)}
        there = {"place": self.place, "address": self.address} if self.place else {}
        below = {"below": [part.to_json() for part in self.below]} if self.below else {}
        return {**about, "seconds": round(self.seconds, 9), **there, **below}


def shown(scales: Scales, plan: Plan) -> ShownPlan:
    """A plan and everything below it."""
    below = scales.parts[plan.part] if isinstance(plan, OfPart) else scales
    place, address = _where(plan)
    return ShownPlan(
        rule(scales.view, plan),
        _about(plan),
        scales.weigh(plan).rows,
        scales.carried_out(plan),
        place,
        address,
        tuple(shown(below, part) for part in children(plan)),
    )


def _where(plan: Plan) -> tuple[str, str]:
    match plan:
        case Published(found) | PublishedBooster(found) | PublishedStored(found):
            return found.place.value, found.address
        case RelationAt(start=start):
            return start.place.value, start.address
    return "", ""


def _about(plan: Plan) -> str:
    match plan:
        case Published(found):
            return f"updategram of {found.subject}, {_ends(plan)}"
        case PublishedBooster(found):
            through = f" through {found.through}" if found.through else ""
            about = f"booster of {found.versions}{through} for {found.interval}"
            return f"{about}, view {found.view.name}"
        case RelationAt(name, version, start, way):
            many = "an updategram" if len(way) == 1 else f"{len(way)} updategrams"
            along = f", from {start.versions} by {many}" if way else ""
            return f"{name} {version}{along}"
        case Inverse():
            return "backwards"
        case Coalesced(steps):
            return f"{len(steps)} updategrams as one, {_ends(plan)}"
        case Finished():
            return f"updategram of the view, {_ends(plan)}"
        case Recomputed():
            return f"the view at ({plan.last}) less the view at ({plan.first})"
        case OfPart(part):
            return f"the join of {', '.join(part.relations)}"
        case Summed(parts):
            return f"updategram of the view, of {len(parts)} joins, {_ends(plan)}"
        case Regrouped():
            return f"updategram of the view, {_ends(plan)}"
        case PublishedStored(found):
            return _about_stored(found)
        case ComputedStored():
            return f"what is stored of the view at ({plan.at}), from its relations"
        case LaterStored():
            return f"taken to ({plan.at})"
        case MergedStored(merged):
            return f"{len(merged)} grouping boosters as one"
        case Joined(_, operand):
            return f"joined with {' and '.join(operand.of)}"
        case MadeBooster(change, operand):
            return f"a booster of {operand.versions} for {interval_of(change)} is made"
        case JoinedOperands():
            return f"{' and '.join(plan.of)} joined first"
        case MergedBoosters(parts):
            return f"{len(parts)} boosters of {plan.versions} as one"
        case MovedBooster():
            return f"a booster taken to {plan.versions}"
        case RedirectedBooster():
            return f"a booster made one through {plan.through}"


def _about_stored(found: AvailableStored) -> str:
    if found.is_window:
        return f"window of {found.view.name} at ({found.first})"
    if found.is_booster:
        ends = f"({found.first}) to ({found.last})"
        return f"grouping booster of {found.view.name} from {ends}, by {', '.join(found.by)}"
    return f"what is stored of {found.view.name} at ({found.first})"


def _ends(change: Change) -> str:
    """What moves, from where to where."""
    first, last = change.first, change.last
    return ", ".join(
        f"{name} {first[name]} to {last[name]}" for name in first if first[name] != last[name]
    )
