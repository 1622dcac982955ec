"""SWEEP: one probe after the other, to the left and then to the right of the change.

The PVM paper's sections 2.1 and 2.2 and Figure 14, where it is the process for one update.
The result of each probe, compensated, travels on to the next source. Complete when one
unit is handled at a time; needs no keys and never waits for the sources to fall silent.

Choices: the papers sweep a chain of relations, one at each source. Here the join graph is
any graph: the next relation is always one that a condition connects to what is covered, if
there is one, those to the left of the change first and the nearest first, which on a chain
is the papers' order. When several units are in work, a source with fewer questions before
it comes first (section 3.5 suggests it). All partials of a unit that can go on at the
chosen source go in one message. `Least` asks the relation first in which a row is expected to find
the fewest partners, one at most if it is reached by its key, so that less travels on.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.terms import Term
from headwater.algorithms.parts.expected import ASSUMED, Expected
from headwater.algorithms.parts.source_evaluate import joins
from headwater.algorithms.parts.view_change import Partial, Question, Workload, join_probe


def sweep(partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
    """The next probe of the first partial, with those of others at the same source."""
    return _sweep(partials, load, None)


@dataclass(frozen=True)
class Least:
    """The same, in the order that should move the least."""

    expected: Expected = ASSUMED

    def __call__(self, partials: tuple[Partial, ...], load: Workload) -> tuple[Question, ...]:
        return _sweep(partials, load, self.expected)


def _sweep(
    partials: tuple[Partial, ...], load: Workload, expected: Expected | None
) -> tuple[Question, ...]:
    source = _source(partials[0], candidates(partials[0], load, expected)[0])
    probes = []
    for partial in partials:
        here = [at for at in candidates(partial, load, expected) if _source(partial, at) == source]
        if here:
            probes.append(join_probe(partial, here[0]))
    return ((source, tuple(probes)),)


def candidates(partial: Partial, load: Workload, expected: Expected | None = None) -> list[int]:
    """The base occurrences that may come next, best first; never empty.

    By what they are expected to send back, if that is given.
    """
    term = partial.term
    connected = [at for at in term.base if is_connected(term, at)]
    known = {name for factor in term.bound for name in factor.rows.schema.names}

    def rank(at: int) -> tuple[int, float, bool, int]:
        partners = expected.partners(term.join, at, known) if expected is not None else 0.0
        waits = load.get(_source(partial, at), 0)
        return waits, partners, at > partial.at, abs(at - partial.at)

    return sorted(connected or term.base, key=rank)


def is_connected(term: Term, at: int) -> bool:
    """Whether a condition joins this occurrence with something bound."""
    return any(joins(term, at, place) for factor in term.bound for place in factor.at)


def _source(partial: Partial, at: int) -> str:
    return partial.term.occurrence(at).relation.source
