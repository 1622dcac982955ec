"""Every algorithm by name: its paper, what it assumes, what it promises in which scenario.

The promises are data for the lab to check and for users to choose by. Scenarios are the
columns of the Strobe paper's consistency spectrum (Figure 9.3), from the least to the most
demanding:

- centralized: one source, nothing happens while a question is under way;
- single-source: one source, transactions of one update;
- single-source-local: one source, transactions of several updates;
- multi-source: several sources, transactions of one update;
- source-local: several sources, transactions of several updates, each at one source;
- global: transactions over several sources.

A promise for single-source-local holds for single-source, one for source-local for all but global.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.views import View
from headwater.algorithms.conventional import Conventional
from headwater.algorithms.copies import copies
from headwater.algorithms.eca import Eca
from headwater.algorithms.eca_key import eca_key
from headwater.algorithms.eca_local import EcaLocal
from headwater.algorithms.g_strobe import GStrobe
from headwater.algorithms.hosted import Hosted
from headwater.algorithms.in_parts import c_strobe
from headwater.algorithms.lca import Lca
from headwater.algorithms.nested_sweep import nested_sweep
from headwater.algorithms.parts.expected import ASSUMED, Expected
from headwater.algorithms.parts.source_evaluate import next_sources
from headwater.algorithms.parts.view_change import Strategy
from headwater.algorithms.posse import POLICIES, Posse
from headwater.algorithms.pvm import Pvm
from headwater.algorithms.recompute import Recompute, asks_each_once
from headwater.algorithms.rings import RingWarehouse, ring_nodes
from headwater.algorithms.rings_star import REFRESH, StarWarehouse, star_nodes
from headwater.algorithms.strobe import Strobe
from headwater.algorithms.sweep import Least, sweep
from headwater.errors import InputError
from headwater.protocol.managers import Need, Node, ViewManager

SCENARIO_KINDS = (
    "centralized",
    "single-source",
    "single-source-local",
    "multi-source",
    "source-local",
    "global",
)


@dataclass(frozen=True)
class Parameter:
    """A setting of an algorithm; `parse` raises ValueError in words."""

    meaning: str
    default: Any
    parse: Callable[[str], Any]
    needs: Mapping[str, Need] = field(default_factory=dict)
    """What an algorithm needs besides where this has a certain value."""


@dataclass(frozen=True)
class Algorithm:
    name: str
    paper: str
    summary: str
    make: Callable[..., ViewManager[Any]]
    promises: Mapping[str, str]
    """The level promised in each kind of scenario, by name."""
    needs: frozenset[Need] = frozenset()
    """What it needs of its host and of the view, whatever its parameters."""
    also_assumes: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    joins_global: bool = True
    """Whether it gets global transactions whole, joined by the integrator."""
    nodes: Callable[..., Mapping[str, Node[Any]]] | None = None
    """Makes the nodes beside the sources, by source, for a protocol in which they take part."""
    channels: str = "fifo"
    """The channels that the lab gives it unless told otherwise."""
    unsure: Callable[[View], str] = lambda view: ""
    """Why the transactions that it names would not tell which state such a view shows; empty if
    they do."""
    waits: bool = False
    """Whether it shows nothing while a question is unanswered."""
    slows_down: bool = False
    """Whether an event costs it more the more transactions wait."""
    looks_ahead: bool = False
    """Whether what its questions are expected to find is given to `make` too."""

    def needs_with(self, settings: Mapping[str, str]) -> frozenset[Need]:
        """What it needs with these parameters."""
        wanted = (self.parameters[name].needs.get(text) for name, text in settings.items())
        return self.needs.union(need for need in wanted if need is not None)

    @property
    def is_given_wholes(self) -> bool:
        """Whether the running system hands global transactions over whole: not to one that commits
        early, to which everything has to come again in the order in which it came."""
        return self.joins_global and Need.EARLY not in self.needs

    @property
    def assumes(self) -> tuple[str, ...]:
        """What must hold so that it keeps its promises, in sentences."""
        return (*(need.value for need in Need if need in self.needs), *self.also_assumes)


_BY_KEY = frozenset({Need.KEYS, Need.BY_KEY})
"""Rows are deleted by key, and added where the view does not have them."""


def _at_least_one(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ValueError(f"'{text}' is not a whole number from 1 on")


def _promises(*levels: str) -> dict[str, str]:
    return dict(zip(SCENARIO_KINDS, levels, strict=True))


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text in choices:
            return text
        raise ValueError(f"'{text}' is none of {', '.join(choices)}")

    return parse


_BATCH = Parameter(
    "take up to this many waiting transactions at once; above 1 strong", 1, _at_least_one
)
_EVERY = Parameter(
    "update the view after this many updates, once more when idle; above 1 strong",
    1,
    _at_least_one,
)
_DEPTH = Parameter("how often one pass takes concurrent updates along", 4, _at_least_one)
_POLICY = Parameter("which probes go together", POLICIES[0], _one_of(*POLICIES))
_GATHER = Parameter(
    "take an item's waiting transactions in together; off: one at a time, complete",
    "on",
    _one_of("on", "off"),
)
_PROBES = Parameter(
    "which relation a sweep asks first; least: where the fewest partners are expected",
    "nearest",
    _one_of("nearest", "least"),
)
_PVM_PARAMETERS = {
    "p": Parameter("how many updates are in work at once", 4, _at_least_one),
    "handle": Parameter(
        "how one update is handled; nested-sweep makes it strong",
        "sweep",
        _one_of("sweep", "nested-sweep", "posse"),
    ),
    "policy": _POLICY,
    "depth": _DEPTH,
    "batch": _BATCH,
    "order": _PROBES,
}


def _sweep(order: str, expected: Expected) -> Strategy:
    return Least(expected) if order == "least" else sweep


def _pvm(
    view: View,
    in_order: bool,
    *,
    p: int,
    handle: str,
    policy: str,
    depth: int,
    batch: int,
    order: str,
    expected: Expected,
) -> Pvm:
    strategies: dict[str, Strategy] = {
        "sweep": _sweep(order, expected),
        "nested-sweep": nested_sweep,
        "posse": Posse(policy, expected),
    }
    absorbs = depth if handle == "nested-sweep" else 0
    return Pvm(view, p, in_order, strategies[handle], batch, absorbs)


_WAITING = Parameter("ask for up to this many waiting transactions in one query", 1, _at_least_one)
_STROBE_PARAMETERS = {
    "order": Parameter(
        "which source is asked first; least: where the fewest partners are expected",
        "leftmost",
        _one_of(*next_sources(ASSUMED)),
    ),
    "local": Parameter(
        "take insertions in without asking where the view shows their partners by key",
        "off",
        _one_of("off", "on"),
        {"on": Need.CONTENTS},
    ),
    "fetch": Parameter(
        "have sources send partners alone, which are joined at the warehouse: fewer bytes",
        "off",
        _one_of("off", "on"),
    ),
    "batch": _WAITING,
}


def _strobe_options(
    *, order: str, local: str, fetch: str, batch: int, expected: Expected
) -> dict[str, Any]:
    return {
        "order": next_sources(expected)[order],
        "local": local == "on",
        "fetch": fetch == "on",
        "batch": batch,
    }


def _mixes_states(view: View) -> str:
    if asks_each_once(view):
        return ""
    return "would ask a source of the view twice for one state of it"


def _counts_below_zero(view: View) -> str:
    if view.copies:
        return "takes transactions in before earlier ones, and then a copy is of no moment"
    if view.top is not None or view.members:
        return "shows counts below zero meanwhile, of which no more than a join can be computed"
    return ""


def _t_strobe(view: View, *, parts: str, **options: Any) -> Strobe:
    chosen = _strobe_options(**options)
    if parts == "held":
        return GStrobe(view, "t-strobe", waits_for_parts=False, **chosen)
    return Strobe(view, "t-strobe", whole_transactions=True, **chosen)


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "conventional",
            "ECA, Algorithm 5.1; Strobe, Example 0",
            "asks what each update changes and adds the answer; shows the anomalies",
            Conventional,
            _promises("complete", *["none"] * 5),
            needs=frozenset({Need.SILENCE, Need.BY_KEY}),
            joins_global=False,
        ),
        Algorithm(
            "recompute",
            "ECA, Algorithm D.1 (RV)",
            "asks for the whole view again every few updates, and once more when idle",
            Recompute,
            _promises("complete", *["strong"] * 2, *["convergent"] * 3),
            needs=frozenset({Need.REPLACE, Need.IDLE}),
            also_assumes=("the whole view is cheap enough to move",),
            parameters={"every": Parameter("recompute after this many updates", 1, _at_least_one)},
            unsure=_mixes_states,
            joins_global=False,
        ),
        Algorithm(
            "eca",
            "ECA, Algorithm 5.2",
            "compensates queries under way for each update that arrives",
            Eca,
            _promises("complete", *["strong"] * 2, *["none"] * 3),
            needs=frozenset({Need.ONE_SOURCE}),
            parameters={"batch": _WAITING},
            waits=True,
        ),
        Algorithm(
            "eca-key",
            "ECA, section 5.4 (ECA-Key), repaired",
            "deletes by key at the warehouse and asks for insertions without compensation",
            eca_key,
            _promises("complete", *["strong"] * 2, *["none"] * 3),
            needs=_BY_KEY | {Need.ONE_SOURCE},
            parameters={"batch": _WAITING},
            waits=True,
        ),
        Algorithm(
            "eca-local",
            "ECA, section 5.5 (ECA-Local)",
            "as eca, but takes in without asking what the view itself can tell",
            EcaLocal,
            _promises("complete", *["strong"] * 2, *["none"] * 3),
            needs=frozenset({Need.ONE_SOURCE, Need.CONTENTS, Need.BY_KEY}),
            parameters={"batch": _WAITING},
            waits=True,
        ),
        Algorithm(
            "lca",
            "ECA, end of section 5.3 (LCA)",
            "as eca, but applies each update by itself when all its answers are there",
            Lca,
            _promises(*["complete"] * 3, *["none"] * 3),
            needs=frozenset({Need.ONE_SOURCE}),
            slows_down=True,
        ),
        Algorithm(
            "strobe",
            "Strobe, section 5.2",
            "puts deletions by key and answers for insertions on a list, applied when silent",
            lambda view, **options: Strobe(view, **_strobe_options(**options)),
            _promises("complete", "strong", "convergent", "strong", *["convergent"] * 2),
            needs=_BY_KEY,
            parameters=_STROBE_PARAMETERS,
            joins_global=False,
            waits=True,
            looks_ahead=True,
        ),
        Algorithm(
            "t-strobe",
            "Strobe, section 6.1 (T-Strobe)",
            "as strobe, with whole transactions of one source as units",
            _t_strobe,
            _promises("complete", *["strong"] * 4, "weak"),
            needs=_BY_KEY,
            parameters={
                **_STROBE_PARAMETERS,
                "parts": Parameter(
                    "what parts of global transactions are; held (Example 4, lab): below weak",
                    "local",
                    _one_of("local", "held"),
                    {"held": Need.SPANS},
                ),
            },
            waits=True,
            joins_global=False,
            looks_ahead=True,
        ),
        Algorithm(
            "g-strobe",
            "Strobe, section 6.2 (G-Strobe), repaired",
            "as t-strobe, with whole global transactions as units",
            lambda view, **options: GStrobe(view, **_strobe_options(**options)),
            _promises("complete", *["strong"] * 5),
            needs=_BY_KEY,
            also_assumes=("sites report their own parts, or reports are numbered",),
            parameters=_STROBE_PARAMETERS,
            waits=True,
            looks_ahead=True,
        ),
        Algorithm(
            "c-strobe",
            "Strobe, section 7 (C-Strobe), repaired",
            "takes one update at a time and asks for what later deletions hid from the answers",
            lambda view, every: c_strobe(view, every=every),
            _promises("complete", "complete", "convergent", "complete", *["convergent"] * 2),
            needs=_BY_KEY | {Need.IDLE},
            parameters={"every": _EVERY},
            joins_global=False,
            slows_down=True,
        ),
        Algorithm(
            "c-t-strobe",
            "Strobe, section 7 (C-TStrobe), repaired",
            "as c-strobe, with whole transactions as units",
            lambda view, every: c_strobe(view, whole_transactions=True, every=every),
            _promises(*["complete"] * 6),
            needs=_BY_KEY | {Need.IDLE},
            parameters={"every": _EVERY},
            slows_down=True,
        ),
        Algorithm(
            "sweep",
            "PVM, sections 2 and 3, Figure 14 with one process (SWEEP)",
            "probes one source after the other and compensates each answer locally",
            lambda view, batch, order, expected: Pvm(
                view, p=1, strategy=_sweep(order, expected), batch=batch
            ),
            _promises(*["complete"] * 6),
            parameters={"batch": _BATCH, "order": _PROBES},
            looks_ahead=True,
        ),
        Algorithm(
            "nested-sweep",
            "PVM, section 8 (Nested SWEEP)",
            "a sweep that takes concurrent updates along; fewer questions",
            lambda view, depth, batch: Pvm(
                view, p=1, strategy=nested_sweep, depth=depth, batch=batch
            ),
            _promises("complete", *["strong"] * 5),
            parameters={"depth": _DEPTH, "batch": _BATCH},
        ),
        Algorithm(
            "posse",
            "PVM, section 8 (POSSE)",
            "sends the probes of one update together and joins at the warehouse",
            lambda view, policy, batch, expected: Pvm(
                view, p=1, strategy=Posse(policy, expected), batch=batch
            ),
            _promises(*["complete"] * 6),
            parameters={"policy": _POLICY, "batch": _BATCH},
            looks_ahead=True,
        ),
        Algorithm(
            "pvm",
            "PVM, section 3, Figure 14",
            "handles several updates at once and commits each as soon as it is ready",
            lambda view, **settings: _pvm(view, False, **settings),
            _promises("complete", *["convergent"] * 5),
            needs=frozenset({Need.EARLY}),
            parameters=_PVM_PARAMETERS,
            unsure=_counts_below_zero,
            looks_ahead=True,
        ),
        Algorithm(
            "pvm-cc",
            "PVM, section 4.2, Figure 17 (PVM CC)",
            "handles several updates at once and commits them in order of arrival",
            lambda view, **settings: _pvm(view, True, **settings),
            _promises(*["complete"] * 6),
            parameters=_PVM_PARAMETERS,
            looks_ahead=True,
        ),
        Algorithm(
            "copies",
            "ECA, section 1.2 (SC)",
            "keeps copies of all base relations at the warehouse and asks nothing",
            copies,
            _promises(*["complete"] * 6),
            needs=frozenset({Need.COPIES}),
        ),
        Algorithm(
            "rings",
            "Rings, sections 4.2 and 5, Figure 1, repaired",
            "a token goes round the sources for ever and collects what their updates change",
            lambda view, gather: RingWarehouse(view),
            _promises("complete", *["strong"] * 4, "weak"),
            needs=frozenset({Need.MESSAGES, Need.IDLE}),
            also_assumes=("nodes can reach each other",),
            parameters={"gather": _GATHER},
            joins_global=False,
            nodes=lambda view, gather: ring_nodes(view, gather == "on"),
            channels="unordered",
        ),
        Algorithm(
            "rings-star",
            "Rings, section 4.4, Figure 2, repaired",
            "sends a token from source to source when there are updates, and nothing otherwise",
            lambda view, gather, refresh, every: StarWarehouse(view, refresh),
            _promises("complete", *["strong"] * 4, "weak"),
            needs=frozenset({Need.MESSAGES, Need.IDLE}),
            parameters={
                "gather": _GATHER,
                "refresh": Parameter(
                    "when the token is wanted: at an update, at a quantity of them, by a clock, "
                    "or when the view is queried",
                    REFRESH[0],
                    _one_of(*REFRESH),
                ),
                "every": Parameter(
                    "with refresh=quantity: want the token at this many transactions",
                    2,
                    _at_least_one,
                ),
            },
            joins_global=False,
            nodes=lambda view, gather, refresh, every: star_nodes(
                view, gather == "on", refresh, every
            ),
            channels="unordered",
        ),
    )
}


def algorithm(name: str) -> Algorithm:
    """The algorithm of that name; InputError lists the ones there are."""
    if found := ALGORITHMS.get(name):
        return found
    close = difflib.get_close_matches(name, ALGORITHMS, 1)
    guess = f"Did you mean '{close[0]}'? " if close else ""
    raise InputError(
        f"There is no algorithm '{name}'.", f"{guess}There are: {', '.join(ALGORITHMS)}."
    )


def make_manager(
    chosen: Algorithm, view: View, settings: Mapping[str, str], expected: Expected = ASSUMED
) -> ViewManager[Any]:
    """A view manager with these settings; InputError names what does not exist or fit."""
    values = _values(chosen, settings)
    return chosen.make(view, **values, **({"expected": expected} if chosen.looks_ahead else {}))


def make_nodes(
    chosen: Algorithm, view: View, settings: Mapping[str, str]
) -> Mapping[str, Node[Any]]:
    """The nodes beside the sources, by source; none if the algorithm has none."""
    return chosen.nodes(view, **_values(chosen, settings)) if chosen.nodes else {}


def make_hosted(
    chosen: Algorithm, view: View, settings: Mapping[str, str], expected: Expected = ASSUMED
) -> ViewManager[Any]:
    """A view manager that brings its nodes along, for a host that has none."""
    manager = make_manager(chosen, view, settings, expected)
    if chosen.nodes is None:
        return manager
    restless = "refresh" not in chosen.parameters
    return Hosted(manager, make_nodes(chosen, view, settings), restless)


def _values(chosen: Algorithm, settings: Mapping[str, str]) -> dict[str, Any]:
    values = {name: parameter.default for name, parameter in chosen.parameters.items()}
    for name, text in settings.items():
        parameter = chosen.parameters.get(name)
        if parameter is None:
            known = ", ".join(chosen.parameters) or "none"
            raise InputError(
                f"{chosen.name} has no parameter '{name}'.", f"Its parameters: {known}."
            )
        try:
            values[name] = parameter.parse(text)
        except ValueError as error:
            raise InputError(
                f"--set {name}={text}: {error}.", f"It means: {parameter.meaning}."
            ) from None
    return values
