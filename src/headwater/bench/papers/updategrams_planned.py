"""Plans for shared views over TPC-H: the experiments of the updategrams paper, figures 4 to 7.

Scale 0.1: 200 updates to lineitem, an updategram for each, with boosters of orders, part and
supplier; then more and more updategrams between random versions. Views that join lineitem are
taken over random intervals. Everything is in a peer's folder. Costs are estimated and, on a sample
of the intervals, plans are carried out and timed, both as a share of computing the view anew; what
they come to is compared with recomputation. The time of planning is measured.

Choices: views are the joins of four queries of TPC-H that read lineitem, without groups. An update
touches 100 rows. Estimates are by the speeds that are measured at the beginning; the peer's folder
is on this machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from statistics import mean, median

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows
from headwater.bench.papers.updategrams_data import (
    CHANGED,
    RELATIONS,
    SharedTables,
    generate,
    random_ends,
)
from headwater.errors import HeadwaterError
from headwater.frames.columns import Columns
from headwater.sharing.available import Available, Place
from headwater.sharing.carrying_out import CarryingOut
from headwater.sharing.contents import Contents
from headwater.sharing.engines import lift_for
from headwater.sharing.measuring import measured_speeds
from headwater.sharing.optimizer import Optimizer
from headwater.sharing.plan_costs import Scales, Speeds
from headwater.sharing.planning import ViewPlan
from headwater.sharing.plans import Change, Coalesced, RelationAt, objects_of, walk
from headwater.sharing.several_steps import Heuristic, SeveralSteps
from headwater.sharing.shared_views import SharedView
from headwater.sharing.versions import Versions

SCALE, UPDATES, ROWS, INTERVALS, SAMPLE = 0.1, 200, 100, 100, 4
ADDED = (0, 200, 600, 1800)
"""How many updategrams between random versions there are beside those of single updates."""
QUERIES: Mapping[str, str] = {
    "Q3": "SELECT o_orderdate, l_quantity FROM customer, orders, lineitem "
    "WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate < DATE '1995-03-15'",
    "Q9": "SELECT n_name, o_orderdate, ps_supplycost, l_quantity "
    "FROM part, supplier, lineitem, partsupp, orders, nation WHERE s_suppkey = l_suppkey "
    "AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey "
    "AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%'",
    "Q12": "SELECT o_orderpriority, l_quantity FROM orders, lineitem "
    "WHERE o_orderkey = l_orderkey AND l_receiptdate >= DATE '1994-01-01'",
    "Q21": "SELECT s_name, o_orderkey FROM supplier, lineitem, orders, nation "
    "WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND l_receiptdate > l_commitdate "
    "AND s_nationkey = n_nationkey AND n_name = 'SAUDI ARABIA'",
}


@dataclass(frozen=True)
class Found:
    """A plan: how many updategrams it goes along, and what share of computing anew it costs."""

    view: str
    ends: tuple[int, int]
    steps: int
    share: float
    seconds: float
    """As estimated."""
    measured: float | None = None
    """Seconds of a processor that it took to carry out, if it was."""
    measured_share: float | None = None


@dataclass(frozen=True)
class Line:
    """All plans by one heuristic with so many updategrams there."""

    heuristic: Heuristic
    updategrams: int
    found: tuple[Found, ...]
    planning_seconds: float
    """To plan one view over one interval, of a processor: the median of the intervals' averages."""

    @property
    def steps(self) -> float:
        return mean(found.steps for found in self.found)

    @property
    def share(self) -> float:
        return mean(found.share for found in self.found)

    @property
    def carried_out(self) -> tuple[Found, ...]:
        return tuple(found for found in self.found if found.measured is not None)

    @property
    def measured_share(self) -> float | None:
        shares = [f.measured_share for f in self.found if f.measured_share is not None]
        return mean(shares) if shares else None

    @property
    def sampled_share(self) -> float | None:
        """What was estimated for those that were carried out."""
        return mean(f.share for f in self.carried_out) if self.carried_out else None

    def by_steps(self) -> dict[int, float]:
        """The share of plans of each length, on the average (figure 4)."""
        shares: dict[int, list[float]] = {}
        for found in sorted(self.found, key=lambda found: found.steps):
            shares.setdefault(found.steps, []).append(found.share)
        return {steps: mean(several) for steps, several in shares.items()}


