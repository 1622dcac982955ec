"""The contract of a view manager: a machine that takes one event and returns effects.

In some protocols (the Rings paper's) the sources take part: then a node, a machine of the same
kind, stands beside each source, and the parties send each other messages.

A manager's state is a value, hashable and never changed in place, so that the lab can fork,
compare and merge states. The manager object itself holds only what never changes: the view
and the parameters. It neither logs nor reads a clock.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeVar

from headwater.algebra.views import View
from headwater.protocol.effects import Effect
from headwater.protocol.events import Event
from headwater.protocol.look_ups import LookUp

State = TypeVar("State")


class Need(Enum):
    """What not every host of view managers, and not every view, has; an algorithm says which.

    All provide transactions, answers, and signed rows that are added to the view.
    """

    ONE_SOURCE = "all relations of the view are at one source"
    KEYS = "the view shows the key of every relation"
    SILENCE = "nothing happens at the sources while a question is under way"
    CONTENTS = "it can look rows of the view up by key"
    COPIES = "all base relations may be copied to the warehouse"
    BY_KEY = "rows of the view can be deleted by key, and added where there are none like them"
    REPLACE = "the whole view can be replaced"
    EARLY = "a transaction may be shown before earlier ones of its source"
    IDLE = "it is told when nothing goes on"
    MESSAGES = "a node stands beside every source"
    SPANS = "each part of a global transaction tells which sources it spans"


class ViewManager(Protocol[State]):
    """One algorithm maintaining one view."""

    @property
    def view(self) -> View: ...

    def start(self) -> State:
        """The state in which the warehouse holds the view's correct initial contents."""
        ...

    def looks_up(self, state: State, event: Event) -> tuple[LookUp, ...]:
        """What it wants to see of the view, for managers that need CONTENTS, before it takes an
        event in. It is asked again with what was seen, until it wants no more; nothing else
        happens meanwhile.
        """
        ...

    def handle(self, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        """Take in one event: the next state and what is to be done, in order."""
        ...

    def wants_idle(self, state: State) -> bool:
        """Whether an `Idled` event would make this manager do something."""
        ...


class Node(Protocol[State]):
    """A party beside one source, which alone it asks, and whose transactions it is told.

    The channel between a source and its node keeps the channel contract: an answer reflects
    exactly the transactions that came before it.
    """

    def start(self) -> tuple[State, tuple[Effect, ...]]:
        """The state in which the view is right, and what the node does at once."""
        ...

    def handle(self, state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
        """Take in one event: the next state and what is to be done, in order."""
        ...

    def wants_idle(self, state: State) -> bool:
        """Whether an `Idled` event would make this node do something."""
        ...

    def is_settled(self, state: State) -> bool:
        """Whether nothing here waits to be taken into the view."""
        ...

    def holds_token(self, state: State) -> bool:
        """Whether a token is here, for people who look."""
        ...
