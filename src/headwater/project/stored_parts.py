"""What is stored of a view beyond what it shows, in words: its parts, and how its top is computed.

For `check`, which looks at no table of the warehouse: how large the parts are is told by `status`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.algebra.expressions import Expression, Literal, show_expression
from headwater.algebra.keying import keying
from headwater.algebra.tops import PART
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

    def to_json(self) -> dict[str, Json]:
        return {
            "columns": list(self.columns),
            "relations": list(self.relations),
            "copy": self.is_copy,
            "keyed_by": list(self.keyed_by),
        }

    def __str__(self) -> str:
        of = f"of every row of {self.relations[0]}" if self.is_copy else self._joined
        return f"{', '.join(self.columns) or 'that there is a row'} {of}"

    @property
    def _joined(self) -> str:
        return f"of {' with '.join(self.relations)}"


def stored_parts(view: View) -> tuple[StoredPart, ...]:
    """The parts of a view with a top; none if what is stored is what is shown, errors apart."""
    if view.top is None or view.error_column is not None:
        return ()
    by = keying(view.top) or {}
    return tuple(_part(join, by.get(_number(join), ())) for join in view.joins)


def describe_parts(view: View) -> str:
    """One sentence; empty if what is stored is what is shown."""
    parts = stored_parts(view)
    if not parts:
        return ""
    stored = "; ".join(map(str, parts))
    if parts[0].keyed_by:
        how = f"what is shown is computed by {', '.join(parts[0].keyed_by)}"
    else:
        how = "what is shown is evaluated whole whenever it is folded or read"
    return f"{view.name} stores {stored}; {how}."


def _part(join: Join, key: tuple[str, ...]) -> StoredPart:
    named = dict(zip(join.schema.names, join.outputs, strict=True))
    shown = [_words(output) for name, output in named.items() if not _is_filling(name, output)]
    relations = tuple(occurrence.relation.name for occurrence in join.occurrences)
    is_copy = len(relations) == 1 and not join.condition
    keyed_by = tuple(_words(named[name]) for name in key)
    return StoredPart(tuple(dict.fromkeys(shown)), relations, is_copy, keyed_by)


def _words(output: Expression) -> str:
    return show_expression(output)


def _number(join: Join) -> int | None:
    at = join.schema.positions.get(PART)
    match join.outputs[at] if at is not None else None:
        case Literal(value=int(number)):
            return number
    return None


def _is_filling(name: str, output: Expression) -> bool:
    """Whether a column only tells parts apart, or is there for other parts."""
    return name == PART or output == Literal(None, output.type)
