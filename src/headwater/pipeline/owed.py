"""The questions of one view that its sources have not answered, or whose answers wait."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.protocol.effects import Ask


class Owed:
    """By label, what was asked; by source, how many answers are to come."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._coming = dict.fromkeys(sources, 0)
        self._asked: dict[str, Ask] = {}

    def by(self, source: str) -> bool:
        """Whether an answer of a source is waited for."""
        return self._coming[source] > 0

    def ask(self, ask: Ask) -> Ask:
        self._coming[ask.source] += 1
        self._asked[ask.label] = ask
        return ask

    def ask_again(self, label: str) -> Ask:
        """A question whose answer has come and cannot be used."""
        return self.ask(self._asked[label])

    def arrived(self, source: str) -> None:
        """An answer has come."""
        self._coming[source] -= 1

    def used(self, label: str) -> None:
        """The manager has the answer."""
        del self._asked[label]
