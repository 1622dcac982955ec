"""The I/Os that a source does for the terms of Example 6: the ECA paper's appendix D.3, simulated.

Relations lie in blocks of K rows; nothing is cached and every term is evaluated by itself, as in
the paper. Scenario 1: memory for everything, and indexes that cost nothing to look into, by which
rows lie in order (X of r1 and r2, Y of r3) and one by which they do not (Y of r2). Scenario 2:
three blocks of memory, no index, nested loops.

Choices: the paper counts a nested loop's innermost reads alone. `io2_every` counts those of
the outer blocks too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from headwater.algebra.evaluate import State
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Term
from headwater.algebra.values import Row, Value

ORDERED_BY = {"r1": 1, "r2": 0, "r3": 0}
"""The column, by its place, in whose order a relation's rows lie."""
LINKS = {(0, 1): (1, 0), (1, 0): (0, 1), (1, 2): (1, 0), (2, 1): (0, 1)}
"""Columns that join an occurrence with its neighbour: of the one, and of the other."""


@dataclass(frozen=True)
class Reads:
    """I/Os of one term."""

    io1: int
    io2: int
    io2_every: int


@dataclass(frozen=True, eq=False)
class Stored:
    """A relation on disk."""

    rows: Sequence[Row]
    ordered_by: int
    K: int

    @staticmethod
    def of(name: str, rows: Rows, block: int) -> Stored:
        at = ORDERED_BY[name]
        each = [row for row, count in rows.sorted_items() for _ in range(count)]
        return Stored(sorted(each, key=lambda row: _number(row[at])), at, block)

    @property
    def blocks(self) -> int:
        return ceil(len(self.rows) / self.K)

    @cached_property
    def _places(self) -> dict[tuple[int, Value], list[int]]:
        found: dict[tuple[int, Value], list[int]] = defaultdict(list)
        for place, row in enumerate(self.rows):
            for column, value in enumerate(row):
                found[column, value].append(place)
        return found

    def probe(self, column: int, value: Value) -> tuple[list[Row], int]:
        """The rows with that value, and the I/Os to fetch them by an index."""
        places = self._places.get((column, value), [])
        blocks = {place // self.K for place in places}
        reads = len(blocks) if column == self.ordered_by else len(places)
        return [self.rows[place] for place in places], reads


def reads_of(term: Term, state: State, block: int) -> Reads:
    """What a source reads to evaluate a term."""
    names = [term.occurrence(at).relation.name for at in range(3)]
    stored = {at: Stored.of(names[at], state[names[at]], block) for at in term.base}
    innermost, outer = _nested_loops([stored[at] for at in term.base])
    by_index = _by_index(term, stored) if term.bound else sum(s.blocks for s in stored.values())
    return Reads(by_index, innermost, innermost + outer)


def _by_index(term: Term, stored: dict[int, Stored]) -> int:
    """Scenario 1: from rows that are known to their neighbours, or all of a relation if less."""
    known = {factor.at[0]: [row for row, _ in factor.rows.items()] for factor in term.bound}
    total = 0
    for at in _order(set(known)):
        near = min((other for other in known if (other, at) in LINKS), key=lambda other: other)
        here, there = LINKS[near, at]
        probes = [stored[at].probe(there, row[here]) for row in known[near]]
        total += min(sum(reads for _, reads in probes), stored[at].blocks)
        known[at] = [row for rows, _ in probes for row in rows]
    return total


def _order(known: set[int]) -> list[int]:
    """The occurrences that are not known, nearest first."""
    return sorted({0, 1, 2} - known, key=lambda at: min(abs(at - other) for other in known))


def _nested_loops(stored: Sequence[Stored]) -> tuple[int, int]:
    """Scenario 2: reads of the innermost relation, and of the outer ones."""
    blocks = [each.blocks for each in stored]
    match stored:
        case [_]:
            return blocks[0], 0
        case [outer, _]:
            return ceil(len(outer.rows) / (2 * outer.K)) * blocks[1], blocks[0]
        case _:
            return blocks[0] * blocks[1] * blocks[2], blocks[0] + blocks[0] * blocks[1]


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
