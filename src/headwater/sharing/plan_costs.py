"""What a plan costs, as a function of the sizes and places of objects and of how fast things are.

Each node costs what its parts cost and what it does itself: objects are fetched and read, rows are
joined. Everything is an estimate in seconds. The rows that come out of a join of certain relations
do not depend on the plan, so that the best plan for a part is part of a best plan.

There are two sums. `weigh` counts a part as often as it stands in the plan, as the paper does, and
is what single steps are searched by: only so is the best of a part in the best of the whole.
`carried_out` counts an object, and a part of the plan that stands in several places, once, as it is
read and computed once. Whole plans are compared by it.

Choices: how many rows join is estimated from keys where a condition compares one, and from sizes;
where nothing is known, from System-R's guesses (Selinger et al. 1979): one in ten for an equality,
one in three for another comparison.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod

from headwater.algebra.expressions import Call, Expression, columns_of
from headwater.algebra.views import equated_columns
from headwater.sharing.available import (
    Available,
    AvailableBooster,
    AvailableContents,
    AvailableStored,
    AvailableUpdategram,
    Place,
    Step,
)
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
    objects_of,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.view_parts import ViewPart

UNKNOWN_ROWS = 1000
"""How many rows a relation has of which nothing is known."""

HEAD_BYTES = 1000
"""What an object says of itself has about so many bytes, for few rows as for many."""


@dataclass(frozen=True)
class Speed:
    """Of a place: how long until an object begins to come, and how fast it comes."""

    seconds: float
    bytes_per_second: float

    def fetch(self, size: int) -> float:
        return self.seconds + size / self.bytes_per_second


@dataclass(frozen=True)
class Speeds:
    """How fast a node reads and joins. What is done here was measured once, on two cores of 2026
    (`measured_speeds` measures it anew); of places the network is assumed, by its order of
    magnitude."""

    places: Mapping[Place, Speed] = field(
        default_factory=lambda: {
            Place.LOCAL: Speed(0.000_1, 500e6),
            Place.PEER: Speed(0.002, 100e6),
            Place.HTTP: Speed(0.02, 10e6),
            Place.STORE: Speed(0.03, 50e6),
        }
    )
    read_object: float = 0.04e-3
    """Seconds to read an object without rows that has come, and what each row and byte adds."""
    read_row: float = 5e-6
    read_byte: float = 0.1e-6
    step: float = 0.05e-3
    """Seconds for a node of a plan without rows."""
    join_row: float = 0.4e-6
    """Seconds for a row that goes into a join, and for one that comes out."""
    made_row: float = 0.2e-6

    @property
    def peer(self) -> Speed:
        return self.places[Place.PEER]

    def access(self, place: Place, size: int, rows: int) -> float:
        """Seconds to have an object's rows."""
        of_rows = max(0, size - HEAD_BYTES)
        read = self.read_object + rows * self.read_row + of_rows * self.read_byte
        return self.places[place].fetch(size) + read


@dataclass(frozen=True)
class Weight:
    """How long a plan takes, and how many rows it gives."""

    seconds: float
    rows: float

    def dominates(self, other: Weight) -> bool:
        return self.seconds <= other.seconds and self.rows <= other.rows


IMPOSSIBLE = Weight(inf, inf)


