"""Files and folders that are on the disk, name and contents, before anybody relies on them.

A file that takes another's place is synced first, then moved, then its folder is synced. A folder
that was made is synced into its parent, and every parent that had to be made likewise.

Who may read a file follows from the folder that it is in, whatever the process's umask is: what is
Headwater's own is nobody else's to read, and a table's files are as open as the warehouse.
"""

from __future__ import annotations

import os
import pwd
import uuid
from pathlib import Path

from headwater.errors import InputError

OWN = "_headwater"
"""The folder that holds what is Headwater's own."""
_PRIVATE = 0o700
_READ_WRITE = 0o666


def write_file(path: Path, content: bytes | memoryview, *, durable: bool = True) -> None:
    """Write a new file; what is durable is on the disk when this returns, but for its name."""
    with path.open("xb", buffering=0) as file:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[file.write(remaining) or 0 :]
        os.fchmod(file.fileno(), mode_of(path.parent) & _READ_WRITE)
        if durable:
            os.fsync(file.fileno())


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Give a file new contents: whoever reads it, now or after a crash, finds old or new."""
    temporary = _temporary(path)
    try:
        write_file(temporary, content, durable=durable)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def put_if_absent(path: Path, content: bytes) -> bool:
    """Make a durable file unless there is one; whether it was made."""
    temporary = _temporary(path)
    try:
        write_file(temporary, content)
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def make_folder(folder: Path, *, durable: bool = True) -> None:
    """Make a folder and the parents it lacks; Headwater's own are for its user only."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(made):
        path.mkdir(mode=_PRIVATE if OWN in path.parts else 0o777, exist_ok=True)
    if durable:
        for path in made:
            sync_folder(path.parent)


def set_modes(folder: Path, mode: int) -> None:
    """Let others read a folder and all that is in it as its mode says, or keep them out."""
    for inner, _, names in os.walk(folder):
        Path(inner).chmod(mode)
        for name in names:
            as_folder(Path(inner, name))


def as_folder(path: Path) -> None:
    """Give a file that somebody else may have written the rights that its folder has."""
    path.chmod(mode_of(path.parent) & _READ_WRITE)


def mode_of(path: Path) -> int:
    """Who may read and write it: nine bits."""
    return path.stat().st_mode & 0o777


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    sync_file(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")


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
