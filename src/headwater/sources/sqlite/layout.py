"""Where the values of a relation are in a row of the log.

A column is in the log from the setup on that was made for it, so older rows may have fewer
columns: these are read as rows of fewer columns, never as rows with a NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from operator import itemgetter

from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.standing import Followed
from headwater.sources.sqlite.types import Stored

_FIRST = 4  # after the number, the random number, the relation and the action
Values = tuple[Stored, ...]


@dataclass(frozen=True)
class Layout:
    """A relation with the columns that some rows of the log have, and where they are."""

    table: Table
    olds: Callable[[Values], Values]
    news: Callable[[Values], Values]


class Layouts:
    """The layouts of all relations, by their numbers in the log."""

    def __init__(self, access: Access, followed: Iterable[Followed]) -> None:
        self._access = access
        self.followed = {entry.number: entry for entry in followed}
        self._known: dict[tuple[int, frozenset[str]], Layout] = {}
        self._latest = {
            number: (max((c.since for c in entry.columns.values()), default=0), self._made(entry))
            for number, entry in self.followed.items()
        }

    def of(self, number: Stored, seq: Stored, lost: Collection[str] = ()) -> Layout | None:
        """How a row of the log is read; None if nobody wants it or nothing in it is sound.

        Columns that are `lost` are left out.
        """
        assert isinstance(number, int)
        assert isinstance(seq, int)
        found = self._latest.get(number)
        if found is None:
            return None
        since, layout = found
        if seq > since and not lost:
            return layout
        return self._made(self.followed[number], seq, lost)

    def _made(
        self, entry: Followed, seq: int | None = None, lost: Collection[str] = ()
    ) -> Layout | None:
        if entry.trouble is not None and entry.trouble.columns is None:
            return None
        lacking = {
            column
            for column, base in zip(entry.table.columns, entry.table.bases, strict=True)
            if column in lost
            or base in entry.broken
            or base not in entry.columns
            or (seq is not None and entry.columns[base].since >= seq)
        }
        key = entry.number, frozenset(lacking)
        if key not in self._known:
            table = entry.table.without(key[1])
            slots = [entry.columns[column].slot for column in table.bases]
            self._known[key] = Layout(
                table,
                _getter([_FIRST + 2 * slot for slot in slots]),
                _getter([_FIRST + 2 * slot + 1 for slot in slots]),
            )
        return self._known[key]


def _getter(places: list[int]) -> Callable[[Values], Values]:
    match places:
        case []:
            return lambda values: ()
        case [at]:
            return lambda values: (values[at],)
        case [first, *rest]:
            return itemgetter(first, *rest)
    raise AssertionError
