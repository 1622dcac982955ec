"""What is stored of a view beyond what it shows, in words: its parts, and how its top is computed.

For `check`, which looks at no table of the warehouse: how large the parts are is told by `status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.algebra.compact import Compact
from headwater.algebra.expressions import (
    Expression,
    Literal,
    can_fail,
    columns_of,
    show_expression,
    substituted,
)
from headwater.algebra.keying import keying
from headwater.algebra.sums import Slot
from headwater.algebra.tops import PART, Part, Select, Top, nodes_of
from headwater.algebra.values import Json
from headwater.algebra.views import Join, View


@dataclass(frozen=True)
class StoredPart:
    """The columns of one part, over which relations, and whether it has all their rows."""

    columns: tuple[str, ...]
    relations: tuple[str, ...]
    is_copy: bool
    """Whether it has a row for each row of one table, whatever is in it."""
    keyed_by: tuple[str, ...]
    """By which of its columns the top is computed key by key; none if it is computed whole."""
    sums: tuple[str, ...] | None = None
    """What is added up for each value of the columns, if not the rows are stored."""

    def to_json(self) -> dict[str, Json]:
        return {
            "columns": list(self.columns),
            "relations": list(self.relations),
            "copy": self.is_copy,
            "keyed_by": list(self.keyed_by),
            "sums": None if self.sums is None else list(self.sums),
        }

    def __str__(self) -> str:
        if self.sums is not None:
            sums = ", ".join(dict.fromkeys(("the number of rows", *self.sums)))
            return f"{sums} for each {', '.join(self.columns) or 'view'}, {self._joined}"
        of = f"of every row of {self.relations[0]}" if self.is_copy else self._joined
        return f"{', '.join(self.columns) or 'that there is a row'} {of}"

    @property
    def _joined(self) -> str:
        return f"of {' with '.join(self.relations)}"


def stored_parts(view: View) -> tuple[StoredPart, ...]:
    """The parts of a view with a top; none if what is stored is what is shown, errors apart."""
    if (view.top is None and not view.members) or view.error_column is not None:
        return ()
    by = (keying(view.top) if view.top is not None else None) or {}
    return tuple(_part(join, by.get(join.number, ()), view.compact) for join in view.joins)


@dataclass(frozen=True)
class StoredCopy:
    """A relation that is copied: which of its columns, and of which rows."""

    relation: str
    columns: tuple[str, ...]
    condition: str
    """Empty if every row is copied."""

    def to_json(self) -> dict[str, Json]:
        return {
            "relation": self.relation,
            "columns": list(self.columns),
            "condition": self.condition,
        }

    def __str__(self) -> str:
        where = f" where {self.condition}" if self.condition else ""
        return f"a copy of {self.relation} ({', '.join(self.columns)}){where}"


def stored_copies(view: View) -> tuple[StoredCopy, ...]:
    """The relations of which copies are kept beside a view's rows."""
    return tuple(
        StoredCopy(
            copy.relation.name,
            copy.relation.schema.names,
            "" if copy.condition is None else _words(copy.condition),
        )
        for copy in (view.copy_parts.copies if view.copy_parts is not None else ())
    )


def describe_copies(view: View, rows: Mapping[str, int | None]) -> str:
    """One sentence, with about how many rows each relation has where that is known; empty if there
    is no copy."""
    told = []
    for copy in stored_copies(view):
        known = rows.get(copy.relation)
        told.append(f"{copy}{'' if known is None else f', of about {known:,} rows'}")
    return (
        f"{view.name} keeps {'; '.join(told)}, and answers questions about that itself."
        if told
        else ""
    )


def describe_parts(view: View) -> str:
    """One sentence; empty if what is stored is what is shown."""
    parts = stored_parts(view)
    if not parts:
        return ""
    stored = "; ".join(dict.fromkeys(map(str, parts)))
    if view.left_to_spark:
        stored += f" (Spark computes {', '.join(view.left_to_spark)} of that)"
    if view.members:
        names = ", ".join(member.name for member in view.members)
        return f"Group {view.name} stores {stored}; {names} are shown of that."
    if parts[0].keyed_by:
        how = f"what is shown is computed by {', '.join(parts[0].keyed_by)}"
    else:
        how = "what is shown is evaluated whole whenever it is folded or read"
    return f"{view.name} stores {stored}; {how}."