class Scales:
    """Weighs plans for one view."""

    def __init__(
        self, view: SharedView, available: Available, speeds: Speeds | None = None
    ) -> None:
        self.view = view
        self.speeds = speeds or Speeds()
        self._available = available
        self._known: dict[Plan, Weight] = {}
        self._owned: dict[Plan, Weight] = {}
        self._cardinalities: dict[frozenset[str], float] = {}
        self._ways: dict[tuple[Step, ...], tuple[float, int]] = {}
        self.parts: dict[ViewPart, Scales] = {}
        """For the joins of a view that is more than one."""

    def weigh(self, plan: Plan) -> Weight:
        """What a plan costs in all, every part by itself."""
        if (known := self._known.get(plan)) is None:
            if isinstance(plan, OfPart):
                known = self.parts[plan.part].weigh(plan.change)
            else:
                own = self._own(plan)
                below = sum(self.weigh(part).seconds for part in children(plan))
                had = self._had(plan)
                known = Weight(own.seconds + below + had, own.rows)
            self._known[plan] = known
        return known

    def carried_out(self, plan: Plan) -> float:
        """What a plan costs with all that it needs more than once had once."""
        return sum(self.costs(plan).values())

    def costs(self, plan: Plan) -> dict[Hashable, float]:
        """What each object and each part of a plan costs, however often it is needed."""
        found: dict[Hashable, float] = {}
        waiting: list[Plan] = [plan]
        while waiting:
            part = waiting.pop()
            if part in found:
                continue
            if isinstance(part, OfPart):
                below = self.parts[part.part].costs(part.change)
                found |= {k if isinstance(k, str) else (part.part, k): v for k, v in below.items()}
                continue
            found[part] = self._own(part).seconds
            found |= {item.address: self.access(item) for item in objects_of(part)}
            waiting += children(part)
        return found

    def _own(self, plan: Plan) -> Weight:
        """What a node does with what is below it, and how many rows it gives."""
        if (known := self._owned.get(plan)) is None:
            done = self._done(plan)
            known = self._owned[plan] = Weight(done.seconds + self._fixed(plan), done.rows)
        return known

    def _fixed(self, plan: Plan) -> float:
        """What it takes to do anything at all."""
        match plan:
            case Published() | PublishedBooster() | OfPart() | RelationAt(way=()):
                return 0.0
            case PublishedStored():
                return 0.0
            case MergedBoosters(parts):
                return self.speeds.step * len(parts)
        return self.speeds.step

    def _done(self, plan: Plan) -> Weight:
        match plan:
            case Published(found) | PublishedBooster(found) | PublishedStored(found):
                return Weight(0.0, found.rows)
            case RelationAt(start=start, way=way):
                return Weight(self._handle(self._along(way)[1]), start.rows)
            case Inverse(change) | Finished(change):
                rows = self.weigh(change).rows
                return Weight(self._handle(rows), rows)
            case Coalesced(parts) | MergedBoosters(parts) | Summed(parts) | MergedStored(parts):
                return self._together(parts)
            case ComputedStored(relations):
                return self._recomputed(relations, 1)
            case Regrouped(change, stored):
                delta = self.weigh(change).rows
                return self._join(delta + self.weigh(stored).rows, 2 * delta)
            case LaterStored(stored, change):
                rows = self.weigh(stored).rows
                return Weight(self._handle(rows + self.weigh(change).rows), rows)
            case OfPart(part, change):
                return Weight(0.0, self.parts[part].weigh(change).rows)
            case Joined(change, operand):
                one, other = self.weigh(change).rows, self.weigh(operand).rows
                return self._join(one + other, one * self._growth(change, operand))
            case MadeBooster(change, operand):
                return self._made(change, operand)
            case JoinedOperands(one, other):
                left, right = self.weigh(one).rows, self.weigh(other).rows
                both = self.cardinality({*one.of, *other.of})
                share = both / max(1.0, self.cardinality(one.of) * self.cardinality(other.of))
                return self._join(left + right, left * right * share)
            case MovedBooster(change, booster, _, way):
                delta = self._along(way)[1]
                kept = self._made(change, booster)
                moved = self._join(self.weigh(change).rows + 2 * delta, 0)
                return Weight(kept.seconds + moved.seconds, kept.rows + delta)
            case RedirectedBooster(booster, patch):
                return self._together((booster, patch))
            case Recomputed(before, after):
                return self._recomputed((*before, *after), 2)

    # What is there

    def access(
        self, found: AvailableUpdategram | AvailableBooster | AvailableContents | AvailableStored
    ) -> float:
        return self.speeds.access(found.place, found.size, found.rows)

    def _had(self, plan: Plan) -> float:
        """Seconds to have the objects that a node itself reads."""
        match plan:
            case RelationAt(start=start, way=way):
                return self.access(start) + self._along(way)[0]
            case MovedBooster(way=way):
                return self._along(way)[0]
        return sum(map(self.access, objects_of(plan)))

    def _along(self, way: tuple[Step, ...]) -> tuple[float, int]:
        """Seconds to have the updategrams of a way, and their rows; plans share long ways."""
        if way not in self._ways:
            found = [step for step, _ in way]
            self._ways[way] = sum(map(self.access, found)), sum(step.rows for step in found)
        return self._ways[way]

    def way(self, steps: Iterable[Step]) -> float:
        """Seconds to have updategrams and to add them up."""
        return sum(self.access(found) + self._handle(found.rows) for found, _ in steps)

    def rows_of(self, relation: str) -> int:
        known = self._available.rows_of(relation)
        return UNKNOWN_ROWS if known is None else max(known, 1)

    # What is done

    def _handle(self, rows: float) -> float:
        return rows * self.speeds.join_row

    def _together(self, parts: Iterable[Plan]) -> Weight:
        rows = sum(self.weigh(part).rows for part in parts)
        return Weight(self._handle(rows), rows)

    def _join(self, given: float, rows: float) -> Weight:
        return Weight(self._handle(given) + rows * self.speeds.made_row, rows)

    def _made(self, change: Change, operand: Operand) -> Weight:
        """A booster has at most what it is made from, and what its updategram's rows join with."""
        one, other = self.weigh(change).rows, self.weigh(operand).rows
        return self._join(one + other, min(other, one * self._growth(change, operand)))

    def anew(self, relations: tuple[RelationAt, ...]) -> float:
        """Seconds to read all relations of the view and to compute it."""
        read = sum(self.weigh(found).seconds for found in relations)
        return read + len(relations) * self.speeds.step + self._recomputed(relations, 1).seconds

    def _recomputed(self, relations: tuple[RelationAt, ...], times: int) -> Weight:
        rows = self.cardinality({found.name for found in relations})
        given = sum(self.weigh(found).rows for found in relations)
        return Weight(self._handle(given) + times * rows * self.speeds.made_row, rows)

    # How many rows join

    def _growth(self, change: Change, operand: Operand) -> float:
        """How many rows come of one of an updategram, whichever operand has its partners."""
        there = _joined_relations(change)
        before = max(self.cardinality(there), 1e-9)
        return self.cardinality({*there, *operand.of}) / before

    def cardinality(self, names: Iterable[str]) -> float:
        """How many rows the join of these relations is estimated to have."""
        wanted = frozenset(names)
        if wanted not in self._cardinalities:
            self._cardinalities[wanted] = self._estimated(wanted)
        return self._cardinalities[wanted]

    def _estimated(self, names: frozenset[str]) -> float:
        sizes = prod(self.rows_of(name) for name in names)
        if self.view.beyond_rules:
            return max(map(self.rows_of, names), default=1)
        there = {column for name in names for column in self._columns[name]}
        selected = prod(self._selectivity(group & there) for group in self._equal)
        for conjunct in self._others:
            if columns_of(conjunct) <= there:
                selected *= 1 / 10 if _is_equality(conjunct) else 1 / 3
        return sizes * selected

    def _selectivity(self, columns: set[str]) -> float:
        """That columns that are equal are: one over the values of all but the one with fewest."""
        values = sorted(self._values[column] for column in columns)
        return prod(1 / many for many in values[1:])

    def linked(self, names: Iterable[str]) -> set[str]:
        """The relations that some condition ties to one of these."""
        there = set(names)
        ties = [*self._equal, *map(columns_of, self._others)]
        tied = [{name for name, own in self._columns.items() if own & tie} for tie in ties]
        return set().union(*(tie for tie in tied if tie & there)) - there

    @cached_property
    def _columns(self) -> dict[str, set[str]]:
        return {name: set(self.view.columns((name,)).names) for name in self.view.relations}

    @cached_property
    def _values(self) -> dict[str, float]:
        """How many values each column has: all different if it is a key, else a tenth, or ten."""
        found: dict[str, float] = {}
        for name, relation in self.view.relations.items():
            rows = self.rows_of(name)
            for column in relation.schema.names:
                is_key = relation.key == (column,)
                found[f"{name}.{column}"] = rows if is_key else min(rows, max(10, rows / 10))
        return found

    @cached_property
    def _equal(self) -> list[set[str]]:
        """Columns that the view's condition equates, together."""
        groups: list[set[str]] = []
        for conjunct, _ in self.view.join.safe_conjuncts:
            if pair := equated_columns(conjunct):
                mine = [group for group in groups if group & set(pair)]
                groups = [group for group in groups if group not in mine]
                groups.append(set(pair).union(*mine))
        return groups

    @cached_property
    def _others(self) -> list[Expression]:
        return [c for c, _ in self.view.join.safe_conjuncts if not equated_columns(c)]


def _joined_relations(change: Change) -> set[str]:
    """The relations that are in an updategram."""
    return set(change.first)


def _is_equality(conjunct: Expression) -> bool:
    return isinstance(conjunct, Call) and conjunct.operator in ("=", "<=>")
