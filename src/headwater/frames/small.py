"""How much the driver may hold in memory: where starting Spark would take longer, and at most.

A session takes 4 to 12 s to start, and the jobs of one view's load 2.4 s, however few rows there
are. In memory 50,000 rows are read, joined and written in less than a second.
"""

from __future__ import annotations

ROWS = 50_000
BYTES = 32 * 2**20

THRESHOLD = 1_000_000
"""No crossover in time was found on two cores: 600,000 changed lines of TPC-H at scale 1 took 8 s
in columns and 25 to 31 s on Spark. The default bounds the driver's memory; measure again on a
cluster."""


SMALL = 200_000
"""Up to this many rows are kept as an Arrow table in the driver: that takes one job, where a
checkpoint and its count take two more (50,000 rows: 0.3 s against 1.1 s, busy machine).
More stay where Spark computed them."""


def is_small(rows: int, size: int) -> bool:
    """Whether so many rows, of so many bytes in all, are few enough for memory."""
    return rows <= ROWS and size <= BYTES
