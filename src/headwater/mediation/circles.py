"""Circles: mediated relations whose rows are told by each other, which no unfolding would end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import InputError
from headwater.mediation.statements import Place


@dataclass(frozen=True)
class Step:
    """That rows of one mediated relation are told by rows of another one."""

    to: str
    by: str
    words: str
    place: Place


def circle_of(steps: Sequence[Step]) -> InputError | None:
    """What is wrong with the first circle of some steps; None if there is none."""
    for step in steps:
        path = _path(steps, step.by, step.to, ())
        if path is None:
            continue
        circle = (step, *path)
        listed = " by ".join([step.to, *(each.by for each in circle)])
        how = ", ".join(dict.fromkeys(each.words for each in circle))
        first = min(circle, key=lambda each: (each.place.file, each.place.line))
        return InputError(
            f"{first.place}: mediated relations are told by each other in a circle: {listed} "
            f"({how}).",
            "Leave one of these out, so that rows of its relation are those that the others tell.",
        )
    return None


def _path(
    steps: Sequence[Step], start: str, end: str, seen: tuple[str, ...]
) -> tuple[Step, ...] | None:
    """The steps by which a relation is told by another one, if it is."""
    if start.lower() == end.lower():
        return ()
    if start.lower() in seen:
        return None
    for step in steps:
        if step.to.lower() == start.lower():
            rest = _path(steps, step.by, end, (*seen, start.lower()))
            if rest is not None:
                return (step, *rest)
    return None
