"""What an action list changes in a view of which only the touched rows are looked at.

A manager says what is to be done to the view (`effects.Action`); whoever hosts it has a view that
may be large, and is far from the manager. Before a list is carried out it is known which rows it
can touch: those with the keys that it deletes, and those that it would add. So a host looks these
up, all at once, and what the list does to them is all that it does. The lab and the running system
do it by this one function; only what they look into differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.protocol.effects import Action, Add, AddNew, KeyDelete, Replace, apply_actions
from headwater.protocol.look_ups import LookUp, together


class StoredView(Protocol):
    """A view as it is stored, for who carries action lists out."""

    @property
    def schema(self) -> Schema: ...

    def touched(self, look_ups: Sequence[LookUp]) -> Rows:
        """At least the rows that some look-up wants, each with its whole count."""
        ...

    def whole(self) -> Rows:
        """All rows: for the one action that replaces them."""
        ...


@dataclass(frozen=True)
class Bag:
    """A view that is held in memory."""

    rows: Rows

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    def touched(self, look_ups: Sequence[LookUp]) -> Rows:
        left = self.rows
        for look_up in look_ups:
            left = left.key_delete(look_up.columns, look_up.keys)
        return self.rows - left

    def whole(self) -> Rows:
        return self.rows


def change_by(actions: Sequence[Action], stored: StoredView) -> Rows:
    """The signed rows that, added to the stored ones, carry the list out."""
    replaced = max((at for at, a in enumerate(actions) if isinstance(a, Replace)), default=None)
    if replaced is not None:  # what stood before it does not matter
        before = stored.whole()
        return apply_actions(before, tuple(actions[replaced:])) - before
    wanted = look_ups(actions)
    if not wanted:
        return Rows.sum(stored.schema, (a.rows for a in actions if isinstance(a, Add)))
    touched = stored.touched(wanted)
    return apply_actions(touched, tuple(actions)) - touched


def look_ups(actions: Iterable[Action]) -> tuple[LookUp, ...]:
    """What has to be looked up for a list: for each set of columns all keys together."""
    found = []
    for action in actions:
        match action:
            case KeyDelete(columns, deleted):
                found.append(LookUp(columns, frozenset(deleted)))
            case AddNew(rows):
                found.append(LookUp(rows.schema.names, frozenset(rows)))
    return together(found)


def seen_behind(actions: Sequence[Action], wanted: Sequence[LookUp], stored: StoredView) -> Rows:
    """What a view that a list has still to be carried out on will have of the wanted rows."""
    if any(isinstance(action, Replace) for action in actions):
        return apply_actions(stored.whole(), tuple(actions))
    touched = stored.touched(together([*wanted, *look_ups(actions)]))
    return apply_actions(touched, tuple(actions))
