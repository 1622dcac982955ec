"""The warehouse: a folder of views."""

from __future__ import annotations

import fcntl
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Json
from headwater.errors import EngineError, InputError
from headwater.warehouse.columns import check_change, check_columns, check_name
from headwater.warehouse.commits import Base, Commit
from headwater.warehouse.delta_log import DeltaLog, is_table
from headwater.warehouse.durable import OWN, make_folder, mode_of, require_own, set_modes
from headwater.warehouse.files import write_contents
from headwater.warehouse.notes import read_notes, write_notes
from headwater.warehouse.own_files import open_lock
from headwater.warehouse.remaking import move, write_table
from headwater.warehouse.tables import log_table, plain_table
from headwater.warehouse.vectors import Vector
from headwater.warehouse.view_table import ViewTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MODES = {"private": 0o700, "group": 0o750, "public": 0o755}
"""Who may read the views: the user that runs Headwater, its group, or everybody."""


class Warehouse:
    """A local or mounted folder that holds views.

    `durable=False` leaves it to the operating system when commits reach the disk: a crash of the
    machine, not of the process, may then lose the newest.
    """

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        if "://" in str(path):
            raise InputError(
                f"The warehouse '{path}' is not a folder: object stores are not supported yet.",
                "Give the path of a local or mounted folder.",
            )
        self.path = Path(path).absolute()
        # delta-rs takes % for an escape; Spark takes the others for a pattern, and then reads a
        # file twice even if told that they are none.
        if found := set(str(self.path)) & set("%*?[]{}\\"):
            raise InputError(
                f"The path of the warehouse '{self.path}' contains {' '.join(sorted(found))}.",
                "Choose a folder without such characters in its path.",
            )
        self.durable = durable
        self._logs = self.path / OWN / "views"
        self._staging = self.path / OWN / "staging"
        self._trash = self.path / OWN / "trash"
        require_own(self.path)

    @property
    def internal(self) -> Path:
        """Where Headwater keeps what is its own."""
        return self.path / OWN

    @property
    def changes(self) -> Path:
        """Where the change logs of all sources are."""
        return self.internal / "changes"

    def scratch(self, name: str) -> Path:
        """A folder for what is needed only for a while."""
        return self.internal / "scratch" / name

    def let_read(self, readers: str) -> None:
        """Let these read the views, of which some may be there already, and nobody else."""
        make_folder(self.internal, durable=self.durable)
        require_own(self.path)
        before, mode = mode_of(self.path), MODES[readers]
        try:
            self.internal.chmod(MODES["private"])
            if before != mode:
                self.path.chmod(self.path.stat().st_mode & 0o7000 | before & mode)  # nobody new yet
                for name in self.view_names():
                    set_modes(self.path / name, mode)
                self.path.chmod(self.path.stat().st_mode & 0o7000 | mode)
        except PermissionError:
            raise InputError(
                f"The warehouse {self.path} belongs to another user, who lets others read it than "
                f'readers = "{readers}" does.',
                f"Change its mode to {mode:o}, or say in headwater.toml who may read the views.",
            ) from None

    def remove_leftovers(self, older_than_s: float = 3600.0) -> None:
        """Remove what processes that were killed have left behind, and nobody has touched since."""
        for folder in (self._staging, self._trash, self.scratch("")):
            for item in () if folder.is_symlink() else folder.glob("*"):
                paths = [item, *item.rglob("*")] if item.is_dir() else [item]
                if time.time() - max(_touched(path) for path in paths) > older_than_s:
                    shutil.rmtree(item, ignore_errors=True)
                    item.unlink(missing_ok=True)

    def view_names(self) -> list[str]:
        """The views there are: a view exists when its signed log does."""
        if not self._logs.is_dir():
            return []
        return sorted(item.name for item in self._logs.iterdir() if is_table(item))

    def has_view(self, name: str) -> bool:
        return name == Path(name).name and is_table(self._logs / name)

    def view(self, name: str) -> ViewTable:
        if not self.has_view(name):
            names = self.view_names()
            raise InputError(
                f"There is no view '{name}' in the warehouse {self.path}.",
                f"It has {', '.join(names)}." if names else "It has no views yet.",
            )
        return self._table(name)

    def put(
        self,
        name: str,
        schema: Schema,
        definition: Mapping[str, Json],
        vector: Vector,
        contents: Rows | DataFrame,
        *,
        algorithm: str,
        level: str,
        runner: str,
        key: Sequence[str] = (),
    ) -> ViewTable:
        """Load a view: a new one, or in place of what it had, which is one more version of it."""
        load = self.view(name).replace if self.has_view(name) else partial(self.create, name)
        load(
            schema=schema,
            definition=definition,
            vector=vector,
            contents=contents,
            algorithm=algorithm,
            level=level,
            runner=runner,
            key=key,
        )
        return self.view(name)

    def create(
        self,
        name: str,
        schema: Schema,
        definition: Mapping[str, Json],
        vector: Vector,
        contents: Rows | DataFrame,
        *,
        algorithm: str,
        level: str,
        runner: str,
        key: Sequence[str] = (),
    ) -> ViewTable:
        """Load a new view: `contents` are rows, or a DataFrame of its columns and `_count`.

        `key` has columns that identify every row, if there are any: reading is cheaper then.

        Both tables are made whole aside and then moved into place, the signed log last, and
        from then on the view exists. What an attempt that failed left behind is replaced.
        """
        check_name(name)
        check_columns(name, schema)
        check_change(name, schema, contents)
        self._refuse_existing(name)
        aside = self._staging / uuid.uuid4().hex
        commit = Commit(
            name,
            1,
            "load",
            runner,
            vector,
            Base(0, 1),
            algorithm=algorithm,
            level=level,
            version=0,
        )
        try:
            commit = self._write_plain(aside / "plain", schema, commit, contents)
            table = log_table(name, schema, definition, list(vector), key)
            write_table(aside / "log", [*commit.actions(), *table], durable=self.durable)
            with self._locked():
                self._refuse_existing(name)
                self._remove_leftover(name)
                self._move(aside / "plain", self.path / name)
                self._move(aside / "log", self._logs / name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return self._table(name)

    def drop(self, name: str) -> tuple[Path, ...]:
        """Remove a view: it is gone as soon as its signed log has been moved away.

        What is left of a damaged one goes as well; the folders that were removed are returned.
        """
        if not (remains := self.remains(name)):
            self.view(name)  # says that there is none
        with self._locked():
            notes = read_notes(self.internal)
            if name in notes:
                write_notes(self.internal, {n: note for n, note in notes.items() if n != name})
            for folder in remains:
                self._throw_away(folder)
        shutil.rmtree(self._trash, ignore_errors=True)
        return remains

    def remains(self, name: str) -> tuple[Path, ...]:
        """The folders that there are of a view, whole or damaged: its signed log first."""
        log, plain = self._logs / check_name(name), self.path / name
        ours = log.exists() or self._is_ours(plain)
        return tuple(folder for folder in (log, plain) if ours and folder.exists())

    # Making tables

    def _write_plain(
        self, folder: Path, schema: Schema, commit: Commit, contents: Rows | DataFrame
    ) -> Commit:
        make_folder(folder, durable=False)
        files = write_contents(contents, schema, folder, self._staging, durable=self.durable)
        commit = replace(commit, rows=sum(file.rows for file in files))
        table = [*plain_table(commit.view, schema), *(file.add() for file in files)]
        write_table(folder, [*commit.actions(), *table], durable=self.durable)
        return commit

    # Folders

    def _table(self, name: str) -> ViewTable:
        return ViewTable(
            name,
            self.path / name,
            self._logs / name,
            self._staging,
            self.internal,
            durable=self.durable,
        )

    def _refuse_existing(self, name: str) -> None:
        if self.has_view(name):
            raise InputError(
                f"The view '{name}' is already in the warehouse {self.path}.",
                "Drop it first to load it anew.",
            )

    def _remove_leftover(self, name: str) -> None:
        for folder in self.remains(name):
            self._throw_away(folder)
        if (folder := self.path / name).exists():
            raise InputError(
                f"The folder {folder} is in the way of the view '{name}'.",
                "It was not made by Headwater: move it away, or give the view another name.",
            )

    @staticmethod
    def _is_ours(folder: Path) -> bool:
        if not is_table(folder):
            return False
        try:
            return bool(DeltaLog(folder).snapshot().number)
        except EngineError:
            return False

    def _throw_away(self, folder: Path) -> None:
        if folder.exists():
            self._move(folder, self._trash / uuid.uuid4().hex)

    def _move(self, folder: Path, target: Path) -> None:
        move(folder, target, durable=self.durable)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Folders are moved by one process at a time."""
        make_folder(self._staging, durable=self.durable)
        with open_lock(self.path / OWN / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _touched(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # somebody works there
        return time.time()
