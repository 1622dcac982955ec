"""Window functions over a multiset of rows: OVER (PARTITION BY ... ORDER BY ... ROWS ...).

A row that counts n times is n rows here. The order of a window is completed by all columns, so
that a number or a neighbour depends on the multiset alone. Rows that the ORDER BY itself does not
tell apart are peers: they have one rank, and a RANGE frame takes all of them or none.

Choices: frames are ROWS with any offsets, and RANGE without offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, aggregated
from headwater.algebra.expressions import Expression, columns_of, compile_rows
from headwater.algebra.order import Order, in_order, order_key
from headwater.algebra.values import Row, Type, Value

if TYPE_CHECKING:
    from headwater.algebra.schema import Schema


@dataclass(frozen=True)
class WindowFrame:
    """The rows around a row: offsets from it, negative before it; None is unbounded.

    With `by_range` the only offset is 0, and means all peers.
    """

    start: int | None = None
    end: int | None = 0
    by_range: bool = True


WHOLE = WindowFrame(None, None, by_range=False)


@dataclass(frozen=True)
class WindowFunction:
    """One function over a window; `offset` is that of LAG and LEAD, NTH_VALUE and NTILE."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    partition: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    frame: WindowFrame = WHOLE
    offset: int = 0
    ignore_nulls: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it looks at."""
        found = frozenset().union(*map(columns_of, self.arguments))
        return found | set(self.partition) | {order.column for order in self.order}


def windowed(
    rows: Iterable[tuple[Row, int]], schema: Schema, functions: Sequence[WindowFunction]
) -> dict[Row, int]:
    """Each row, as often as it counts, with the functions' values behind its own."""
    each = in_order((row for row, count in rows for _ in range(count)), schema, ())
    columns = [_values(function, each, schema) for function in functions]
    counts: dict[Row, int] = defaultdict(int)
    for at, row in enumerate(each):
        counts[row + tuple(column[at] for column in columns)] += 1
    return counts


def _values(function: WindowFunction, each: list[Row], schema: Schema) -> list[Value]:
    """The function's value for each row, in the order of `each`."""
    at_key = [schema.positions[name] for name in function.partition]
    partitions: dict[Row, list[int]] = defaultdict(list)
    for at, row in enumerate(each):
        partitions[tuple(row[k] for k in at_key)].append(at)
    key = order_key(schema, function.order)
    arguments = compile_rows(function.arguments, schema)
    values: list[Value] = [None] * len(each)
    for places in partitions.values():
        ordered = sorted(places, key=lambda at: key(each[at]))  # stable: all columns complete it
        window = _Window(
            function,
            [arguments(each[at]) for at in ordered],
            _peers([key(each[at]) for at in ordered]),
        )
        for position, at in enumerate(ordered):
            values[at] = _COMPUTE.get(function.function, _aggregate)(window, position)
    return values


def _peers(keys: list[object]) -> list[tuple[int, int]]:
    """For each row where its peers start and end."""
    found: list[tuple[int, int]] = []
    start = 0
    for at in range(1, len(keys) + 1):
        if at == len(keys) or keys[at] != keys[start]:
            found += [(start, at)] * (at - start)
            start = at
    return found


@dataclass
class _Window:
    """One partition in order: the arguments on each row, and its peers."""

    function: WindowFunction
    arguments: list[Row]
    peers: list[tuple[int, int]]

    def frame(self, at: int) -> range:
        frame, size = self.function.frame, len(self.arguments)
        first, last = self.peers[at] if frame.by_range else (at, at + 1)
        start = 0 if frame.start is None else first + frame.start
        end = size if frame.end is None else last + frame.end
        return range(min(max(start, 0), size), min(max(end, 0), size))

    def values(self, at: int) -> list[Value]:
        """The first argument on the rows of the frame."""
        found = [self.arguments[place][0] for place in self.frame(at)]
        return [v for v in found if v is not None] if self.function.ignore_nulls else found


def _aggregate(window: _Window, at: int) -> Value:
    function = window.function
    counted: dict[Row, int] = defaultdict(int)
    for place in window.frame(at):
        counted[window.arguments[place]] += 1
    return aggregated(
        Aggregate(function.function, function.arguments, function.type), counted.items()
    )


def _dense_rank(window: _Window, at: int) -> Value:
    return len({start for start, _ in window.peers[: at + 1]})


def _percent_rank(window: _Window, at: int) -> Value:
    size = len(window.peers)
    return window.peers[at][0] / (size - 1) if size > 1 else 0.0


def _ntile(window: _Window, at: int) -> Value:
    size, rest = divmod(len(window.peers), window.function.offset)
    larger = rest * (size + 1)
    return at // (size + 1) + 1 if at < larger else rest + (at - larger) // size + 1


def _neighbour(direction: int) -> Callable[[_Window, int], Value]:
    """LAG and LEAD; the second argument is what stands for a row that is not there."""

    def compute(window: _Window, at: int) -> Value:
        step = direction if window.function.offset >= 0 else -direction
        left = abs(window.function.offset)
        place = at
        while left:
            place += step
            if not 0 <= place < len(window.arguments):
                return window.arguments[at][1]
            if not window.function.ignore_nulls or window.arguments[place][0] is not None:
                left -= 1
        return window.arguments[place][0]

    return compute


def _nth(window: _Window, at: int) -> Value:
    values = window.values(at)
    wanted = window.function.offset
    return values[wanted - 1] if wanted <= len(values) else None


_COMPUTE: Mapping[str, Callable[[_Window, int], Value]] = {
    "row_number": lambda window, at: at + 1,
    "rank": lambda window, at: window.peers[at][0] + 1,
    "dense_rank": _dense_rank,
    "percent_rank": _percent_rank,
    "cume_dist": lambda window, at: window.peers[at][1] / len(window.peers),
    "ntile": _ntile,
    "lag": _neighbour(-1),
    "lead": _neighbour(1),
    "first_value": lambda window, at: (window.values(at) or [None])[0],
    "last_value": lambda window, at: (window.values(at) or [None])[-1],
    "nth_value": _nth,
}
RANKING = frozenset(["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"])
"""Functions of a row's place alone, which have no frame."""
WINDOW_FUNCTIONS = frozenset(_COMPUTE) | frozenset(FUNCTIONS)
