"""What is stored of a view in place of its rows, where sums over them do (`sums`).

A part is summed up if all that the top makes of it are groups with additive aggregates, over keys
that cannot fail. Its stored rows then have the keys of all these groups, and the sums of each; the
top reads its aggregates off them. Every other part is stored row by row as before.

Managers know nothing of it: what they find is condensed when it is committed. Condensing is
linear, so that it makes no difference whether it is done before or after adding up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from headwater.algebra.expressions import (
    ColumnRef,
    Expression,
    can_fail,
    compile_rows,
    is_late,
    substituted,
)
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.sums import (
    COLUMNS,
    Slot,
    SummedAggregate,
    slots_of,
    weighing,
)
from headwater.algebra.tops import (
    PART,
    Grouped,
    Part,
    Project,
    Summed,
    Top,
    inputs_of,
    parts_of,
    with_inputs,
)
from headwater.algebra.values import VOID, Row, Type, Value


@dataclass(frozen=True)
class SummedPart:
    """A part of which keys and sums are stored, as expressions over what managers find of it."""

    keys: tuple[Expression, ...]
    slots: tuple[Slot, ...]
    columns: tuple[str, ...]
    """The stored column of each key."""


@dataclass(frozen=True)
class Compact:
    """How a view's rows are condensed: the stored columns, the top over them, the summed parts."""

    linear: Schema
    """The columns of what managers find."""
    schema: Schema
    top: Top
    parts: Mapping[int | None, SummedPart]

    def condensed(self, rows: Rows) -> Rows:
        """What is stored for the rows that a manager found, or by which it changes."""
        return rows.spread(self.schema, self._condensing)

    @cached_property
    def _condensing(self) -> Condensing:
        return Condensing(self)


class Condensing:
    """From a row to those that are stored for it, with how much of it they count.

    Compiled where it is first used: what is compiled cannot be sent to another process.
    """

    def __init__(self, compact: Compact) -> None:
        self._compact = compact
        self._ways: dict[object, Callable[[Row], Iterator[tuple[Row, int]]]] = {}

    def __getstate__(self) -> Compact:
        return self._compact

    def __setstate__(self, compact: Compact) -> None:
        self._compact, self._ways = compact, {}

    def __call__(self, row: Row) -> Iterator[tuple[Row, int]]:
        at = self._compact.linear.positions.get(PART)
        number = row[at] if at is not None else None
        way = self._ways.get(number)
        if way is None:
            assert number is None or isinstance(number, int)
            way = self._ways[number] = self._way(number)
        return way(row)

    def _way(self, number: int | None) -> Callable[[Row], Iterator[tuple[Row, int]]]:
        compact = self._compact
        places = [compact.linear.positions.get(c.name) for c in compact.schema.columns]
        part = compact.parts.get(number)
        if part is None:
            return lambda row: iter([(tuple(None if at is None else row[at] for at in places), 1)])
        return _summing(part, compact, number)


def _summing(
    part: SummedPart, compact: Compact, number: int | None
) -> Callable[[Row], Iterator[tuple[Row, int]]]:
    read = compile_rows(part.keys, compact.linear)
    weigh = weighing(dict(enumerate(part.slots, 1)), compact.linear)
    positions = compact.schema.positions
    where = [positions[name] for name in part.columns]
    template: list[Value] = [None] * len(compact.schema)
    if PART in positions:
        template[positions[PART]] = number
    slot_at, bin_at = (positions[name] for name, _ in COLUMNS)

    def spread(row: Row) -> Iterator[tuple[Row, int]]:
        values = list(template)
        for at, value in zip(where, read(row), strict=True):
            values[at] = value
        yield tuple(values), 1
        for values[slot_at], values[bin_at], weight in weigh(row):
            yield tuple(values), weight

    return spread


# Which parts, and the top over them


@dataclass(frozen=True)
class _Use:
    """A part as a node of the top groups it: keys, and sums for each of its aggregates."""

    keys: tuple[Expression, ...]
    slots: tuple[tuple[Slot, ...], ...]


