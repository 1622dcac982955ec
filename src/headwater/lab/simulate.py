"""From a scenario, an algorithm's name and settings to a simulation ready to run."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.algebra.values import Json
from headwater.algorithms.integrator import AnyIntegrator, ByNumber, Integrator
from headwater.algorithms.registry import Algorithm, algorithm, make_manager, make_nodes
from headwater.errors import InputError
from headwater.lab.reports import COMMITTER, NUMBERED, SITES
from headwater.lab.scenario import Object, Scenario
from headwater.lab.world import Move, Simulation
from headwater.protocol.managers import Need

LAB_SETTINGS = {
    "channels": {
        "fifo": "messages of one source arrive in the order in which they were sent",
        "updates": "updates of one source arrive in order, answers whenever they do",
        "unordered": "messages may overtake each other",
    },
    "timing": {
        "free": "sources go on whatever the warehouse does",
        "serial": "a source executes a transaction only when nothing else goes on",
    },
    "report": {
        SITES: "every site reports its own part of a global transaction",
        COMMITTER: "the site that commits last reports the whole, the others are silent",
        NUMBERED: "as committer, with numbers: of transactions in reports and answers",
    },
    "integrator": {
        "default": "on for algorithms that want global transactions whole",
        "on": "a global transaction is passed on whole, and nothing overtakes it",
        "off": "every message is passed on as it comes",
    },
}
"""Settings of the lab itself, beside those of algorithms: what each choice means, default first,
except that each algorithm has its own for channels."""


_WITHOUT_NODES = {
    "integrator": ("on",),
    "report": (COMMITTER, NUMBERED),
    "channels": ("updates",),
}
"""What is for algorithms alone that have no nodes at the sources."""


def simulate(
    scenario: Scenario, name: str, settings: Mapping[str, str] | None = None
) -> Simulation:
    """A simulation of the algorithm `name`; InputError for what does not exist or fit."""
    chosen = algorithm(name)
    given = dict(settings or {})
    given.setdefault("channels", chosen.channels)
    lab = {key: _choice(key, given.pop(key, "")) for key in LAB_SETTINGS}
    for key, refused in _WITHOUT_NODES.items():
        if chosen.nodes and lab[key] in refused:
            raise InputError(
                f"--set {key}={lab[key]}: {name} has a node at each source.",
                "Leave it out.",
            )
    joins = {"default": chosen.joins_global, "on": True, "off": False}[lab["integrator"]]
    hides_keys = scenario.keeps_keys and Need.KEYS in chosen.needs
    view = scenario.view.with_keys() if hides_keys else scenario.view
    return Simulation(
        scenario,
        make_manager(chosen, view, given),
        integrator=_integrator(lab["report"]) if joins else None,
        ordered=lab["channels"] != "unordered",
        answers_ordered=lab["channels"] == "fifo",
        way=lab["report"],
        serial=lab["timing"] == "serial",
        nodes=make_nodes(chosen, scenario.view, given),
        copied=_copied(scenario, chosen),
    )


def _copied(scenario: Scenario, chosen: Algorithm) -> frozenset[str]:
    """The relations of which copies are kept: for an algorithm that needs that, all of them."""
    if Need.COPIES in chosen.needs:
        return frozenset(relation.name for relation in scenario.view.relations)
    return frozenset() if chosen.nodes else scenario.keeps_copies


def _integrator(way: str) -> AnyIntegrator:
    return ByNumber() if way == NUMBERED else Integrator()


def run_to_replay(
    scenario: Scenario,
    name: str,
    settings: Mapping[str, str],
    schedule: tuple[Move, ...] | None,
) -> Object | None:
    """The scenario together with one run of it: what `lab replay` takes."""
    if schedule is None:
        return None
    kept = {k: v for k, v in scenario.data.items() if k not in ("schedule", "expect", "about")}
    steps: list[Json] = [str(move) for move in schedule]
    return kept | {"algorithm": name, "set": dict(settings), "schedule": steps}


def _choice(key: str, given: str) -> str:
    choices = tuple(LAB_SETTINGS[key])
    if given and given not in choices:
        raise InputError(
            f"--set {key}={given}: there is no such choice.", f"Choose {_or(choices)}."
        )
    return given or choices[0]


def _or(choices: tuple[str, ...]) -> str:
    return " or ".join(choices)


def scenario_kind(scenario: Scenario) -> str:
    """The column of the consistency spectrum that a scenario belongs to."""
    if any(len(transaction.spans) > 1 for transaction in scenario.transactions):
        return "global"
    several = any(len(transaction.updates) > 1 for transaction in scenario.transactions)
    if len(scenario.sources) == 1:
        return "single-source-local" if several else "single-source"
    return "source-local" if several else "multi-source"
