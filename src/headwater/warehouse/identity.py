"""Which warehouse this is, and in which format: one small file that is made once.

What Headwater makes at a source (slots, triggers, log tables) is named for the warehouse that owns
it, so the identity has to outlast every runner, a crash, and an operator who tidies up. The
lease repeats it: where one of the two files is lost, the other still tells.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from headwater.errors import InputError
from headwater.reading import format_problem
from headwater.storage.location import Location
from headwater.warehouse.own_files import read_own

FORMAT = 1
FILE = "warehouse.json"


def require_format(folder: Location | Path) -> None:
    """Refuse a warehouse whose tables, logs and own files another release keeps otherwise."""
    path = Location.of(folder) / FILE
    found = read_own(path) or {}
    problem = format_problem(found.get("format"), FORMAT)
    if problem and ("format" in found or _digits(found.get("id"))):
        raise InputError(
            f"The file {path} {problem}.",
            "Use the release of Headwater that wrote this warehouse, or give another folder as the "
            "warehouse: the views are loaded anew there.",
        )


def owner_of(folder: Location | Path) -> str:
    """The warehouse's identity, 8 lower-case hexadecimal digits; made if there is none yet."""
    internal = Location.of(folder)
    internal.parent.require_own()
    require_format(internal)
    path = internal / FILE
    if owner := _digits((read_own(path) or {}).get("id")):
        return owner
    known = _digits((read_own(internal / "lease.json") or {}).get("warehouse"))
    present = path.is_named()  # a link that leads nowhere is there too
    if present and not known:
        raise InputError(
            f"The file {path} is damaged, so it is not known which warehouse this is.",
            "Restore it from a backup. If there is none, remove it, then run "
            "'headwater repair SOURCE' for each source.",
        )
    content = json.dumps(
        {"format": FORMAT, "id": known or internal.storage.fresh_name()[:8]}
    ).encode()
    internal.make_folder()
    if present:
        path.replace(content)
    else:
        path.put_if_absent(content)
    return owner_of(internal)


def _digits(value: object) -> str:
    """The identity in what a file says; a lease of old has more digits."""
    found = re.match(r"[0-9a-f]{8}", value) if isinstance(value, str) else None
    return found[0] if found else ""
