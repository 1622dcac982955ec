"""The contract of a view manager: a machine that takes one event and returns effects.

A manager's state is a value, hashable and never changed in place, so that the lab can fork,
compare and merge states. The manager object itself holds only what never changes: the view
and the parameters. It neither logs nor reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

from headwater.algebra.rows import Rows
from headwater.algebra.views import View
from headwater.protocol.effects import Effect
from headwater.protocol.events import Event

State = TypeVar("State")


class ViewManager(Protocol[State]):
    """One algorithm maintaining one view."""

    @property
    def view(self) -> View: ...

    def start(self, contents: Rows, base: Mapping[str, Rows]) -> State:
        """The state in which the warehouse holds the view's correct initial contents.

        `base` has the base relations as they were then, for managers that keep copies.
        """
        ...

    def handle(self, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        """Take in one event: the next state and what is to be done, in order."""
        ...

    def wants_idle(self, state: State) -> bool:
        """Whether an `Idled` event would make this manager do something."""
        ...
