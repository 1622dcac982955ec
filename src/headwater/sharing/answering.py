"""Answering: a question about a view or a relation, by the cheapest of the ways that there are.

Sections 1.1 and 1.2 of the paper: "when a new query is issued, the system selects an appropriate
cache to answer the query, and refreshes the materialized views within the cache as necessary".
A way begins with rows of the view, held here or published by anybody, of any version, and takes
them where the question is; or it computes the view from its relations. All ways are weighed as
plans are, and the cheapest is taken. What is asked for is a vector, now or in the past, or how
fresh the answer has to be, or both: of each relation at least the version that was the newest then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.sharing.available import AvailableContents
from headwater.sharing.carrying_out import DryWindowError
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.engines import StartSpark, lift_for, lift_for_rows
from headwater.sharing.errors import (
    MissingBoosterError,
    MissingContentsError,
    SharingError,
    VersionGapError,
)
from headwater.sharing.freshness import Heard, fresh_versions, heard_of
from headwater.sharing.planning import HELD, Planner, ViewPlan
from headwater.sharing.plans import RelationAt
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import Versions


@dataclass(frozen=True)
class Question:
    """Which view, at which versions, and how fresh; nothing of both is what is here."""

    view: SharedView
    at: Mapping[str, int]
    fresh_s: float | None = None
    """How many seconds old the answer may be in the relations that `at` does not name."""


@dataclass(frozen=True)
class Way:
    """One way to an answer: rows to start from and a plan to the vector, or relations."""

    view: SharedView
    versions: Versions
    seconds: float
    """As it is estimated."""
    start: AvailableContents | None = None
    plan: ViewPlan | None = None
    """None if the start is the answer already."""
    relations: tuple[RelationAt, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether it begins with what the node holds itself."""
        return self.start is not None and self.start.address.startswith(HELD)

    @property
    def about(self) -> str:
        if self.start is None:
            return "computed from its relations"
        here = "held here" if self.is_held else f"published, {self.start.place.value}"
        onwards = ", and taken on" if self.plan is not None else ""
        return f"{here}, at ({self.start.versions}){onwards}"


@dataclass
class Answering:
    """Ways to answers, from what one node has."""

    planner: Planner
    start_spark: StartSpark

    @property
    def catalog(self) -> Catalog:
        return self.planner.catalog

    def best(self, question: Question, heard: Mapping[str, Heard] | None = None) -> Way:
        """The cheapest way; a SharingError says why there is none."""
        ways = self.ways(question, heard)
        return min(ways, key=lambda way: (way.seconds, not way.is_held))

    def ways(self, question: Question, heard: Mapping[str, Heard] | None = None) -> list[Way]:
        """All there are to one vector, or a SharingError that says what is missing."""
        view, least = question.view, Versions({})
        for name in question.at:
            view.require(name)
        if question.fresh_s is not None:
            heard = heard_of(self.catalog) if heard is None else heard
            least = self._least(question, heard, question.fresh_s)
        starts = self._starts(view)
        newest = Versions({name: self.catalog.newest(name) for name in view.relations})
        bases = [starts[0].versions] if starts else [newest, newest.joined(least)]
        reasons: list[SharingError] = []
        for base in dict.fromkeys(bases):
            target = _target(question, base, least)
            if found := list(self._ways_to(view, starts, target, reasons)):
                return found
        raise reasons[0] if reasons else self._no_rows(view, target)

    def _ways_to(
        self,
        view: SharedView,
        starts: Sequence[AvailableContents],
        target: Versions,
        reasons: list[SharingError],
    ) -> Iterator[Way]:
        for start in starts:
            try:
                yield self._from(view, start, target)
            except (VersionGapError, MissingBoosterError) as error:
                reasons.append(error)
        if (computed := self._computed(view, target)) is not None:
            yield computed

    def _least(self, question: Question, heard: Mapping[str, Heard], seconds: float) -> Versions:
        """What the relations that the question leaves open must have reached."""
        pinned = {name: Heard(version, float("inf")) for name, version in question.at.items()}
        known, view = {**heard, **pinned}, question.view
        return fresh_versions(self.catalog, view.name, view.relations, known, seconds)

    def _starts(self, view: SharedView) -> list[AvailableContents]:
        """Rows of the view: first what is held, from which no answer goes back, then the newest."""

        def order(found: AvailableContents) -> tuple[bool, int, str]:
            is_held = found.address.startswith(HELD)
            return not is_held, -sum(found.versions.values()), found.address

        return sorted(self.planner.starts(view), key=order)

    def _from(self, view: SharedView, start: AvailableContents, target: Versions) -> Way:
        scales = self.planner.optimizer(view).scales
        access = 0.0 if start.address.startswith(HELD) else scales.access(start)
        if start.versions == target:
            return Way(view, target, access, start)
        plan = self.planner.between(view, start.versions, target)
        applied = start.rows * scales.speeds.join_row
        return Way(view, target, access + applied + plan.seconds, start, plan)

    def _computed(self, view: SharedView, target: Versions) -> Way | None:
        optimizer = self.planner.optimizer(view)
        there = [optimizer.relation(name, target[name]) for name in view.relations]
        relations = tuple(found for found in there if found is not None)
        if len(relations) < len(there):
            return None
        return Way(view, target, optimizer.scales.anew(relations), relations=relations)

    def _no_rows(self, view: SharedView, target: Versions) -> SharingError:
        optimizer = self.planner.optimizer(view)
        name = next(n for n in view.relations if optimizer.relation(n, target[n]) is None)
        return MissingContentsError(
            f"View {view.name} at ({target}) cannot be computed here: there are no rows of {name} "
            f"at version {target[name]}.",
            "Exchange with a node that publishes contents of the view or of the relation.",
        )

    # Going it

    def answer(self, way: Way) -> Contents:
        """The rows that a way comes to."""
        if way.start is None:
            return self._computed_now(way)
        start = self.planner.load(way.start.address)
        assert isinstance(start, Contents)
        if way.plan is None:
            return start
        change, _ = self.planner.carried(way.plan, lambda plan: lift_for(plan, self.start_spark))
        return start.after(change)

    def taken_on(self, found: Contents) -> Contents:
        """Rows of a view as far on as what is here leads."""
        plan = self.planner.as_far_as_possible(self.catalog.view(found.subject), found.versions)
        if plan is None:
            return found
        try:
            change, _ = self.planner.carried(plan, lambda plan: lift_for(plan, self.start_spark))
        except DryWindowError:  # a larger window would be needed
            return found
        return found.after(change)

    def _computed_now(self, way: Way) -> Contents:
        rows = sum(found.start.rows for found in way.relations)
        carrying = self.planner.carrying_out(way.view, lift_for_rows(rows, self.start_spark))
        state = {found.name: carrying.relation(found).rows for found in way.relations}
        shown = evaluate_shown(way.view.view, state)
        return Contents(way.view.name, way.versions, Rows(shown.schema, dict(shown.items())))


def _target(question: Question, here: Versions, least: Mapping[str, int]) -> Versions:
    """The vector nearest to `here`, and not before it, that answers a question."""
    reached = {name: max(version, least.get(name, version)) for name, version in here.items()}
    return Versions({**reached, **question.at})
