"""Consistency levels and properties as data, each with its meaning and its paper.

Levels form a chain: each includes the ones before. Properties stand beside them.

Choices. The papers' definitions differ in details, and the lab counts like this:

- A source state is a vector: how many transactions of each source are in. Any merge that
  keeps each source's order is equivalent to the real schedule (Strobe 4.2, PVM 4.1).
- Convergence is part of weak consistency (as in Strobe 4.2; ECA 3.1 and PVM 4.1 keep it
  apart): see the property `weak_consistency` for weak without it.
- Weak: a vector may hold half of a global transaction. Strong: it may not.
- Strong asks for one chain of vectors (Strobe 4.2, PVM 4.1), not only for every pair to be in
  order (ECA 3.1: `pairwise_consistency`). Equal successive states may share a vector;
  Strobe 4.2 (iii) prints a strict order: `strict_order`.
- Complete: the views along one walk that adds a transaction at a time, equal neighbours
  counted once, are exactly the states shown, equal neighbours counted once. ECA 3.1, read
  literally, only asks that each appears somewhere: `completeness_in_any_order`.
- The Rings paper speaks of queries, infinitely many, rather than of states (section 3). In a run
  that has ended all further queries see the last state, so that with one vector for each state
  the three properties together say: one chain of vectors, and the last state is that of all
  transactions (`view_management`). That is strong consistency, as its footnote 5 says, where no
  transaction is global; the paper knows no global ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How consistent a run, or an algorithm, is; each level includes the ones before."""

    NONE = 0
    CONVERGENT = 1
    WEAK = 2
    STRONG = 3
    COMPLETE = 4

    def __str__(self) -> str:
        return self.name.lower()


def parse_level(text: str) -> Level:
    return Level[text.upper()]


LEVEL_MEANINGS = {
    Level.NONE: "not even the last state of the view is right",
    Level.CONVERGENT: "the last state is the view of all transactions",
    Level.WEAK: "every state is the view of some state of each source",
    Level.STRONG: "the states follow one order of the sources' transactions",
    Level.COMPLETE: "every state of the sources in that order is shown",
}


@dataclass(frozen=True)
class Property:
    """A property of one run, and the properties that it implies."""

    name: str
    meaning: str
    source: str
    implies: tuple[str, ...] = ()


PROPERTIES = (
    Property("convergence", "the last state is the view of all transactions", "ECA 3.1"),
    Property(
        "weak_consistency",
        "every state is the view of some vector of source states",
        "ECA 3.1, PVM 4.1",
    ),
    Property(
        "pairwise_consistency",
        "every two states match source states in the same order",
        "ECA 3.1 (consistency)",
        ("weak_consistency",),
    ),
    Property(
        "consistency",
        "one non-decreasing chain of source states matches all states",
        "PVM 4.1",
        ("pairwise_consistency",),
    ),
    Property(
        "strong_consistency",
        "consistency and convergence",
        "ECA 3.1, Strobe 4.2, PVM 4.1",
        ("consistency", "convergence", "view_management"),
    ),
    Property(
        "strict_order",
        "strong consistency, and each step of the view shows a later source state",
        "Strobe 4.2 (iii)",
        ("strong_consistency",),
    ),
    Property(
        "completeness",
        "the view takes the states of one order of transactions, none left out",
        "Strobe 4.2, PVM 4.1",
        ("completeness_in_any_order",),
    ),
    Property(
        "completeness_in_any_order",
        "strong consistency, and every source state of one order is shown somewhere",
        "ECA 3.1",
        ("strong_consistency",),
    ),
    Property(
        "validity",
        "every state is the function of values that its data items had",
        "Rings 3",
    ),
    Property(
        "order_consistency",
        "later states use the same or later values of every data item",
        "Rings 3",
        ("validity",),
    ),
    Property(
        "up_to_dateness",
        "every update is used, or overwritten by a later one that is",
        "Rings 3",
    ),
    Property(
        "view_management",
        "validity, order consistency and up-to-dateness in one reading of the states",
        "Rings 3",
        ("validity", "order_consistency", "up_to_dateness", "convergence"),
    ),
)
