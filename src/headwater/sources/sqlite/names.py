"""What Headwater's tables and triggers in a SQLite file are called: by the warehouse they serve.

Two warehouses that follow the same file have each their own log in it, and none prunes what
another still needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LOG = re.compile(r"_headwater_(?:([0-9a-f]{8})_)?head")
_PREFIX = "_headwater_"
TAGGING = f"{_PREFIX}global"
"""The table into which applications write that a transaction is a part of a global one; it is the
same for all owners, each of which has a trigger on it."""


@dataclass(frozen=True)
class Names:
    """The names of one owner: eight hexadecimal digits, or none."""

    owner: str = ""

    def __post_init__(self) -> None:
        assert re.fullmatch(r"([0-9a-f]{8})?", self.owner), self.owner

    def _of(self, rest: str) -> str:
        return f"{_PREFIX}{self.owner}_{rest}" if self.owner else _PREFIX + rest

    @property
    def head(self) -> str:
        return self._of("head")

    @property
    def log(self) -> str:
        return self._of("log")

    @property
    def relation(self) -> str:
        return self._of("relation")

    @property
    def column(self) -> str:
        return self._of("column")

    @property
    def border(self) -> str:
        return self._of("border")

    @property
    def gap(self) -> str:
        return self._of("gap")

    @property
    def tag(self) -> str:
        """The tags that are in the log."""
        return self._of("tag")

    @property
    def tagged(self) -> str:
        """The trigger that logs a tag."""
        return self._of("tagged")

    @property
    def tables(self) -> tuple[str, ...]:
        return (self.head, self.log, self.relation, self.column, self.border, self.gap)

    def aside(self, number: int) -> str:
        return self._of(f"aside_{number}")

    def trigger(self, number: int, action: str) -> str:
        return self._of(f"{number}_{action}")

    def seal(self, number: int) -> str:
        """A view of nothing that is younger than all triggers of a relation."""
        return self.trigger(number, "seal")

    def number_of(self, trigger: str) -> int | None:
        """The number of the relation that a trigger of this owner belongs to."""
        found = re.fullmatch(re.escape(self._of("")) + r"(\d+)_[a-z_]+", trigger)
        return int(found[1]) if found else None

    def owns(self, name: str) -> bool:
        """Whether a table or a trigger is one of this owner's."""
        aside = re.fullmatch(re.escape(self._of("aside_")) + r"\d+", name)
        ours = (*self.tables, self.tag, self.tagged)
        return name in ours or aside is not None or self.number_of(name) is not None


def is_ours(name: str) -> bool:
    """Whether a table or a trigger is some warehouse's, and not the application's."""
    return name.startswith(_PREFIX)


def owner_of_head(name: str) -> str | None:
    """Whose log a table is the head of; None if it is none."""
    found = _LOG.fullmatch(name)
    return (found[1] or "") if found else None
