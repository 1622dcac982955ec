"""Which loads go together: those that begin at the same time and read a relation in common.

Such loads share a snapshot of each source, and what they read of it is read once, with the columns
that any of them needs (see `reading_together`, and the simulation). Each computes its view from it
and puts it by itself, so that one that is slow or fails is nobody else's concern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.algebra.views import View

_MOST_NAMED = 3


@dataclass(frozen=True)
class Company:
    """Views that are loaded together."""

    views: tuple[View, ...]

    def relations(self, source: str) -> tuple[str, ...]:
        """The relations of a source that any of them reads."""
        return _relations(self.views, source)

    def columns(self, source: str) -> Mapping[str, tuple[str, ...]]:
        """For each of them, by the name that it has in its source, the columns that are needed."""
        found: dict[str, dict[str, None]] = {}
        for view in self.views:
            for relation in view.relations:
                if relation.source == source:
                    needed = found.setdefault(relation.short_name, {})
                    needed |= dict.fromkeys(relation.schema.names)
        return {name: tuple(needed) for name, needed in found.items()}

    def readers(self, relation: str) -> tuple[str, ...]:
        """The views that read a relation."""
        return tuple(view.name for view in self.views if view.relation(relation) is not None)


def _relations(views: Iterable[View], source: str) -> tuple[str, ...]:
    names = (r.name for view in views for r in view.relations if r.source == source)
    return tuple(dict.fromkeys(names))


def companies(views: Iterable[View]) -> list[Company]:
    """The views that go together, of those whose loads begin at the same time.

    Also through others: one snapshot of a source is not right for some and another for others. A
    view that shares no relation with any other goes by itself, and is in none.
    """
    found: list[tuple[list[View], set[str]]] = []
    for view in views:
        members, names = [view], {relation.name for relation in view.relations}
        apart = []
        for others, theirs in found:
            if names.isdisjoint(theirs):
                apart.append((others, theirs))
            else:
                members, names = others + members, names | theirs
        found = [*apart, (members, names)]
    return [Company(tuple(members)) for members, _ in found if len(members) > 1]


def shortened(names: Iterable[str]) -> str:
    """A few of some names, and how many more there are."""
    first, rest = (listed := list(names))[:_MOST_NAMED], len(listed[_MOST_NAMED:])
    return f"{', '.join(first)}{f' and {rest} more' if rest else ''}"
