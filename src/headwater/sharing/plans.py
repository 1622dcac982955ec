"""Plans: how the updategram of a view is computed from what there is, as a tree of rules.

A plan is a value and says nothing about rows. Some nodes give an updategram, of a relation, of a
join of relations, or of the view; the others give what an updategram is joined with, a relation at
a version or a booster. Trees may be bushy. What a node costs is in `plan_costs`, how it is carried
out in `carrying_out`, and how one plan becomes another in `transformations` (Theorem 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from headwater.algebra.hashing import cached_hash
from headwater.sharing.available import (
    AvailableBooster,
    AvailableContents,
    AvailableStored,
    AvailableUpdategram,
    Step,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import NOTHING, Interval, Versions
from headwater.sharing.view_parts import ViewPart

# Plans for an updategram


@cached_hash
@dataclass(frozen=True)
class Published:
    """An updategram as somebody published it."""

    found: AvailableUpdategram

    @property
    def first(self) -> Versions:
        return self.found.first

    @property
    def last(self) -> Versions:
        return self.found.last


@cached_hash
@dataclass(frozen=True)
class Inverse:
    """An updategram gone backwards."""

    change: Change

    @property
    def first(self) -> Versions:
        return self.change.last

    @property
    def last(self) -> Versions:
        return self.change.first


@cached_hash
@dataclass(frozen=True)
class Coalesced:
    """Updategrams of one subject, each starting where the one before ends, as one (A10)."""

    steps: tuple[Change, ...]

    @property
    def first(self) -> Versions:
        return self.steps[0].first

    @property
    def last(self) -> Versions:
        return self.steps[-1].last


@cached_hash
@dataclass(frozen=True)
class Joined:
    """An updategram with a relation (A1) or a booster (A2, A5, A6, A8)."""

    change: Change
    operand: Operand

    @cached_property
    def first(self) -> Versions:
        return self.change.first.joined(self.operand.versions)

    @cached_property
    def last(self) -> Versions:
        return self.change.last.joined(self.operand.versions)


@cached_hash
@dataclass(frozen=True)
class Finished:
    """The view's updategram from that of the join of all its relations: the select list."""

    change: Change

    @property
    def first(self) -> Versions:
        return self.change.first

    @property
    def last(self) -> Versions:
        return self.change.last


@cached_hash
@dataclass(frozen=True)
class Recomputed:
    """The view at one vector less the view at another: no rule at all, only rows."""

    before: tuple[RelationAt, ...]
    after: tuple[RelationAt, ...]

    @property
    def first(self) -> Versions:
        return Versions({found.name: found.version for found in self.before})

    @property
    def last(self) -> Versions:
        return Versions({found.name: found.version for found in self.after})


@cached_hash
@dataclass(frozen=True)
class OfPart:
    """The updategram of one join of a view that is more than that; its plan knows occurrences."""

    part: ViewPart
    change: Change

    @property
    def first(self) -> Versions:
        return self.part.gathered(self.change.first)

    @property
    def last(self) -> Versions:
        return self.part.gathered(self.change.last)


@cached_hash
@dataclass(frozen=True)
class Summed:
    """The updategram of a view's rows from those of the parts that change (A12)."""

    parts: tuple[OfPart, ...]
    first: Versions
    last: Versions


# Plans for what is stored of a view


@cached_hash
@dataclass(frozen=True)
class PublishedStored:
    """What is stored of a view, or a part of it, as the node holds it or somebody published it."""

    found: AvailableStored

    @property
    def at(self) -> Versions:
        return self.found.first


@cached_hash
@dataclass(frozen=True)
class ComputedStored:
    """What is stored of a view, from rows of its relations."""

    relations: tuple[RelationAt, ...]

    @property
    def at(self) -> Versions:
        return Versions({found.name: found.version for found in self.relations})


@cached_hash
@dataclass(frozen=True)
class LaterStored:
    """The same at another version, by an updategram of the view's rows (A15)."""

    stored: Stored
    change: Change

    @property
    def at(self) -> Versions:
        return self.change.last


@cached_hash
@dataclass(frozen=True)
class MergedStored:
    """Grouping boosters that follow each other, as one (A16)."""

    parts: tuple[Stored, ...]

    @property
    def at(self) -> Versions:
        return self.parts[0].at


@cached_hash
@dataclass(frozen=True)
class Regrouped:
    """The view's updategram from that of its rows and from what is stored (A13, A14, A17)."""

    change: Change
    stored: Stored

    @property
    def first(self) -> Versions:
        return self.change.first

    @property
    def last(self) -> Versions:
        return self.change.last


# Plans for what an updategram is joined with


