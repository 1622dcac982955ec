"""Carrying a plan out: every node by its rule, on rows in memory or on frames, the same plan.

`load` gives an object by its address, with its rows. What a plan reads more than once is loaded
once, and a part that stands in it more than once is computed once. `lift` says how rows are held:
as they are, in columns or by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.sharing import rules
from headwater.sharing.available import STORED, Step
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.errors import MissingContentsError
from headwater.sharing.grouping import GroupingBooster, a12, a16, grouping_booster
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
    Operand,
    Published,
    PublishedBooster,
    PublishedStored,
    Recomputed,
    RedirectedBooster,
    Regrouped,
    RelationAt,
    Stored,
    Summed,
    walk,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.stored import StoredPart, after, computed, is_by_group, is_whole, kept
from headwater.sharing.stored import updategram as updategram_of
from headwater.sharing.updategram import Updategram, composed
from headwater.sharing.versions import Interval
from headwater.sharing.view_parts import relation_of
from headwater.sharing.windows import Window

Loaded = Updategram | Booster | Contents | GroupingBooster | Window
Load = Callable[[str], Loaded]
Lift = Callable[[Rows], Rows]


def as_it_is(rows: Rows) -> Rows:
    return rows


class DryWindowError(MissingContentsError):
    """A window that a plan counted on has too few rows left; `addresses` says which."""

    addresses: frozenset[str] = frozenset()


@dataclass
class CarryingOut:
    """One plan on its way; remembers what was used, and the boosters that come about (A3)."""

    view: SharedView
    load: Load
    lift: Lift = as_it_is
    makes_boosters: bool = False
    """Whether to keep the boosters of relations that are joined whole."""
    used: list[str] = field(default_factory=list)
    """Addresses of boosters that were used."""
    copies: list[str] = field(default_factory=list)
    """Base relations whose rows were asked."""
    made: list[Booster] = field(default_factory=list)
    grouped: list[GroupingBooster] = field(default_factory=list)
    """Grouping boosters that came about, if boosters are made."""
    stored_after: StoredPart | None = None
    """What is stored of the view where the plan leads, if the node can go on from it."""
    _loaded: dict[str, Loaded] = field(default_factory=dict)
    _changes: dict[Change, Updategram] = field(default_factory=dict)
    _operands: dict[Operand, Contents | Booster] = field(default_factory=dict)

    def done(self, plan: Change) -> Updategram:
        """What a plan comes to, with its rows in memory."""
        return settled(self.updategram(plan))

    def updategram(self, plan: Change) -> Updategram:
        """What a plan comes to; MisfitError or PreconditionError if the objects do not fit."""
        if plan not in self._changes:
            self._changes[plan] = self._computed(plan)
        return self._changes[plan]

    def _computed(self, plan: Change) -> Updategram:
        match plan:
            case Published(found):
                return self._updategram(found.address)
            case Inverse(change):
                return self.updategram(change).inverse()
            case Coalesced(steps):
                return composed([self.updategram(step) for step in steps])
            case Finished(change):
                return rules.finished(self.view, self.updategram(change))
            case Joined(change, operand):
                return self._joined(self.updategram(change), operand)
            case OfPart():
                return self._part(plan)
            case Summed(parts, first, last):
                return a12(self.view, list(map(self._part, parts)), (first, last))
            case Regrouped(change, stored):
                return self._regrouped(settled(self.updategram(change)), stored)
            case Recomputed(before, later):
                net = self._shown(later) - self._shown(before)
                return Updategram.of_net(self.view.name, plan.first, plan.last, net)

    def _part(self, plan: OfPart) -> Updategram:
        """One join of the view, by a carrying out of its own."""
        inner = CarryingOut(plan.part, self.load, self.lift, _loaded=self._loaded)
        found = inner.updategram(plan.change)
        self.used += [address for address in inner.used if address not in self.used]
        names = dict.fromkeys(map(relation_of, inner.copies))
        self.copies += [name for name in names if name not in self.copies]
        return found

    def _joined(self, change: Updategram, operand: Operand) -> Updategram:
        found = self.operand(operand, change.interval)
        if isinstance(found, Contents):
            if self.makes_boosters:
                self.made.append(rules.a3(self.view, change, found))
            return rules.a1(self.view, change, found)
        return rules.a8(self.view, change, found)

    # What is stored of the view

    def _regrouped(self, change: Updategram, stored: Stored) -> Updategram:
        try:
            part = self.stored(stored)
            found = updategram_of(self.view, change, part)
        except MissingContentsError as error:
            dry = DryWindowError(error.message, error.hint)
            read = (each for each in walk(stored) if isinstance(each, PublishedStored))
            dry.addresses = frozenset(each.found.address for each in read)
            raise dry from None
        if part.view == self.view:
            if isinstance(part, Window) or is_whole(part):
                self.stored_after = kept(after(part, change))
            wanted = self.makes_boosters and is_by_group(self.view)
            if wanted and isinstance(part, GroupingBooster) and is_whole(part):
                self.grouped.append(grouping_booster(self.view, change, part.rows))
        return found

    def stored(self, plan: Stored) -> StoredPart:
        match plan:
            case PublishedStored(found):
                loaded = self._once(found.address)
                assert isinstance(loaded, GroupingBooster | Window)
                if not found.address.startswith(STORED):
                    self._note_used(found.address)
                return loaded
            case ComputedStored(relations):
                state = {each.name: self.relation(each).rows for each in relations}
                return computed(self.view, plan.at, state)
            case LaterStored(before, change):
                return after(self.stored(before), settled(self.updategram(change)))
            case MergedStored(parts):
                first, *rest = (self._grouping(part) for part in parts)
                for each in rest:
                    first = a16(first, each)
                return first

    def _grouping(self, plan: Stored) -> GroupingBooster:
        found = self.stored(plan)
        assert isinstance(found, GroupingBooster)
        return found

    def operand(self, plan: Operand, within: Interval) -> Contents | Booster:
        """A relation or a booster; what has no interval of its own is for changes `within`."""
        if plan not in self._operands:
            self._operands[plan] = self._had(plan, within)
        found = self._operands[plan]
        if isinstance(found, Booster) and plan.interval is None:
            return replace(found, interval=within)
        return found

    def _had(self, plan: Operand, within: Interval) -> Contents | Booster:
        match plan:
            case RelationAt():
                return self.relation(plan)
            case PublishedBooster(listed):
                return self._booster(listed.address)
            case MadeBooster(change, operand):
                made = self._made(self.updategram(change), operand)
                self.made.append(made)
                return made
            case JoinedOperands(one, other):
                shared = plan.interval or within
                return rules.a9(self.view, self._as_booster(one, shared),
                                self._as_booster(other, shared))  # fmt: skip
            case MergedBoosters(parts):
                return self._merged([self._as_booster(part, within) for part in parts])
            case MovedBooster(change, booster, _, way):
                covered, there = self.updategram(change), self._booster(booster.found.address)
                return rules.moved(self.view, covered, there, self._along(way))
            case RedirectedBooster(booster, patch):
                there, more = (self._as_booster(part, within) for part in (booster, patch))
                return rules.redirected(self.view, there, more)

    def _merged(self, boosters: Sequence[Booster]) -> Booster:
        """Neighbours two by two, so that no row is looked at as often as there are boosters."""
        while len(boosters) > 1:
            pairs = zip(boosters[::2], boosters[1::2], strict=False)
            left = boosters[len(boosters) // 2 * 2 :]
            boosters = [*(rules.a11(self.view, one, other) for one, other in pairs), *left]
        return boosters[0]

    def _made(self, change: Updategram, operand: Operand) -> Booster:
        found = self.operand(operand, change.interval)
        if isinstance(found, Contents):
            return rules.a3(self.view, change, found)
        return rules.narrowed(self.view, change, found)

    def _as_booster(self, plan: Operand, within: Interval) -> Booster:
        found = self.operand(plan, within)
        return found if isinstance(found, Booster) else rules.whole(self.view, within, found)

    # What is there

    def relation(self, plan: RelationAt) -> Contents:
        """A base relation with its rows."""
        if plan.name not in self.copies:
            self.copies.append(plan.name)
        found = self._once(plan.start.address)
        assert isinstance(found, Contents)
        return found.after(self._along(plan.way)) if plan.way else found

    def _shown(self, relations: Sequence[RelationAt]) -> Rows:
        state = {plan.name: self.relation(plan).rows for plan in relations}
        return evaluate_shown(self.view.view, state)

    def _along(self, way: Sequence[Step]) -> Updategram:
        steps = ((self._updategram(found.address), ahead) for found, ahead in way)
        return composed([step if ahead else step.inverse() for step, ahead in steps])

    def _updategram(self, address: str) -> Updategram:
        found = self._once(address)
        assert isinstance(found, Updategram)
        return found

    def _booster(self, address: str) -> Booster:
        found = self._once(address)
        assert isinstance(found, Booster)
        self._note_used(address)
        return found

    def _note_used(self, address: str) -> None:
        if address not in self.used:
            self.used.append(address)

    def _once(self, address: str) -> Loaded:
        if address not in self._loaded:
            found = self.load(address)
            match found:
                case Updategram(inserted=inserted, deleted=deleted):
                    lifted = replace(
                        found, inserted=self.lift(inserted), deleted=self.lift(deleted)
                    )
                    self._loaded[address] = lifted
                case Booster(rows=rows) | Contents(rows=rows):
                    self._loaded[address] = replace(found, rows=self.lift(rows))
                case GroupingBooster() | Window():
                    self._loaded[address] = found
        return self._loaded[address]


def settled(updategram: Updategram) -> Updategram:
    """With its rows in memory, however they were held while it was computed."""
    inserted, deleted = updategram.inserted, updategram.deleted
    if type(inserted) is Rows and type(deleted) is Rows:
        return updategram
    collected = (Rows(rows.schema, dict(rows.items())) for rows in (inserted, deleted))
    return Updategram(updategram.subject, updategram.first, updategram.last, *collected)
