"""Which of several algorithms is taken, by what they are estimated to cost.

Time counts first: among those that are nearly as quick as the quickest the one that moves the
fewest bytes is taken. What runs already stays unless another one is clearly better, so that the
choice does not swing with every measurement.

Choices: an algorithm that shows nothing while a question is unanswered is not taken before it is
known how often the sources change, nor where they hardly ever pause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.costs.trial import Estimate

NEARLY = 1.1
"""So many times the least time is nearly as quick."""
CLEARLY = 1.15
"""What runs already stays while it is no dearer than so many times the best."""
CLEARLY_UNMEASURED = 1.25
"""The same for the default while nothing was measured, by time alone."""
BUSIEST = 0.5
"""The share of time with questions under way up to which one may wait for none to be."""


@dataclass(frozen=True)
class Candidate:
    """An algorithm with parameters, and what it costs; or why it is out."""

    algorithm: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    estimate: Estimate | None = None
    out: str = ""
    waits: bool = False
    """Whether it shows nothing while a question is unanswered."""


@dataclass(frozen=True)
class Weighed:
    """What was taken of which candidates, and why."""

    taken: Candidate
    candidates: tuple[Candidate, ...]
    """One for each algorithm, with its best parameters; those that can be taken first."""
    why: str


def weigh(
    candidates: Sequence[Candidate], default: str, running: str | None, measured: bool
) -> Weighed:
    """Decide; `candidates` has the default, which can always be taken."""
    able = _best_of_each([each for each in candidates if not each.out])
    best = _best(able)
    kept = next((c for c in able if c.algorithm == running), None)
    kept = kept or next(each for each in able if each.algorithm == default)
    taken = kept if _stays(kept, best, measured) else best
    ordered = sorted(able, key=lambda each: _of(each).time_s)
    out = [each for each in candidates if each.out]
    return Weighed(taken, (*ordered, *out), _why(taken, best, ordered, running, measured))


def _of(candidate: Candidate) -> Estimate:
    assert candidate.estimate is not None
    return candidate.estimate


def _best_of_each(able: Sequence[Candidate]) -> list[Candidate]:
    """The best parameters of each algorithm, in the order of the algorithms."""
    names = dict.fromkeys(each.algorithm for each in able)
    return [_best([each for each in able if each.algorithm == name]) for name in names]


def _best(able: Sequence[Candidate]) -> Candidate:
    least = min(_of(each).time_s for each in able)
    near = [each for each in able if _of(each).time_s <= NEARLY * least]
    return min(near, key=lambda each: (_of(each).bytes, _of(each).time_s))


def _stays(kept: Candidate, best: Candidate, measured: bool) -> bool:
    if not measured:
        return _of(kept).time_s <= CLEARLY_UNMEASURED * _of(best).time_s
    return (
        _of(kept).time_s <= CLEARLY * _of(best).time_s
        and _of(kept).bytes <= CLEARLY * _of(best).bytes
    )


def _why(
    taken: Candidate,
    best: Candidate,
    ordered: Sequence[Candidate],
    running: str | None,
    measured: bool,
) -> str:
    if len(ordered) == 1:
        return "nothing else keeps the level here"
    if taken != best and not measured:
        return "nothing was measured yet, and no other is estimated to be much quicker"
    if taken != best:
        return f"it runs already, and {best.algorithm} would not be clearly better"
    quickest = ordered[0]
    if taken.algorithm == quickest.algorithm:
        return f"the quickest of {len(ordered)} that keep the level, by estimate"
    return f"nearly as quick as {quickest.algorithm}, by estimate, and moves less"
