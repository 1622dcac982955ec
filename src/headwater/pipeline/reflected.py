"""What a view reflects: for each source a watermark, and the transactions above it.

Kept by numbers. Transactions are received in order and may be reflected out of order; the
watermark is the last number up to which everything is reflected that concerns the view. What it
does not receive is of no concern to it.

An algorithm that commits early computes what a transaction changes as if those received before it
were in. Over several sources a view is then known by what was received in which order: the
watermarks are those of the longest beginning of that order that is reflected whole, what was
reflected behind it stands above them, and the order of it is told, so that it can be received in
the same order once more (`InArrivalOrder`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace

from headwater.sources.contract import Position
from headwater.warehouse.vectors import Reached, VersionVector


class ReflectedSource:
    """How far one view has come with one source."""

    def __init__(self, reached: Reached) -> None:
        self._passed, self._position = reached.number, reached.position
        """Up to here all was received that concerns the view."""
        self._open: deque[tuple[int, Position | None]] = deque()
        self._above = set(reached.also)
        """Reflected above the watermark."""
        self._of_no_concern: set[int] = set()
        self._last: tuple[int, Position | None] = (-1, None)
        """What was reflected last below all that is open."""
        self.early = frozenset(reached.also)
        """What was reflected above the watermark when this began, and comes again."""

    @property
    def is_settled(self) -> bool:
        """Whether everything is reflected that was received."""
        return not self._open

    @property
    def reached(self) -> Reached:
        number, position = self._passed, self._position
        if self._open:
            number = self._open[0][0] - 1
            position = self._last[1] if self._last[0] == number else None
        while number + 1 in self._above:
            number, position = number + 1, None
        also = (n for n in self._above - self._of_no_concern if n > number)
        return Reached(number, position, tuple(sorted(also)))

    def receive(self, number: int, position: Position | None) -> None:
        """The next transaction that may concern the view, to be reflected later."""
        self._open.append((number, position))
        self._passed, self._position = number, position

    def reflect(self, number: int, concerns: bool = True) -> None:
        """A transaction is reflected from now on; one that does not concern the view always is."""
        self._above.add(number)
        if not concerns:
            self._of_no_concern.add(number)
        while self._open and self._open[0][0] in self._above:
            self._last = self._open.popleft()
            self._above.discard(self._last[0])
            self._of_no_concern.discard(self._last[0])

    def move_on(self, number: int, position: Position | None = None) -> None:
        """Nothing else up to a number concerns the view."""
        if number > self._passed:
            self._passed, self._position = number, position


class Reflected:
    """How far one view has come with each of its sources."""

    def __init__(self, vector: VersionVector) -> None:
        self._sources = {source: ReflectedSource(at) for source, at in vector.items()}

    @property
    def vector(self) -> VersionVector:
        return {source: progress.reached for source, progress in self._sources.items()}

    @property
    def is_settled(self) -> bool:
        """Whether everything is reflected that was received."""
        return all(progress.is_settled for progress in self._sources.values())

    def receive(self, source: str, number: int, position: Position | None) -> None:
        self._sources[source].receive(number, position)

    def reflect(self, source: str, number: int, concerns: bool = True) -> None:
        self._sources[source].reflect(number, concerns)

    def move_on(self, source: str, number: int, position: Position | None = None) -> None:
        self._sources[source].move_on(number, position)

    def was_early(self, source: str, number: int) -> bool:
        """Whether a transaction that comes now has been reflected before."""
        return number in self._sources[source].early


class InArrivalOrder(Reflected):
    """The same where what was received has to come in the same order again after a crash."""

    def __init__(self, vector: VersionVector) -> None:
        super().__init__(vector)
        ranked = [(rank, s, n) for s, at in vector.items() for n, rank in at.arrived]
        self._coming = deque((source, number) for _, source, number in sorted(ranked))
        """What has to be received again, in this order, before anything else."""
        self._order: deque[tuple[str, int]] = deque()
        """What was received, from the first on that is not reflected."""
        self._in = {(source, number) for source, at in vector.items() for number in at.also}

    @property
    def is_settled(self) -> bool:
        return not self._coming and super().is_settled

    @property
    def vector(self) -> VersionVector:
        open_still = (*self._order, *self._coming)
        last = max((at for at, one in enumerate(open_still) if one in self._in), default=-1)
        ranks = {one: rank for rank, one in enumerate(open_still[: last + 1], 1)}
        found = {}
        for source, reached in super().vector.items():
            first = next((n for s, n in open_still if s == source), math.inf)
            arrived = tuple((n, rank) for (s, n), rank in ranks.items() if s == source)
            also = tuple(n for n, _ in arrived if (source, n) in self._in)
            if first <= reached.number:
                reached = Reached(int(first) - 1, None)
            found[source] = replace(reached, also=also, arrived=arrived)
        return found

    def may_come(self, source: str, number: int) -> bool:
        """Whether a transaction that changes the view is the one to be received next."""
        if self._coming and self._coming[0][0] == source and self._coming[0][1] < number:
            self._coming.popleft()  # it does not concern the view any more
        return not self._coming or self._coming[0] == (source, number)

    def receive(self, source: str, number: int, position: Position | None) -> None:
        super().receive(source, number, position)
        if self._coming and self._coming[0] == (source, number):
            self._coming.popleft()
        self._order.append((source, number))
        self._close()

    def reflect(self, source: str, number: int, concerns: bool = True) -> None:
        super().reflect(source, number, concerns)
        if concerns:
            self._in.add((source, number))
        else:
            self._order.remove((source, number))
        self._close()

    def _close(self) -> None:
        """Forget what is reflected and has nothing open before it."""
        while self._order and self._order[0] in self._in:
            self._in.discard(self._order.popleft())


def has_reached(vector: VersionVector, targets: Mapping[str, int]) -> bool:
    """Whether a view at this vector reflects all its sources up to these numbers."""
    return all(reached.number >= targets.get(source, 0) for source, reached in vector.items())


def ranges(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """`[1, 2, 3, 7]` as `((1, 3), (7, 7))`."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)
