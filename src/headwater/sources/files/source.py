"""Files as a source: successive snapshots that are compared, or changes that somebody reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.sources.files.kept import KeptFiles
from headwater.sources.files.options import FilesOptions
from headwater.sources.files.states import FileStates
from headwater.sources.stepwise.source import StepwiseSource
from headwater.storage.location import Location

LIMITS = {
    "current": (
        "Of files that take each other's place only those are seen that are there when it is "
        "looked: a view WITH COMPLETE CONSISTENCY then shows what several of them changed as one "
        "step."
    ),
    "series": "",
    "changes": "",
}
TAGGING = """a file _transaction.json with {"id": "transfer 17", "parts": 2} beside the others"""


class FilesSource(StepwiseSource):
    """Relations in files of one folder; `place` is where what was seen of them is kept."""

    def __init__(
        self,
        name: str,
        folder: Location | Path,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
        options: FilesOptions | None = None,
        *,
        place: Location | None = None,
        look_every_s: float = 0.5,
    ) -> None:
        options = options or FilesOptions()
        kept = KeptFiles(name, place)
        states = FileStates(name, Location.of(folder), relations, keys or {}, options, kept)
        tagging = TAGGING if options.layout != "current" else ""
        super().__init__(
            states,
            place,
            limits=LIMITS[options.layout],
            tagging=tagging,
            look_every_s=look_every_s,
        )
