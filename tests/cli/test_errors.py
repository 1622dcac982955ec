"""A mistake of the user's is one line on standard error, exit code 2, and no traceback."""

import json
import sys
from io import StringIO
from pathlib import Path

import pytest

from headwater.algebra.values import Json
from headwater.lab.library import example
from tests.cli.commands import failing
from tests.scenarios import GONE, edited

GOOD = example("eca-2").data


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(data: Json, name: str = "mine.json") -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    Path(name).write_text(text, encoding="utf-8")
    return name


BAD_SCENARIOS: list[tuple[Json, str]] = [
    ("", "mine.json: there is no scenario in it."),
    ('{"relations": }', "mine.json, line 1, column 15: not valid JSON: Expecting value."),
    ("[1, 2]", "mine.json: a scenario is a JSON object, not a list."),
    ({}, "mine.json: the scenario: 'relations' is missing."),
    (edited(GOOD, ("view",), GONE), "mine.json: the scenario: 'view' is missing."),
    (
        edited(GOOD, ("view",), "SELECT r1.Q FROM r1"),
        "mine.json: view: line 1, column 8: there is no column Q in r1.",
    ),
    (
        edited(GOOD, ("view",), "SELECT r1.W\nFROM r1\nSORT BY r1.W"),
        "mine.json: view: line 3, column 1: SORT BY is not supported.",
    ),
    (
        edited(GOOD, ("transactions", 0, "updates", 0), {"relation": "r1", "delete": [7, 7]}),
        "mine.json: transactions[0] (U1).updates[0]: r1 has no row [7, 7] to delete at this point.",
    ),
    (
        edited(GOOD, ("transactions", 1, "id"), "U1"),
        "mine.json: transactions[1]: the id 'U1' occurs twice.",
    ),
]


@pytest.mark.parametrize(("data", "message"), BAD_SCENARIOS)
@pytest.mark.parametrize("command", ["run", "explore"])
def test_a_bad_scenario(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    data: Json,
    message: str,
) -> None:
    found = failing(monkeypatch, capsys, "lab", command, write(data), "-a", "copies")
    assert found.code == 2
    assert found.err.startswith(f"headwater: {message}")
    assert found.err.count("\n") == 1


SCHEDULED = {k: v for k, v in GOOD.items() if k != "expect"}
BAD_REPLAYS: list[tuple[Json, str]] = [
    (edited(SCHEDULED, ("schedule",), GONE), "mine.json: it has no 'schedule' to replay."),
    (edited(SCHEDULED, ("algorithm",), GONE), "mine.json: it names no algorithm."),
    (edited(SCHEDULED, ("schedule",), "commit x"), "mine.json: schedule: must be a list of steps."),
    (edited(SCHEDULED, ("schedule", 1), "comit x"), "mine.json: schedule[1]: 'comit x' is not a"),
    (edited(SCHEDULED, ("schedule", 0), "answer x"), "mine.json: schedule[0]: 'answer x' is not p"),
    (
        edited(SCHEDULED, ("schedule",), ["commit x", "answer x", "commit x", "answer x", "idle"]),
        "mine.json: schedule[4]: 'idle' comes after the end of the run.",
    ),
    (edited(SCHEDULED, ("set",), []), "mine.json: 'set' must be an object."),
    (edited(SCHEDULED, ("algorithm",), "magic"), "There is no algorithm 'magic'."),
    ({"level": "complete", "counterexample": None}, "mine.json: there is no counterexample in it."),
]


@pytest.mark.parametrize(("data", "message"), BAD_REPLAYS)
def test_a_bad_replay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: Json, message: str
) -> None:
    found = failing(monkeypatch, capsys, "lab", "replay", write(data))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"headwater: {message}")
    assert found.err.count("\n") == 1


RUN = ("lab", "run", "eca-2", "-a")
BAD_OPTIONS: list[tuple[tuple[str, ...], str]] = [
    ((*RUN, "copie"), "There is no algorithm 'copie'. Did you mean 'copies'?"),
    ((*RUN, "zzz"), "There is no algorithm 'zzz'. There are: "),
    ((*RUN, "copies", "--seeds", "x"), "--seeds x: is not a range."),
    ((*RUN, "copies", "--seeds", "3:3"), "--seeds 3:3: is not a range."),
    ((*RUN, "copies", "--seeds", "5:2"), "--seeds 5:2: is not a range."),
    ((*RUN, "copies", "--seeds", "-1"), "--seeds -1: is not a range."),
    ((*RUN, "copies", "--seeds", ""), "--seeds : is not a range."),
    ((*RUN, "copies", "--set", "p"), "--set p: is not NAME=VALUE."),
    ((*RUN, "copies", "--set", "=4"), "--set =4: is not NAME=VALUE."),
    ((*RUN, "copies", "--set", "p="), "--set p=: is not NAME=VALUE."),
    ((*RUN, "copies", "--set", "p=4"), "copies has no parameter 'p'."),
    ((*RUN, "recompute", "--set", "every=0"), "--set every=0: '0' is not a whole number"),
    ((*RUN, "copies", "--set", "channels=pipes"), "--set channels=pipes: there is no such choice."),
    (("lab", "run", "eca-99", "-a", "copies"), "There is no file 'eca-99'. Shipped examples are: "),
    (("lab", "run", "no.json", "-a", "copies"), "no.json: cannot be read: No such file"),
    (("lab", "replay", "no.json"), "no.json: cannot be read: No such file or directory."),
    (("lab", "replay", "eca-2", "--save", "no/t.json"), "--save no/t.json: cannot be written: "),
    (("lab", "explore", "eca-2", "-a", "copies", "--limit", "1"), "--limit 1: not one schedule of"),
    (("lab", "generate", "--kind", "local"), "There is no kind of scenario 'local'. There are: "),
    (("lab", "generate", "--seeds", "a"), "--seeds a: is not a range."),
    (("lab", "spectrum", "--seeds", "a"), "--seeds a: is not a range."),
    (("lab", "spectrum", "--kind", "local"), "--kind local: there is no such kind."),
    (("bench", "explore", "--seeds", "a"), "--seeds a: is not a range."),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_OPTIONS)
def test_a_bad_option(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    found = failing(monkeypatch, capsys, *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"headwater: {message}")
    assert found.err.count("\n") == 1


def test_standard_input_without_a_scenario(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    found = failing(monkeypatch, capsys, "lab", "replay", "-")
    assert found.err.startswith("headwater: standard input: there is no scenario in it.")


@pytest.mark.parametrize(
    "arguments",
    [("lab", "run", "eca-2"), ("lab", "nothing"), ("--nothing",), ("lab", "generate", "--keys=1")],
)
def test_a_command_that_cannot_be_read_is_refused_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    found = failing(monkeypatch, capsys, *arguments)
    assert found.code == 2
    assert "Error: " in found.err
    assert "Traceback" not in found.err
