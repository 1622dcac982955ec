"""Messages that parties of a protocol send each other: view managers, and nodes at the sources."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

WAREHOUSE = ""
"""The view manager's name as a sender or receiver; a node has the name of its source."""


class Message(Hashable, Protocol):
    """What travels; its text is what a trace shows."""

    @property
    def label(self) -> str:
        """Tells it from the others that its sender has in flight, unless they are equal."""
        ...

    @property
    def byte_count(self) -> int:
        """Bytes of the rows that it carries."""
        ...

    def __str__(self) -> str: ...
