"""Limits on what comes from other nodes: they hold before anything is read whole or built."""

from __future__ import annotations

from dataclasses import dataclass

MOST_HEAD_BYTES = 1 << 20
"""Of the lines that say who made an object and what it is, and of a node's public file."""
MOST_OWN_BYTES = 64 << 20
"""Of what a node writes down for itself."""
MOST_DEPTH = 16
"""How deep the line that says what an object is may be nested."""
MOST_SQL_CHARACTERS = 10_000
MOST_COMPARED = 40
"""Columns and constants that a view's condition compares: deduction takes the cube of that."""
MOST_NAME_BYTES = 200
"""Of names of nodes, relations and views as they stand in a file's name."""
MOST_COUNT = 10**9
"""How often a row may be in an object."""
MOST_TEXT_CHARACTERS = 16 << 20
"""Of a text that a view's condition puts together from a row."""
MOST_STEPS = 10**9
"""Characters that a view's condition may look at for one row: a second or a few."""
MOST_CHECK_SECONDS = 60.0
"""How long one object may take to be judged."""
MOST_VERSION = 2**63 - 1


@dataclass(frozen=True)
class Limits:
    """How much one exchange takes; what lies beyond is refused, or left for the next one."""

    bytes: int = 64 << 20
    values: int = 2_000_000
    """Of all rows: a short value takes many times its bytes in memory."""
    objects: int = 100_000
    seconds: float = 3600.0
