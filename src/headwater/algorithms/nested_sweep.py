"""Nested SWEEP: a sweep that takes concurrent updates along.

When an answer shows that its source was updated meanwhile, the update is taken out of the
queue and handled in the same unit: its own part is computed over the relations swept so far,
and from there on one pass carries both. Fewer questions, and strong instead of complete,
since several updates become visible in one step.

Choices: the update is not taken alone but with everything of its source that was received
before it and is not in the view yet. Taken alone the view would mix states of a source, and
the algorithm only converge. Taking updates along is bounded by `depth`; past it the unit is
finished as a plain sweep, so that it ends under updates that never pause.

Here is only which question comes next; `pvm` takes the updates out of the queue.
"""

from __future__ import annotations

from headwater.algorithms.parts.view_change import Partial, Question, Workload, join_probe
from headwater.algorithms.sweep import candidates


def nested_sweep(partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
    """Let the partial that lags behind catch up, over what the others cover already."""
    behind = min(partials, key=lambda partial: len(partial.covered))
    swept = frozenset[int]().union(*(p.covered for p in partials if p.branch == behind.branch))
    order = sorted(candidates(behind, load), key=lambda at: at not in swept)
    probe = join_probe(behind, order[0])
    return ((probe.source, (probe,)),)
