"""Transformations between plans: Theorem 3.1 of the paper as code.

Any two plans for one updategram of a view can be made into each other by the rules. Each function
of `TRANSFORMATIONS` rewrites the top of a plan by one rule, always in the direction of the
canonical plan: a series of left-linear joins, each of an updategram that goes as short a way as
there is with base relations only (figure 2). Since every rule is an equation, it is also a way
back, and a way from one plan to another leads over the canonical one.

Choices: the paper's steps have the length one; here they are as short as what is published. A
relation stands at a version however its rows are had, from whatever contents. Several relations
that change are taken one after the other, in the order in which the plan does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.sharing.optimizer import Optimizer, published
from headwater.sharing.plans import (
    Change,
    Coalesced,
    Finished,
    Joined,
    JoinedOperands,
    Operand,
    Plan,
    Published,
    RelationAt,
    children,
    with_children,
)
from headwater.sharing.ways import finest


@dataclass(frozen=True)
class Transformed:
    """A plan before and after one use of rules, and which; `undone` is the other direction."""

    rules: str
    before: Plan
    after: Plan
    undone: bool = False

    def inverse(self) -> Transformed:
        return Transformed(self.rules, self.after, self.before, not self.undone)


Transformation = Callable[[Optimizer, Plan], Plan | None]


def split(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """mu^{i,k} = mu^{i,j} u mu^{j,k}: a published updategram into those that are shortest."""
    if not isinstance(plan, Published) or len(plan.first) != 1:
        return None
    (name,) = plan.first
    updategrams = optimizer.available.updategrams_of(name)
    steps = finest(updategrams, name, plan.first[name], plan.last[name])
    return None if steps in ([], [plan.found]) else _coalesced(published(steps))


def flatten(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """Coalescing is associative."""
    if not isinstance(plan, Coalesced):
        return None
    if len(plan.steps) == 1:
        return plan.steps[0]
    if not any(isinstance(step, Coalesced) for step in plan.steps):
        return None
    return Coalesced(
        tuple(
            inner
            for step in plan.steps
            for inner in (step.steps if isinstance(step, Coalesced) else (step,))
        )
    )


def distribute(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """(mu u mu') x S = (mu x S) u (mu' x S), a booster of the whole being one of every part."""
    match plan:
        case Joined(Coalesced(steps), operand):
            return Coalesced(tuple(Joined(step, operand) for step in steps))
        case Finished(Coalesced(steps)):
            return Coalesced(tuple(map(Finished, steps)))
    return None


def associate(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """mu x (beta(S) x beta(T)) = (mu x beta(S)) x beta(T)."""
    match plan:
        case Joined(change, JoinedOperands(one, other)):
            return Joined(Joined(change, one), other)
    return None


def replace_booster(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """mu x beta(S) = mu x S, and the same for a booster of several relations joined already."""
    match plan:
        case Joined(change, operand) if not isinstance(operand, JoinedOperands):
            there = _relations(optimizer, operand)
            return None if there in (None, operand) else Joined(change, there)
    return None


def commute(optimizer: Optimizer, plan: Plan) -> Plan | None:
    """Joins commute: relations come in the order of FROM."""
    match plan:
        case Joined(Joined(change, RelationAt() as one), RelationAt() as other):
            if optimizer.view.ordered((one.name, other.name))[0] == other.name:
                return Joined(Joined(change, other), one)
    return None


TRANSFORMATIONS: tuple[tuple[str, Transformation], ...] = (
    ("A10", split),
    ("A10", flatten),
    ("A10, A8", distribute),
    ("A5", associate),
    ("A1, A2, A4, A6 to A9, A11", replace_booster),
    ("commutativity", commute),
)


def canonical(optimizer: Optimizer, plan: Change) -> Plan:
    """The canonical plan that the transformations make of it."""
    found: Plan = plan
    for step in to_canonical(optimizer, plan):
        found = step.after
    return found


def to_canonical(optimizer: Optimizer, plan: Plan) -> Iterator[Transformed]:
    """The transformations of a plan, one after the other, until none applies."""
    while (step := _first(optimizer, plan)) is not None:
        yield step
        plan = step.after


def transform(optimizer: Optimizer, plan: Plan, other: Plan) -> list[Transformed] | None:
    """The way from one plan to another; None if they are not for the same updategram."""
    ahead, back = (list(to_canonical(optimizer, found)) for found in (plan, other))
    meeting = [steps[-1].after if steps else found for steps, found in
               ((ahead, plan), (back, other))]  # fmt: skip
    if meeting[0] != meeting[1]:
        return None
    return [*ahead, *(step.inverse() for step in reversed(back))]


def applies(optimizer: Optimizer, step: Transformed) -> bool:
    """Whether one use of one of the transformations makes one side of the other."""
    before, after = (step.after, step.before) if step.undone else (step.before, step.after)
    return any(rewritten == after for _, rewritten in _every(optimizer, before))


def _first(optimizer: Optimizer, plan: Plan) -> Transformed | None:
    return next((Transformed(rules, plan, after) for rules, after in _every(optimizer, plan)), None)


def _every(optimizer: Optimizer, plan: Plan) -> Iterator[tuple[str, Plan]]:
    """All plans that one transformation, anywhere, makes of it, from the top down."""
    for rules, transformation in TRANSFORMATIONS:
        if (found := transformation(optimizer, plan)) is not None:
            yield rules, found
    below = children(plan)
    for at, part in enumerate(below):
        for rules, found in _every(optimizer, part):
            yield rules, with_children(plan, (*below[:at], found, *below[at + 1 :]))


def _coalesced(steps: tuple[Change, ...]) -> Change:
    return steps[0] if len(steps) == 1 else Coalesced(steps)


def _relations(optimizer: Optimizer, operand: Operand) -> Operand | None:
    """What an operand is a part of: base relations; None where they are not to be had."""
    found: Operand | None = None
    for name in optimizer.view.ordered(operand.of):
        whole = optimizer.relation(name, operand.versions[name])
        if whole is None:
            return None
        found = whole if found is None else JoinedOperands(found, whole)
    return found
