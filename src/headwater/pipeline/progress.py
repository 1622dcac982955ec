"""What a view reflects: for each source a watermark, and the transactions above it.

Kept by numbers. Transactions are received in order and may be reflected out of order; the
watermark is the last number up to which all are.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.sources.contract import Position
from headwater.warehouse.vectors import Reached, Vector


class SourceProgress:
    """How far one view has come with one source."""

    def __init__(self, reached: Reached) -> None:
        self._reached = reached
        self._above: dict[int, Position | None] = dict.fromkeys(reached.also)
        self._of_no_concern: set[int] = set()
        self.early = frozenset(reached.also)
        """What was reflected above the watermark when this began, and comes again."""

    @property
    def reached(self) -> Reached:
        return self._reached

    def reflect(self, number: int, position: Position | None, concerns: bool = True) -> None:
        """A transaction is reflected from now on; one that does not concern the view always is."""
        self._above[number] = position
        if not concerns:
            self._of_no_concern.add(number)
        watermark, place = self._reached.number, self._reached.position
        while watermark + 1 in self._above:
            watermark += 1
            place = self._above.pop(watermark)
            self._of_no_concern.discard(watermark)
        early = self._above.keys() - self._of_no_concern
        self._reached = Reached(watermark, place, tuple(sorted(early)))


class Progress:
    """How far one view has come with each of its sources."""

    def __init__(self, vector: Vector) -> None:
        self._sources = {source: SourceProgress(at) for source, at in vector.items()}

    @property
    def vector(self) -> Vector:
        return {source: progress.reached for source, progress in self._sources.items()}

    def reflect(
        self, source: str, number: int, position: Position | None, concerns: bool = True
    ) -> None:
        self._sources[source].reflect(number, position, concerns)

    def was_early(self, source: str, number: int) -> bool:
        """Whether a transaction that comes now has been reflected before."""
        return number in self._sources[source].early


def has_reached(vector: Vector, targets: Mapping[str, int]) -> bool:
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
