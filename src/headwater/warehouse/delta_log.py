"""A Delta table's log in a folder: entries read and written by the protocol itself.

A commit is one file in `_delta_log`, named by its version and put there only if it is absent,
which makes it atomic and every version the result of one writer's decision. Writing it directly
costs the same at the first commit and at the thousandth (docs/decisions/0007).

Entries are opened by name, one after the other: what a listing may miss is not missed, and the
newest version is the one behind which there is none. Checkpoints only shorten the way; one that
cannot be read is passed over while the entries are there. delta-rs writes them, for every Delta
reader's sake, in a folder of its own; they are put here and read back before anything that they
replace may go.

Where no folder can be moved, a table that goes leaves `_oldest_version` behind, above all versions
that it had, and one that takes its place begins there. So no version is ever given twice, and who
slept through both finds out: see `put`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from itertools import chain, islice

from headwater.errors import EngineError, FencedError
from headwater.reading import parse_json
from headwater.storage.location import Location
from headwater.warehouse.checkpoints import checkpoint_of
from headwater.warehouse.commits import LogLine, maintenance_info
from headwater.warehouse.forms import ACTIONS, has_form
from headwater.warehouse.own_files import read_own, read_own_bytes
from headwater.warehouse.sealing import is_whole, sealed
from headwater.warehouse.table_versions import TableVersion, from_checkpoint, is_sound

OLDEST = "_oldest_version"
"""The file that says which versions' log entries may have been deleted: those before its own."""

_logger = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_VERSION = re.compile(r"[0-9]{20}(?![0-9])")
_OWN_FILE = re.compile(r"[0-9]{12}-[0-9a-f]{32}\.parquet")
_SHORT = 4096
"""An entry of up to so many bytes is parsed once, however often it is read again."""
YOUNG_S = 1800.0
"""Older files are not committed any more; clean-up lets an entry wait no longer for its name than
it leaves files that are not named, less this."""
_TRIES = 20
_PAUSE_S = 0.05


def is_table(folder: Location) -> bool:
    """Whether there is a table: one that went may have left the number of its last version."""
    if not (folder / "_delta_log").is_folder():
        return False
    oldest = read_own_bytes(folder / OLDEST)
    if oldest is None:
        return True
    versions = (_version_of(n) for n in (folder / "_delta_log").names() if _VERSION.match(n))
    return max(versions, default=-1) >= (_number_in(oldest) or 0)


def is_occupied(folder: Location) -> bool:
    """Whether there is anything but what is left of a table that went, or was never made."""
    about = folder.about()
    if about is None or not about.is_folder or folder.storage.moves_folders:
        return about is not None
    return any(name != OLDEST and not _OWN_FILE.fullmatch(name) for name in folder.names())


class OvertakenError(Exception):
    """The version was taken long ago and its entry has been cleaned away since."""


