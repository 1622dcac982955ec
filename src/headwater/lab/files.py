"""Reading scenario files: one JSON object, or one a line (`.jsonl`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from headwater.algebra.values import Json
from headwater.errors import ScenarioError
from headwater.lab.scenario import Object, Scenario, kind_of, scenario_from_json

_SHAPE = 'A scenario looks like {"relations": ..., "view": ..., "transactions": ...}.'


def load_scenarios(path: Path) -> list[Scenario]:
    """All scenarios of a `.json` or `.jsonl` file."""
    return [scenario_from_json(data, where) for data, where in load_objects(path)]


def load_objects(path: Path) -> list[tuple[Object, str]]:
    """The JSON objects of a file, each with the place to name in errors."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(
            f"{path}: cannot be read: {error.strerror}.", "Check the path."
        ) from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: is not UTF-8 text.", _SHAPE) from None
    try:
        whole = _parse(text)
    except ValueError:
        found = list(_lines(path, text))
    else:
        found = [(_object(whole, str(path)), str(path))]
    if not found:
        raise ScenarioError(f"{path}: there is no scenario in it.", _SHAPE)
    return found


def _lines(path: Path, text: str) -> Iterator[tuple[Object, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            data = _parse(line)
        except ValueError as error:
            raise ScenarioError(
                f"{where}: not valid JSON: {error}.",
                "A file holds one JSON object, or one object on each line.",
            ) from None
        yield _object(data, where), where


def _parse(text: str) -> Json:
    parsed: Json = json.loads(text, parse_constant=_refuse_constant)
    return parsed


def _refuse_constant(name: str) -> Json:
    raise ValueError(f'{name} is not JSON, write "{name}" in quotes')


def _object(data: Json, where: str) -> Object:
    if isinstance(data, dict):
        return data
    raise ScenarioError(f"{where}: a scenario is a JSON object, not {kind_of(data)}.", _SHAPE)
