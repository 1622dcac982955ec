"""Parts: each join of a view that is more than one join, as a view that the rules apply to.

A union has several joins, a grouping or a top has them below it, and a join may read a relation
twice. A part has a name for every occurrence, `R` and `R#2`, and the rules see relations of their
own. That they are one relation counts in the vector only: a part is taken from one vector to the
next one occurrence after the other, as the effect of a change telescopes, and the vectors at its
ends have one version of each relation, as the paper demands.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from headwater.algebra.hashing import cached_hash
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.views import Join, Occurrence
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.shared_views import SharedView, renamed_columns
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

MARK = "#"


@cached_hash
@dataclass(frozen=True)
class ViewPart(SharedView):
    """One join of a view, with every occurrence as a relation."""

    at: int = 0

    @cached_property
    def beyond_rules(self) -> str:
        return ""

    @cached_property
    def _occurrences(self) -> tuple[Occurrence, ...]:
        """By their own names, which are their aliases here."""
        seen: Counter[str] = Counter()
        found = []
        for occurrence in self.view.joins[self.at].occurrences:
            relation = occurrence.relation
            seen[relation.name] += 1
            many = seen[relation.name]
            name = relation.name if many == 1 else f"{relation.name}{MARK}{many}"
            found.append(Occurrence(name, replace(relation, name=name)))
        return tuple(found)

    @cached_property
    def relations(self) -> dict[str, Relation]:
        return {occurrence.alias: occurrence.relation for occurrence in self._occurrences}

    @property
    def schema(self) -> Schema:
        """The columns of what is stored, before any top."""
        return self.view.schema

    @cached_property
    def join(self) -> Join:
        join = self.view.joins[self.at]
        names = {
            f"{given.alias}.{column}": f"{own.alias}.{column}"
            for given, own in zip(join.occurrences, self._occurrences, strict=True)
            for column in given.relation.schema.names
        }
        return replace(
            join,
            occurrences=self._occurrences,
            condition=tuple(renamed_columns(c, names) for c in join.condition),
            outputs=tuple(renamed_columns(o, names) for o in join.outputs),
        )

    def spread(self, versions: Versions) -> Versions:
        """A vector of relations as one of occurrences."""
        return Versions({name: versions[relation_of(name)] for name in self.relations})

    def gathered(self, versions: Versions) -> Versions:
        """The reverse, for a vector that has one version of each relation."""
        return Versions({relation_of(name): number for name, number in versions.items()})


def parts_of(view: SharedView) -> tuple[ViewPart, ...]:
    """The joins of a view."""
    many = len(view.view.joins)
    return tuple(ViewPart(view.name, view.sql, view.known, at) for at in range(many))


def relation_of(occurrence: str) -> str:
    """The relation that an occurrence is of."""
    name, mark, number = occurrence.rpartition(MARK)
    return name if mark and number.isdecimal() else occurrence


def as_occurrence(
    item: Updategram | Booster | Contents, occurrence: str
) -> Updategram | Booster | Contents:
    """What is known of a relation, under the name of one of its occurrences."""
    match item:
        case Updategram():
            first, last = (_only(ends, occurrence) for ends in (item.first, item.last))
            return replace(item, subject=occurrence, first=first, last=last)
        case Contents():
            return replace(item, subject=occurrence, versions=_only(item.versions, occurrence))
    return item


def _only(versions: Versions, occurrence: str) -> Versions:
    (number,) = versions.values()
    return Versions({occurrence: number})