@dataclass(frozen=True)
class Setting:
    """How large the experiment is."""

    scale: float = SCALE
    updates: int = UPDATES
    rows: int = ROWS
    added: Sequence[int] = ADDED
    intervals: int = INTERVALS
    sample: int = SAMPLE
    """Over so many of the intervals plans are carried out."""
    timed: int = 5
    """On so many intervals planning is timed."""
    seed: int = 1
    queries: Sequence[str] = tuple(QUERIES)
    speeds: Speeds | None = None
    """By which estimates are made; measured if none are given."""


def measure(
    setting: Setting | None = None, report: Callable[[str], None] = lambda _: None
) -> Iterator[Line]:
    """A line for each heuristic and number of updategrams."""
    setting = setting or Setting()
    with tempfile.TemporaryDirectory() as folder:
        yield from _Experiment(setting, Path(folder), report).lines()


@dataclass
class _Experiment:
    setting: Setting
    folder: Path
    report: Callable[[str], None]
    _ran: dict[tuple[str, Change], float] = field(default_factory=dict)
    """Plans that were carried out already, by other heuristics or with fewer updategrams."""
    _anew: dict[str, float] = field(default_factory=dict)
    _nets: dict[tuple[str, int, int], Rows] = field(default_factory=dict)
    _read: dict[str, tuple[float, Columns]] = field(default_factory=dict)
    """Relations in columns, and how long it took to read them."""

    def lines(self) -> Iterator[Line]:
        setting, random = self.setting, Random(self.setting.seed)
        self.report("making the data")
        data = generate(self.folder, setting.scale)
        self.shared = SharedTables(self.folder, data, setting.updates, setting.rows)
        ends = random_ends(random, setting.updates, setting.intervals)
        between = random_ends(random, setting.updates, max(setting.added))
        self.speeds = _here(setting.speeds or measured_speeds())
        views = [SharedView.parse(name, QUERIES[name], RELATIONS) for name in setting.queries]
        for many in setting.added:
            available = self.shared.available(between[:many])
            optimizers = [
                Optimizer(view, available, Scales(view, available, self.speeds)) for view in views
            ]
            for heuristic in Heuristic:
                self.report(f"{heuristic.value}, {len(available.updategrams):,} updategrams")
                found = [
                    plan
                    for optimizer in optimizers
                    for plan in self._plans(SeveralSteps(optimizer, heuristic), ends)
                ]
                seconds = self._planning(views, available, heuristic, ends[: setting.timed])
                yield Line(heuristic, len(available.updategrams), tuple(found), seconds)

    def _plans(self, steps: SeveralSteps, ends: Sequence[tuple[int, int]]) -> Iterator[Found]:
        view, scales = steps.optimizer.view, steps.optimizer.scales
        anew = _estimated_anew(steps.optimizer)
        for at, (first, last) in enumerate(ends):
            plan = _plan(steps, first, last)
            seconds = scales.carried_out(plan)
            found = Found(view.name, (first, last), _length(plan), seconds / anew, seconds)
            if at < self.setting.sample:
                measured = self._carried_out(ViewPlan(view, plan, scales), first, last)
                share = measured / self._measured_anew(view)
                found = replace(found, measured=measured, measured_share=share)
            yield found

    # Carrying out

    def _carried_out(self, plan: ViewPlan, first: int, last: int) -> float:
        """Seconds of a processor, once the plan has come to what recomputing does."""
        key = plan.view.name, plan.change
        if key not in self._ran:
            objects = (found for part in walk(plan.change) for found in objects_of(part))
            self.shared.prepare(dict.fromkeys(found.address for found in objects))
            start = time.process_time()
            lift = lift_for(plan)
            done = CarryingOut(plan.view, self.shared.load, lift).done(plan.change)
            self._ran[key] = time.process_time() - start
            if done.net != self._net(plan.view, first, last):
                raise HeadwaterError(
                    f"View {plan.view.name} from {first} to {last}: the plan does not come to what "
                    "recomputing does.",
                    "This is a fault of the optimizer or of a rule.",
                )
        return self._ran[key]

    def _net(self, view: SharedView, first: int, last: int) -> Rows:
        """What recomputing at both ends says; other plans between them must come to the same."""
        key = view.name, first, last
        if key not in self._nets:
            net = self._shown(view, last) - self._shown(view, first)
            self._nets[key] = Rows(net.schema, dict(net.items()))
        return self._nets[key]

    def _shown(self, view: SharedView, version: int) -> Columns:
        state = self.shared.state(version)
        return Columns.of_rows(evaluate_shown(view.view, {n: state[n] for n in view.relations}))

    def _measured_anew(self, view: SharedView) -> float:
        """Seconds of a processor to read all of a view's relations and to join them."""
        if view.name not in self._anew:
            state = {name: self._reading(name) for name in view.relations}
            start = time.process_time()
            len(evaluate_shown(view.view, {name: rows for name, (_, rows) in state.items()}))
            took = time.process_time() - start
            self._anew[view.name] = took + sum(seconds for seconds, _ in state.values())
        return self._anew[view.name]

    def _reading(self, name: str) -> tuple[float, Columns]:
        if name not in self._read:
            self.shared.prepare([name])
            start = time.process_time()
            contents = self.shared.load(name)
            assert isinstance(contents, Contents)
            rows = Columns.of_rows(contents.rows)
            self._read[name] = time.process_time() - start, rows
        return self._read[name]

    # Planning

    def _planning(
        self,
        views: Sequence[SharedView],
        available: Available,
        heuristic: Heuristic,
        ends: Sequence[tuple[int, int]],
    ) -> float:
        """Seconds of a processor to plan from nothing, for each interval."""
        found = []
        for first, last in ends:
            start = time.process_time()
            for view in views:
                fresh = replace(available)  # knows nothing of earlier plans
                optimizer = Optimizer(view, fresh, Scales(view, fresh, self.speeds))
                _plan(SeveralSteps(optimizer, heuristic), first, last)
            found.append((time.process_time() - start) / len(views))
        return median(found)


