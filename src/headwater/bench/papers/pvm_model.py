"""The PVM paper's cost model: section 5, equations 3 to 17.

`n` updates, `m` sources with a relation each, `p` updates in work at once at most, `q` questions
that all sources answer at once (m, if each answers one), `t` what one update takes, `a` what
another thread takes to begin. Updates are numbered from 1 and are of the sources 1 to m in turn;
all happen before any is worked on.

Choices. Equation 4, as printed, does not give the matrix of equation 3: for update 2 at source 1 it
says n/m where the matrix has n/m - 1. `local_messages` is the matrix: how many later updates
its source has. In equation 6 the sum's term is printed as n and must be the index i; the result is
right. Equation 15 assumes that k divides n - 1 and is too high otherwise; equation 14 is exact.
The paper's model of an interval (Figure 26, left) has no equation: `at_interval` is
what its text describes.
"""

from __future__ import annotations

from math import floor


def local_messages(i: int, j: int, n: int, m: int) -> int:
    """Equation 3: what the answer of source j for update i has to be compensated for."""
    if (i - j) % m == 0:
        return 0
    return sum(1 for later in range(i + 1, n + 1) if (later - j) % m == 0)


def local_messages_as_printed(i: int, j: int, n: int, m: int) -> int:
    """Equations 4 and 5."""
    k = (i - 2) // m + 1 if i > 1 else 0
    if j == i % m:
        return 0
    skipped = k if j <= (i - 2) % (m + 1) else k - 1
    return max(0, n // m - skipped)


def all_local_messages(n: int, m: int) -> float:
    """Equation 6."""
    return (m - 1) / (2 * m) * n**2


def remote_messages(n: int, m: int) -> int:
    """Equation 7."""
    return n * (m - 1)


def sweep_time(n: int, m: int, remote: float, local: float = 0.0) -> float:
    """Equation 8; without the time of a local join equation 9."""
    return remote_messages(n, m) * remote + all_local_messages(n, m) * local


def update_time(m: int, remote: float) -> float:
    """Equation 10: t."""
    return (m - 1) * remote


def waiting(i: int, p: int, q: int, t: float, a: float = 0.0) -> float:
    """Equations 12 and 13: how long update i waits."""
    k = min(p, q)
    return floor((i - 1) / k) * t + (i - 1) % k * a


def pvm_time(n: int, p: int, q: int, t: float, a: float = 0.0) -> float:
    """Equation 14."""
    return max(waiting(i, p, q, t, a) for i in range(1, n + 1)) + t


def pvm_time_simplified(n: int, p: int, q: int, t: float) -> float:
    """Equation 15."""
    return ((n - 1) / min(p, q) + 1) * t


def local_share(n: float, m: int, local_to_remote: float) -> float:
    """Equation 16: the time of local joins to that of remote ones."""
    return n / (2 * m) * local_to_remote


def most_updates(m: int, local_to_remote: float, share: float) -> float:
    """From how many concurrent updates on local joins take more than such a share."""
    return share * 2 * m / local_to_remote


def threads(m: int, p: int) -> int:
    """Equation 17."""
    return 2 * m + p + 2


def at_interval(total: float, n: int, t: float, interval: float) -> float:
    """What takes `total` if all updates are there, when they come at an interval."""
    return max(total, (n - 1) * interval + t)
