"""POSSE: the probes of one update sent together, in groups, and joined at the warehouse.

PVM paper, section 8 (the original has no cost model). Between two extremes: one probe after
the other is SWEEP, all at once needs a single round but fetches relations for themselves.
A relation next to what is covered is fetched reduced to the rows that join with it, by the
distinct values of the join columns; one that is further away has to be fetched whole.

The policy is a parameter:

- sequential: one relation at a time, joined at its source (SWEEP);
- adjacent: all relations that an equality connects to what is covered, at once;
- concurrent: all remaining relations at once; on a chain this fetches whole relations;
- cost: the cheapest of the three by `Costs`, the default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.algebra.expressions import Call, ColumnRef, Expression, columns_of
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Base, Bound, Term
from headwater.algebra.views import Join
from headwater.algorithms.parts.view_change import Partial, Probe, Question, Workload
from headwater.algorithms.sweep import candidates, sweep

POLICIES = ("cost", "sequential", "adjacent", "concurrent")


@dataclass(frozen=True)
class Costs:
    """What a plan costs, in rows: a round trip counts as so many rows moved."""

    round_trip: float = 50.0
    fan_out: float = 2.0
    """Rows of a neighbour that join with one row."""
    whole_relation: float = 100_000.0
    """Rows of a relation that is fetched for itself."""


@dataclass(frozen=True)
class Posse:
    """A strategy with a policy; see the module's text."""

    policy: str = "cost"
    costs: Costs = Costs()

    def __call__(self, partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
        policy = self.choose(partials) if self.policy == "cost" else self.policy
        if policy == "sequential":
            return sweep(partials, load)
        probes: dict[str, list[Probe]] = {}
        for partial in partials:
            for at in group(partial, policy, load):
                probe = fetch_probe(partial, at)
                probes.setdefault(probe.source, []).append(probe)
        return tuple((source, tuple(found)) for source, found in probes.items())

    def choose(self, partials: tuple[Partial, ...]) -> str:
        """The policy with the lowest estimated cost."""
        plans = ("sequential", "adjacent", "concurrent")
        return min(plans, key=lambda policy: sum(self.estimate(p, policy) for p in partials))

    def estimate(self, partial: Partial, policy: str) -> float:
        """Round trips and rows that it takes to cover every occurrence."""
        covered, rows = set(partial.covered), float(sum(len(b.rows) for b in partial.term.bound))
        left, cost = set(partial.term.base), 0.0
        while left:
            near = {at for at in left if _equated(partial.term, at, covered)}
            chosen = left if policy == "concurrent" else near or {min(left)}
            if policy == "sequential":
                chosen = {min(chosen)}
            cost += self.costs.round_trip
            for at in chosen:
                rows *= self.costs.fan_out if at in near else 1.0
                cost += rows if at in near or policy == "sequential" else self.costs.whole_relation
            covered |= chosen
            left -= chosen
        return cost


def group(partial: Partial, policy: str, load: Workload) -> Iterable[int]:
    """The occurrences that are asked for at once."""
    if policy == "concurrent":
        return partial.term.base
    near = [at for at in partial.term.base if _equated(partial.term, at, partial.covered)]
    return near or candidates(partial, load)[:1]


def fetch_probe(partial: Partial, at: int) -> Probe:
    """A probe for rows of one relation, reduced by equalities with what is bound."""
    alone = partial.term.part([at])
    pairs = _equalities(partial.term, at)
    if not pairs:
        return Probe(partial, at, alone, fetches=True)
    (bound,) = partial.term.bound
    names = tuple(dict.fromkeys(name for name, _ in pairs))
    keys = _distinct(bound, names)
    order = sorted((*bound.at, at))
    join = Join(
        tuple(partial.term.join.occurrences[place] for place in order),
        (*alone.join.condition, *(conjunct for _, conjunct in pairs)),
        alone.join.outputs,
        alone.join.schema,
    )
    numbers = {old: new for new, old in enumerate(order)}
    question = Term(join, (Base(numbers[at]),))
    return Probe(partial, at, question.bind((numbers[p] for p in bound.at), keys), fetches=True)


def _distinct(bound: Bound, names: tuple[str, ...]) -> Rows:
    """The different values of some columns, each once, so that no row is counted twice.

    Not a projection: there an insertion and a deletion with the same values would cancel.
    """
    positions = [bound.rows.schema.positions[name] for name in names]
    values = {tuple(row[at] for at in positions): 1 for row in bound.rows}
    return Rows(bound.rows.schema.only(names), values)


def _equalities(term: Term, at: int) -> list[tuple[str, Expression]]:
    """The conjuncts that equate a bound column with an expression of one occurrence."""
    own = frozenset(term.occurrence(at).schema.names)
    known = frozenset(name for factor in term.bound for name in factor.rows.schema.names)
    found: list[tuple[str, Expression]] = []
    for conjunct, _ in term.join.safe_conjuncts:
        match conjunct:
            case Call("=", (left, right)):
                for side, other in ((left, right), (right, left)):
                    names = columns_of(other)
                    if (
                        isinstance(side, ColumnRef)
                        and side.name in known
                        and names <= own
                        and names
                    ):
                        found.append((side.name, conjunct))
                        break
    return found


def _equated(term: Term, at: int, covered: Iterable[int]) -> bool:
    """Whether an equality connects an occurrence to one of those covered."""
    places = set(covered)
    return any(
        isinstance(conjunct, Call) and conjunct.operator == "=" and at in reach and reach & places
        for conjunct, reach in term.join.safe_conjuncts
    )
