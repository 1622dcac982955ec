"""Where the parts of a top stand among the stored rows of its view.

Leaves over the same join are one part. One part is stored under names like those of its columns;
several share the stored columns: `_part` tells them apart, and each puts its values into columns
of their types.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headwater.algebra.expressions import ColumnRef, Expression, Literal, substituted
from headwater.algebra.schema import Schema
from headwater.algebra.sql.plans import Leaf, leaves_of, refs
from headwater.algebra.tops import PART, Part, Top, inputs_of, with_inputs
from headwater.algebra.values import INT, Type
from headwater.algebra.views import Join, Occurrence


def laid_out(top: Top) -> tuple[tuple[Join, ...], Schema, Top]:
    """The joins and the schema of what is stored for a top, and the top over that."""
    joins, schema, (found,) = laid_out_together((top,))
    return joins, schema, found


def laid_out_together(tops: Sequence[Top]) -> tuple[tuple[Join, ...], Schema, tuple[Top, ...]]:
    """The same for several tops over rows that are stored once."""
    parts: dict[object, _StoredPart] = {}
    homes: dict[Leaf, tuple[_StoredPart, tuple[Expression, ...]]] = {}
    for leaf in (leaf for top in tops for leaf in leaves_of(top)):
        assert leaf.join is not None
        part = parts.setdefault(_likeness(leaf.join), _StoredPart(leaf.join))
        homes[leaf] = (part, part.taken_in(leaf.join))
    stored = list(parts.values())
    alone = len(stored) == 1 and bool(stored[0].outputs)
    schema = _named(stored[0]) if alone else _slots(stored)
    joins = tuple(
        part.join(schema, None if alone else number) for number, part in enumerate(stored, 1)
    )
    numbers = {id(part): None if alone else at for at, part in enumerate(stored, 1)}
    over: dict[Top, Top] = {
        leaf: Part(tuple(part.columns[o] for o in outputs), leaf.schema, numbers[id(part)])
        for leaf, (part, outputs) in homes.items()
    }
    return joins, schema, tuple(_over(top, over) for top in tops)


def _over(top: Top, known: dict[Top, Top]) -> Top:
    """The tree over the parts that are known for its leaves; equal subtrees are made once."""
    if top not in known:
        known[top] = with_inputs(top, [_over(below, known) for below in inputs_of(top)])
    return known[top]


@dataclass
class _StoredPart:
    """One join, and all that leaves want of it; `columns` says where each output is stored."""

    first: Join
    outputs: dict[Expression, None] = field(default_factory=dict)
    columns: dict[Expression, str] = field(default_factory=dict)

    def taken_in(self, join: Join) -> tuple[Expression, ...]:
        """The outputs of a join that is alike, in the words of the first one."""
        meanings: dict[str, Expression] = {}
        for old, new in zip(
            _sorted(join.occurrences), _sorted(self.first.occurrences), strict=True
        ):
            meanings.update(zip(old.schema.names, refs(new.schema), strict=True))
        wanted = tuple(substituted(output, meanings) for output in join.outputs)
        self.outputs.update(dict.fromkeys(wanted))
        return wanted

    def join(self, schema: Schema, number: int | None) -> Join:
        """The join as it is stored: its outputs in their columns, NULL in the others."""
        places: dict[str, Expression] = {name: output for output, name in self.columns.items()}
        if number is not None:
            places[PART] = Literal(number, INT)
        outputs = tuple(places.get(c.name, Literal(None, c.type)) for c in schema.columns)
        return Join(self.first.occurrences, self.first.condition, outputs, schema)


def _likeness(join: Join) -> object:
    """What is equal for joins that differ in names and outputs only."""
    meanings: dict[str, Expression] = {}
    occurrences = _sorted(join.occurrences)
    for at, occurrence in enumerate(occurrences):
        schema = occurrence.relation.schema.qualified(str(at))
        meanings.update(zip(occurrence.schema.names, refs(schema), strict=True))
    conjuncts = frozenset(substituted(conjunct, meanings) for conjunct in join.condition)
    return tuple(o.relation.name for o in occurrences), conjuncts


def _sorted(occurrences: Iterable[Occurrence]) -> list[Occurrence]:
    """Relations by name, each in the order in which it occurs."""
    return sorted(occurrences, key=lambda occurrence: occurrence.relation.name)


def _named(part: _StoredPart) -> Schema:
    """Names like those of the columns that are stored."""
    used: set[str] = set()
    for number, output in enumerate(part.outputs, 1):
        wanted = _plain(output.name) if isinstance(output, ColumnRef) else f"value_{number}"
        name, again = wanted, 1
        while name.lower() in used:
            again += 1
            name = f"{wanted}_{again}"
        used.add(name.lower())
        part.columns[output] = name
    return Schema.of((name, output.type) for output, name in part.columns.items())


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name.rpartition(".")[2]) or "value"


def _slots(parts: list[_StoredPart]) -> Schema:
    """As many columns of each type as the part with most of them needs."""
    columns: dict[str, Type] = {}
    for part in parts:
        numbers: dict[Type, int] = defaultdict(int)
        for output in part.outputs:
            numbers[output.type] += 1
            kind = re.sub(r"\W+", "_", str(output.type)).strip("_")
            name = f"{kind}_{numbers[output.type]}"
            columns[name] = output.type
            part.columns[output] = name
    ordered = sorted(columns.items(), key=lambda item: (str(item[1]), len(item[0]), item[0]))
    return Schema.of([(PART, INT), *ordered])
