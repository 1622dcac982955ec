"""The checker: a run's states against what happened at the sources, with a verdict.

The verdict names the highest level, every property by itself (true, false, or None where the
history is too large to tell), and for the first level that fails a witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.rows import Rows
from headwater.check.history import MOST_VECTORS, History, Vector, at_most, minimal
from headwater.check.levels import Level
from headwater.check.standing import Standing, Tracker


@dataclass(frozen=True)
class NotConverged:
    """The run ended with a view that is not the view of all transactions."""

    shown: Rows
    expected: Rows


@dataclass(frozen=True)
class MatchesNothing:
    """A state that is the view of no vector of source states."""

    at: int
    shown: Rows


@dataclass(frozen=True)
class HalfTransaction:
    """A state that only matches vectors which hold part of a global transaction."""

    at: int
    shown: Rows
    transactions: tuple[str, ...]


@dataclass(frozen=True)
class OutOfOrder:
    """A state all of whose vectors lie before what was shown already."""

    at: int
    shown: Rows
    before: Rows
    vectors: tuple[Vector, ...]
    reached: tuple[Vector, ...]


@dataclass(frozen=True)
class NeverShown:
    """After the state `at` some transaction had to show first; the view left it out."""

    at: int
    shown: Rows | None
    """The next state shown, or None at the end of the run."""
    expected: tuple[tuple[str, Rows], ...]
    """Each transaction that could come next, with the view that it gives."""


Witness: TypeAlias = NotConverged | MatchesNothing | HalfTransaction | OutOfOrder | NeverShown


@dataclass(frozen=True)
class Verdict:
    level: Level
    properties: dict[str, bool | None]
    witness: Witness | None
    """Why the next higher level fails; None if the run is complete."""


def check(history: History, states: Sequence[Rows]) -> Verdict:
    """Judge the states that the view showed, the initial one first, as its reader saw them."""
    assert states, "a run shows at least the initial state"
    tracker = Tracker(history)
    standings = [tracker.start(states[0])]
    for shown in states[1:]:
        standings.append(tracker.advance(standings[-1], shown))
    level = tracker.level(standings[-1])
    properties = _properties(history, states, standings[-1], level)
    return Verdict(level, properties, _witness(history, states, standings, level))


# Witnesses


def _witness(
    history: History, states: Sequence[Rows], standings: Sequence[Standing], level: Level
) -> Witness | None:
    match level:
        case Level.NONE:
            return NotConverged(states[-1], history.view_at(history.final))
        case Level.CONVERGENT:
            at = next(at for at, p in enumerate(standings) if not p.weak)
            return MatchesNothing(at, states[at])
        case Level.WEAK:
            return _order_witness(history, states, standings)
        case Level.STRONG:
            return _missing_witness(history, states, standings)
        case Level.COMPLETE:
            return None


def _order_witness(
    history: History, states: Sequence[Rows], standings: Sequence[Standing]
) -> Witness:
    at = next(at for at, p in enumerate(standings) if not p.chain)
    shown = states[at]
    vectors = history.matches[shown]
    whole = tuple(v for v in vectors if not history.halves(v))
    if not whole:
        return HalfTransaction(at, shown, history.halves(vectors[0]))
    reached = standings[at - 1].chain if at else frozenset({history.origin})
    before = states[at - 1] if at else history.view_at(history.origin)
    return OutOfOrder(at, shown, before, whole, tuple(sorted(reached)))


def _missing_witness(
    history: History, states: Sequence[Rows], standings: Sequence[Standing]
) -> NeverShown:
    broken = [at for at, p in enumerate(standings) if not p.walk]
    at = broken[0] - 1 if broken else len(standings) - 1
    expected: dict[str, Rows] = {}
    for vector in sorted(standings[at].walk):
        for transaction, after in history.steps(vector):
            if history.view_at(after) != history.view_at(vector):
                expected.setdefault(transaction.id, history.view_at(after))
    return NeverShown(at, states[at + 1] if broken else None, tuple(expected.items()))


# Properties


def _properties(
    history: History, states: Sequence[Rows], standing: Standing, level: Level
) -> dict[str, bool | None]:
    convergent = level >= Level.CONVERGENT
    chain = bool(standing.chain)
    strong = chain and convergent
    small = history.size <= MOST_VECTORS
    order = _chain_of_any_vectors(history, states) if small else (chain or None)
    return {
        "convergence": convergent,
        "weak_consistency": standing.weak,
        "pairwise_consistency": chain or (_pairwise(history, states) if small else None),
        "consistency": chain,
        "strong_consistency": strong,
        "strict_order": strong and (_strict(history, states) if small else None),
        "completeness": level == Level.COMPLETE,
        "completeness_in_any_order": strong and _all_shown(history, states),
        "validity": standing.weak,
        "order_consistency": order,
        "up_to_dateness": convergent or (_up_to_date(history, states) if small else None),
        "view_management": convergent and order,
    }


def _whole(history: History, shown: Rows) -> list[Vector]:
    return [v for v in history.matches.get(shown, ()) if not history.halves(v)]


def _pairwise(history: History, states: Sequence[Rows]) -> bool:
    first = {shown: states.index(shown) for shown in states}
    last = {shown: at for at, shown in enumerate(states)}
    return all(
        any(at_most(v, w) for v in _whole(history, a) for w in _whole(history, b))
        for a in first
        for b in first
        if first[a] < last[b] or a == b
    )


def _strict(history: History, states: Sequence[Rows]) -> bool:
    """Whether each step of the view, changed or not, can be given a later vector."""
    reached = frozenset({history.origin}) if states[0] == history.view_at(history.origin) else None
    for shown in states[1:]:
        reached = minimal(
            v
            for v in _whole(history, shown)
            if reached and any(u != v and at_most(u, v) for u in reached)
        )
    return bool(reached)


def _chain_of_any_vectors(history: History, states: Sequence[Rows]) -> bool:
    """Order consistency of the Rings paper: data items by themselves, no transactions."""
    reached = frozenset({history.origin})
    for shown in states:
        reached = minimal(
            v for v in history.matches.get(shown, ()) if any(at_most(u, v) for u in reached)
        )
    return bool(reached)


def _up_to_date(history: History, states: Sequence[Rows]) -> bool:
    """Whether for every source some state can be given a vector with all of its updates."""
    reached = [vector for shown in set(states) for vector in history.matches.get(shown, ())]
    return all(
        any(vector[at] == last for vector in reached) for at, last in enumerate(history.final)
    )


def _all_shown(history: History, states: Sequence[Rows]) -> bool:
    """Whether some walk through the source states passes only through views that were shown."""
    shown = set(states)
    ahead, seen = [history.origin], {history.origin}
    while ahead:
        vector = ahead.pop()
        if history.view_at(vector) not in shown:
            continue
        if vector == history.final:
            return True
        for _, after in history.steps(vector):
            if after not in seen:
                seen.add(after)
                ahead.append(after)
    return False
