"""The project that `headwater init` makes: its files, and two SQLite databases with data."""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from pathlib import Path

from headwater.errors import InputError

_TEXTS = ("README.md", "headwater.toml", "views/big_orders.sql", "views/order_lines.sql")
_DATABASES = ("crm", "shop")


def make_project(folder: Path) -> list[str]:
    """Write the project to an empty folder; the names of its files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is not an empty folder.", "Name one that is not there yet.")
    ours = files(__name__) / "files"
    try:
        (folder / "views").mkdir(parents=True)
        for name in _TEXTS:
            text = ours.joinpath(name).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")
        for name in _DATABASES:
            script = ours.joinpath(f"{name}.sql").read_text(encoding="utf-8")
            _make_database(folder / f"{name}.db", script)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}.", "Name another folder."
        ) from None
    return [*_TEXTS, *(f"{name}.db" for name in _DATABASES)]


def _make_database(path: Path, script: str) -> None:
    connection = sqlite3.connect(path)
    try:
        connection.executescript(script)
    finally:
        connection.close()
