"""Version vectors: for each source, which of its transactions a state of a view reflects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.algebra.values import Json


@dataclass(frozen=True)
class Reached:
    """All of a source's transactions up to `number`, and above it those in `also`.

    `position` is where the source's own log stands then, in the words of its kind of source;
    None when it is no longer known.
    """

    number: int
    position: Mapping[str, Json] | None
    also: tuple[int, ...] = ()
    arrived: tuple[tuple[int, int], ...] = ()
    """Of transactions above it, whether they are in or not, the places in the order in which those
    of all sources were received; none where that does not matter."""


VersionVector: TypeAlias = Mapping[str, Reached]
Ranges: TypeAlias = Mapping[str, tuple[tuple[int, int], ...]]
"""For each source the numbers of transactions, as ranges with both ends in."""


def vector_to_json(vector: VersionVector) -> dict[str, Any]:
    return {
        source: {
            "number": reached.number,
            "position": None if reached.position is None else dict(reached.position),
            "also": list(reached.also),
            **({"arrived": [list(pair) for pair in reached.arrived]} if reached.arrived else {}),
        }
        for source, reached in vector.items()
    }


def vector_from_json(json: Mapping[str, Any]) -> dict[str, Reached]:
    return {
        source: Reached(
            item["number"],
            item["position"],
            tuple(item["also"]),
            tuple((number, place) for number, place in item.get("arrived", ())),
        )
        for source, item in json.items()
    }


def ranges_to_json(ranges: Ranges) -> dict[str, Any]:
    return {source: [list(pair) for pair in pairs] for source, pairs in ranges.items()}


def ranges_from_json(json: Mapping[str, Any]) -> dict[str, tuple[tuple[int, int], ...]]:
    return {source: tuple((first, last) for first, last in pairs) for source, pairs in json.items()}
