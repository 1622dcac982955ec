"""Window functions over a multiset of rows: OVER (PARTITION BY ... ORDER BY ... ROWS ...).

A row that counts n times is n rows here. The order of a window is completed by all columns, so
that a number or a neighbour depends on the multiset alone. Rows that the ORDER BY itself does not
tell apart are peers: they have one rank, and a RANGE frame takes all of them or none.

Choices: frames are ROWS with any offsets, and RANGE up to peers or to values, which are expressions
over the row: its own value in the one column of the order, moved by an offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.algebra.aggregates import FUNCTIONS, Aggregate, from_moments
from headwater.algebra.expressions import Expression, columns_of, compile_expression, compile_rows
from headwater.algebra.grouping import Group, computed, told_of
from headwater.algebra.moments import FINISH, RunningMoments, with_squares
from headwater.algebra.order import Order, in_order, order_key, sorting_key
from headwater.algebra.values import Row, Type, Value

if TYPE_CHECKING:
    from headwater.algebra.schema import Schema


@dataclass(frozen=True)
class WindowFrame:
    """The rows around a row: offsets from it, negative before it; None is unbounded.

    With `by_range` the only offset is 0, and means all peers, unless `low` or `high` is the value
    from which on rows belong to the frame, or up to which they do.
    """

    start: int | None = None
    end: int | None = 0
    by_range: bool = True
    low: Expression | None = None
    high: Expression | None = None

    @property
    def by_value(self) -> bool:
        return self.low is not None or self.high is not None


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
    columns = [window_values(function, each, schema) for function in functions]
    counts: dict[Row, int] = defaultdict(int)
    for at, row in enumerate(each):
        counts[row + tuple(column[at] for column in columns)] += 1
    return counts


def window_values(function: WindowFunction, each: list[Row], schema: Schema) -> list[Value]:
    """The function's value for each row; they stand in the order that completes every other."""
    at_key = [schema.positions[name] for name in function.partition]
    partitions: dict[Row, list[int]] = defaultdict(list)
    for at, row in enumerate(each):
        partitions[tuple(row[k] for k in at_key)].append(at)
    key = order_key(schema, function.order)
    arguments = compile_rows(function.arguments, schema)
    compute = _COMPUTE.get(function.function, _aggregates)
    values: list[Value] = [None] * len(each)
    for partition, places in partitions.items():
        ordered = sorted(places, key=lambda at: key(each[at]))  # stable: all columns complete it
        keys = [key(each[at]) for at in ordered]
        window = _Window(
            function,
            [arguments(each[at]) for at in ordered],
            _peers(keys),
            _edges(function, [each[at] for at in ordered], keys, schema),
            Group(function.partition, partition),
        )
        for at, value in zip(ordered, compute(window), strict=True):
            values[at] = value
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


def _edges(
    function: WindowFunction, rows: list[Row], keys: list[Any], schema: Schema
) -> list[tuple[int, int]]:
    """For each row where a frame up to values starts and ends; empty if the frame is another."""
    frame = function.frame
    if not frame.by_value:
        return []
    (order,) = function.order

    def places(
        bound: Expression | None, find: Callable[..., int], otherwise: list[int]
    ) -> list[int]:
        if bound is None:
            return otherwise
        value = compile_expression(bound, schema)
        return [
            find(keys, (sorting_key(value(row), order.descending, order.nulls_last),))
            for row in rows
        ]

    peers = _peers(keys)
    starts = [0 if frame.start is None else start for start, _ in peers]
    ends = [len(rows) if frame.end is None else end for _, end in peers]
    found = zip(
        places(frame.low, bisect_left, starts), places(frame.high, bisect_right, ends), strict=True
    )
    return list(found)


@dataclass
class _Window:
    """One partition in order: the arguments on each row, its peers, and the edges of its frame."""

    function: WindowFunction
    arguments: list[Row]
    peers: list[tuple[int, int]]
    edges: list[tuple[int, int]]
    partition: Group

    def frame(self, at: int) -> range:
        frame, size = self.function.frame, len(self.arguments)
        if self.edges:
            start, end = self.edges[at]
            return range(start, max(start, end))
        first, last = self.peers[at] if frame.by_range else (at, at + 1)
        start = 0 if frame.start is None else first + frame.start
        end = size if frame.end is None else last + frame.end
        first = min(max(start, 0), size)
        return range(first, max(min(max(end, 0), size), first))

    def value_at(self, at: int, place: int) -> Value:
        """The first argument in some place of the frame, or NULL if that has fewer."""
        frame: Sequence[int] = self.frame(at)
        if self.function.ignore_nulls:
            frame = [each for each in frame if self.arguments[each][0] is not None]
        if not -len(frame) <= place < len(frame):
            return None
        return self.arguments[frame[place]][0]


