"""Labels: the columns of a top under names that say what they are, in the words of the query.

Reading a query makes names such as `key 1` for columns in between. Whoever is told that a top
fails on a row or a group is told it with names of columns; so they become the expressions that
they stand for, once, when the view is read, and every engine says the same words.

Assumes a top over stored parts. Changes nothing else: neither what is stored, nor the names of
what is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import (
    ColumnRef,
    Expression,
    Literal,
    as_written,
    show_expression,
    substituted,
)
from headwater.algebra.schema import Schema
from headwater.algebra.tops import (
    PART,
    Constant,
    Exploded,
    First,
    Found,
    Grouped,
    Part,
    Product,
    Project,
    Restrict,
    Select,
    Summed,
    Top,
    UnionAll,
    Windowed,
    inputs_of,
    with_inputs,
)
from headwater.algebra.views import Join
from headwater.algebra.windows import WindowFunction

_MOST_CHARACTERS = 200
"""A longer label says no more."""


def labelled(top: Top, joins: Sequence[Join]) -> Top:
    """The top, over what is stored of these joins, with other names for all but its own columns."""
    stored: dict[int | None, dict[str, Expression]] = {}
    for join in joins:
        outputs = dict(zip(join.schema.names, join.outputs, strict=True))
        number = outputs.get(PART)
        at = number.value if isinstance(number, Literal) else None
        assert at is None or isinstance(at, int)
        stored[at] = outputs
    found = _Labelling(stored).of(top).top
    return _called(found, top.schema.names)


@dataclass(frozen=True)
class _Labelled:
    """A top under new names, and how its columns were called before."""

    top: Top
    before: tuple[str, ...]

    @property
    def columns(self) -> dict[str, str]:
        return dict(zip(self.before, self.top.schema.names, strict=True))

    @property
    def meanings(self) -> dict[str, Expression]:
        columns = zip(self.before, self.top.schema.columns, strict=True)
        return {name: ColumnRef(column.name, column.type) for name, column in columns}


class _Labelling:
    """Goes through a tree from its parts up; equal nodes get equal labels."""

    def __init__(self, stored: Mapping[int | None, Mapping[str, Expression]]) -> None:
        self._stored = stored
        self._known: dict[Top, _Labelled] = {}

    def of(self, top: Top) -> _Labelled:
        found = self._known.get(top)
        if found is None:
            below = [self.of(each) for each in inputs_of(top)]
            found = self._known[top] = _Labelled(self._node(top, below), top.schema.names)
        return found

    def _node(self, top: Top, below: Sequence[_Labelled]) -> Top:
        columns = {old: new for each in below for old, new in each.columns.items()}
        meanings = {name: ref for each in below for name, ref in each.meanings.items()}
        inputs = [each.top for each in below]
        match top:
            case Part(columns=names, number=number):
                outputs = self._stored[number]
                return _called(top, _labels([outputs[name] for name in names]))
            case Constant() | Found():
                return top
            case Select(condition=condition):
                return Select(inputs[0], substituted(condition, meanings))
            case Project(outputs=outputs):
                told = tuple(substituted(output, meanings) for output in outputs)
                return _called(Project(inputs[0], told, top.schema), _labels(told))
            case UnionAll():
                alike = zip(*(each.schema.names for each in inputs), strict=True)
                first = _called(inputs[0], [_either(each) for each in alike])
                return UnionAll((first, *inputs[1:]))
            case Product(left_key=left, right_key=right):
                other = _apart(inputs[1], inputs[0].schema.names)
                there = dict(zip(below[1].before, other.schema.names, strict=True))
                return Product(
                    inputs[0],
                    other,
                    tuple(below[0].columns[name] for name in left),
                    tuple(there[name] for name in right),
                )
            case Restrict(key=key, by_key=by_key):
                return replace(
                    top,
                    input=inputs[0],
                    by=inputs[1],
                    key=tuple(below[0].columns[name] for name in key),
                    by_key=tuple(below[1].columns[name] for name in by_key),
                )
            case Grouped(keys=keys, aggregates=aggregates):
                over = tuple(aggregate.over(meanings) for aggregate in aggregates)
                own = tuple(columns[key] for key in keys)
                groups = replace(top, input=inputs[0], keys=own, aggregates=over)
                return _called(groups, [*own, *map(str, over)])
            case First(order=order):
                named = tuple(replace(one, column=columns[one.column]) for one in order)
                return replace(top, input=inputs[0], order=named)
            case Windowed(functions=functions):
                windows = tuple(_over(function, columns, meanings) for function in functions)
                return _with_more(top, inputs[0], list(map(_window, windows)), functions=windows)
            case Exploded(column=column):
                array = columns[column]
                more = [f"an element of {array}", f"its number in {array}"]
                return _with_more(top, inputs[0], more, column=array)
            case _:  # Distinct, Less and Recursive name no columns; Summed is made later
                assert not isinstance(top, Summed)
                return with_inputs(top, inputs)


def _called(top: Top, names: Sequence[str]) -> Top:
    """The same rows under these names, or names like them that differ from each other."""
    schema = _renamed(top.schema, _different(names))
    if schema == top.schema:
        return top
    match top:
        case Part() | Project() | Grouped() | Constant():
            return replace(top, schema=schema)
    columns = top.schema.columns
    return Project(top, tuple(ColumnRef(c.name, c.type) for c in columns), schema)


def _renamed(schema: Schema, names: Sequence[str]) -> Schema:
    return Schema(
        tuple(replace(c, name=name) for c, name in zip(schema.columns, names, strict=True))
    )


def _different(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    used, found = set(taken), []
    for wanted in names:
        name, number = wanted, 1
        while name in used:
            number += 1
            name = f"{wanted} ({number})"
        used.add(name)
        found.append(name)
    return found


def _apart(top: Top, taken: Sequence[str]) -> Top:
    """The top with other names for the columns that something beside it has too."""
    return _called(top, _different(top.schema.names, taken))


def _with_more(
    top: Windowed | Exploded, below: Top, names: Sequence[str], **changes: object
) -> Top:
    """A node that adds columns behind those of its input, under these names."""
    added = top.schema.columns[len(below.schema) :]
    own = _different(names[: len(added)], below.schema.names)
    more = _renamed(Schema(added), own)
    return replace(top, input=below, schema=below.schema + more, **changes)  # type: ignore[arg-type]


# Words


def _labels(expressions: Sequence[Expression]) -> list[str]:
    found: list[str] = []
    for expression in expressions:
        short = _short(show_expression(as_written(expression)))
        found.append(_short(show_expression(expression)) if short in found else short)
    return found


def _short(words: str) -> str:
    return words if len(words) <= _MOST_CHARACTERS else f"{words[:_MOST_CHARACTERS]}..."


def _either(names: Sequence[str]) -> str:
    """What a column of a union is: the same in all its inputs, or one of several."""
    several = list(dict.fromkeys(name for name in names if name != "NULL"))
    if len(several) > 1 and sum(map(len, several)) <= _MOST_CHARACTERS:
        return f"({' or '.join(several)})"
    return several[0] if several else "NULL"


def _over(
    function: WindowFunction, columns: Mapping[str, str], meanings: Mapping[str, Expression]
) -> WindowFunction:
    frame = function.frame
    return replace(
        function,
        arguments=tuple(substituted(argument, meanings) for argument in function.arguments),
        partition=tuple(columns[name] for name in function.partition),
        order=tuple(replace(one, column=columns[one.column]) for one in function.order),
        frame=replace(
            frame,
            low=frame.low and substituted(frame.low, meanings),
            high=frame.high and substituted(frame.high, meanings),
        ),
    )


def _window(function: WindowFunction) -> str:
    called = Aggregate(function.function, function.arguments, function.type)
    parts = [f"PARTITION BY {', '.join(function.partition)}"] if function.partition else []
    order = [one.column + (" DESC" if one.descending else "") for one in function.order]
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    return _short(f"{called} OVER ({' '.join(parts)})")
