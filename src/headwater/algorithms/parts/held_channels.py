"""Channels that stand still: what of their messages goes on, and what goes on together.

A channel's messages go on in its order. One that belongs together with messages of other channels,
as a part of a global transaction does, goes on together with these or not at all; and so
does whatever stands before one of them. Mostly that is nothing: the parts of a transaction stand
first in their channels when all before them has gone on. But two transactions may come in
one order at one source and in another at a second, and several transactions may be reported as one:
then no order shows each of them whole, and the least that does goes on as one.

An answer reflects exactly what was passed on before it, so it never goes on together with
something else. One that stands in the middle of what does is put off: it is of no use any more, and
whoever asked has to ask again.

Who knows what belongs together is asked (`Outlook`), and asked again when more may be known. A
channel whose first message waits for others that are known is left alone until all have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item")
Known = TypeVar("Known", contravariant=True)


class Outlook(Protocol[Known]):
    """What is known of messages."""

    def name(self, item: Known) -> str | None:
        """What a transaction is called in its channel; None for anything else."""
        ...

    def needs(self, item: Known) -> Collection[tuple[str, str]] | None:
        """The other transactions, by channel and name, without which one must not go on.

        None while that is not known.
        """
        ...


class _Channel(Generic[Item]):
    """What was not passed on yet, oldest first."""

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self._places: dict[str, int] = {}
        self._taken = 0

    def append(self, item: Item, name: str | None) -> None:
        if name is not None:
            self._places[name] = self._taken + len(self.items)
        self.items.append(item)

    def place(self, name: str) -> int | None:
        """Where a transaction stands; None if it has not come yet."""
        found = self._places.get(name)
        return None if found is None else found - self._taken

    def take(self, count: int, names: Sequence[str | None]) -> list[Item]:
        for name in names:
            if name is not None:
                del self._places[name]
        self._taken += count
        return [self.items.popleft() for _ in range(count)]

    def remove(self, at: int) -> Item:
        """Take off something that has no name."""
        found = self.items[at]
        del self.items[at]
        for name, place in self._places.items():
            self._places[name] = place - (place - self._taken > at)
        return found


@dataclass(frozen=True)
class _Whole(Generic[Item]):
    """What goes on together with the first message of a channel, as far as that is known."""

    extents: Mapping[str, int]
    """How many messages of each channel."""
    unknown: Sequence[Item]
    """Those of them of which it is not known what else they need."""
    awaited: Collection[tuple[str, str]]
    """What of it has not come yet, by channel and name."""

    @property
    def size(self) -> int:
        return sum(self.extents.values())

    @property
    def is_there(self) -> bool:
        return not self.unknown and not self.awaited


class HeldChannels(Generic[Item]):
    """The messages of some channels, between their arrival and their going on."""

    def __init__(self, outlook: Outlook[Item]) -> None:
        self._outlook = outlook
        self._channels: dict[str, _Channel[Item]] = {}
        self._stuck: dict[str, set[tuple[str, str]] | None] = {}
        """The channels that need not be looked at until something has come; None: until it is
        looked again."""
        self._in_doubt: dict[str, Sequence[Item]] = {}
        self.put_off: list[Item] = []
        """Answers that are of no use any more; whoever takes them off asks again."""

    def receive(self, channel: str, item: Item) -> None:
        """A message has arrived; call `passed` then."""
        found = self._channels.setdefault(channel, _Channel())
        name = self._outlook.name(item)
        found.append(item, name)
        if name is not None and self._stuck:
            for awaited in self._stuck.values():
                if awaited:
                    awaited.discard((channel, name))
            if self._outlook.needs(item) != frozenset():
                self.look_again(among_unknown=True)

    def look_again(self, among_unknown: bool = False) -> None:
        """More may be known, or less may be needed; or only of what was not known."""
        kept = self._stuck.items() if among_unknown else ()
        self._stuck = {name: awaited for name, awaited in kept if awaited is not None}

    @property
    def is_unsure(self) -> bool:
        """Whether something stands still because it is not known what it belongs together with."""
        return any(awaited is None for awaited in self._stuck.values())

    @property
    def in_doubt(self) -> list[Item]:
        """What keeps channels standing because nobody knew, when they were last looked at, what it
        belongs together with."""
        found = (
            i for n, awaited in self._stuck.items() if awaited is None for i in self._in_doubt[n]
        )
        return list({id(item): item for item in found}.values())

    @property
    def held(self) -> Mapping[str, Sequence[Item]]:
        """The channels that stand still, with their messages, oldest first."""
        found = sorted(self._channels.items())
        return {name: tuple(channel.items) for name, channel in found if channel.items}

    def __len__(self) -> int:
        return sum(len(channel.items) for channel in self._channels.values())

    def passed(self) -> Iterator[Sequence[Item]]:
        """Take off what may go on now, in order: each a message, or several that are one."""
        while found := self._least():
            yield [item for name in sorted(found) for item in self._take(name, found[name])]

    def unknown(self) -> list[Item]:
        """What keeps channels standing because nobody knows what it belongs together with."""
        found = (item for whole in self._wholes() for item in whole.unknown)
        return list({id(item): item for item in found}.values())

    def awaits(self, channel: str) -> bool:
        """Whether something waits for what a channel has yet to deliver, and is known to have."""
        return any(channel == other for whole in self._wholes() for other, _ in whole.awaited)

    def _take(self, name: str, count: int) -> list[Item]:
        channel = self._channels[name]
        names = [self._outlook.name(channel.items[at]) for at in range(count)]
        return channel.take(count, names)

    def _least(self) -> Mapping[str, int]:
        """How much of each channel goes on next; nothing if nothing can."""
        may = []
        for name, channel in self._channels.items():
            if not channel.items or self._is_stuck(name):
                continue
            if self._outlook.needs(channel.items[0]) == frozenset():
                if name in self._stuck:
                    self.look_again()
                return {name: 1}
            whole = self._whole(name)
            if whole.is_there:
                may.append(whole)
            else:
                self._stuck[name] = None if whole.unknown else set(whole.awaited)
                self._in_doubt[name] = whole.unknown
        if not may:
            return {}
        self.look_again()
        least = min(may, key=lambda whole: whole.size)
        return {name: self._without_answers(name, n) for name, n in least.extents.items()}

    def _without_answers(self, name: str, count: int) -> int:
        """Put off the answers among the first messages of a channel; how many are left."""
        channel = self._channels[name]
        for at in reversed(range(count)):
            if self._outlook.name(channel.items[at]) is None:
                self.put_off.append(channel.remove(at))
                count -= 1
        return count

    def _is_stuck(self, name: str) -> bool:
        awaited = self._stuck.get(name, set())
        return awaited is None or bool(awaited)

    def _wholes(self) -> Iterator[_Whole[Item]]:
        return (self._whole(name) for name, channel in self._channels.items() if channel.items)

    def _whole(self, name: str) -> _Whole[Item]:
        extents, looked = {name: 1}, {name: 0}
        unknown: list[Item] = []
        awaited: set[tuple[str, str]] = set()
        while ahead := next((n for n, count in extents.items() if looked[n] < count), None):
            item = self._channels[ahead].items[looked[ahead]]
            looked[ahead] += 1
            needed = self._outlook.needs(item)
            if needed is None:
                unknown.append(item)
            for other, called in needed or ():
                channel = self._channels.get(other)
                at = None if channel is None else channel.place(called)
                if at is None:
                    awaited.add((other, called))
                else:
                    extents[other] = max(extents.get(other, 0), at + 1)
                    looked.setdefault(other, 0)
        return _Whole(extents, unknown, awaited)