class DeltaLog:
    """The log of one Delta table: this one, not another that takes its place after a drop."""

    def __init__(self, folder: Location) -> None:
        self.folder = folder
        self._entries = folder / "_delta_log"
        self._held = self._entries.hold()  # None if it was deleted: all that is done here says so
        self._known: TableVersion | None = None
        self._place: tuple[int, int, object | None] = (0, -1, None)

    @property
    def is_in_place(self) -> bool:
        return self._held is not None and self._held.is_in_place()

    def check_in_place(self) -> None:
        """Stop when the table was dropped, even if another of its name is there by now."""
        if not self.is_in_place:
            raise self._dropped()

    def _dropped(self) -> FencedError:
        return FencedError(
            f"The table {self.folder} has been dropped, so work on it stops.",
            "Open the view again if it has been loaded anew.",
        )

    # Reading

    def forget(self) -> None:
        """Rely on nothing that was read before: what is asked for next is read from the start."""
        self._known = None

    def snapshot(self, version: int | None = None) -> TableVersion:
        """The table at a version, or the newest; FileNotFoundError when it is not there."""
        try:
            return self._newest() if version is None else self._at(version)
        finally:
            self.check_in_place()

    def _newest(self) -> TableVersion:
        if self._known is not None:
            found = self._replayed(self._known)
            # Entries go from the oldest on. While that of this version is there, or is the first
            # that may be, none behind it has gone.
            if self._entry(found.version).exists() and self.oldest() <= found.version + 1:
                self._known = found
                return found
        for _ in range(_TRIES):
            listed = max(map(_version_of, self._names()), default=-1)
            if listed < self.oldest() and not self.folder.storage.moves_folders:
                raise self._dropped()
            found = self._replayed(self._start())
            if found.version >= max(listed, self.oldest() - 1, 0):
                self._known = found
                return found
            self.check_in_place()
            self.folder.storage.pause(_PAUSE_S)  # clean-up was at it
        raise self._damaged(
            f"there is no entry {found.version + 1} that can be read, but there are later ones"
        )

    def _at(self, version: int) -> TableVersion:
        found = self._replayed(self._start(version), version)
        if found.version != version:
            raise FileNotFoundError(f"version {version} of {self.folder} is not there")
        return found

    def _replayed(self, start: TableVersion, upto: int | None = None) -> TableVersion:
        most = None if upto is None else upto - start.version
        return start.after(list(islice(self.entries_after(start.version), most)))

    def _start(self, upto: int | None = None, without: Set[int] = frozenset()) -> TableVersion:
        """The newest checkpoint that can be read, or the state before the first entry."""
        first = TableVersion(self.folder)
        checkpoints = sorted(self._checkpoints().items(), reverse=True)
        if not checkpoints or checkpoints[0][0] < self.oldest():
            first = self._before_beginning(first)
        for version, parts in checkpoints:
            within = first.version < version and (upto is None or version <= upto)
            if version not in without and within:
                found = from_checkpoint(self.folder, version, parts)
                if found is not None:
                    return found
        return first

    def _before_beginning(self, first: TableVersion) -> TableVersion:
        """The state before the first entry of a table that has taken the place of another."""
        oldest = self.oldest()
        entry = (self.entry(oldest) or []) if oldest else []
        begins = any("protocol" in action for action in entry)
        begins &= not any("remove" in action for action in entry)
        return TableVersion(self.folder, oldest - 1) if begins else first

    def entry(self, version: int) -> list[LogLine] | None:
        """The actions of a commit; None when there is none or it has been cleaned away."""
        path = self._entry(version)
        content = read_own_bytes(path)
        if content is None:
            return None
        found = _parsed(content) if len(content) > _SHORT else _parsed_short(content)
        if not found:
            raise self._damaged(f"{path} cannot be read")
        return list(found)

    def entries_back(self, version: int) -> Iterator[tuple[int, list[LogLine]]]:
        """From a version back to the oldest whose entry is still there, with these versions."""
        while (entry := self.entry(version)) is not None:
            yield version, entry
            version -= 1

    def entries_after(self, version: int) -> Iterator[list[LogLine]]:
        """Behind a version, up to the newest."""
        while (entry := self.entry(version + 1)) is not None:
            yield entry
            version += 1

    def _damaged(self, how: str) -> EngineError:
        return EngineError(
            f"The log of the table {self.folder} is damaged: {how}.",
            f"Load the view anew with 'headwater reload {self.folder.name}', or remove it with "
            f"'headwater drop {self.folder.name}': the next run loads it anew.",
        )

    def oldest(self) -> int:
        """No log entry at or above this version has been cleaned away."""
        content = read_own_bytes(self.folder / OLDEST)
        if content is None:
            return 0
        found = _number_in(content)
        if found is None:  # emptied by a power loss, if commits are not durable
            return min(self.entry_times(), default=0)
        return found

    def entry_times(self) -> dict[int, float]:
        """When each entry that is still there was written, in seconds since 1970."""
        return {
            _version_of(name): about.modified
            for name, about in self._entries.listed().items()
            if _VERSION.match(name) and name[20:] == ".json"
        }

    def _names(self) -> list[str]:
        """The log's files that belong to a version."""
        return [name for name in self._entries.names() if _VERSION.match(name)]

    # Writing

    def make_durable(self) -> None:
        """Sync what others have put here, and where: they may have been killed before they did."""
        for folder in (self._entries, self.folder, self.folder.parent):
            folder.settle(())

    def put(self, version: int, actions: Sequence[LogLine], new: Sequence[Location] = ()) -> bool:
        """Commit at exactly this version; False when it is taken.

        An entry that clean-up has deleted leaves its version free to a writer that slept
        meanwhile. Clean-up raises `oldest` before it deletes, so looking at it after the
        entry is in place always finds this out.

        `new` are the files that this entry is the first to name. Clean-up deletes what is old and
        not named, and before it looks what is, it deletes entries that have waited long for their
        name. So files that are young when the entry is written are there, or it gets no name.
        """
        target = self._entry(version)

        def check() -> None:
            # Seen in place when its contents are there, the entry can get its name in this table
            # only: if another takes its place afterwards, there is nothing to be named.
            self.check_in_place()
            now = self.folder.storage.now() if new else 0.0
            for about in (file.about() for file in new):
                if about is None or now - about.modified > YOUNG_S:
                    raise self._too_late()

        try:
            if not target.put_if_absent(entry_of(actions), check):
                return False
        except (FileNotFoundError, NotADirectoryError):
            self.check_in_place()
            raise self._too_late() from None
        if self.oldest() > version:
            target.remove()
            raise OvertakenError
        return True

    def look_at_place(self) -> None:
        """Remember what is here: who finds then that it is no whole table may put one in its place,
        with `first_version`, if nobody else has done so meanwhile."""
        content, token = (self.folder / OLDEST).stamped()
        self._place = _number_in(content) or 0, max(self.entry_times(), default=-1), token

    def first_version(self) -> int:
        """The version with which a table begins that takes the place of what was here.

        Where folders are moved, that is another folder. Elsewhere what was here is no table any
        more.
        """
        if self.folder.storage.moves_folders:
            return 0
        oldest, last, token = self._place
        if last < oldest:
            return oldest
        raised = str(last + 2).encode()
        if (self.folder / OLDEST).replace_if(raised, token) is None:
            raise self._made_by_another()
        return last + 2

    def begin(self, version: int, actions: Sequence[LogLine]) -> None:
        """Make the table in this place, with its `first_version`."""
        try:
            if not self.put(version, actions):
                raise OvertakenError
        except OvertakenError:
            raise self._made_by_another() from None
        self.forget()
        if version:  # other readers begin with version 0, or with a checkpoint
            self.delete_before(version)
            self.try_checkpoint()

    def _made_by_another(self) -> FencedError:
        return FencedError(
            f"Another process has made the table {self.folder} meanwhile, or dropped it.",
            "One of both was replaced; who is the runner takes it up as it is.",
        )

    def end(self, above: int) -> None:
        """Let the table go that was here when this place was looked at, and is nothing from the
        first step on.

        Whatever takes its place begins with a version that is neither one of this nor below
        another number.
        """
        oldest, last, token = self._place
        number = max(above, oldest, last + 2)
        if (self.folder / OLDEST).replace_if(str(number).encode(), token) is None:
            raise self._made_by_another()
        for name in sorted(self._entries.names()):
            (self._entries / name).remove()
        for file in self.folder.files():
            if file.name != OLDEST:
                file.remove_tree()
        self.forget()

    def refuse_waiting(self, moment: float, view: str) -> None:
        """From now on no entry gets its name that has waited for it since before a moment.

        Where an entry that waits is no file, the version that it waits for is taken.
        """
        if self.folder.storage.moves_folders:
            self.delete_temporary_before(moment)
            return
        while not self._is_taken(self.snapshot().version + 1, view):
            pass

    def _is_taken(self, version: int, view: str) -> bool:
        try:
            return self.put(version, [maintenance_info(view, "clean")])
        except OvertakenError:
            return False

    def _too_late(self) -> FencedError:
        return FencedError(
            f"A commit to the table {self.folder} stood still for so long that what was written "
            "for it counts as abandoned.",
            "Nothing of it was committed: it is made anew.",
        )

    def _entry(self, version: int) -> Location:
        return self._entries / f"{version:020}.json"

    # Checkpoints

    def has_checkpoint(self, version: int) -> bool:
        """Whether there is one that can be read, by others too."""
        parts = self._checkpoints().get(version, [])
        return is_sound(parts) and self._checkpoint(version) is not None

    def write_checkpoint(self, snapshot: TableVersion) -> None:
        """Let a version be read without the entries before it; durable when this returns."""
        if not self.has_checkpoint(snapshot.version):
            self.remove_broken_checkpoints(snapshot.version)
            content, hint = checkpoint_of(snapshot)
            (self._entries / f"{snapshot.version:020}.checkpoint.parquet").replace(content)
            self._hint.replace(hint)
        names = [path.name for path in self._checkpoints().get(snapshot.version, [])]
        self._entries.settle([*names, *([self._hint.name] if self._hint.exists() else [])])
        found = self._checkpoint(snapshot.version)
        if found is None or not found.says_the_same(snapshot):
            for path in self._checkpoints().get(snapshot.version, []):
                path.remove()
            self._hint.remove()
            raise EngineError(
                f"A checkpoint of the table {self.folder} at version {snapshot.version} says "
                "something else than the log, so it was removed.",
                "Nothing is lost: the log's entries are all there.",
            )

    def try_checkpoint(self) -> None:
        """Write a checkpoint of the newest version; reading gets slower without, nothing else."""
        try:
            self.write_checkpoint(self.snapshot())
        except Exception as error:
            _logger.warning("No checkpoint of %s was written: %s", self.folder, error)

    def remove_broken_checkpoints(self, version: int | None = None) -> None:
        """Remove what a power loss has left of the checkpoints at which other readers begin.

        These are the newest, and of those who read an earlier version the newest up to it. Only
        where the table can be read without them.
        """
        broken: dict[int, list[Location]] = {}
        for upto in {None, version}:
            found = self._broken_checkpoints(upto)
            if found and self._is_read_without(found.keys(), upto):
                broken |= found
        for path in chain.from_iterable(broken.values()):
            path.remove()
        if self._hinted() not in self._checkpoints():
            self._hint.remove()

    def _broken_checkpoints(self, upto: int | None) -> dict[int, list[Location]]:
        """Of the newest checkpoints up to a version those that cannot be read, or not by others."""
        broken = {}
        for version, parts in sorted(self._checkpoints().items(), reverse=True):
            if upto is None or version <= upto:
                if self.has_checkpoint(version):
                    break
                broken[version] = parts
        return broken

    def _is_read_without(self, checkpoints: Set[int], upto: int | None) -> bool:
        wanted = DeltaLog(self.folder).snapshot(upto).version
        return self._replayed(self._start(upto, checkpoints), wanted).version == wanted

    def _hinted(self) -> int | None:
        """The checkpoint at which other readers begin."""
        version = (read_own(self._hint) or {}).get("version")
        return version if isinstance(version, int) else None

    @property
    def _hint(self) -> Location:
        return self._entries / "_last_checkpoint"

    def _checkpoint(self, version: int) -> TableVersion | None:
        return from_checkpoint(self.folder, version, self._checkpoints().get(version, []))

    def _checkpoints(self) -> dict[int, list[Location]]:
        """The files of every checkpoint by version: one, or all of its parts."""
        whole: dict[int, list[Location]] = {}
        in_parts: dict[tuple[int, int], list[Location]] = {}
        for name in self._names():
            if found := _CHECKPOINT.fullmatch(name):
                version, _, count = found.groups()
                if count is None:
                    whole[int(version)] = [self._entries / name]
                else:
                    key = int(version), int(count)
                    in_parts.setdefault(key, []).append(self._entries / name)
        complete = {at: parts for (at, count), parts in in_parts.items() if len(parts) == count}
        return complete | whole

    # Clean-up

    def set_oldest(self, version: int) -> None:
        """It never falls: a put that is late changes nothing."""
        path = self.folder / OLDEST
        while True:
            content, token = path.stamped()
            if (_number_in(content) or 0) >= version:
                return
            if path.replace_if(str(version).encode(), token) is not None:
                return

    def delete_before(self, version: int) -> None:
        """Delete the log's files of all earlier versions."""
        for name in sorted(self._names()):
            if _version_of(name) < version:
                (self._entries / name).remove()

    def delete_temporary_before(self, moment: float) -> None:
        """Remove what a writer that was killed has left."""
        for folder in (self.folder, self._entries):
            for file in folder.files(".tmp"):
                if file.name.startswith(".") and file.modified() < moment:
                    file.remove()


def entry_of(actions: Sequence[LogLine]) -> bytes:
    """An entry that consists of these actions."""
    content = "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
    return sealed(content.encode())


def _parsed(content: bytes) -> Sequence[LogLine]:
    """The actions that an entry consists of; none if it is damaged."""
    if not is_whole(content):
        return ()
    try:
        found = [parse_json(line) for line in content.split(b"\n") if line.strip()]
    except ValueError:
        return ()
    return found if has_form(ACTIONS, found) else ()


_parsed_short = lru_cache(maxsize=512)(_parsed)


def _number_in(content: bytes) -> int | None:
    found = re.fullmatch(rb"[0-9]{1,20}", content.strip())
    return int(found[0]) if found else None


def _version_of(name: str) -> int:
    return int(name[:20])
