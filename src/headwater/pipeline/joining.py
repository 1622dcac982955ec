"""What one view receives, with global transactions whole: the integrator of the running system.

A part whose others are not there stops its channel for this view, answers included, until all parts
that concern the view are there; they are then passed on as one transaction (see
`algorithms.parts.held_channels`). Where the others are is known from all sources together (see
`global_parts`). A part is taken by itself

- when it is known that no other part concerns the view;
- when another part is in the view already, which was taken by itself, maybe by an earlier runner;
- when it has waited for as long as the settings say, and they say that it is released.

So nothing that is decided here has to be remembered: what the view has is its vector, and where
parts are is in the change logs. After a crash the same follows from both.

The limit counts from when a part was read, but not while a source of the view cannot be read: what
is missing may be there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from headwater.algebra.views import View
from headwater.algorithms.parts.held_channels import HeldChannels
from headwater.errors import HeadwaterError
from headwater.pipeline.global_parts import GlobalTransaction
from headwater.protocol.events import AnswerArrived, TransactionArrived
from headwater.protocol.transactions import Tag, Transaction
from headwater.sources.subscription import Delivery
from headwater.warehouse.vectors import VersionVector

LOOK_AGAIN_S = 0.2
"""How often it is looked whether more is known: a part in a source of the view wakes it anyway."""
_MOST_TOLD = 20


def identity(source: str, number: int) -> str:
    """What a transaction is called towards the manager: no two of all sources are alike."""
    return f"{source}:{number}"


@dataclass(frozen=True)
class LateParts:
    """What happens to a part whose others do not come."""

    wait_s: float = 60.0
    then: Literal["release", "stop"] = "release"


class Whereabouts(Protocol):
    """Where parts are, as far as that is known."""

    def find(self, name: str) -> GlobalTransaction | None: ...


class GlobalError(HeadwaterError):
    """A view would have to show a part of a global transaction, and is not to."""


@dataclass(frozen=True)
class PassedOn:
    """What goes on as one: an answer, a gap, or the parts of a transaction."""

    deliveries: Sequence[Delivery]
    split: tuple[str, ...] = ()
    """The global transactions of which it has a part without the others."""


class Joining:
    """One view's integrator, from the vector that its table has; without `whole` all goes on."""

    def __init__(
        self, view: View, vector: VersionVector, known: Whereabouts, late: LateParts, whole: bool
    ) -> None:
        self.due = math.inf
        """When it is to be looked at again although nothing has arrived."""
        self.released: deque[tuple[str, str]] = deque(maxlen=_MOST_TOLD)
        """Global transactions of which a part was taken by itself: the id, and the part."""
        self._view = view
        self._known = known
        self._late = late
        self._whole = whole
        self._passed = {source: reached.number for source, reached in vector.items()}
        self._given_up: set[str] = set()
        self._look_at = -math.inf
        self._channels = HeldChannels(self)

    def __len__(self) -> int:
        """How much is held."""
        return len(self._channels)

    def receive(self, delivery: Delivery) -> None:
        """Something has arrived; call `passed` then."""
        if self._whole and self._late.then == "stop":
            self._check_tags(delivery)
        self._channels.receive(delivery.source, delivery)

    def passed(self, now: float, read_since: Mapping[str, float]) -> Iterator[PassedOn]:
        """What goes on now; each source is being read since a time, or is not (infinity)."""
        self.due = math.inf
        if not self._channels:
            return
        looks = now >= self._look_at
        if looks and self._channels.is_unsure:  # what is known to come is looked at as it comes
            self._channels.look_again()
        yield from self._go_on()
        while looks and self._channels.is_unsure and self._give_up_late(now, read_since):
            self._channels.look_again()
            yield from self._go_on()
        if self._channels.is_unsure:
            self._look_at = now + LOOK_AGAIN_S if looks else self._look_at
            self.due = self._look_at

    def put_off(self) -> list[AnswerArrived]:
        """The answers that cannot be used, since they stood in the middle of what went on together;
        they are asked for again."""
        found, self._channels.put_off = self._channels.put_off, []
        return [item.event for item in found if isinstance(item.event, AnswerArrived)]

    def awaits(self, source: str) -> bool:
        """Whether something is held until more is received of a source."""
        return bool(self._channels) and self._channels.awaits(source)

    @property
    def holding(self) -> list[str]:
        """The global transactions because of which something is held: those whose parts are not
        there; else those that are about to go on."""
        missing = (
            tag.id
            for item in self._channels.in_doubt
            for tag in _tags(item)
            if (found := self._of(tag, item)) is not None and not found.is_known_to(self._view)
        )
        heads = (items[0] for items in self._channels.held.values())
        first = (tag.id for head in heads for tag in _tags(head))
        return list(dict.fromkeys(missing)) or list(dict.fromkeys(first))

    # What is known of deliveries

    def name(self, item: Delivery) -> str | None:
        """Gaps have a number too: one that does not concern the view goes along."""
        return identity(item.source, item.number) if item.number else None

    def needs(self, item: Delivery) -> frozenset[tuple[str, str]] | None:
        found: set[tuple[str, str]] = set()
        for tag in _tags(item) if self._whole else ():
            known = self._of(tag, item)
            others = known.of(self._view) if known is not None else {}
            others.pop(item.source, None)
            if known is None or any(p.number <= self._passed[s] for s, p in others.items()):
                continue
            if not known.is_known_to(self._view):
                return None
            found |= {(source, identity(source, part.number)) for source, part in others.items()}
        return frozenset(found)

    def _of(self, tag: Tag, item: Delivery) -> GlobalTransaction | None:
        """What is known of the transaction that something is a part of; None if it is none."""
        if tag.mistake or tag.id in self._given_up:
            return None
        found = self._known.find(tag.id)
        own = found.parts.get(item.source) if found is not None else None
        return found if own is not None and own.number == item.number else None

    # Going on

    def _go_on(self) -> Iterator[PassedOn]:
        for group in self._channels.passed():
            ids = {tag.id for delivery in group for tag in _tags(delivery)}
            split = tuple(sorted(ids & self._given_up))
            self._given_up -= ids
            for delivery in group:
                if delivery.number:
                    self._passed[delivery.source] = delivery.number
            parts = ", ".join(f"transaction {d.number} of {d.source}" for d in group)
            self.released.extend((name, parts) for name in split)
            yield PassedOn(tuple(group), split)

    def _give_up_late(self, now: float, read_since: Mapping[str, float]) -> bool:
        """Whether something is not waited for any more; GlobalError if the view is to stop."""
        for item in self._channels.unknown():
            for tag in _tags(item):
                found = self._of(tag, item)
                if found is None or found.is_known_to(self._view):
                    continue
                if now >= self._deadline(found, item, read_since):
                    self._give_up(found)
                    return True
        return False

    def _deadline(
        self, found: GlobalTransaction, item: Delivery, read_since: Mapping[str, float]
    ) -> float:
        lacking = [source for source in self._view.sources if source not in found.parts]
        began = [read_since.get(source, 0.0) for source in lacking]
        return max([found.parts[item.source].since, *began]) + self._late.wait_s

    def _give_up(self, found: GlobalTransaction) -> None:
        if self._late.then == "stop":
            there = ", ".join(f"transaction {p.number} of {s}" for s, p in found.parts.items())
            name = self._view.name
            raise GlobalError(
                f"View {name} cannot go on: of the global transaction {found.id!r} there is "
                f"{there}, and what else it has in the sources of the view ({found.count} parts in "
                f"all) was not there {self._late.wait_s:g} s after it.",
                f"When it has come, run 'headwater reload {name}', or start the runner anew. If it "
                'never comes, write late = "release" under [global] in headwater.toml first: the '
                "part is then shown by itself.",
            )
        self._given_up.add(found.id)

    def _check_tags(self, delivery: Delivery) -> None:
        """Whoever wants no part shown by itself is told of a tag that may have made one."""
        for tag in _tags(delivery):
            found = None if tag.mistake else self._known.find(tag.id)
            own = found.parts.get(delivery.source) if found is not None else None
            if own is not None and own.number == delivery.number:
                continue
            why = (
                f"has a tag that cannot be read: {tag.mistake}"
                if tag.mistake
                else f"has the id {tag.id!r} of another transaction there"
            )
            name = self._view.name
            raise GlobalError(
                f"View {name} cannot go on: transaction {delivery.number} of {delivery.source} "
                f"{why}, so it may be a part of a global transaction.",
                f"Correct the application, then load the view anew: headwater reload {name}.",
            )


def _transaction(delivery: Delivery) -> Transaction | None:
    match delivery.event:
        case TransactionArrived(transaction):
            return transaction
    return None


def _tags(delivery: Delivery) -> tuple[Tag, ...]:
    found = _transaction(delivery)
    return () if found is None else found.tags