@cached_hash
@dataclass(frozen=True)
class RelationAt:
    """A base relation at a version: contents, and updategrams that lead there from theirs."""

    name: str
    version: int
    start: AvailableContents
    way: tuple[Step, ...] = ()

    @property
    def of(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def versions(self) -> Versions:
        return Versions({self.name: self.version})

    @property
    def interval(self) -> Interval | None:
        return None

    @property
    def through(self) -> Versions:
        return NOTHING


@cached_hash
@dataclass(frozen=True)
class PublishedBooster:
    """A booster as somebody published it."""

    found: AvailableBooster

    @property
    def of(self) -> tuple[str, ...]:
        return self.found.of

    @property
    def versions(self) -> Versions:
        return self.found.versions

    @property
    def interval(self) -> Interval | None:
        return self.found.interval

    @property
    def through(self) -> Versions:
        return self.found.through


@cached_hash
@dataclass(frozen=True)
class MadeBooster:
    """The booster of a relation, or a smaller one from a larger, for an updategram (A3)."""

    change: Change
    operand: Operand

    @property
    def of(self) -> tuple[str, ...]:
        return self.operand.of

    @property
    def versions(self) -> Versions:
        return self.operand.versions

    @property
    def interval(self) -> Interval | None:
        return interval_of(self.change)

    @property
    def through(self) -> Versions:
        (changed,) = moving(self.change)
        return Versions({n: v for n, v in self.change.first.items() if n != changed})


@cached_hash
@dataclass(frozen=True)
class JoinedOperands:
    """Relations and boosters joined with each other before the updategram is (A4, A7, A9)."""

    one: Operand
    other: Operand

    @property
    def of(self) -> tuple[str, ...]:
        return tuple(sorted((*self.one.of, *self.other.of)))

    @property
    def versions(self) -> Versions:
        return self.one.versions.joined(self.other.versions)

    @property
    def interval(self) -> Interval | None:
        """What both cover."""
        one, other = self.one.interval, self.other.interval
        if one is None or other is None:
            return one or other
        return Interval(one.relation, max(one.first, other.first), min(one.last, other.last))

    @property
    def through(self) -> Versions:
        return NOTHING


@cached_hash
@dataclass(frozen=True)
class MergedBoosters:
    """Boosters of one relation for intervals that overlap or touch, as one (A11)."""

    parts: tuple[Operand, ...]

    @property
    def of(self) -> tuple[str, ...]:
        return self.parts[0].of

    @property
    def versions(self) -> Versions:
        return self.parts[0].versions

    @property
    def interval(self) -> Interval | None:
        parts = [part.interval for part in self.parts if part.interval is not None]
        low, high = min(part.first for part in parts), max(part.last for part in parts)
        return Interval(parts[0].relation, low, high)

    @property
    def through(self) -> Versions:
        return self.parts[0].through


@cached_hash
@dataclass(frozen=True)
class MovedBooster:
    """A booster taken to another version of its relation, for an updategram that it covers."""

    change: Change
    booster: PublishedBooster
    version: int
    way: tuple[Step, ...]

    @property
    def of(self) -> tuple[str, ...]:
        return self.booster.of

    @property
    def versions(self) -> Versions:
        return Versions({self.of[0]: self.version})

    @property
    def interval(self) -> Interval | None:
        return interval_of(self.change)

    @property
    def through(self) -> Versions:
        return self.booster.through


@cached_hash
@dataclass(frozen=True)
class RedirectedBooster:
    """A booster through a relation at one version, made one through another version of it."""

    booster: Operand
    patch: Operand
    """For the changes of the relation in between."""
    version: int

    @property
    def of(self) -> tuple[str, ...]:
        return self.booster.of

    @property
    def versions(self) -> Versions:
        return self.booster.versions

    @property
    def interval(self) -> Interval | None:
        return self.booster.interval

    @property
    def through(self) -> Versions:
        (between,) = self.booster.through
        return Versions({between: self.version})


Change: TypeAlias = (
    Published | Inverse | Coalesced | Joined | Finished | Recomputed | OfPart | Summed | Regrouped
)
Operand: TypeAlias = (
    RelationAt
    | PublishedBooster
    | MadeBooster
    | JoinedOperands
    | MergedBoosters
    | MovedBooster
    | RedirectedBooster
)
Stored: TypeAlias = PublishedStored | ComputedStored | LaterStored | MergedStored
Plan: TypeAlias = Change | Operand | Stored


# What a plan says


def moving(change: Change) -> tuple[str, ...]:
    """The relations whose versions differ at its ends."""
    first, last = change.first, change.last
    return tuple(name for name in first if first[name] != last[name])


def interval_of(change: Change) -> Interval:
    """Of the one relation that moves, the lower version first."""
    (name,) = moving(change)
    low, high = sorted((change.first[name], change.last[name]))
    return Interval(name, low, high)


def children(plan: Plan) -> tuple[Plan, ...]:
    """The plans right below it."""
    match plan:
        case Inverse(change) | Finished(change) | OfPart(_, change):
            return (change,)
        case Coalesced(steps):
            return steps
        case Joined(change, operand) | MadeBooster(change, operand):
            return (change, operand)
        case JoinedOperands(one, other):
            return (one, other)
        case MergedBoosters(parts) | Summed(parts):
            return parts
        case MovedBooster(change, booster):
            return (change, booster)
        case RedirectedBooster(booster, patch):
            return (booster, patch)
        case Recomputed(before, after):
            return (*before, *after)
        case Regrouped(change, stored) | LaterStored(stored, change):
            return (change, stored)
        case ComputedStored(relations):
            return relations
        case MergedStored(merged):
            return merged
    return ()


def objects_of(
    plan: Plan,
) -> tuple[AvailableUpdategram | AvailableBooster | AvailableContents | AvailableStored, ...]:
    """The objects that a node itself reads."""
    match plan:
        case Published(found) | PublishedBooster(found) | PublishedStored(found):
            return (found,)
        case RelationAt(start=start, way=way):
            return (start, *(step for step, _ in way))
        case MovedBooster(way=way):
            return tuple(step for step, _ in way)
    return ()


def with_children(plan: Plan, below: tuple[Any, ...]) -> Plan:
    """The same node over other plans, which are of the kinds that it has."""
    node: Any = plan
    found: Plan
    match plan:
        case Coalesced():
            found = replace(node, steps=below)
        case ComputedStored():
            found = replace(node, relations=below)
        case MergedBoosters() | MergedStored() | Summed():
            found = replace(node, parts=below)
        case Recomputed(before, _):
            found = replace(node, before=below[: len(before)], after=below[len(before) :])
        case _:
            fields = _FIELDS.get(type(plan), ())
            found = replace(node, **dict(zip(fields, below, strict=True)))
    return found


_FIELDS: Mapping[type[Plan], tuple[str, ...]] = {
    Inverse: ("change",),
    Finished: ("change",),
    OfPart: ("change",),
    Joined: ("change", "operand"),
    MadeBooster: ("change", "operand"),
    JoinedOperands: ("one", "other"),
    MovedBooster: ("change", "booster"),
    RedirectedBooster: ("booster", "patch"),
    Regrouped: ("change", "stored"),
    LaterStored: ("change", "stored"),
}


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and everything below it."""
    yield plan
    for part in children(plan):
        yield from walk(part)


def rule(view: SharedView, plan: Plan) -> str:
    """The rule by which a node gives what it gives; empty for what is there already."""
    match plan:
        case Published() | PublishedBooster() | PublishedStored() | ComputedStored():
            return ""
        case RelationAt(way=way):
            return "A10" if way else ""
        case Inverse():
            return "inverse"
        case Coalesced():
            return "A10"
        case Finished():
            return "select list"
        case Recomputed():
            return "recomputed"
        case OfPart():
            return ""
        case Summed():
            return "A12"
        case Regrouped(_, stored):
            return _rule_of_groups(view, stored)
        case LaterStored():
            return "A15"
        case MergedStored():
            return "A16"
        case MadeBooster(_, operand):
            return "A3" if isinstance(operand, RelationAt) else "narrowed"
        case MergedBoosters():
            return "A11"
        case MovedBooster():
            return "moved"
        case RedirectedBooster():
            return "redirected"
        case JoinedOperands(one, other):
            return _rule_of_operands(view, one, other)
        case Joined(change, operand):
            return _rule_of_join(view, change, operand)


def _rule_of_groups(view: SharedView, stored: Stored) -> str:
    found = [part.found for part in walk(stored) if isinstance(part, PublishedStored)]
    if any(each.is_window for each in found):
        return "A17"
    return "A14" if any(each.view != view for each in found) else "A13"


def _rule_of_operands(view: SharedView, one: Operand, other: Operand) -> str:
    if one.interval is None and other.interval is None:
        return "join"
    if one.interval != other.interval:
        return "A9"
    return "A4" if _is_for(view, one) and _is_for(view, other) else "A7"


def _rule_of_join(view: SharedView, change: Change, operand: Operand) -> str:
    if isinstance(operand, RelationAt):
        return "A1"
    if isinstance(operand, JoinedOperands):
        return "A5"
    if operand.interval != interval_of(change):
        return "A8"
    return "A2" if _is_for(view, operand) else "A6"


def _is_for(view: SharedView, operand: Operand) -> bool:
    """Whether all boosters in it were made for this very view."""
    return all(
        part.found.view == view for part in walk(operand) if isinstance(part, PublishedBooster)
    )
