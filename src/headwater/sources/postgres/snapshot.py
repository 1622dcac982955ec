"""PostgreSQL's snapshots: which transactions an answer reflects, known by their numbers.

The transactions that a snapshot holds are not a prefix of the log: a commit is in the log
before others can see it. So an answer is placed by its snapshot and never by a place in the
log. Numbers have 64 bits here; the log shows only the lower 32.
"""

from __future__ import annotations

from dataclasses import dataclass

_EPOCH = 1 << 32


@dataclass(frozen=True)
class XidSnapshot:
    """What pg_current_snapshot() says: all below `xmin`, none from `xmax`, not the running."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> XidSnapshot:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, running.split(",")))))

    def includes(self, stamp: int) -> bool:
        return stamp < self.xmin or (stamp < self.xmax and stamp not in self.running)

    def contains(self, other: XidSnapshot) -> bool:
        """Whether everything that another snapshot holds is in this one too."""
        return other.xmax <= self.xmax and not any(map(other.includes, self.running))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"


def full_xid(xid: int, near: int) -> int:
    """The 64-bit number with these lower 32 bits that is nearest to a known one.

    A slot keeps the server from running on for 2**31 transactions, so nearest is right.
    """
    full = (near & ~(_EPOCH - 1)) | xid
    if full - near > _EPOCH // 2 and full >= _EPOCH:
        return full - _EPOCH
    if near - full > _EPOCH // 2:
        return full + _EPOCH
    return full
