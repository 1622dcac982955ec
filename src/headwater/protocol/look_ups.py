"""Looking rows of the view up by key: what is wanted, by a manager or for an action list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.algebra.values import Row


@dataclass(frozen=True)
class LookUp:
    """The rows that show one of `keys` in these columns."""

    columns: tuple[str, ...]
    keys: frozenset[Row]


def together(wanted: Iterable[LookUp]) -> tuple[LookUp, ...]:
    """The same, one for each set of columns; those without a key left out."""
    keys: dict[tuple[str, ...], set[Row]] = {}
    for look_up in wanted:
        keys.setdefault(look_up.columns, set()).update(look_up.keys)
    return tuple(LookUp(columns, frozenset(found)) for columns, found in keys.items() if found)
