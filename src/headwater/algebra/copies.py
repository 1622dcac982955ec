"""Copies of base relations that are stored beside a view's own rows, as parts that nothing shows.

A copy has the columns that the view looks at, of the rows that may matter to it: those that the
conditions on the relation alone let through. Its rows stand among the view's own under a part
number of their own. So they move in the same commits, and are at the same vector.

What a copy holds is linear in its relation: a change of the relation is a change of the copy.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.algebra.expressions import ColumnRef, Expression, Literal
from headwater.algebra.relevance import condition_on
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.tops import PART, Part, Top, inputs_of, with_inputs
from headwater.algebra.typing_rules import call
from headwater.algebra.values import INT, Type

if TYPE_CHECKING:
    from headwater.algebra.views import Join

_OWN = 1
"""The part number of the view's own rows, where they have none."""


@dataclass(frozen=True)
class Copy:
    """A relation with the columns that are copied, and where they are stored."""

    relation: Relation
    number: int
    condition: Expression | None
    """What a row has to meet to be copied; None if every row is."""
    columns: tuple[str, ...]
    """The stored column of each column of the relation."""

    @cached_property
    def stored(self) -> Mapping[str, str]:
        """The stored column of each column, by its name."""
        return dict(zip(self.relation.schema.names, self.columns, strict=True))


@dataclass(frozen=True)
class CopyParts:
    """How a view's own rows and copies of relations are stored together."""

    own: Schema
    """The columns of the view's own rows, as they would be stored alone."""
    schema: Schema
    copies: tuple[Copy, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Copy]:
        return {copy.relation.name: copy for copy in self.copies}

    def stored(self, rows: Rows) -> Rows:
        """The view's own rows as they are stored."""
        places: dict[str, Expression] = {
            c.name: ColumnRef(c.name, c.type) for c in self.own.columns
        }
        return rows.project(self.schema, self._outputs({PART: Literal(_OWN, INT)} | places))

    def own_rows(self, stored: Rows) -> Rows:
        """The view's own rows of stored ones."""
        first = Literal(self.copies[0].number, INT)
        own = stored.select(call("<", ColumnRef(PART, INT), first))
        return own.project(self.own, [ColumnRef(c.name, c.type) for c in self.own.columns])

    def copied(self, name: str, rows: Rows) -> Rows:
        """Rows of a relation, or a change of it, as they are stored in its copy."""
        copy = self.by_name[name]
        rows = rows.only(copy.relation.schema)
        if copy.condition is not None:
            rows = rows.select(copy.condition)
        places: dict[str, Expression] = {PART: Literal(copy.number, INT)}
        for column in copy.relation.schema.columns:
            places[copy.stored[column.name]] = ColumnRef(column.name, column.type)
        return rows.project(self.schema, self._outputs(places))

    def relation_rows(self, name: str, stored: Rows) -> Rows:
        """The rows of a relation of stored ones."""
        copy = self.by_name[name]
        wanted = call("=", ColumnRef(PART, INT), Literal(copy.number, INT))
        outputs = [ColumnRef(copy.stored[c.name], c.type) for c in copy.relation.schema.columns]
        return stored.select(wanted).project(copy.relation.schema, outputs)

    def over(self, top: Top) -> Top:
        """A top over the view's own rows as one over what is stored."""
        if isinstance(top, Part):
            return replace(top, number=_OWN) if top.number is None else top
        return with_inputs(top, [self.over(below) for below in inputs_of(top)])

    def _outputs(self, places: Mapping[str, Expression]) -> list[Expression]:
        return [places.get(c.name, Literal(None, c.type)) for c in self.schema.columns]


def copy_parts(own: Schema, joins: Sequence[Join], relations: Collection[Relation]) -> CopyParts:
    """How copies of these relations, which have the columns to be copied, are stored beside the
    rows of these joins."""
    first = len(joins) + 1 if PART in own.positions else _OWN + 1
    slots = _Slots(own)
    asking = [join for join in joins if len(join.occurrences) > 1]
    copies = tuple(
        Copy(relation, number, condition_on(relation.name, asking), slots.of(relation.schema))
        for number, relation in enumerate(relations, first)
    )
    numbered = () if PART in own.positions else (Column(PART, INT),)
    return CopyParts(own, Schema((*numbered, *own.columns, *slots.columns)), copies)


class _Slots:
    """Columns by type that all copies share: as many of each as some copy needs."""

    def __init__(self, own: Schema) -> None:
        self.columns: list[Column] = []
        self._taken = {name.lower() for name in own.names}
        self._of_type: dict[Type, list[str]] = defaultdict(list)

    def of(self, schema: Schema) -> tuple[str, ...]:
        used: dict[Type, int] = defaultdict(int)
        found = []
        for kind in schema.types:
            known = self._of_type[kind]
            if used[kind] == len(known):
                known.append(self._new(kind, len(known) + 1))
            found.append(known[used[kind]])
            used[kind] += 1
        return tuple(found)

    def _new(self, kind: Type, number: int) -> str:
        plain = re.sub(r"\W+", "_", str(kind)).strip("_")
        name = f"_copy_{plain}_{number}"
        while name.lower() in self._taken:
            name = f"_{name}"
        self._taken.add(name.lower())
        self.columns.append(Column(name, kind))
        return name