def compacted(top: Top | None, linear: Schema) -> Compact | None:
    """How what a top reads can be stored as sums; None if no part of it can."""
    uses: dict[int | None, list[_Use | None]] = defaultdict(list)
    for number, use in _uses(top) if top is not None else ():
        uses[number].append(use)
    summed = {
        number: [use for use in found if use is not None]
        for number, found in uses.items()
        if None not in found
    }
    if top is None or not summed:
        return None
    keys = {
        n: tuple(dict.fromkeys(k for u in found for k in u.keys)) for n, found in summed.items()
    }
    columns = {number: _named([key.type for key in found]) for number, found in keys.items()}
    parts = {
        number: SummedPart(keys[number], _all_slots(found), tuple(columns[number]))
        for number, found in summed.items()
    }
    rest = [c for c in linear.columns if c.name == PART or _is_used(top, c.name, set(parts))]
    own = {name: kind for number in parts for name, kind in columns[number].items()}
    named = [*((c.name, c.type) for c in rest), *own.items(), *COLUMNS]
    return Compact(linear, Schema.of(named), _over(top, parts, {}), parts)


def _uses(top: Top) -> Iterator[tuple[int | None, _Use | None]]:
    """How each part is used, in all places that differ; None where its rows are needed."""
    seen: set[Top] = set()
    left = [top]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if (use := _use(node)) is not None:
            yield _part_below(node).number, use
        elif isinstance(node, Part):
            yield node.number, None
        else:
            left += reversed(inputs_of(node))


def _part_below(top: Top) -> Part:
    while not isinstance(top, Part):
        (top,) = inputs_of(top)
    return top


def _use(top: Top) -> _Use | None:
    """What a node is that only sums up a part; None if it does something else."""
    if not isinstance(top, Grouped):
        return None
    meanings = _meanings(top.input)
    if meanings is None:
        return None
    keys = tuple(meanings[key] for key in top.keys)
    aggregates = [aggregate.over(meanings) for aggregate in top.aggregates]
    if any(map(is_late, chain.from_iterable(one.expressions for one in aggregates))):
        return None
    slots = [slots_of(aggregate) for aggregate in aggregates]
    if any(can_fail(key) or key.type == VOID for key in keys) or None in slots:
        return None
    return _Use(keys, tuple(found for found in slots if found is not None))


def _meanings(top: Top) -> Mapping[str, Expression] | None:
    """The columns of a part, or of a projection of it, as expressions over what is stored."""
    if isinstance(top, Part):
        kinds = zip(top.schema.names, top.columns, top.schema.types, strict=True)
        return {name: ColumnRef(column, kind) for name, column, kind in kinds}
    if isinstance(top, Project) and (below := _meanings(top.input)) is not None:
        found = zip(top.schema.names, top.outputs, strict=True)
        return {name: substituted(output, below) for name, output in found}
    return None


_ROWS = Slot("number")
"""What the row of a group counts anyway."""


def _all_slots(uses: Sequence[_Use]) -> tuple[Slot, ...]:
    found = (slot for use in uses for slots in use.slots for slot in slots)
    return tuple(dict.fromkeys(slot for slot in found if slot != _ROWS))


def _named(kinds: Sequence[Type]) -> dict[str, Type]:
    """Columns for keys, by type, so that several parts can share them."""
    numbers: dict[Type, int] = defaultdict(int)
    found: dict[str, Type] = {}
    for kind in kinds:
        numbers[kind] += 1
        plain = "".join(c if c.isalnum() else "_" for c in str(kind)).strip("_")
        found[f"_key_{plain}_{numbers[kind]}"] = kind
    return found


def _is_used(top: Top, column: str, summed: set[int | None]) -> bool:
    """Whether a part that is stored row by row has a column."""
    return any(part.number not in summed and column in part.columns for part in parts_of(top))


def _over(top: Top, parts: Mapping[int | None, SummedPart], known: dict[Top, Top]) -> Top:
    """The top over what is stored; equal subtrees are made once."""
    if top not in known:
        known[top] = _made_over(top, parts, known)
    return known[top]


def _made_over(top: Top, parts: Mapping[int | None, SummedPart], known: dict[Top, Top]) -> Top:
    use = _use(top)
    if use is None or _part_below(top).number not in parts:
        return with_inputs(top, [_over(below, parts, known) for below in inputs_of(top)])
    assert isinstance(top, Grouped)
    number = _part_below(top).number
    part = parts[number]
    columns = tuple(part.columns[part.keys.index(key)] for key in use.keys)
    kinds = [key.type for key in use.keys]
    below = Part(
        (*columns, *(name for name, _ in COLUMNS)),
        Schema.of([*zip(top.keys, kinds, strict=True), *COLUMNS]),
        number,
        signed=True,
    )
    aggregates = tuple(
        SummedAggregate(
            aggregate,
            tuple(None if slot == _ROWS else part.slots.index(slot) + 1 for slot in slots),
        )
        for aggregate, slots in zip(top.aggregates, use.slots, strict=True)
    )
    return Summed(below, top.keys, aggregates, top.schema, top.always)