def told_of_pairs(view: View) -> tuple[str, ...]:
    """Conditions that alone tie tables and may fail: they wait for the top, and pairs are stored.

    Each in a sentence, with what to write instead.
    """
    if view.top is None:
        return ()
    joins = {join.number: join for join in view.joins}
    told: dict[str, None] = {}
    for selection, part in filter(None, map(_above_part, nodes_of(view.top))):
        join = joins.get(part.number)
        if join is None or not can_fail(selection.condition):
            continue
        condition = _over_tables(selection.condition, part, join)
        tied = {join.owner[column] for column in columns_of(condition)}
        if any(tied <= group for group in _tied(join)):
            continue
        names = (join.occurrences[at].relation.name for at in sorted(tied))
        told[
            f"View {view.name} stores every row of {' with every row of '.join(names)}, since "
            f"{_words(condition)} alone joins them and may fail: TRY_CAST and other functions that "
            "give NULL instead store only the rows that join."
        ] = None
    return tuple(told)


def _over_tables(condition: Expression, part: Part, join: Join) -> Expression:
    """A condition on a part's columns as one on those of its tables."""
    named = dict(zip(join.schema.names, join.outputs, strict=True))
    columns = zip(part.schema.names, part.columns, strict=True)
    return substituted(condition, {name: named[column] for name, column in columns})


def _above_part(node: Top) -> tuple[Select, Part] | None:
    """A selection from a part, also from what others have selected from it."""
    if not isinstance(node, Select):
        return None
    below = node.input
    while isinstance(below, Select):
        below = below.input
    return (node, below) if isinstance(below, Part) else None


def _tied(join: Join) -> list[frozenset[int]]:
    """The occurrences of a join that its conditions tie together."""
    together = [frozenset({at}) for at in range(len(join.occurrences))]
    for conjunct in join.condition:
        tied = frozenset(join.owner[column] for column in columns_of(conjunct))
        met = tied.union(*(group for group in together if group & tied))
        together = [*(group for group in together if not group & tied), met]
    return together


def _part(join: Join, key: tuple[str, ...], compact: Compact | None) -> StoredPart:
    named = dict(zip(join.schema.names, join.outputs, strict=True))
    summed = compact.parts.get(join.number) if compact is not None else None
    if summed is not None:
        keys = tuple(_words(substituted(one, named)) for one in summed.keys)
        sums = tuple(_sum(slot, named) for slot in summed.slots)
        relations = tuple(occurrence.relation.name for occurrence in join.occurrences)
        return StoredPart(keys, relations, False, tuple(_words(named[n]) for n in key), sums)
    shown = [_words(output) for name, output in named.items() if not _is_filling(name, output)]
    relations = tuple(occurrence.relation.name for occurrence in join.occurrences)
    is_copy = len(relations) == 1 and not join.condition
    keyed_by = tuple(_words(named[name]) for name in key)
    return StoredPart(tuple(dict.fromkeys(shown)), relations, is_copy, keyed_by)


_MEASURES = {
    "number": "the number of {}",
    "true": "the number of true {}",
    "total": "the sum of {}",
    "square": "the sum of the squares of {}",
}


def _sum(slot: Slot, named: Mapping[str, Expression]) -> str:
    argument, condition = (
        _words(substituted(one, named)) if one is not None else ""
        for one in (slot.argument, slot.condition)
    )
    words = _MEASURES[slot.measure].format(argument or "rows")
    return f"{words} where {condition}" if condition else words


def _words(output: Expression) -> str:
    return show_expression(output)


def _is_filling(name: str, output: Expression) -> bool:
    """Whether a column only tells parts apart, or is there for other parts."""
    return name == PART or output == Literal(None, output.type)
