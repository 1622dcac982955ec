"""A verdict in sentences, rendered from its witness."""

from __future__ import annotations

from headwater.algebra.rows import show_rows
from headwater.check.history import History, Vector
from headwater.check.levels import LEVEL_MEANINGS, Level
from headwater.check.verdict import (
    HalfTransaction,
    MatchesNothing,
    NeverShown,
    NotConverged,
    OutOfOrder,
    Verdict,
    Witness,
)


def explain(history: History, verdict: Verdict) -> str:
    """What was reached, and why not more."""
    reached = f"{str(verdict.level).capitalize()}: {LEVEL_MEANINGS[verdict.level]}."
    if verdict.witness is None:
        return reached
    failed = Level(verdict.level + 1)
    return f"{reached} Not {failed}: {explain_witness(history, verdict.witness)}"


def explain_witness(history: History, witness: Witness) -> str:
    match witness:
        case NotConverged(shown, expected):
            return f"the run ends with {show_rows(shown)}, and it should be {show_rows(expected)}."
        case MatchesNothing(at, shown):
            return f"state {at}, {show_rows(shown)}, is the view of no state of the sources."
        case HalfTransaction(at, shown, transactions):
            halves = " and ".join(transactions)
            return f"state {at}, {show_rows(shown)}, shows only a part of {halves}."
        case OutOfOrder(0, shown, before, vectors):
            return (
                f"the run starts with {show_rows(shown)}, the view {_places(history, vectors)}, "
                f"and it should start with {show_rows(before)}."
            )
        case OutOfOrder(at, shown, before, vectors, reached):
            return (
                f"state {at}, {show_rows(shown)}, is the view {_places(history, vectors)}, but "
                f"the state before it, {show_rows(before)}, is that {_places(history, reached)}."
            )
        case NeverShown(at, shown, expected):
            options = " or ".join(f"{show_rows(view)} (after {name})" for name, view in expected)
            then = f"{show_rows(shown)} came" if shown is not None else "the run ended"
            return f"after state {at} the sources showed {options}, but {then}."


def _places(history: History, vectors: tuple[Vector, ...]) -> str:
    return " or ".join(_place(history, vector) for vector in vectors[:3])


def _place(history: History, vector: Vector) -> str:
    """`after T1, T3`: the last transaction of each source that is in."""
    last = dict.fromkeys(
        history.transactions[source][count - 1].id
        for source, count in zip(history.sources, vector, strict=True)
        if count
    )
    return f"after {', '.join(last)}" if last else "before any transaction"
