"""All algorithms on one workload beside each other, and beside the one that is chosen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import median

from headwater.algorithms.registry import ALGORITHMS
from headwater.bench.algorithms.measure import Maintained, Measured
from headwater.bench.algorithms.workload import Templates, Workload
from headwater.check.levels import Level
from headwater.project.choice import is_only_by_name, promised, usable, variants

CHOSEN = "chosen"
_WARM_UP = 3
_PAUSE_S = 0.02

Say = Callable[[str], None]
Figure = Callable[[Measured], float]


@dataclass(frozen=True)
class Entry:
    """What is measured: a header of a view."""

    name: str
    header: str
    keeps: bool
    """Whether it keeps the level that the others are compared at."""

    @property
    def algorithm(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def names(self) -> tuple[str, str]:
        """Without its parameters, and with them."""
        return self.algorithm, self.name

    @property
    def may_be_chosen(self) -> bool:
        """Whether the chooser takes it, too, and not only USING."""
        algorithm = ALGORITHMS.get(self.algorithm)
        return self.keeps and (algorithm is None or not is_only_by_name(algorithm))


@dataclass
class Comparison:
    """What was found on one workload, on seeds that the chooser never saw."""

    workload: Workload
    level: Level
    seeds: list[int] = field(default_factory=list)
    found: dict[str, Measured] = field(default_factory=dict)
    """By the name of the entry."""
    choices: list[str] = field(default_factory=list)
    """What was chosen, on each seed."""
    entries: dict[str, Entry] = field(default_factory=dict)

    def best(self, figure: Figure, choosable: bool = False) -> tuple[str, float]:
        """The entry that keeps the level with the least of something, and how much that is; only
        of those that may be chosen, if so wanted."""
        able = [
            name
            for name, entry in self.entries.items()
            if (entry.may_be_chosen if choosable else entry.keeps) and name != CHOSEN
        ]
        least = min(able, key=lambda name: figure(self.found[name]))
        return least, figure(self.found[least])

    def ratio(self, figure: Figure, choosable: bool = False) -> float:
        """How many times as dear the chosen one was as the best, itself included."""
        chosen = figure(self.found[CHOSEN])
        least = min(chosen, self.best(figure, choosable)[1])
        return 1.0 if chosen == least else chosen / least if least else float("inf")

    @property
    def noise(self) -> float:
        """How much the two halves of a run differ, typically: the measure's own error."""
        ratios = []
        for measured in self.found.values():
            half = measured.transactions // 2
            a, b = median(measured.freshness_s[:half]), median(measured.freshness_s[half:])
            ratios.append(max(a, b) / min(a, b))
        return median(ratios)


def entries(workload: Workload, level: Level) -> list[Entry]:
    """Every algorithm that maintains real views of such a workload, and none by name.

    Those that may be chosen have all parameters among which the chooser chooses, so that it is
    compared with all that it could have taken.
    """
    found = []
    for name in usable(Level.CONVERGENT, workload.sources):
        algorithm = ALGORITHMS[name]
        kept = min(level, promised(algorithm, {}, workload.sources))
        is_choosable = kept >= level and not is_only_by_name(algorithm)
        for parameters in variants(algorithm) if is_choosable else [{}]:
            listed = ", ".join(f"{key} = {value}" for key, value in parameters.items())
            told = f" ({listed})" if listed else ""
            header = f"WITH {_word(kept)} USING {name}{told}"
            found.append(Entry(name + told, header, kept >= level))
    return [*found, Entry(CHOSEN, f"WITH {_word(level)}", True)]


def _word(level: Level) -> str:
    return "CONVERGENCE" if level == Level.CONVERGENT else str(level).upper()


def compare(
    templates: Templates,
    workload: Workload,
    level: Level,
    measured: Sequence[Entry],
    seen: Sequence[int],
    seeds: Sequence[int],
    distance_s: float,
    say: Say,
) -> Comparison:
    """Let the chooser measure on the seeds that it may see, then compare on the others."""
    known = _calibrated(templates, workload, level, seen, distance_s, say)
    comparison = Comparison(workload, level, list(seeds))
    for seed in seeds:
        listed = list(measured)
        Random(seed).shuffle(listed)
        with _all_at_work(templates, workload, listed, seed, known, distance_s) as at_work:
            say(f"{workload.title}, seed {seed}: {at_work[CHOSEN].choice} is chosen")
            comparison.choices.append(at_work[CHOSEN].choice)
            _take_turns(list(at_work.values()), workload.rounds)
            for entry in listed:
                found = at_work[entry.name].measured()
                before = comparison.found.get(entry.name)
                comparison.found[entry.name] = before + found if before else found
                comparison.entries[entry.name] = entry
    return comparison


def _calibrated(
    templates: Templates,
    workload: Workload,
    level: Level,
    seeds: Sequence[int],
    distance_s: float,
    say: Say,
) -> bytes | None:
    """The statistics of a warehouse that was restarted after each of these seeds."""
    known = None
    for seed in seeds:
        header = f"WITH {_word(level)}"
        maintained = Maintained(templates, workload, header, seed, known, distance_s)
        say(f"{workload.title}, calibrating on seed {seed}: {maintained.choice}")
        try:
            _take_turns([maintained], workload.rounds)
        finally:
            known = maintained.stop()
    return known


@contextmanager
def _all_at_work(
    templates: Templates,
    workload: Workload,
    listed: Sequence[Entry],
    seed: int,
    known: bytes | None,
    distance_s: float,
) -> Iterator[dict[str, Maintained]]:
    with ExitStack() as stack:
        found = {}
        for entry in listed:
            given = known if entry.name == CHOSEN else None
            maintained = Maintained(templates, workload, entry.header, seed, given, distance_s)
            stack.callback(maintained.stop)
            found[entry.name] = maintained
        yield found


def _take_turns(at_work: Sequence[Maintained], rounds: int) -> None:
    warm_up = min(_WARM_UP, rounds // 4)
    for number in range(rounds):
        if number == warm_up:
            for maintained in at_work:
                maintained.warmed_up()
        first = number % len(at_work)
        for maintained in (*at_work[first:], *at_work[:first]):
            maintained.round()
            time.sleep(_PAUSE_S)
