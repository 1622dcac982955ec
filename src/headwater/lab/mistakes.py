"""What is wrong in the five papers as printed: each with a scenario that shows it, and its repair.

A mistake has the printed form as a machine, and the form that ships; `examine` explores all
schedules of the scenario with both. What the printed form reaches is its proof, what the repaired
one keeps the repair's, on that scenario; `lab spectrum` has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headwater.check.levels import Level
from headwater.lab.explore import Exploration, explore
from headwater.lab.library import counterexample, example
from headwater.lab.reports import NUMBERED
from headwater.lab.run import Run, run
from headwater.lab.scenario import Scenario
from headwater.lab.schedules import replayed
from headwater.lab.shrink import shrink_schedule
from headwater.lab.simulate import simulate
from headwater.lab.weakened import c_strobe, eca, pvm, rings, strobe
from headwater.lab.world import Simulation

Build: TypeAlias = Callable[[Scenario], Simulation]
MOST_STATES = 20_000
"""A ring's token never stops, so some scenarios have very many schedules."""


@dataclass(frozen=True)
class Mistake:
    """Something that does not hold as printed."""

    name: str
    paper: str
    where: str
    wrong: str
    """What goes wrong as printed."""
    holds: str
    """The repair."""
    printed: Build
    repaired: tuple[str, Mapping[str, str]]
    """The algorithm that ships, with its settings."""
    is_example: bool = False
    """Whether its scenario is one of the shipped examples."""
    shown_by: str = ""
    """The scenario, if it has another name."""

    @property
    def scenario(self) -> Scenario:
        name = self.shown_by or self.name
        return example(name) if self.is_example else counterexample(name)


@dataclass(frozen=True)
class Examined:
    """All schedules of a mistake's scenario."""

    mistake: Mistake
    printed: Exploration
    repaired: Exploration


def examine(mistake: Mistake) -> Examined:
    scenario = mistake.scenario
    name, settings = mistake.repaired
    return Examined(
        mistake,
        explore(mistake.printed(scenario), MOST_STATES),
        explore(simulate(scenario, name, settings), MOST_STATES),
    )


def shortest(found: Examined) -> Run:
    """A shortest run of the printed form that is wrong, with answers as early as possible."""
    schedule = found.printed.counterexample
    assert schedule is not None, "the printed form is right in every run"
    simulation = found.mistake.printed(found.mistake.scenario)
    return run(simulation, replayed(shrink_schedule(simulation, schedule)))


def is_shown(found: Examined) -> bool:
    """Whether the printed form reaches less than the repaired one."""
    return Level(found.printed.level) < found.repaired.level


def _registered(name: str, **settings: str) -> Build:
    return lambda scenario: simulate(scenario, name, settings)


def _eca_key(scenario: Scenario) -> Simulation:
    return Simulation(scenario, eca.ForgetsDeletions(scenario.view, whole_transactions=True))


def _numbered(scenario: Scenario) -> Simulation:
    manager = simulate(scenario, "g-strobe", {"report": NUMBERED}).manager
    return Simulation(scenario, manager, strobe.NumbersUpdatesOnly(), way=NUMBERED)


def _local(scenario: Scenario) -> Simulation:
    return Simulation(scenario, strobe.LooksIntoTheViewAsItWas(scenario.view, local=True))


def _of(*mistakes: Mistake) -> Mapping[str, Mistake]:
    return {mistake.name: mistake for mistake in mistakes}


