"""Which of several algorithms is taken, by what they are estimated to cost.

Time counts first: among those that are nearly as quick as the quickest the one that moves the
fewest bytes is taken. What runs already stays unless another one is clearly better, so that the
choice does not swing with every measurement. Until something was measured the default is taken.

Choices: an algorithm that shows nothing while a question is unanswered is not taken where the
sources hardly ever pause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.costs.trial import Estimate

NEARLY = 1.15
"""So many times the least time is nearly as quick."""
CLEARLY = 1.15
"""What runs already stays while it is no dearer than so many times the best."""
BUSIEST = 0.5
"""The share of time with questions under way up to which one may wait for none to be."""
LATE_S, LATE = 1.0, 5.0
"""One that waits for that has waited in vain if it showed changes later than so many seconds, and
so many times as late as estimated: rates are averages, and tell too late of busier sources."""

UNMEASURED = "the default, since nothing was measured yet"


@dataclass(frozen=True)
class Candidate:
    """An algorithm with parameters, and what it costs; or why it is out."""

    algorithm: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    estimate: Estimate | None = None
    out: str = ""


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
    """Decide; the default can always be taken."""
    able = _best_of_each([each for each in candidates if not each.out])
    out = tuple(each for each in candidates if each.out)
    if default not in {each.algorithm for each in able}:
        return Weighed(Candidate(default), out, "the default, since it cannot be estimated")
    best = _best(able)
    kept = next((c for c in able if c.algorithm == running), None)
    kept = kept or next(each for each in able if each.algorithm == default)
    taken = kept if not measured or _stays(kept, best) else best
    ordered = sorted(able, key=lambda each: _of(each).time_s)
    return Weighed(taken, (*ordered, *out), _why(taken, best, ordered, measured))


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


def _stays(kept: Candidate, best: Candidate) -> bool:
    return (
        _of(kept).time_s <= CLEARLY * _of(best).time_s
        and _of(kept).bytes <= CLEARLY * _of(best).bytes
    )


def _why(taken: Candidate, best: Candidate, ordered: Sequence[Candidate], measured: bool) -> str:
    if not measured:
        return UNMEASURED
    if len(ordered) == 1:
        return "nothing else keeps the level here"
    if taken != best:
        return f"{best.algorithm} would not be clearly better, by estimate"
    quickest = ordered[0]
    if taken.algorithm == quickest.algorithm:
        return f"the quickest of {len(ordered)} that keep the level, by estimate"
    return f"nearly as quick as {quickest.algorithm}, by estimate, and moves less"
