"""The papers' mistakes: each printed form is caught, and its repair keeps what it promises."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from headwater.algorithms.registry import ALGORITHMS
from headwater.check.levels import parse_level
from headwater.cli.lab import app
from headwater.lab.mistakes import MISTAKES, examine, is_shown
from headwater.lab.simulate import scenario_kind


@pytest.mark.parametrize("name", MISTAKES)
def test_the_printed_form_is_below_the_repaired_one(name: str) -> None:
    found = examine(MISTAKES[name])
    assert is_shown(found)
    assert found.printed.exhaustive
    assert found.repaired.exhaustive


@pytest.mark.parametrize("name", MISTAKES)
def test_the_repaired_form_keeps_its_promise_and_the_printed_one_does_not(name: str) -> None:
    mistake = MISTAKES[name]
    algorithm = ALGORITHMS[mistake.repaired[0]]
    promised = parse_level(algorithm.promises[scenario_kind(mistake.scenario)])
    if "handle" in mistake.repaired[1]:
        promised = parse_level("strong")  # what nested-sweep makes of PVM CC
    found = examine(mistake)
    assert found.printed.level < promised <= found.repaired.level


def test_one_mistake_is_told_step_by_step() -> None:
    done = CliRunner().invoke(app, ["mistakes", "eca-transaction-by-parts"])
    assert done.exit_code == 0, done.output
    assert "the view becomes ([1, 3], [1, 3])" in done.output
    assert "as printed: none" in done.output
    assert "repaired, eca: complete" in done.output


def test_all_are_told_for_machines() -> None:
    done = CliRunner().invoke(app, ["mistakes", "--json"])
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["name"] for each in found] == list(MISTAKES)
    assert all(each["printed"] != each["repaired"] for each in found)


def test_a_mistake_that_is_not_known_is_answered_with_those_that_are() -> None:
    done = CliRunner().invoke(app, ["mistakes", "eca"])
    assert done.exit_code != 0
    assert "eca-key-as-printed" in str(done.exception)
