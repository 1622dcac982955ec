"""Who may read files and folders of this machine, and whose they are."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from headwater.errors import InputError

OWN = "_headwater"
"""The folder that holds what is Headwater's own."""
PRIVATE = 0o700
_READ_WRITE = 0o666


def set_modes(path: Path, mode: int) -> None:
    """Let others read a folder and all that is in it as its mode says, or keep them out."""
    for inner, _, names in os.walk(path):
        Path(inner).chmod(mode)
        for name in names:
            as_folder(Path(inner, name))


def as_folder(path: Path) -> None:
    """Give a file that somebody else may have written the rights that its folder has."""
    path.chmod(mode_of(path.parent) & _READ_WRITE)


def mode_of(path: Path) -> int:
    """Who may read and write it: nine bits."""
    return path.stat().st_mode & 0o777


def require_own(warehouse: Path) -> None:
    """Refuse a warehouse of another user, who decides what is in it, links to anywhere included."""
    for folder in (warehouse, warehouse / OWN):
        if (other := _other_owner(folder)) is not None:
            raise InputError(
                f"The folder {folder} of the warehouse belongs to another user ({other}), who "
                "decides what is in it.",
                "Run Headwater as that user, or choose a folder of your own; if you trust what is "
                "in it, make it yours with chown -R.",
            )


def _other_owner(folder: Path) -> str | None:
    """The user that a folder or the link to it belongs to, if neither root nor who runs this."""
    try:
        owners = {folder.lstat().st_uid, folder.stat().st_uid} - {0, os.geteuid()}
    except OSError:
        return None
    return _user_name(owners.pop()) if owners else None


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
