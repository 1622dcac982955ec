"""How far views have come without a commit: one small file for all views of a warehouse.

A view that nothing concerns does not change, and yet it is the view at a later vector as time
goes on. To commit that would cost as much for each quiet view as a change does. So it is noted
here from time to time: the number and the vector of a commit, and a later vector at which the
view is still as that commit left it. This stays true whatever is committed afterwards, and counts
only for that commit. A note that is lost costs reading the change log again from where the commit
stands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwater.storage.location import Location
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.forms import NOTES, has_form
from headwater.warehouse.own_files import parsed_own, read_own_bytes
from headwater.warehouse.sealing import CHECK, UNSEALED, is_whole, sealed
from headwater.warehouse.vectors import VersionVector, vector_from_json, vector_to_json

FORMAT = 1
_FILE = "notes.json"
_ANY = object()


@dataclass(frozen=True)
class VectorNote:
    """A view is at `vector` as the commit `number`, whose own numbers are `since`, left it."""

    number: int
    since: Mapping[str, int]
    vector: VersionVector

    @classmethod
    def of(cls, commit: ViewCommit, vector: VersionVector) -> VectorNote:
        return cls(commit.number, _numbers(commit.vector), vector)


def read_notes(internal: Location | Path) -> Mapping[str, VectorNote]:
    """The notes by view; none if there are none, or what is there is damaged or of another form."""
    file = Location.of(internal) / _FILE
    about = file.about()
    return {} if about is None else _read(file, about.token)


@lru_cache(maxsize=4)
def _read(path: Location, _: object) -> Mapping[str, VectorNote]:
    """What a file says, which has another token whenever it is another."""
    content = read_own_bytes(path) or b""
    found = parsed_own(content) if is_whole(content) else None
    if found is None or found.get("format") != FORMAT or not has_form(NOTES, found):
        return {}
    return {
        view: VectorNote(told["number"], told["since"], vector_from_json(told["vector"]))
        for view, told in found["views"].items()
    }


def notes_token(internal: Location | Path) -> object | None:
    """What tells the notes that are there now from others; to be asked for before they are read."""
    about = (Location.of(internal) / _FILE).about()
    return about.token if about is not None else None


def write_notes(
    internal: Location | Path, notes: Mapping[str, VectorNote], token: object | None = _ANY
) -> None:
    """Put these in the place of all others; durable when it returns.

    With a token only if the others still have it: somebody else is the runner, if they have not.
    """
    told: dict[str, Any] = {
        view: {
            "number": note.number,
            "since": dict(note.since),
            "vector": vector_to_json(note.vector),
        }
        for view, note in notes.items()
    }
    content = {"format": FORMAT, CHECK: UNSEALED, "views": told}
    written = json.dumps(content, separators=(",", ":")).encode()
    if token is _ANY:
        (Location.of(internal) / _FILE).replace(sealed(written))
    else:
        (Location.of(internal) / _FILE).replace_if(sealed(written), token)


def noted(internal: Location | Path, commit: ViewCommit) -> ViewCommit:
    """A commit with the vector to which the view has come with it, as far as that was noted."""
    note = read_notes(internal).get(commit.view)
    if note is None or (note.number, note.since) != (commit.number, _numbers(commit.vector)):
        return commit
    return replace(commit, vector=note.vector)


def _numbers(vector: VersionVector) -> dict[str, int]:
    return {source: reached.number for source, reached in vector.items()}
