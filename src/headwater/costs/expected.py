"""What questions are expected to find, by statistics."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from headwater.algebra.schema import Relation
from headwater.algebra.views import Join, View
from headwater.costs.statistics import Statistics, column_bytes

_BY_OTHER_CONDITION = 1 / 3
"""The share of all pairs that a condition other than an equality leaves."""


@dataclass(frozen=True, eq=False)
class FromStatistics:
    """See `algorithms.parts.expected`."""

    view: View
    """With the relations as they are; a join that is asked about may have fewer columns."""
    statistics: Statistics

    @cached_property
    def _relations(self) -> dict[str, Relation]:
        return {relation.name: relation for relation in self.view.relations}

    def partners(self, join: Join, at: int, known: Collection[str]) -> float:
        relation = join.occurrences[at].relation
        if join.key_from(at, known) is not None:
            return 1.0
        columns = equated(join, at, known)
        rows = self.statistics.relation(relation.name).rows
        for column in columns:
            different = self.statistics.relation(relation.name).different
            rows /= different(self._relations[relation.name], column)
        meets = any(
            at in reach and any(join.owner[name] in reach for name in known if name in join.owner)
            for _, reach in join.safe_conjuncts
        )
        return rows * (_BY_OTHER_CONDITION if meets and not columns else 1.0)

    def round_trip(self, source: str) -> float:
        told, row_s = self.statistics.source(source), self.statistics.prices.row_s
        return told.question_s / (row_s + told.byte_s * self._row_bytes(source))

    def _row_bytes(self, source: str) -> float:
        """How wide the widest row of a source is."""
        return max(
            (
                sum(
                    column_bytes(relation, name, self.statistics.relation(relation.name))
                    for name in relation.schema.names
                )
                for relation in self.view.relations
                if relation.source == source
            ),
            default=0.0,
        )


def equated(join: Join, at: int, known: Collection[str]) -> list[str]:
    """The columns of an occurrence that conditions equate with known ones."""
    alias = f"{join.occurrences[at].alias}."
    found = []
    for name in join.occurrences[at].schema.names:
        if any(other != name and join.same_column(other, name) for other in known):
            found.append(name.removeprefix(alias))
    return found
