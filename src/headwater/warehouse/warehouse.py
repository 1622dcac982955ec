"""The warehouse: a folder of views."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, finalize

from headwater.errors import EngineError, FencedError, HeadwaterError, InputError
from headwater.storage.bucket import StoreError
from headwater.storage.location import Location
from headwater.storage.modes import OWN, mode_of, set_modes
from headwater.storage.opening import is_address, opened
from headwater.warehouse.change_feed import feed_folder, is_feed
from headwater.warehouse.columns import check_name
from headwater.warehouse.commits import APP, FoldedBase, LogLine, ViewCommit
from headwater.warehouse.delta_log import OLDEST, DeltaLog, is_occupied, is_table
from headwater.warehouse.files import write_counted
from headwater.warehouse.groups import GroupTable, in_the_way
from headwater.warehouse.identity import require_format
from headwater.warehouse.loads import ViewLoad
from headwater.warehouse.notes import read_notes, write_notes
from headwater.warehouse.own_files import store_trouble
from headwater.warehouse.remaking import looked_at, throw_away, write_table
from headwater.warehouse.stored import first_stored, names_stored
from headwater.warehouse.view_table import ViewTable

if TYPE_CHECKING:
    pass

MODES = {"private": 0o700, "group": 0o750, "public": 0o755}
"""Who may read the views: the user that runs Headwater, its group, or everybody."""
_RECENT = 32
"""How many views are kept open that nobody holds: each has two folders open."""


class ExistsError(InputError):
    """A view that was to be made is there already."""


def refuse_own(warehouse: Warehouse, member: str, group: str) -> None:
    """InputError if a view that is to be in a group has been loaded by itself."""
    if warehouse.has_view(member):
        raise InputError(
            f"View {member} is in the warehouse by itself, and is to be in the group {group}.",
            f"Run 'headwater drop {member}', then 'headwater reload {group}'.",
        )
    other = warehouse.group_of(member)
    if other is not None and other.name != group:
        raise InputError(
            f"View {member} is in the group {other.name} in the warehouse, and is to be in the "
            f"group {group}.",
            f"Run 'headwater reload {other.name}', or 'headwater drop {other.name}' if it has no "
            f"views left; then 'headwater reload {group}'.",
        )


@contextmanager
def _telling(root: Location) -> Iterator[None]:
    """Say in words why a warehouse cannot be looked at."""
    try:
        yield
    except StoreError as error:
        raise store_trouble(error) from None
    except OSError as error:
        raise InputError(
            f"The warehouse {root} cannot be read: {error.strerror}.",
            "See to its folder.",
        ) from None


class Warehouse:
    """A folder that holds views: local or mounted, or in an object store.

    `durable=False` leaves it to the operating system when commits reach the disk: a crash of the
    machine, not of the process, may then lose the newest.
    """

    def __init__(self, path: Location | Path | str, *, durable: bool = True) -> None:
        if isinstance(path, str) and is_address(path):
            path = opened(path, Path(), {})
        self._root = (
            path
            if isinstance(path, Location)
            else Location.of(Path(path).absolute(), durable=durable)
        )
        self.path = self._root.path
        # delta-rs takes % for an escape; Spark takes the others for a pattern, and then reads a
        # file twice even if told that they are none.
        if found := set(str(self._root)) & set("%*?[]{}\\"):
            raise InputError(
                f"The path of the warehouse '{self._root}' contains {' '.join(sorted(found))}.",
                "Choose a folder without such characters in its path.",
            )
        self._own = self._root / OWN
        self._logs = self._own / "views"
        self._stored = self._own / "stored"
        self._groups = self._own / "groups"
        self._staging = self._own / "staging"
        self._trash = self._own / "trash"
        self._open: WeakValueDictionary[str, ViewTable] = WeakValueDictionary()
        self._recent: deque[ViewTable] = deque(maxlen=_RECENT)
        self._scratch: str | None = None
        with _telling(self._root):
            self._root.require_own()
        require_format(self._own)

    @property
    def internal(self) -> Path:
        """Where Headwater keeps what is its own."""
        return self.path / OWN

    @property
    def own(self) -> Location:
        """The same as a location."""
        return self._own

    @property
    def changes(self) -> Location:
        """Where the change logs of all sources are."""
        return self._own / "changes"

    def scratch(self, name: str) -> Path:
        """A folder of this machine for what is needed only for a while."""
        if self._root.storage.moves_folders:
            return self.internal / "scratch" / name
        if self._scratch is None:
            self._scratch = mkdtemp(prefix="headwater-scratch-")  # mode 0700
            finalize(self, rmtree, self._scratch, ignore_errors=True)
        return Path(self._scratch, name)

    def let_read(self, readers: str) -> None:
        """Let these read the views, of which some may be there already, and nobody else.

        Who may read what is in an object store, is said there.
        """
        if not self._root.storage.moves_folders:
            return
        self._own.make_folder()
        self._root.require_own()
        before, mode = mode_of(self.path), MODES[readers]
        try:
            self.internal.chmod(MODES["private"])
            if before != mode:
                self.path.chmod(self.path.stat().st_mode & 0o7000 | before & mode)  # nobody new yet
                for name in filter(lambda n: (self.path / n).is_dir(), self.shown_names()):
                    set_modes(self.path / name, mode)
                    if is_feed(feed := feed_folder(self._root / name)):
                        set_modes(feed.path, mode)
                self.path.chmod(self.path.stat().st_mode & 0o7000 | mode)
        except PermissionError:
            raise InputError(
                f"The warehouse {self._root} belongs to another user, who lets others read it than "
                f'readers = "{readers}" does.',
                f"Change its mode to {mode:o}, or say in headwater.toml who may read the views.",
            ) from None

    def remove_leftovers(self, older_than_s: float = 3600.0) -> None:
        """Remove what processes that were killed have left behind, and nobody has touched since."""
        moment = self._root.storage.now() - older_than_s
        for folder in (self._staging, self._trash, self._own / "scratch"):
            for item in () if folder.is_link() else folder.files():
                if item.touched() < moment:
                    item.remove_tree()

    def view_names(self) -> list[str]:
        """The views and groups there are: one exists when its signed log does."""
        return [item.name for item in self._logs.files() if is_table(item)]

    def shown_names(self) -> list[str]:
        """The views that can be read: those by themselves, and the members of groups."""
        found: dict[str, None] = {}
        for name in self.view_names():
            if not self.is_group(name):
                found[name] = None
                continue
            with suppress(EngineError):  # it is told where the group itself is looked at
                found |= dict.fromkeys(member.name for member in self.group(name).members)
        return list(found)

    def is_group(self, name: str) -> bool:
        """Whether what has this name is a group: that has a table of what is stored for it."""
        return is_occupied(self._groups / name)

    def group(self, name: str) -> GroupTable:
        """A group that is there."""
        found = self.view(name)
        if not isinstance(found, GroupTable):
            groups = [each for each in self.view_names() if self.is_group(each)]
            raise InputError(
                f"'{name}' is not a group of views in the warehouse {self._root}.",
                f"Its groups are {', '.join(groups)}." if groups else "It has no groups.",
            )
        return found

    def group_of(self, name: str) -> GroupTable | None:
        """The group of which a view is a member; None if it is by itself, or not there."""
        if self.has_view(name):
            return None
        for each in filter(self.is_group, self.view_names()):
            with suppress(EngineError):
                group = self.group(each)
                if any(member.name == name for member in group.members):
                    return group
        return None

    def has_view(self, name: str) -> bool:
        return name == Path(name).name and is_table(self._logs / name)

    def view(self, name: str) -> ViewTable:
        """A view that is there. As long as it is open, it is the same for all who ask for it, so
        that each reads only what was committed since; its tables' folders tell whether it is."""
        if not self.has_view(name):
            if group := self.group_of(name):
                return group.member(name)
            names = self.shown_names()
            raise InputError(
                f"There is no view '{name}' in the warehouse {self._root}.",
                f"It has {', '.join(names)}." if names else "It has no views yet.",
            )
        found = self._open.get(name)
        if found is None or not found.is_in_place:
            found = self._open[name] = self._table(name, self.is_group(name))
        if found not in self._recent:
            self._recent.append(found)
        return found

    def shown_view(self, name: str) -> ViewTable:
        """A view that is there to be read: no group, which shows nothing by itself."""
        found = self.view(name)
        if found.members:
            names = ", ".join(member.name for member in found.members)
            raise InputError(f"'{name}' is a group of views.", f"Name one of them: {names}.")
        return found

    def reached(self, source: str) -> list[int]:
        """How far each view has come with a source; 0 if that cannot be told."""
        found = []
        for name in self.view_names():
            try:
                vector = self.view(name).latest().vector
            except HeadwaterError:
                found.append(0)
                continue
            if source in vector:
                found.append(vector[source].number)
        return found

    def put(self, load: ViewLoad) -> ViewTable:
        """Load a view: a new one, or in place of what it had, which is one more version of it."""
        self._check_members(load)
        if self.has_view(load.name) and self.is_group(load.name) == load.is_group:
            return self._replaced(load)
        if self.has_view(load.name):
            self.drop(load.name, load.guard)  # was a view and is a group now, or the other way
        try:
            return self.create(load)
        except ExistsError:
            raise FencedError(
                f"Another runner has loaded the view {load.name} meanwhile.",
                "One of both was replaced; who is the runner takes it up as it is.",
            ) from None

    def _replaced(self, load: ViewLoad) -> ViewTable:
        view = self.view(load.name)
        before: list[str] = []
        with suppress(EngineError):  # it may be damaged
            before = [member.name for member in view.members]
        view.replace(load)
        now = {member.name for member in load.definition.members}
        with self._locked():
            for name in before:
                if name not in now and not self.has_view(name):
                    self._remove_leftover(name)
        return self.view(load.name)

    def _check_members(self, load: ViewLoad) -> None:
        """Refuse members whose names others have in the warehouse."""
        group = self.view(load.name) if self.has_view(load.name) else None
        for member in load.definition.members:
            refuse_own(self, member.name, load.name)
            known: list[str] = []
            with suppress(EngineError):
                known = [each.name for each in group.members] if group else []
            folder = self._root / member.name
            if member.name not in known and is_occupied(folder) and not self._is_ours(folder):
                raise in_the_way(folder, member.name)

    def create(self, load: ViewLoad) -> ViewTable:
        """Load a new view.

        Its tables are made whole aside and then moved into place, the signed log last, and
        from then on the view exists. What an attempt that failed left behind is replaced.
        """
        load.check()
        name = load.name
        self._refuse_existing(name)
        if not self._root.storage.moves_folders:
            return self._create_in_place(load)
        aside = self._staging / self._root.storage.fresh_name()
        try:
            commit = self._write_plain(aside, load)
            write_table(aside / "log", [*commit.actions(), *load.log_table()])
            with load.guard(), self._locked():
                self._refuse_existing(name)
                for folder in self.remains(name) if load.is_group else ():
                    self._throw_away(folder)
                for each in [m.name for m in load.definition.members] or [name]:
                    self._remove_leftover(each)
                if load.has_stored:
                    (aside / "stored").move(self._stored / name)
                (aside / "plain").move((self._groups if load.is_group else self._root) / name)
                (aside / "log").move(self._logs / name)
        finally:
            aside.remove_tree()
        return self.view(name)

    def _create_in_place(self, load: ViewLoad) -> ViewTable:
        """The same where folders are not moved: the signed log's first entry decides.

        What an attempt that failed left behind is written over, and nothing is removed: if this
        runner has been replaced, that may be the work of another.
        """
        for each in [m.name for m in load.definition.members] or [load.name]:
            if is_occupied(folder := self._root / each) and not self._is_ours(folder):
                raise in_the_way(folder, each)
        self._table(load.name, load.is_group).replace(load)
        return self.view(load.name)

    def drop(
        self, name: str, guard: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> tuple[Location, ...]:
        """Remove a view: it is gone as soon as its signed log has been moved away.

        What is left of a damaged one goes as well; the folders that were removed are returned.
        """
        self.check_droppable(name)
        remains = self.remains(name)
        tables = list(map(looked_at, remains))
        with guard(), self._locked():
            notes = read_notes(self._own)
            if name in notes:
                write_notes(self._own, {n: note for n, note in notes.items() if n != name})
            for table in tables:
                throw_away(table, self._trash)
        self._trash.remove_tree()
        return remains

    def check_droppable(self, name: str) -> None:
        """InputError if there is nothing of that name, or it is only a part of a group."""
        if group := self.group_of(name):
            raise InputError(
                f"The view {name} is a member of the group {group.name}.",
                f"'headwater drop {group.name}' removes the whole group. To have the group without "
                f"it, take its file away, then run 'headwater reload {group.name}'.",
            )
        if not self.remains(name):
            self.view(name)  # says that there is none

    def remains(self, name: str) -> tuple[Location, ...]:
        """The folders that there are of a view, whole or damaged: its signed log first."""
        log, plain = self._logs / check_name(name), self._root / name
        stored = self._stored / name
        if self.is_group(name):
            return self._group_remains(name)
        ours = is_occupied(log) or self._is_ours(plain)
        feed = feed_folder(plain)
        found = (log, plain, stored) if ours else (stored,)
        if is_feed(feed):  # also where a drop was killed before it
            found = (*found, feed)
        return tuple(filter(is_occupied, found))

    def _group_remains(self, name: str) -> tuple[Location, ...]:
        """A group's signed log, its table, and the plain tables of its members."""
        found = [self._logs / name, self._groups / name]
        with suppress(HeadwaterError):  # what a damaged log does not tell is a leftover of theirs
            for member in self.group(name).members:
                if not self.has_view(member.name):
                    found.append(member.plain.folder)
                    if is_feed(feed := feed_folder(member.plain.folder)):
                        found.append(feed)
        return tuple(filter(is_occupied, found))

    # Making tables

    def _write_plain(self, aside: Location, load: ViewLoad) -> ViewCommit:
        """The plain table, and what it shows, if that is not the same."""
        names: list[LogLine] = []
        if load.has_stored:
            schema = load.definition.schema
            folder = aside / "stored"
            folder.make_folder(durable=False)
            stored = write_counted(load.contents, schema, folder, self._staging)
            write_table(aside / "stored", first_stored(load.name, schema, stored))
            names = [names_stored(0)]
        folder = aside / "plain"
        folder.make_folder(durable=False)
        files = load.write_plain(folder, self._staging)
        commit = load.commit(1, FoldedBase(0, 1), sum(file.rows for file in files), 0)
        table = [*load.plain_table(), *(file.add() for file in files)]
        write_table(aside / "plain", [*commit.actions(), *names, *table])
        return commit

    # Folders

    def _table(self, name: str, is_group: bool) -> ViewTable:
        if is_group:
            stored, log = self._groups / name, self._logs / name
            return GroupTable(name, stored, log, self._staging, self._own, self._root)
        return ViewTable(
            name,
            self._root / name,
            self._stored / name,
            self._logs / name,
            self._staging,
            self._own,
        )

    def _refuse_existing(self, name: str) -> None:
        if self.has_view(name):
            raise ExistsError(
                f"The view '{name}' is already in the warehouse {self._root}.",
                "Drop it first to load it anew.",
            )

    def _remove_leftover(self, name: str) -> None:
        for folder in self.remains(name):
            self._throw_away(folder)
        if is_occupied(folder := self._root / name):
            raise in_the_way(folder, name)

    @staticmethod
    def _is_ours(folder: Location) -> bool:
        if not is_table(folder):
            return not folder.storage.moves_folders and (folder / OLDEST).exists()
        try:
            return DeltaLog(folder).snapshot().transaction(APP) is not None
        except EngineError:
            return False

    def _throw_away(self, folder: Location) -> None:
        throw_away(looked_at(folder), self._trash)

    def _locked(self) -> AbstractContextManager[object]:
        """Folders are moved by one process at a time."""
        self._staging.make_folder()
        return (self._own / "lock").locked()
