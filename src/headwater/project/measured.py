"""The statistics of a warehouse: one small file, written seldom, lost without harm."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from headwater.costs.statistics import Statistics
from headwater.storage.location import Location
from headwater.warehouse.own_files import parsed_own, read_own_bytes
from headwater.warehouse.sealing import CHECK, UNSEALED, is_whole, sealed

FILE = "statistics.json"


def read_statistics(internal: Location | Path) -> Statistics:
    """What was measured; nothing if there is nothing, or what is there is damaged or of another
    form."""
    file = Location.of(internal) / FILE
    about = file.about()
    return Statistics() if about is None else _read(file, about.token)


@lru_cache(maxsize=4)
def _read(path: Location, _: object) -> Statistics:
    """What a file says, which has another token whenever it is another."""
    content = read_own_bytes(path) or b""
    found = parsed_own(content) if is_whole(content) else None
    with suppress(ValueError):
        return Statistics.from_json(found)
    return Statistics()


def write_statistics(internal: Location | Path, statistics: Statistics) -> None:
    """Put these in the place of all others."""
    content = {CHECK: UNSEALED, **statistics.to_json()}
    written = json.dumps(content, separators=(",", ":")).encode()
    (Location.of(internal) / FILE).replace(sealed(written), durable=False)
