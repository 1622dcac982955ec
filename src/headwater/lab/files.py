"""Reading scenario files: one JSON object, or one a line (`.jsonl`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from headwater.algebra.values import Json
from headwater.errors import ScenarioError
from headwater.lab.scenario import Object, kind_of
from headwater.reading import MOST_TEXT_BYTES, as_text, read_at_most

_SHAPE = 'A scenario looks like {"relations": ..., "view": ..., "transactions": ...}.'


def load_objects(path: Path) -> list[tuple[Object, str]]:
    """The JSON objects of a file, each with the place to name in errors."""
    try:
        with path.open("rb") as file:  # may be a pipe: the user has named it
            text = as_text(read_at_most(file, MOST_TEXT_BYTES))
    except OSError as error:
        raise ScenarioError(
            f"{path}: cannot be read: {error.strerror}.", "Check the path."
        ) from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: is not UTF-8 text.", _SHAPE) from None
    return parse_objects(text, str(path), by_line=path.suffix == ".jsonl")


def parse_objects(text: str, name: str, *, by_line: bool = False) -> list[tuple[Object, str]]:
    """One JSON object, or one on each line; `name` is what errors call the text."""
    if not text.strip():
        raise ScenarioError(f"{name}: there is no scenario in it.", _SHAPE)
    if by_line:
        return list(_lines(text, name))
    try:
        return [(_object(_parse(text), name), name)]
    except ValueError as error:
        if _is_object(text.strip().split("\n")[0]):
            return list(_lines(text, name))
        raise _not_json(name, error) from None


def _lines(text: str, name: str) -> Iterator[tuple[Object, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            data = _parse(line)
        except ValueError as error:
            raise _not_json(where, error) from None
        yield _object(data, where), where


def _not_json(where: str, error: ValueError) -> ScenarioError:
    if isinstance(error, json.JSONDecodeError):
        line = "" if ", line " in where else f", line {error.lineno}"
        where, reason = f"{where}{line}, column {error.colno}", error.msg
    else:
        reason = str(error)
    return ScenarioError(
        f"{where}: not valid JSON: {reason}.",
        "A file holds one JSON object, or one object on each line.",
    )


def _is_object(line: str) -> bool:
    try:
        return isinstance(_parse(line), dict)
    except ValueError:
        return False


def _parse(text: str) -> Json:
    try:
        parsed: Json = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return parsed


def _refuse_constant(name: str) -> Json:
    raise ValueError(f'{name} is not JSON, write "{name}" in quotes')


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> Object:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the member '{twice}' twice")
    return members


def _object(data: Json, where: str) -> Object:
    if isinstance(data, dict):
        return data
    raise ScenarioError(f"{where}: a scenario is a JSON object, not {kind_of(data)}.", _SHAPE)
