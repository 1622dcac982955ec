"""A folder that others may have filled is neither read nor written through links."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.storage.enclosed import EnclosedFolder
from headwater.storage.local import LocalStorage
from headwater.storage.location import Location


@pytest.fixture
def root(tmp_path: Path) -> Location:
    folder = tmp_path / "root"
    system = EnclosedFolder(folder, frozenset({"inner", "secret"}))
    found = Location(folder, LocalStorage(system=system))
    found.make_folder()
    return found


WAYS: dict[str, Callable[[Location], object]] = {
    "read": lambda path: path.open(),
    "list": lambda path: path.parent.names(),
    "write": lambda path: path.write(b"new"),
    "replace": lambda path: path.replace(b"new"),
    "put": lambda path: path.put_if_absent(b"new"),
    "remove": lambda path: path.remove(),
    "lock": lambda path: path.locked(),
    "make": lambda path: path.make_folder(),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_done_in_a_folder_that_is_a_link(
    root: Location, tmp_path: Path, way: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "letter").write_text("dear")
    (root.path / "objects").symlink_to(elsewhere)
    with pytest.raises(OSError, match="'objects' is a link or no folder"):
        WAYS[way](root / "objects" / "letter")
    assert [path.read_text() for path in elsewhere.iterdir()] == ["dear"]


@pytest.mark.parametrize("way", ["read", "lock"])
def test_a_file_that_is_a_link_is_not_opened(root: Location, tmp_path: Path, way: str) -> None:
    (tmp_path / "letter").write_text("dear")
    (root.path / "letter").symlink_to(tmp_path / "letter")
    with pytest.raises(OSError, match="it is a link"):
        WAYS[way](root / "letter")


def test_a_file_that_replaces_a_link_leaves_what_it_leads_to(
    root: Location, tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("dear")
    (root.path / "letter").symlink_to(tmp_path / "letter")
    (root / "letter").replace(b"new")
    assert (root / "letter").read(100) == b"new"
    assert (tmp_path / "letter").read_text() == "dear"


def test_what_waits_for_a_writer_is_not_waited_for(root: Location) -> None:
    os.mkfifo(root.path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        (root / "pipe").open()


def mode(path: Location) -> int:
    return stat.S_IMODE(path.path.stat().st_mode)


def test_others_read_what_the_folder_lets_them_and_nothing_private(root: Location) -> None:
    root.path.chmod(0o775)
    for name in ("objects", "inner"):
        (root / name).make_folder()
        (root / name / "file").write(b"")
    (root / "secret").write(b"")
    (root / "file").replace(b"")
    with (root / "lock").locked():
        pass
    open_to_all = {name: mode(root / name) for name in ("objects", "objects/file", "file")}
    assert open_to_all == {"objects": 0o755, "objects/file": 0o644, "file": 0o644}
    own = {name: mode(root / name) for name in ("inner", "inner/file", "secret", "lock")}
    assert own == {"inner": 0o700, "inner/file": 0o600, "secret": 0o600, "lock": 0o600}


def test_a_new_root_is_for_its_user_only(root: Location) -> None:
    assert mode(root) == 0o700
