"""Where the parts of global transactions are, as far as a runner's sources have told: a machine.

An application tags the parts of a global transaction with its id and their number. In which sources
they are, no part says. So everything that is read with a tag is learned here, of all sources and
before any view receives it; after a restart once more from the change logs. Whoever meets a
part asks here where the others are.

A source has one part of a transaction. What it reports under an id that it has used before is no
part of anything, and neither is what has a tag that cannot be read: both are local transactions,
and are told as mistakes. Where parts differ in how many there are, the larger number counts.

Nothing is learned for ever: a transaction is forgotten when no view can meet a part of it any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.algebra.views import View
from headwater.protocol.transactions import Transaction
from headwater.sources.contract import Committed
from headwater.sources.order import Numbered

_MOST_MISTAKES = 20
_MANY = 10_000
_LONG_S = 86_400.0
"""For how long it is remembered that some parts of a transaction were there, and not all."""


@dataclass(frozen=True)
class Part:
    """One source's part: its number there, what it changes, and when it became known."""

    number: int
    relations: frozenset[str]
    since: float


@dataclass(frozen=True)
class GlobalTransaction:
    """What is known of a global transaction: its parts by source, and how many there are to be."""

    id: str
    count: int
    parts: Mapping[str, Part] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return len(self.parts) >= self.count

    def of(self, view: View) -> dict[str, Part]:
        """The parts that change a relation of a view."""
        relations = {relation.name for relation in view.relations}
        return {s: p for s, p in self.parts.items() if not relations.isdisjoint(p.relations)}

    def is_known_to(self, view: View) -> bool:
        """Whether it is known of every source of a view if it has a part, which, and what it
        changes."""
        return self.is_whole or all(source in self.parts for source in view.sources)


@dataclass(frozen=True)
class Mistake:
    """A tag that says what cannot be."""

    source: str
    number: int
    what: str
    since: float

    def __str__(self) -> str:
        return f"Transaction {self.number} of {self.source} {self.what}."


class GlobalParts:
    """All that is known; `now` is a time that only grows."""

    def __init__(self) -> None:
        self._known: dict[str, GlobalTransaction] = {}
        self.mistakes: deque[Mistake] = deque(maxlen=_MOST_MISTAKES)

    def learn(self, source: str, first: int, items: Sequence[Numbered], now: float) -> None:
        """What was read of a source; the first of it has the number `first`."""
        for number, item in enumerate(items, first):
            if isinstance(item, Committed) and item.transaction.tags:
                self._learn(source, number, item.transaction, now)

    def _learn(self, source: str, number: int, transaction: Transaction, now: float) -> None:
        relations = frozenset(update.relation for update in transaction.updates)
        for tag in transaction.tags:
            if tag.mistake:
                self._tell(
                    source, number, f"has a tag that cannot be read: {tag.mistake}; it was taken "
                    "as a local one", now,
                )  # fmt: skip
                continue
            found = self._known.setdefault(tag.id, GlobalTransaction(tag.id, tag.parts))
            known = found.parts.get(source)
            if known is not None:
                if known.number != number:
                    self._tell(
                        source, number, f"has the id {tag.id!r} of transaction {known.number}; an "
                        "id names one transaction, so it was taken as a local one", now,
                    )  # fmt: skip
                continue
            if found.parts and tag.parts != found.count:
                self._tell(
                    source, number, f"says that {tag.id!r} has {tag.parts} parts, another of its "
                    f"parts says {found.count}; the larger number counts", now,
                )  # fmt: skip
            elif len(found.parts) >= found.count:
                self._tell(
                    source, number, f"is one part more of {tag.id!r} than the {found.count} that "
                    "were announced", now,
                )  # fmt: skip
            part = Part(number, relations, now)
            self._known[tag.id] = replace(
                found,
                count=max(found.count, tag.parts),
                parts={**found.parts, source: part},
            )

    def _tell(self, source: str, number: int, what: str, now: float) -> None:
        if not any((m.source, m.number, m.what) == (source, number, what) for m in self.mistakes):
            self.mistakes.append(Mistake(source, number, what, now))

    def find(self, name: str) -> GlobalTransaction | None:
        return self._known.get(name)

    @property
    def all(self) -> Collection[GlobalTransaction]:
        return list(self._known.values())

    def forget(self, needed: Mapping[str, int], now: float) -> None:
        """Forget what is of no use, views having yet to receive what is behind these numbers."""
        if len(self._known) < _MANY:
            return
        for found in self.all:
            parts = found.parts.items()
            is_passed = all(part.number < needed.get(source, 0) for source, part in parts)
            is_old = all(part.since + _LONG_S < now for part in found.parts.values())
            if is_passed and (found.is_whole or is_old):
                del self._known[found.id]


def closed_cut(
    parts: Collection[GlobalTransaction],
    view: View,
    numbers: Mapping[str, int],
    floor: Mapping[str, int],
) -> dict[str, int]:
    """The last numbers, up to some, at which a view shows no part of a transaction by itself.

    A part up to `floor` was shown before, alone if the others were not. Two such cuts together
    are one, so there is a last one.
    """
    cut = dict(numbers)
    ahead = [found for found in parts if len(found.parts) > 1 or not found.is_known_to(view)]
    changed = True
    while changed:
        changed = False
        for found in ahead:
            concerned = found.of(view)
            inside = {s: p.number for s, p in concerned.items() if p.number <= cut[s]}
            is_alone = len(inside) == len(concerned) and found.is_known_to(view)
            if is_alone or any(number <= floor.get(s, 0) for s, number in inside.items()):
                continue
            for source, number in inside.items():
                cut[source] = min(cut[source], number - 1)
                changed = True
    return cut