_PVM: tuple[str, Mapping[str, str]] = ("pvm", {"p": "2"})
MISTAKES: Mapping[str, Mistake] = _of(
    Mistake(
        "recompute-without-a-last-one",
        "ECA",
        "Algorithm D.1 (RV)",
        "The view is recomputed after every s updates. What comes after the last multiple of s "
        "is never shown.",
        "A last recomputation when nothing goes on; one at a time.",
        lambda s: Simulation(s, eca.WithoutALastOne(s.view, every=2)),
        ("recompute", {"every": "2"}),
    ),
    Mistake(
        "eca-transaction-by-parts",
        "ECA",
        "section 5, for transactions over several relations",
        "The query for a transaction is the sum of the queries for its updates. New rows of two "
        "relations meet each other in both, and count twice.",
        "Inclusion and exclusion over the sets of changed relations.",
        lambda s: Simulation(s, eca.CompensatesByParts(s.view)),
        ("eca", {}),
    ),
    Mistake(
        "eca-key-as-printed",
        "ECA",
        "section 5.4 (ECA-Key)",
        "A row is deleted by key while a query that involves it is under way. Its answer brings "
        "the row back, and no later deletion takes it away.",
        "Deletions are kept for each query under way and applied to its answer, as in Strobe.",
        _eca_key,
        ("eca-key", {}),
    ),
    Mistake(
        "strobe-4-another-row",
        "Strobe",
        "section 6.1, Example 4 (T-Strobe with a holding queue)",
        "A part of a global transaction waits in a queue, while an answer already shows its rows: "
        "the view is that of no vector of source states.",
        "Parts are taken as local transactions: weak, not more.",
        _registered("t-strobe", parts="held"),
        ("t-strobe", {}),
        is_example=True,
    ),
    Mistake(
        "g-strobe-overtaken",
        "Strobe",
        "section 6.2 (G-Strobe)",
        "A part that waits is overtaken by a later transaction of its source, which deletes what "
        "the part inserts: the row stays for ever.",
        "Nothing overtakes a part of its source that waits.",
        _registered("g-strobe", integrator="off"),
        ("g-strobe", {}),
        is_example=True,
    ),
    Mistake(
        "g-strobe-numbers-on-updates-alone",
        "Strobe",
        "section 6.2, where one site reports for others",
        "Reports are numbered and put into order, answers are not: an answer shows what is yet "
        "to be reported.",
        "Answers carry numbers too, and wait for the reports that they reflect.",
        _numbered,
        ("g-strobe", {"report": NUMBERED}),
        is_example=True,
        shown_by="strobe-4-another-row",
    ),
    Mistake(
        "c-strobe-as-printed",
        "Strobe",
        "section 7 (C-Strobe), line 16",
        "What the view shows of two rows is compared. Where a join column is not shown, a row "
        "that went and came back with another value there looks the same.",
        "Delta is kept in whole base rows, whole rows are compared, the projection comes last.",
        lambda s: Simulation(s, c_strobe.AsPrinted(s.view)),
        ("c-strobe", {}),
    ),
    Mistake(
        "strobe-local-as-printed",
        "Strobe",
        "section 9, item 3",
        "An insertion is answered from the view, whose row lives on only because a deletion that "
        "was received is not applied yet.",
        "The view is looked into with the action list applied.",
        _local,
        ("strobe", {"local": "on"}),
    ),
    Mistake(
        "rings-counts-from-zero",
        "Rings",
        "Figure 1, lines 3 and 15",
        "The sequence number is increased before it is sent, and the warehouse waits for 0: the "
        "first increment is never taken.",
        "The warehouse begins with 1.",
        rings.WEAKENED["rings-counts-from-zero"],
        ("rings", {}),
    ),
    Mistake(
        "rings-star-gives-up-at-the-last-holder",
        "Rings",
        "Figure 2, lines 31 to 36",
        "The loop tests x where it means y and steps from i, so it never ends. Made to end, it "
        "still gives up at the last holder, whose request may have overtaken the token: the update "
        "is lost.",
        "Step from y, test y, and serve the last holder too if it has asked.",
        rings.WEAKENED["rings-star-gives-up-at-the-last-holder"],
        ("rings-star", {}),
    ),
    Mistake(
        "rings-every-ring-in-its-own-order",
        "Rings",
        "section 5, views of several terms",
        "Tokens wait for each other at different items, for ever.",
        "One global order of items for all rings; tokens meet at every item that they share.",
        rings.WEAKENED["rings-every-ring-in-its-own-order"],
        ("rings", {}),
    ),
    Mistake(
        "rings-leaves-out-empty-parts",
        "Rings",
        "section 5, views of several terms",
        "An increment that is null is not sent, so the warehouse waits for a part that never "
        "comes.",
        "Empty parts are announced.",
        rings.WEAKENED["rings-leaves-out-empty-parts"],
        ("rings", {}),
    ),
    Mistake(
        "any-other-is-concurrent",
        "PVM",
        "Figure 14, isConcurrent",
        "Every update in the three sets is taken out of an answer, also one that was received "
        "before the update in hand, which the answer is to contain.",
        "Only updates that were received after the one in hand are concurrent.",
        pvm.WEAKENED["any-other-is-concurrent"],
        _PVM,
    ),
    Mistake(
        "empty-means-not-ready",
        "PVM",
        "Figure 17 (PVM CC)",
        "An empty delta means 'not ready': an update without effect blocks the queue for ever.",
        "A flag says whether an update is ready.",
        pvm.WEAKENED["empty-means-not-ready"],
        ("pvm-cc", {"p": "2"}),
    ),
    Mistake(
        "takes-one-relation-along",
        "PVM",
        "section 8 (Nested SWEEP)",
        "A sweep takes concurrent updates of one relation along, and leaves earlier ones of the "
        "same source: the view shows no state that source had.",
        "All updates of the source up to there are taken along.",
        pvm.WEAKENED["takes-one-relation-along"],
        ("nested-sweep", {"depth": "1"}),
    ),
    Mistake(
        "absorbs-beside-others",
        "PVM",
        "section 8 (Nested SWEEP) within PVM",
        "A sweep takes a later update along while another one has an earlier update of the same "
        "source in work: they commit in the wrong order.",
        "Nothing is absorbed while an earlier update of its source is in work.",
        pvm.WEAKENED["absorbs-beside-others"],
        ("pvm-cc", {"p": "2", "handle": "nested-sweep"}),
    ),
)