_Compute: TypeAlias = Callable[[_Window], Iterable[Value]]


# Each gives the values of all rows of a window, in their order


def _aggregates(window: _Window) -> Iterator[Value]:
    """Frames only ever move on, so that rows are taken in and out one by one."""
    function = window.function
    aggregate = Aggregate(function.function, function.arguments, function.type)
    sums = function.function in FINISH
    kind = _RunningSums if sums else _RunningCounts
    running = kind(aggregate, window.partition)
    first = last = 0
    known: range | None = None
    value: Value = None
    for at in range(len(window.arguments)):
        frame = window.frame(at)
        if frame != known:
            while last < frame.stop:
                running.change(window.arguments[last], 1)
                last += 1
            while first < min(frame.start, last):
                running.change(window.arguments[first], -1)
                first += 1
            known, value = frame, running.value(is_empty=not frame)
        yield value


class _RunningCounts:
    """How often each value is in the frame."""

    def __init__(self, aggregate: Aggregate, partition: Group) -> None:
        self._aggregate = aggregate
        self._partition = partition
        self._counted: Counter[Row] = Counter()

    def change(self, arguments: Row, count: int) -> None:
        self._counted[arguments] += count
        if not self._counted[arguments]:
            del self._counted[arguments]

    def value(self, *, is_empty: bool) -> Value:
        counted = () if is_empty else self._counted.items()
        return computed(self._aggregate, counted, self._partition)


class _RunningSums:
    """The sums of the values in the frame."""

    def __init__(self, aggregate: Aggregate, partition: Group) -> None:
        self._aggregate = aggregate
        self._partition = partition
        kind, squares = aggregate.arguments[0].type, with_squares(aggregate.function)
        self._running = RunningMoments(kind, squares=squares)

    def change(self, arguments: Row, count: int) -> None:
        self._running.change(arguments[0], count)

    def value(self, *, is_empty: bool) -> Value:
        if is_empty:
            return computed(self._aggregate, ())
        aggregate, moments = self._aggregate, self._running.moments
        return told_of(aggregate, lambda: from_moments(aggregate, moments), self._partition)


def _dense_ranks(window: _Window) -> Iterator[Value]:
    number = 0
    for at, (start, _) in enumerate(window.peers):
        number += start == at
        yield number


def _percent_ranks(window: _Window) -> Iterator[Value]:
    size = len(window.peers)
    for start, _ in window.peers:
        yield start / (size - 1) if size > 1 else 0.0


def _ntiles(window: _Window) -> Iterator[Value]:
    size, rest = divmod(len(window.peers), window.function.offset)
    larger = rest * (size + 1)
    for at in range(len(window.peers)):
        yield at // (size + 1) + 1 if at < larger else rest + (at - larger) // size + 1


def _neighbours(direction: int) -> _Compute:
    """LAG and LEAD; the second argument is what stands for a row that is not there."""

    def one(window: _Window, at: int) -> Value:
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

    return lambda window: [one(window, at) for at in range(len(window.arguments))]


def _in_frame(wanted: Callable[[_Window], int]) -> _Compute:
    """The value in this place of each frame, counted from 0, or from its end if negative."""

    def compute(window: _Window) -> Iterator[Value]:
        place = wanted(window)
        for at in range(len(window.arguments)):
            yield window.value_at(at, place)

    return compute


_COMPUTE: Mapping[str, _Compute] = {
    "row_number": lambda window: range(1, len(window.peers) + 1),
    "rank": lambda window: [start + 1 for start, _ in window.peers],
    "dense_rank": _dense_ranks,
    "percent_rank": _percent_ranks,
    "cume_dist": lambda window: [end / len(window.peers) for _, end in window.peers],
    "ntile": _ntiles,
    "lag": _neighbours(-1),
    "lead": _neighbours(1),
    "first_value": _in_frame(lambda window: 0),
    "last_value": _in_frame(lambda window: -1),
    "nth_value": _in_frame(lambda window: window.function.offset - 1),
}
RANKING = frozenset(["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"])
"""Functions of a row's place alone, which have no frame."""
WINDOW_FUNCTIONS = frozenset(_COMPUTE) | frozenset(FUNCTIONS)
