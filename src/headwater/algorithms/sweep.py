"""SWEEP: one probe after the other, to the left and then to the right of the change.

The PVM paper's sections 2.1 and 2.2 and Figure 14, where it is the process for one update.
The result of each probe, compensated, travels on to the next source. Complete when one
unit is handled at a time; needs no keys and never waits for the sources to fall silent.

Choices: the papers sweep a chain of relations, one at each source. Here the join graph is
any graph: the next relation is always one that a condition connects to what is covered, if
there is one, those to the left of the change first and the nearest first, which on a chain
is the papers' order. When several units are in work, a source with fewer questions before
it comes first (section 3.5 suggests it). All partials of a unit that can go on at the
chosen source go in one message.
"""

from __future__ import annotations

from headwater.algebra.terms import Term
from headwater.algorithms.parts.source_evaluate import joins
from headwater.algorithms.parts.view_change import Partial, Question, Workload, join_probe


def sweep(partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
    """The next probe of the first partial, with those of others at the same source."""
    source = _source(partials[0], candidates(partials[0], load)[0])
    probes = []
    for partial in partials:
        here = [at for at in candidates(partial, load) if _source(partial, at) == source]
        if here:
            probes.append(join_probe(partial, here[0]))
    return ((source, tuple(probes)),)


def candidates(partial: Partial, load: Workload) -> list[int]:
    """The base occurrences that may come next, best first; never empty."""
    connected = [at for at in partial.term.base if is_connected(partial.term, at)]

    def rank(at: int) -> tuple[int, bool, int]:
        return load.get(_source(partial, at), 0), at > partial.at, abs(at - partial.at)

    return sorted(connected or partial.term.base, key=rank)


def is_connected(term: Term, at: int) -> bool:
    """Whether a condition joins this occurrence with something bound."""
    return any(joins(term, at, place) for factor in term.bound for place in factor.at)


def _source(partial: Partial, at: int) -> str:
    return partial.term.occurrence(at).relation.source
