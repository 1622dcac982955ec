"""Scenarios that ship with Headwater: the papers' examples and kept counterexamples."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable

from headwater.errors import InputError
from headwater.lab.scenario import Scenario, scenario_from_json

_FOLDER = resources.files("headwater.lab") / "examples"
_COUNTEREXAMPLES = resources.files("headwater.lab") / "counterexamples"


def example_names() -> list[str]:
    names = (entry.name for entry in _FOLDER.iterdir() if entry.name.endswith(".json"))
    return sorted(name.removesuffix(".json") for name in names)


def example(name: str) -> Scenario:
    """The shipped scenario of that name."""
    if name not in example_names():
        known = ", ".join(example_names())
        raise InputError(f"There is no example '{name}'.", f"There are: {known}.")
    return _read(_FOLDER / f"{name}.json", name)


def counterexample(name: str) -> Scenario:
    """The scenario that is kept to show what goes wrong with a weakened or printed form."""
    return _read(_COUNTEREXAMPLES / f"{name}.json", name)


def _read(path: Traversable, name: str) -> Scenario:
    return scenario_from_json(json.loads(path.read_text(encoding="utf-8")), name)
