"""Every algorithm by name: its paper, what it assumes, what it promises in which scenario.

The promises are data for the lab to check and for users to choose by. Scenarios are the
columns of the Strobe paper's consistency spectrum (Figure 9.3), from the least to the most
demanding:

- centralized: one source, nothing happens while a question is under way;
- single-source: one source, transactions of one update;
- multi-source: several sources, transactions of one update;
- source-local: transactions of several updates, each at one source;
- global: transactions over several sources.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.views import View
from headwater.algorithms.conventional import Conventional
from headwater.algorithms.copies import Copies
from headwater.algorithms.recompute import Recompute
from headwater.errors import InputError
from headwater.protocol.managers import ViewManager

SCENARIO_KINDS = ("centralized", "single-source", "multi-source", "source-local", "global")


@dataclass(frozen=True)
class Parameter:
    """A setting of an algorithm; `parse` raises ValueError in words."""

    meaning: str
    default: Any
    parse: Callable[[str], Any]


@dataclass(frozen=True)
class Algorithm:
    name: str
    paper: str
    summary: str
    make: Callable[..., ViewManager[Any]]
    promises: Mapping[str, str]
    """The level promised in each kind of scenario, by name."""
    assumes: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    joins_global: bool = True
    """Whether it gets global transactions whole, joined by the integrator."""


def _at_least_one(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise ValueError(f"'{text}' is not a whole number from 1 on")


def _promises(*levels: str) -> dict[str, str]:
    return dict(zip(SCENARIO_KINDS, levels, strict=True))


ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            "conventional",
            "ECA, Algorithm 5.1; Strobe, Example 0",
            "asks what each update changes and adds the answer; shows the anomalies",
            Conventional,
            _promises("complete", "none", "none", "none", "none"),
            assumes=("nothing happens at the sources while a question is under way",),
            joins_global=False,
        ),
        Algorithm(
            "recompute",
            "ECA, Algorithm D.1 (RV)",
            "asks for the whole view again every few updates, and once more when idle",
            Recompute,
            _promises("complete", "strong", "convergent", "convergent", "convergent"),
            assumes=("the whole view is cheap enough to move",),
            parameters={"every": Parameter("recompute after this many updates", 1, _at_least_one)},
        ),
        Algorithm(
            "copies",
            "ECA, section 1.2 (SC)",
            "keeps copies of all base relations at the warehouse and asks nothing",
            Copies,
            _promises(*["complete"] * 5),
            assumes=("all base relations may be copied to the warehouse",),
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


def make_manager(chosen: Algorithm, view: View, settings: Mapping[str, str]) -> ViewManager[Any]:
    """A view manager with these settings; InputError names what does not exist or fit."""
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
    return chosen.make(view, **values)