def _here(speeds: Speeds) -> Speeds:
    """Where the peer's folder is on this machine."""
    return replace(speeds, places={**speeds.places, Place.PEER: speeds.places[Place.LOCAL]})


def _plan(steps: SeveralSteps, first: int, last: int) -> Change:
    view = steps.optimizer.view
    here = Versions(dict.fromkeys(view.relations, 0) | {CHANGED: first})
    plan = steps.along(CHANGED, here, last)
    assert plan is not None
    return plan


def _estimated_anew(optimizer: Optimizer) -> float:
    """What reading all relations and joining them is estimated to cost."""
    available = optimizer.available
    relations = (available.contents_of(name)[0] for name in optimizer.view.relations)
    return optimizer.scales.anew(tuple(RelationAt(found.subject, 0, found) for found in relations))


def _length(plan: Change) -> int:
    """The number of transitions: a whole way as one step is one."""
    return len(plan.steps) if isinstance(plan, Coalesced) else 1


# How well estimates rank


def ranked_rightly(lines: Sequence[Line], apart: float = 1.2) -> tuple[int, int]:
    """Of pairs of plans for one view and interval that differ by so much in truth, how many the
    estimates rank as the clock does, and of how many."""
    plans: dict[tuple[str, tuple[int, int]], set[tuple[float, float]]] = {}
    for line in lines:
        for found in line.carried_out:
            assert found.measured is not None
            plans.setdefault((found.view, found.ends), set()).add((found.seconds, found.measured))
    right = pairs = 0
    for several in plans.values():
        there = sorted(several, key=lambda item: item[1])
        for at, (estimated, measured) in enumerate(there):
            for other_estimated, other_measured in there[at + 1 :]:
                if other_measured > apart * measured:
                    pairs += 1
                    right += estimated < other_estimated
    return right, pairs
