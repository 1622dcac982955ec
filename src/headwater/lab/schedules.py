"""Schedules: who decides which step comes next. Seeded ones, and replayed ones.

Seeds are spread over styles, so that any few of them show different behaviour: eager ones
answer at once, lazy ones let all updates happen first, adversarial ones hold answers back
while updates come in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeAlias

from headwater.errors import ScenarioError
from headwater.lab.world import Move

Chooser: TypeAlias = Callable[[Sequence[Move]], Move]
"""Called once before every step with what is possible; never with nothing."""

_COMMIT_WEIGHTS = {"eager": 0.05, "lazy": 20.0, "uniform": 1.0, "adversarial": 4.0}
_STYLES = ("uniform", "adversarial", "lazy", "bursts", "eager")


def style_of(seed: int) -> str:
    return _STYLES[seed % len(_STYLES)]


def seeded(seed: int) -> Chooser:
    """The schedule number `seed`: always the same for the same scenario and algorithm."""
    random = Random(seed)
    style = style_of(seed)
    if style == "bursts":
        return _bursts(random)
    weight = _COMMIT_WEIGHTS[style]

    def choose(enabled: Sequence[Move]) -> Move:
        weights = [weight if move.kind == "commit" else 1.0 for move in enabled]
        return random.choices(enabled, weights)[0]

    return choose


def _bursts(random: Random) -> Chooser:
    """A few updates, then a few answers, and so on; the newest question may starve."""
    phase, left = "commit", random.randint(1, 4)

    def choose(enabled: Sequence[Move]) -> Move:
        nonlocal phase, left
        if left == 0:
            phase, left = ("answer" if phase == "commit" else "commit"), random.randint(1, 4)
        left -= 1
        wanted = [a for a in enabled if (a.kind == "commit") == (phase == "commit")]
        return random.choice(wanted or list(enabled))

    return choose


def replayed(schedule: Iterable[Move]) -> Chooser:
    """Exactly these steps, then whatever is left in a fixed order.

    Steps are the same if they read the same: names may have spaces in them.
    """
    steps = iter(enumerate(schedule))

    def choose(enabled: Sequence[Move]) -> Move:
        at, wanted = next(steps, (0, enabled[0]))
        for move in enabled:
            if str(move) == str(wanted):
                return move
        possible = ", ".join(f"'{move}'" for move in enabled)
        raise ScenarioError(
            f"schedule[{at}]: '{wanted}' is not possible at this point.",
            f"Possible are: {possible}.",
        )

    return choose


def parse_schedule(steps: object) -> tuple[Move, ...]:
    """A schedule as files have it: a list of texts such as `commit x` and `answer x`."""
    if not isinstance(steps, list):
        raise ScenarioError("schedule: must be a list of steps.", _STEPS)
    return tuple(_parse_step(step, at) for at, step in enumerate(steps))


_STEPS = (
    "A step is 'commit SOURCE', 'answer SOURCE [QUESTION]', 'deliver SOURCE MESSAGE', 'idle' or "
    "'wake SOURCE'."
)


def _parse_step(step: object, at: int) -> Move:
    kind, _, names = step.partition(" ") if isinstance(step, str) else ("", "", "")
    fewest = {"commit": 1, "answer": 1, "deliver": 2, "idle": 0, "wake": 1}.get(kind)
    if fewest is None or len(names.split()) < fewest or (names and not fewest):
        raise ScenarioError(f"schedule[{at}]: {step!r} is not a step.", _STEPS)
    return Move(kind, names)
