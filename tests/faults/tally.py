"""How often each action was followed by what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts each action under what became of it when everything was run to the end.

    `right`: all views were. `put right`: a command failed with a sentence, and what it asked for
    made them right. `not possible`: there was nothing to do it to.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    rounds: int = 0
    _since: list[str] = field(default_factory=list)
    _has_stopped: bool = False

    def begin(self) -> None:
        self.rounds += 1
        self._since, self._has_stopped = [], False

    def took(self, action: str, done: bool) -> None:
        if done:
            self._since.append(action)
        else:
            self.outcomes[action, "not possible"] += 1

    def stopped(self) -> None:
        self._has_stopped = True

    def right(self) -> None:
        outcome = "put right" if self._has_stopped else "right"
        self.outcomes.update((action, outcome) for action in self._since)
        self._since, self._has_stopped = [], False

    def __str__(self) -> str:
        columns = ("right", "put right", "not possible")
        lines = [f"{f'{self.rounds} rounds':36}" + "".join(f"{column:>14}" for column in columns)]
        for action in sorted({action for action, _ in self.outcomes}):
            counts = [self.outcomes[action, column] for column in columns]
            lines.append(f"{action:36}" + "".join(f"{count:14,}" for count in counts))
        return "\n".join(lines)
