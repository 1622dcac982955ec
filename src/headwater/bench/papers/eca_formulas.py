"""The ECA paper's cost formulas: section 6 and appendix D, as printed.

Messages M, bytes B and I/O of recomputing the view (RV) and of ECA for the view of Example 6,
`r1(W, X) ⋈ r2(X, Y) ⋈ r3(Y, Z)` where W > Z. Best for RV is one recomputation at the end, worst one
after every update; best for ECA is an answer before each next update, worst are all updates before
the first question. Functions of a number of updates take any real one, so that curves can be
crossed. Nothing is measured here.

Choices: two expressions are printed for the worst case of ECA, and they disagree: for exactly three
updates (one of each relation: 3 pairs) and for k updates of random relations (k(k - 1)/3 pairs on
the average, 2 for k = 3). `pairs` says which one is meant; with updates of r1, r2 and r3 in turn
there are k²/3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from typing import TypeAlias


@dataclass(frozen=True)
class Parameters:
    """Table 1."""

    C: int = 100
    """Rows of each relation."""
    S: int = 4
    """Bytes of the attributes that the view shows."""
    sigma: float = 0.5
    """Share of the joined rows that the condition selects."""
    J: int = 4
    """Rows of a relation with a given value of a join column."""
    K: int = 20
    """Rows of a block."""

    @property
    def I(self) -> int:  # noqa: E743, N802  # the paper's name
        """I/Os to read a relation."""
        return ceil(self.C / self.K)

    @property
    def I2(self) -> int:  # noqa: N802
        """I': how often two blocks are filled with a relation."""
        return ceil(self.C / (2 * self.K))


Formula: TypeAlias = Callable[[Parameters, float], float]
"""A cost by the parameters and the number of updates."""


def pairs_at_random(k: float) -> float:
    """How many pairs of k updates are of different relations, if each is of one of three."""
    return k * (k - 1) / 3


def pairs_in_turn(k: float) -> float:
    """The same for updates of r1, r2 and r3 in turn, equally many of each."""
    return k * k / 3


# Messages (section 6.1): questions and answers


def messages_rv(k: int, s: int) -> int:
    """Recomputing after every s updates."""
    return 2 * ceil(k / s)


def messages_eca(k: int) -> int:
    return 2 * k


# Bytes (section 6.2, appendix D.2)


def bytes_rv_best(p: Parameters, k: float) -> float:
    return p.S * p.sigma * p.C * p.J**2


def bytes_rv_worst(p: Parameters, k: float) -> float:
    return k * bytes_rv_best(p, k)


def bytes_eca_best(p: Parameters, k: float) -> float:
    return k * p.S * p.sigma * p.J**2


def bytes_eca_worst(
    p: Parameters, k: float, pairs: Callable[[float], float] = pairs_at_random
) -> float:
    return bytes_eca_best(p, k) + pairs(k) * p.S * p.sigma * p.J


# I/O with indexes and much memory (scenario 1, appendix D.3.1)


def io1_rv_best(p: Parameters, k: float) -> float:
    return 3 * p.I


def io1_rv_worst(p: Parameters, k: float) -> float:
    return 3 * k * p.I


def io1_eca_best(p: Parameters, k: float) -> float:
    return k * (min(p.I, p.J) + 1)


def io1_eca_worst(
    p: Parameters, k: float, pairs: Callable[[float], float] = pairs_at_random
) -> float:
    return io1_eca_best(p, k) + pairs(k)


# I/O with three blocks of memory and no index (scenario 2, appendix D.3.2)


def io2_rv_best(p: Parameters, k: float) -> float:
    return p.I**3


def io2_rv_worst(p: Parameters, k: float) -> float:
    return k * p.I**3


def io2_eca_best(p: Parameters, k: float) -> float:
    return k * p.I * p.I2


def io2_eca_worst(
    p: Parameters, k: float, pairs: Callable[[float], float] = pairs_at_random
) -> float:
    return io2_eca_best(p, k) + p.I * pairs(k)


# Crossovers


def crossover(rising: Callable[[float], float], level: float, most: float = 1e6) -> float:
    """Where a cost that grows with k reaches another one that does not; infinity if nowhere."""
    low, high = 0.0, 1.0
    while rising(high) < level:
        if high > most:
            return inf
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < level else (low, middle)
    return high
