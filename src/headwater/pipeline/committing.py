"""What the next commit of one view makes visible, and when it is due.

Unless every state is to be shown, what is ready while more has arrived is committed together. A
commit never has a part of a transaction. What a view has taken in and what did not change it is
committed when it has been quiet for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import assert_never

from headwater.algebra.rows import Rows
from headwater.pipeline.plan import Plan
from headwater.pipeline.wanted import Arrival, Commit
from headwater.protocol.effects import Action, Add, AddNew, KeyDelete, Replace
from headwater.warehouse.vectors import VersionVector

UNCHANGED_S = 5.0
"""After how long a quiet view commits what it has taken in without a change."""
_MOST_UNCHANGED = 5000
_MOST_TOGETHER = 1000
_LONGEST_TOGETHER_S = 0.2


@dataclass
class Pending:
    """What the next commit makes visible."""

    actions: list[Action] = field(default_factory=list)
    copied: list[Rows] = field(default_factory=list)
    """What copies of relations change by, as it is stored."""
    received: list[Arrival] = field(default_factory=list)
    since: float = 0.0
    is_half: bool = False
    """Whether it has a transaction of which the rest is still to come."""

    @property
    def changes(self) -> bool:
        """Whether it may change what is stored."""
        return bool(self.actions or self.copied)


class Committing:
    """One view's commits; `settle` brings a relation to where the table is written from."""

    def __init__(self, plan: Plan, settle: Callable[[Rows], Rows]) -> None:
        self.pending = Pending()
        self._plan = plan
        self._parts = plan.view.copy_parts
        self._settle = settle
        self._written_at = -math.inf  # the first change is due at once
        self._hurries = False

    # What is in it

    def apply(self, actions: Iterable[Action], now: float) -> None:
        """What a manager does to the view, with more of the same transaction to come."""
        for action in filter(_does_something, map(self._settled, actions)):
            self.pending.since = self.pending.since or now
            self.pending.actions.append(action)
            self.pending.is_half = True

    def complete(self) -> None:
        """Nothing more of the same transaction is to come."""
        self.pending.is_half = False

    def copy(self, stored: Iterable[Rows], now: float) -> None:
        """What copies of relations change by."""
        for rows in stored:
            self.pending.since = self.pending.since or now
            self.pending.copied.append(self._settle(rows))

    def gathered(self, vector: VersionVector) -> list[Commit]:
        """The commit of everything that is pending and whole, if that changes the view."""
        assert not self.pending.is_half
        pending, self.pending = self.pending, Pending()
        actions = tuple(filter(_does_something, self._merged(pending.actions)))
        copied = tuple(filter(None, pending.copied))
        if not actions and not copied:
            self.pending.received = pending.received
            return []
        return [Commit(actions, vector, pending.received, parts=self._parts, copied=copied)]

    def unchanged(self, vector: VersionVector) -> list[Commit]:
        """What the view has taken in although it did not change, if there is any."""
        if not self.pending.received:
            return []
        pending, self.pending = self.pending, Pending()
        return [Commit((), vector, pending.received, "vector", self._parts)]

    def _settled(self, action: Action) -> Action:
        match action:
            case Add(rows) | AddNew(rows) | Replace(rows):
                return replace(action, rows=self._settle(rows))
            case KeyDelete():
                return action
            case _:
                assert_never(action)

    def _merged(self, actions: Sequence[Action]) -> Iterator[Action]:
        """The list in the form that is stored, with what is added together in one action."""
        view = self._plan.view
        for kind, group in groupby(actions, type):
            if kind is Add:
                parts = [action.rows for action in group if isinstance(action, Add)]
                yield Add(self._settle(view.condensed(Rows.sum(view.schema, parts))))
            elif kind is Replace:
                *_, last = (action.rows for action in group if isinstance(action, Replace))
                yield Replace(self._settle(view.condensed(last)))
            else:
                assert view.compact is None, f"{view.name} has no rows to {kind.__name__}"
                yield from group

    # When it is due

    def hurry(self, hurries: bool) -> None:
        """Whether what is ready is committed without waiting for the next refresh."""
        self._hurries = hurries

    def written(self, now: float) -> None:
        """A commit is in the table."""
        self._written_at = now

    @property
    def due(self) -> float:
        """When something is to be committed if nothing arrives."""
        if self.pending.changes and not self.pending.is_half:
            return self._due_at()
        return self._written_at + UNCHANGED_S if self.pending.received else math.inf

    def is_due(self, now: float) -> bool:
        """Whether a change is to be committed."""
        ready = self.pending.changes and not self.pending.is_half
        return ready and now >= self._due_at()

    def has_waited(self, now: float) -> bool:
        """Whether what is ready goes before what else has arrived."""
        return (
            len(self.pending.received) >= _MOST_TOGETHER
            or now > self.pending.since + _LONGEST_TOGETHER_S
        )

    def is_due_unchanged(self, now: float, more: bool) -> bool:
        """Whether what did not change the view is to be committed."""
        is_quiet = not more and now >= self._written_at + UNCHANGED_S
        return is_quiet or len(self.pending.received) > _MOST_UNCHANGED

    def _due_at(self) -> float:
        if self._hurries or self._plan.refresh_s is None or self._plan.ticks == "by clock":
            return self._written_at
        return self._written_at + self._plan.refresh_s


def _does_something(action: Action) -> bool:
    match action:
        case Add(rows) | AddNew(rows):
            return bool(rows)
        case KeyDelete(keys=keys):
            return bool(keys)
        case Replace():
            return True
        case _:
            assert_never(action)
