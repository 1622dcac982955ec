"""How much is small: what the driver may hold in memory, where starting Spark would take longer.

A session takes 4 to 12 s to start, and the jobs of one view's load 2.4 s, however few rows there
are. In memory 50,000 rows are read, joined and written in less than a second.
"""

from __future__ import annotations

ROWS = 50_000
BYTES = 32 * 2**20


def is_small(rows: int, size: int) -> bool:
    """Whether so many rows, of so many bytes in all, are few enough for memory."""
    return rows <= ROWS and size <= BYTES
