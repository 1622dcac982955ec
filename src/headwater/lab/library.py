"""Scenarios that ship with Headwater: the papers' examples and kept counterexamples."""

from __future__ import annotations

import json
from importlib import resources

from headwater.errors import InputError
from headwater.lab.scenario import Scenario, scenario_from_json

_FOLDER = resources.files("headwater.lab") / "examples"


def example_names() -> list[str]:
    names = (entry.name for entry in _FOLDER.iterdir() if entry.name.endswith(".json"))
    return sorted(name.removesuffix(".json") for name in names)


def example(name: str) -> Scenario:
    """The shipped scenario of that name."""
    if name not in example_names():
        known = ", ".join(example_names())
        raise InputError(f"There is no example '{name}'.", f"There are: {known}.")
    text = (_FOLDER / f"{name}.json").read_text(encoding="utf-8")
    return scenario_from_json(json.loads(text), name)
