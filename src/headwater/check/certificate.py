"""Checking a long run against what it claims: each step names the transactions it adds.

The checker in `verdict` searches for an order of transactions that explains the states. A
running system names one: every step of the view says which transactions are in from now
on. Then it is enough to follow the claim, in time linear in the run. A claim that holds is
a proof of the level; one that fails does not show that no other order explains the states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.algebra.rows import Rows
from headwater.check.history import History, Vector
from headwater.check.levels import Level


@dataclass(frozen=True)
class Claim:
    """The view after one of its steps, and the transactions that this step added."""

    view: Rows
    transactions: tuple[str, ...]


@dataclass(frozen=True)
class BrokenClaim:
    """The step at which a claim does not hold, and why."""

    at: int
    reason: str


@dataclass(frozen=True)
class Certificate:
    level: Level
    """Complete, strong or weak as claimed; none if a claim is broken."""
    broken: BrokenClaim | None = None


def certify(history: History, claims: Sequence[Claim]) -> Certificate:
    """The level that the claims prove; all transactions must be in at the end."""
    vector = history.origin
    one_at_a_time = True
    for at, claim in enumerate(claims):
        before = vector
        for name in claim.transactions:
            after = _with(history, vector, name)
            if after is None:
                return _broken(at, f"{name} does not come next at its source")
            vector = after
        if claim.view != history.view_at(vector):
            return _broken(at, "the view is not that of the transactions claimed so far")
        one_at_a_time = one_at_a_time and _shows_each(history, before, claim)
    if vector != history.final:
        return _broken(len(claims), "some transactions are never claimed")
    return Certificate(Level.COMPLETE if one_at_a_time else Level.STRONG)


def _broken(at: int, reason: str) -> Certificate:
    return Certificate(Level.NONE, BrokenClaim(at, reason))


def _shows_each(history: History, before: Vector, claim: Claim) -> bool:
    """Whether no view between two steps is left out: at most one change of the view."""
    changes, vector = 0, before
    for name in claim.transactions:
        after = _with(history, vector, name)
        assert after is not None
        changes += history.view_at(after) != history.view_at(vector)
        vector = after
    return changes <= 1


def _with(history: History, vector: Vector, name: str) -> Vector | None:
    """The vector with one more transaction, if it comes next at all of its sources."""
    return next((after for t, after in history.steps(vector) if t.id == name), None)
