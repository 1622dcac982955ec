"""Delta tables as a source: versions are positions, and every version can be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.sources.delta.states import DeltaStates
from headwater.sources.stepwise.source import StepwiseSource
from headwater.storage.location import Location

TAGGING = """userMetadata '{"headwater": {"id": "transfer 17", "parts": 2}}' of a commit"""


class DeltaSource(StepwiseSource):
    """Delta tables in one folder; `place` is where the order of their commits is kept."""

    def __init__(
        self,
        name: str,
        folder: Location | Path,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
        *,
        place: Location | None = None,
        look_every_s: float = 0.2,
    ) -> None:
        states = DeltaStates(name, Location.of(folder), relations, keys or {})
        super().__init__(states, place, tagging=TAGGING, look_every_s=look_every_s)
