"""Remembered hashes for immutable values that are looked up often.

Machine states nest deeply and the lab hashes millions of them; each value computes its hash
once, from parts that remember theirs.
"""

from __future__ import annotations

from typing import TypeVar

Class = TypeVar("Class")


def cached_hash(cls: type[Class]) -> type[Class]:
    """Let a frozen dataclass (without slots) remember its hash; goes above @dataclass."""
    compute = cls.__hash__

    def remembered(self: object) -> int:
        known: int | None = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = compute(self)
        return known

    cls.__hash__ = remembered  # type: ignore[method-assign]
    return cls
