"""What is durable: shown by the calls that reach the operating system."""

import os
from pathlib import Path

import pytest

from headwater.storage.local import LocalStorage

STORAGE = LocalStorage()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were synced, in order."""
    found: list[Path] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_every_folder_that_was_made_is_synced_into_its_parent(
    tmp_path: Path, synced: list[Path]
) -> None:
    STORAGE.make_folder(tmp_path / "a" / "b" / "c")
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
    synced.clear()
    STORAGE.make_folder(tmp_path / "a" / "b" / "d")
    assert synced == [tmp_path / "a" / "b"]


def test_a_file_is_synced_before_it_replaces_another_and_its_folder_after(
    tmp_path: Path, synced: list[Path]
) -> None:
    STORAGE.replace(tmp_path / "x", b"old")
    synced.clear()
    STORAGE.replace(tmp_path / "x", b"new")
    assert [path.parent if path.suffix else path for path in synced] == [tmp_path, tmp_path]
    assert ".tmp" in synced[0].name
    assert (tmp_path / "x").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_of_two_that_make_a_file_the_first_wins(tmp_path: Path) -> None:
    assert STORAGE.put_if_absent(tmp_path / "x", b"first")
    assert not STORAGE.put_if_absent(tmp_path / "x", b"second")
    assert (tmp_path / "x").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
