"""A Headwater warehouse's tables as a source: what their commits say of the databases behind.

Each commit of a view's plain table carries the version vector of the state that it is. Such tables
are published one after the other, so their vectors are not aligned: a view that joins several, or
one and a database behind it, follows the tables' versions at its level, and the databases weakly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from headwater.sources.contract import Origin
from headwater.sources.delta.log import Action

_KEY = "headwater"
_LOOKED_AT = 100


def origin_of(entries: Iterable[Sequence[Action] | None]) -> Origin | None:
    """What a table is made from, if it is a view; the last entry comes first."""
    for entry in islice(entries, _LOOKED_AT):
        for action in entry or ():
            said: Any = (action.get("commitInfo") or {}).get(_KEY)
            if isinstance(said, dict) and isinstance(said.get("vector"), dict):
                return Origin(
                    str(said.get("view")),
                    frozenset(map(str, said["vector"])),
                    str(said.get("level") or "unknown"),
                )
    return None


def in_words(origin: Origin) -> str:
    sources = " and ".join(sorted(origin.databases))
    return (
        f"the view {origin.view} of a warehouse, over its {sources}, at the level "
        f"{origin.level}. A view over it follows the table's versions. With regard to the "
        f"databases behind it is no more than {origin.level}; and weak if it reads more of what "
        "is made from them, because these are not published at the same moment."
    )
