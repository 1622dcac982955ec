"""The change log: every transaction of a source in the channel's order, durable, by number.

One folder for each source, in it segments that are only ever appended to. A segment belongs to
one runner, whose epoch is in its name; the first number of a later segment ends all earlier
ones, so what a replaced runner still writes counts for nothing. It also shows how far the earlier
ones reached: numbers that they lack are a hole, and a hole is an error, never read over.

A source may forget what is here, and no view commits what is not here yet. So after a crash
the order is still known, whatever the source would say when it is read again, and a view
that is far behind, or a recomputation of an old state, finds the changes here.

Choices: one log for each source rather than one for each relation, because the order between
relations is what has to survive. Rows are stored as Arrow, changes of one relation added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import BrokenLogError, EngineError, HeadwaterError
from headwater.storage.bucket import StoreError
from headwater.storage.contract import Appending
from headwater.storage.location import Location
from headwater.warehouse.change_records import (
    SEGMENT_START,
    Break,
    DamageError,
    FormatError,
    NumberedRecord,
    Position,
    PositionRecord,
    Record,
    StoredRecord,
    batch_of,
    stored_in,
    surviving_numbers,
)
from headwater.warehouse.own_files import store_trouble
from headwater.warehouse.pins import pinned, pins_in, releasing
from headwater.warehouse.segments import (
    following_name,
    following_path,
    segment_name,
    segment_path,
)

_INDEXED = 128
_TRIES = 20
_NEVER = 1 << 62


@dataclass(frozen=True)
class _Segment:
    path: Location
    epoch: int
    first: int
    limit: int = _NEVER
    """From which number on it does not count: where a later one begins."""


class ChangeLog:
    """One source's log. One thread appends; any, in any process, may read."""

    def __init__(self, folder: Location | Path, source: str) -> None:
        self.source = source
        self._folder = Location.of(folder) / source
        self._file: Appending | None = None
        self._size = 0
        self._epoch = 0
        self._begun = 0
        self._check: Callable[[], None] = lambda: None
        self._guard: Callable[[], AbstractContextManager[object]] = nullcontext
        self.end = 0
        """The number of the last transaction that is durable."""
        self.position: Position | None = None
        """The source's position there, or further on without a transaction."""
        self._index: dict[Location, list[tuple[int, int]]] = {}

    # Reading

    def scan(self) -> None:
        """Find out where the log ends; BrokenLogError if that is not known for certain."""
        segments = self._segments()
        end = segments[-1].first - 1 if segments else 0
        for segment in reversed(segments):
            if segment.first > segment.limit:
                continue
            reached, position = self._last(segment)
            end = max(end, reached)
            if position is not None:
                self.end, self.position = end, position
                return
        self.end, self.position = end, None

    def _last(self, segment: _Segment) -> tuple[int, Position | None]:
        """The last number in a segment that counts, and the position there."""
        end, position = segment.first - 1, None
        for stored in self._stored(segment):
            if stored.number is not None:
                if stored.number >= segment.limit:
                    break
                if stored.number != end + 1:
                    raise self._hole(end + 1, segment.path, stored.offset)
                end = stored.number
            position = stored.position
        self._check_reaches(segment, end)
        return end, position

    def read(self, after: int | None = None) -> Iterator[NumberedRecord]:
        """The transactions and gaps behind a number, or all that are kept, in order.

        BrokenLogError where one is missing, HeadwaterError where it is not kept any more.
        """
        return self._opened(after, StoredRecord.record)

    def heads(self, after: int) -> Iterator[NumberedRecord]:
        """The same without the rows that were changed, which take the time to read."""
        return self._opened(after, StoredRecord.head)

    def _opened(
        self, after: int | None, view: Callable[[StoredRecord, str], NumberedRecord]
    ) -> Iterator[NumberedRecord]:
        for path, stored in self._numbered(after):
            with self._telling(path):
                opened = view(stored, self.source)
            yield opened

    def _numbered(self, after: int | None) -> Iterator[tuple[Location, StoredRecord]]:
        segments = self._counting()
        oldest = segments[0].first if segments else 1
        expected = oldest if after is None else after + 1
        if segments and expected < oldest:
            raise self._not_kept(expected)
        for segment in segments:
            if segment.limit <= expected:
                continue
            for stored in self._stored(segment, self._offset(segment, expected)):
                number = stored.number
                if number is None or number < expected:
                    continue
                if number >= segment.limit:
                    break
                if number > expected:
                    raise self._hole(expected, segment.path, stored.offset)
                self._remember(segment, number, stored.offset)
                yield segment.path, stored
                expected += 1
            self._check_reaches(segment, expected - 1)

    @property
    def first(self) -> int:
        """The number of the oldest transaction that is still kept."""
        segments = self._counting()
        return segments[0].first if segments else 1

    @property
    def byte_count(self) -> int:
        """What the log takes on disk."""
        listed = self._folder.listed().items()
        return sum(about.size for name, about in listed if segment_name(name))

    def pinned(self, after: int) -> AbstractContextManager[None]:
        """Keep everything behind a number while this is open, in whatever process."""
        return pinned(self._folder, after)

    def _segments(self) -> tuple[_Segment, ...]:
        names = self._names()
        follows = dict(filter(None, map(following_name, names)))
        named = ((*known, name) for name in names if (known := segment_name(name)))
        found = []
        limit, later, latest = _NEVER, _NEVER, _NEVER
        for epoch, first, name in sorted(named, reverse=True):
            passed = latest < epoch < later  # by a runner that was replaced before it began
            found.append(_Segment(self._folder / name, epoch, first, 0 if passed else limit))
            if not passed:
                limit, later = min(limit, first), epoch
                latest = follows.get(epoch, epoch)
        return tuple(reversed(found))

    def _counting(self) -> list[_Segment]:
        """The segments of which something counts: each ends where the next one begins."""
        return [segment for segment in self._segments() if segment.first < segment.limit]

    def _names(self) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return self._folder.names()
        return []

    def _stored(self, segment: _Segment, offset: int = 0) -> Iterator[StoredRecord]:
        try:
            with self._telling(segment.path):
                yield from stored_in(segment.path, offset)
        except FileNotFoundError:
            raise self._not_kept(segment.first) from None

    @contextmanager
    def _telling(self, path: Location) -> Iterator[None]:
        """What is wrong with a segment, in words; only that it is gone is left to the caller."""
        try:
            yield
        except FormatError as error:
            raise BrokenLogError(self.source, f"the change log's file {path} {error}.") from None
        except DamageError as error:
            how = f"{path} at byte {error.offset}."
            raise BrokenLogError(self.source, f"the change log is damaged: {how}") from None
        except FileNotFoundError:
            raise
        except StoreError as error:
            raise store_trouble(error) from None
        except OSError as error:
            how = f"{path}: {error.strerror}."
            raise BrokenLogError(self.source, f"the change log cannot be read: {how}") from None

    def _check_reaches(self, segment: _Segment, number: int) -> None:
        """A later segment says how far this one reached when that was begun."""
        if segment.limit < _NEVER and number + 1 < segment.limit:
            raise self._hole(number + 1, segment.path, segment.path.size())

    def _hole(self, number: int, path: Location, offset: int) -> BrokenLogError:
        return BrokenLogError(
            self.source,
            f"the change log lacks transaction {number}, which should be in {path} before "
            f"byte {offset}.",
        )

    def _not_kept(self, number: int) -> HeadwaterError:
        return HeadwaterError(
            f"The change log of {self.source} has no transaction {number} any more.",
            "It is kept for the time that 'retention' in headwater.toml says.",
        )

    def _offset(self, segment: _Segment, number: int) -> int:
        """Where to begin to read a segment for a number, from what was read before."""
        known = self._index.get(segment.path, [])
        return max((offset for first, offset in known if first <= number), default=0)

    def _remember(self, segment: _Segment, number: int, offset: int) -> None:
        known = self._index.setdefault(segment.path, [])
        if number % _INDEXED == 0 and (not known or known[-1][0] < number):
            known.append((number, offset))

    # Writing

    def open(
        self,
        epoch: int,
        check: Callable[[], None] = lambda: None,
        guard: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Begin to append, as the runner of this epoch.

        Under `guard` nobody else can become the runner, and it raises once somebody has: a segment
        that a replaced one began late would end those that the later one has built on.
        `check` raises once there is a later one. It is called when something has been written
        and before that counts: the later runner looked for the end of the log after it had
        become the runner, so it has seen everything that counts.
        """
        self._folder.make_folder()
        # What a runner wrote that was killed before it synced it can be read, and is not durable.
        # One that was replaced may still write: what is synced is what was read before, or more.
        self.scan()
        self._settle()
        self._check, self._guard = check, guard
        self._epoch = epoch
        self._follow()
        self._roll()

    def begin_anew(
        self, reason: str, after: int, epoch: int, check: Callable[[], None] = lambda: None
    ) -> None:
        """Begin to append behind a gap that concerns everything, and forget what was before it.

        For a log that is damaged, or whose source cannot go on from it. `after` is how far the
        views have come, which a damaged log may not tell any more. No position is known then.
        To be called where nobody else can become the runner.
        Wherever this is cut short, the log is as whole as it was before.
        """
        self._folder.make_folder()
        old, counting = self._segments(), self._counting()
        self.end = max([after, *(s.first - 1 for s in counting), *map(_highest, counting)])
        self.position = None
        self._check, self._guard = check, nullcontext
        self._epoch = epoch
        self.end += any(self._is_in_the_way(segment) for segment in old)
        self._follow()
        self._roll_with(Break(self.end + 1, None, reason, {}))
        for segment in old:
            if (segment.epoch, segment.first) != (epoch, self._begun):
                self._let_go(segment)

    def _follow(self) -> None:
        """Say which segments this runner's follow, unless it has before.

        Under a lock, as `open` asks for where there are locks, none is begun late.
        """
        if self._folder.storage.moves_folders:
            return
        before = max((s.epoch for s in self._counting() if s.epoch < self._epoch), default=0)
        names = self._names()
        if not any(epoch == self._epoch for epoch, _ in filter(None, map(following_name, names))):
            following_path(self._folder, self._epoch, before).put_if_absent(b"")

    def _is_in_the_way(self, segment: _Segment) -> bool:
        """Whether it cannot be appended to although this runner has begun it."""
        if (segment.epoch, segment.first) != (self._epoch, self.end + 1):
            return False
        try:
            list(self._stored(segment))
        except HeadwaterError:
            return True
        return False

    def _settle(self) -> None:
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):  # somebody lets it go just now
                for segment in self._counting():
                    with self._telling(segment.path):
                        self._folder.settle([segment.path.name])
                return

    def append(self, records: Sequence[Record]) -> None:
        """Make records durable, all of them, before it returns."""
        if not records:
            return
        assert self._file is not None, "the change log is not open"
        if self._size > self._file.most_bytes and self.end >= self._begun:
            self._roll()
        self._write(batch_of(records, self._size))
        self._check()
        for record in records:
            if not isinstance(record, PositionRecord):
                self.end = record.number
            self.position = record.position

    def close(self) -> None:
        """Stop to append; a record behind the last one shows later that it was whole."""
        if self._file is None:
            return
        if self.position is not None:
            with suppress(OSError):
                self._write(batch_of([PositionRecord(self.position)], self._size))
        self._shut()

    def has_old(self, older_than_s: float) -> bool:
        """Whether there is something that may be old enough to be released."""
        return any(age >= older_than_s for age in self._ages(self._segments()[:-1]))

    def release(self, upto: int, older_than_s: float, pins: Iterable[int] = ()) -> int:
        """Remove segments that hold nothing behind a number and are old; how many.

        Nothing goes that is behind a pin, given here or held by anybody (`pinned`).
        """
        if not self._folder.is_folder():
            return 0
        gone = 0
        with releasing(self._folder):
            upto = min([upto, *pins, *pins_in(self._folder)])
            segments = self._segments()[:-1]
            for segment, age in zip(segments, self._ages(segments), strict=True):
                if segment.limit - 1 > upto or age < older_than_s:
                    break
                self._let_go(segment)
                gone += 1
            self._forget_epochs()
        return gone

    def _ages(self, segments: Sequence[_Segment]) -> list[float]:
        """How long ago each was last written; one that is gone was just now."""
        now, listed = self._folder.storage.now(), self._folder.listed()
        found = (listed.get(segment.path.name) for segment in segments)
        return [0.0 if about is None else now - about.modified for about in found]

    def _forget_epochs(self) -> None:
        """Remove what says which segments followed others that are gone; the newest stays."""
        names = self._names()
        kept = {found[0] for found in map(segment_name, names) if found} | {self._epoch}
        for name in names:
            if (found := following_name(name)) and found[0] not in kept:
                (self._folder / name).remove()

    def _let_go(self, segment: _Segment) -> None:
        _remove(segment.path)
        self._folder.settle(())  # one that comes back alone would begin with a hole
        self._index.pop(segment.path, None)

    def _roll(self) -> None:
        """Begin a new segment; what it starts with is where the last one ended."""
        self._shut()
        self._begun = self.end + 1
        path = segment_path(self._folder, self._epoch, self._begun)
        with self._guard():
            self._file = path.appending()
        # It is there already if this runner has opened the log before, and may have failed.
        present = self._stored(_Segment(path, self._epoch, self._begun))
        self._size = max((stored.end for stored in present), default=0)
        self._file.truncate(self._size)
        if not self._size:
            self._write(SEGMENT_START)
            if self.position is not None:
                self._write(batch_of([PositionRecord(self.position)], self._size))

    def _roll_with(self, gap: Break) -> None:
        """Begin a new segment with a gap, which it has as soon as it has its name.

        Without it, what the segment begins with would be missing before it.
        """
        path = segment_path(self._folder, self._epoch, gap.number)
        start = SEGMENT_START + batch_of([gap], len(SEGMENT_START))
        is_new = path.put_if_absent(start, self._check)
        self._roll()
        if not is_new:  # this runner has opened the log before
            self.append([gap])
        self.end, self.position = gap.number, gap.position

    def _write(self, data: bytes) -> None:
        """After a failure nothing more is written, so nothing comes behind what was cut off."""
        assert self._file is not None, "the change log is not open"
        try:
            self._file.append(data)
        except BaseException:
            self._shut()
            raise
        self._size += len(data)

    def _shut(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def drop_changes(folder: Location | Path, source: str) -> None:
    """Remove a source's whole log, the oldest first, so that what is left has no hole."""
    changes = Location.of(folder) / source
    for path in (*changes.files(".log"), *changes.files(".follows")):
        _remove(path)
        changes.settle(())


def between(log: ChangeLog, after: int, upto: int) -> Iterator[NumberedRecord]:
    """The transactions and gaps behind one number up to another; an error if one is missing."""
    expected = after + 1
    for found in log.read(after) if upto > after else ():
        yield found
        expected += 1
        if expected > upto:
            return
    if expected <= upto:
        raise HeadwaterError(
            f"The change log of {log.source} has no transaction {expected} any more, or not yet.",
            "It is kept for the time that 'retention' in headwater.toml says; if a view has "
            f"come further than the log, run 'headwater repair {log.source}'.",
        )


def _highest(segment: _Segment) -> int:
    """The highest number in it that counts; what can be read of a damaged one."""
    found = surviving_numbers(segment.path)
    return max((number for number in found if number < segment.limit), default=0)


def _remove(path: Location) -> None:
    try:
        path.remove()
    except OSError as error:
        raise EngineError(
            f"The file {path} of the change log cannot be removed: {error.strerror}.",
            "Remove it by hand, if it is not a file at all, and run the command again.",
        ) from None
