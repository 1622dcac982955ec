"""A source as a simulated runner reads it: its order, its change log, and what is on its way there.

What a feed and a channel do in threads are steps here, taken one at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from headwater.errors import BrokenLogError
from headwater.pipeline.global_parts import GlobalParts
from headwater.pipeline.recording import Recording, numbered_of
from headwater.simulation.database import Columns, Cursor, Database
from headwater.simulation.judge import ROOT
from headwater.sources.contract import Logged, Marked, Position, Progressed
from headwater.sources.order import Numbered, Order, Place
from headwater.sources.rounds import Question, Round, together
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import LeaseClaim

if TYPE_CHECKING:
    from headwater.simulation.world import World


class Reading:
    """A source as this runner reads it: its order, its change log, and what is on its way there."""

    def __init__(
        self,
        database: Database,
        log: ChangeLog,
        claim: LeaseClaim,
        columns: Columns,
        parts: GlobalParts,
        now: float,
    ) -> None:
        self.database = database
        self.log = log
        self.columns = columns
        self._claim = claim
        self.trouble: BrokenLogError | None = None
        """Why nothing is read any more."""
        log.open(claim.epoch, claim.check, claim.guard)
        self.recording = Recording(log.end, log.position)
        self.order = Order(log.end, log.position or None, lambda number: log.end >= number)
        self.cursor = Cursor(0, 0)
        self.parts = parts
        self.questions: list[Question[Place]] = []
        """What was asked and waits."""
        self.learn_again(now)
        self.connect()

    def connect(self, columns: Columns | None = None) -> None:
        """Open the log, also once more: with these columns from now on."""
        self.columns = columns or self.columns
        self.whole_after = self.order.end
        with self._telling():
            self.cursor = self.database.open(self.order.position)

    def learn_again(self, now: float) -> None:
        """Know where the parts are that an earlier runner has read."""
        for record in self.log.heads(self.log.first - 1):
            self.parts.learn(self.database.name, record.number, [numbered_of(record)], now)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What ends the log is kept for those who are to know."""
        try:
            yield
        except BrokenLogError as error:
            self.trouble = error

    def read(self, world: World) -> None:
        logged: list[Logged] = []
        with self._telling():
            logged, self.cursor = self.database.read(self.cursor, self.columns, world.random)
        kept = [item for item in logged if not isinstance(item, Marked)]
        self.recording.record(self.order.end + 1, kept)
        numbered = [item for item in kept if not isinstance(item, Progressed)]
        self.parts.learn(self.database.name, self.order.end + 1, numbered, world.disk.now)
        self.order.take(logged)

    def answer(self, marker: str) -> None:
        """Answer what is asked next, with what may go together with it."""
        found = Round(together(self.questions))
        self.questions = [each for each in self.questions if each not in found.questions]
        reply = self.database.answer(found.queries, marker)
        results = found.results(reply.results)
        for question, each in zip(found.questions, results, strict=True):
            question.who.replied(replace(reply, results=each))

    def leave(self, place: Place) -> None:
        """Somebody receives nothing more."""
        self.order.remove(place)
        self.questions = [each for each in self.questions if each.who is not place]

    @property
    def is_settled(self) -> bool:
        """Whether everything is read and written, as far as somebody may wait for it."""
        return (
            self.trouble is None
            and self.database.is_read(self.cursor)
            and not self.recording.is_due
        )

    @property
    def is_owed(self) -> bool:
        """Whether something is not written yet, or the source does not know that it is."""
        return self.order.end > self.log.end or bool(self.recording.to_acknowledge(math.inf))

    def write(self, world: World) -> None:
        if records := self.recording.batch():
            self.log.append(records)
            self.recording.synced(self.log.end, self.log.position)
            world.judge.learn(self.database.name)

    def acknowledge(self, world: World) -> None:
        position = self.recording.to_acknowledge(world.disk.now, at_once=True)
        if position is not None:
            with self._claim.guard():
                world.interrupt("acknowledge", ROOT)
                self.database.acknowledge(position)
            self.recording.acknowledged(position, world.disk.now)

    def position(self, number: int) -> Position | None:
        """Where the source's log stands at a number; None where that has been let go."""
        if number == self.log.end:
            return self.log.position
        if number < self.log.first:
            return None
        return next(record.position for record in self.log.read(number - 1))

    def next_of(self, place: Place) -> Numbered:
        held = self.order.held([place.cursor])
        if held:
            return held[0].item
        return next(numbered_of(record) for record in self.log.read(place.cursor - 1))

    def place(self, after: int, relations: frozenset[str], paused: bool = False) -> Place:
        """A place behind a number, as a channel makes it."""
        place = Place(self.order, after + 1, True, relations)
        self.order.add(place)
        before = min(after, self.log.first - 1)
        missing = self.order.first_known - before - 1
        heads = islice(self.log.heads(before), max(0, missing))
        self.order.recall(before, [numbered_of(record) for record in heads])
        place.remember(before + 1)
        if not paused:
            place.resume(after)
        return place
