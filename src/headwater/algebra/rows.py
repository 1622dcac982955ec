"""Rows: a relation as an element of a ring, a signed multiset held in memory.

A row maps to a count, any integer but zero: `+row` is an insertion, `-row` a deletion.
Addition sums counts and join multiplies them; both are the ECA paper's section 4.1 and the
operations that the Rings paper writes as circled plus and times. The canonical form has no
zero counts, so equal relations are equal values. Values are immutable and hashable.

Assumes canonical rows (`Schema.row`). `headwater.frames` has subclasses whose rows are held by
Arrow and by Spark; they obey the same law suite. An operation on two kinds is done by the one of
higher `rank`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, TypeAlias

from headwater.algebra.aggregates import Aggregate
from headwater.algebra.expressions import (
    ColumnRef,
    Expression,
    compile_expression,
    compile_rows,
)
from headwater.algebra.grouping import grouped, key_reader
from headwater.algebra.order import Order, in_order
from headwater.algebra.schema import Schema
from headwater.algebra.sums import SummedAggregate, summed
from headwater.algebra.values import Row, Value, show, sort_key, width
from headwater.algebra.windows import WindowFunction, windowed

Equality: TypeAlias = tuple[Expression, Expression]
Spread: TypeAlias = Callable[[Row], Iterable[tuple[Row, int]]]


class Rows:
    """A signed multiset of rows over a schema."""

    __slots__ = ("_counts", "_hash", "schema")

    rows_joined: ClassVar[int] = 0
    """How many rows joins in memory have put out in this process. Only ever counted here, so
    that a test can show where joins ran; nothing may depend on it."""

    rank: ClassVar[int] = 0
    """Of two kinds of rows in one operation the higher one does it."""

    def __init__(self, schema: Schema, counts: Mapping[Row, int]) -> None:
        self.schema = schema
        self._counts = {row: count for row, count in counts.items() if count}
        self._hash: int | None = None

    @classmethod
    def of(cls, schema: Schema, rows: Iterable[Sequence[object]], sign: int = 1) -> Rows:
        """Each of `rows` once, made canonical, with `sign` as its count."""
        counts: dict[Row, int] = defaultdict(int)
        for values in rows:
            counts[schema.row(values)] += sign
        return cls(schema, counts)

    @classmethod
    def empty(cls, schema: Schema) -> Rows:
        return cls(schema, {})

    @classmethod
    def sum(cls, schema: Schema, parts: Iterable[Rows]) -> Rows:
        parts = tuple(parts)
        leader = max(parts, key=lambda part: part.rank, default=None)
        if leader is not None and leader.rank:
            return leader._summed(schema, parts)
        counts: dict[Row, int] = defaultdict(int)
        for part in parts:
            for row, count in part.items():
                counts[row] += count
        return cls(schema, counts)

    # Reading

    def items(self) -> Iterable[tuple[Row, int]]:
        return self._counts.items()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._counts)

    def count(self, row: Row) -> int:
        return self._counts.get(row, 0)

    def __len__(self) -> int:
        """How many distinct rows there are."""
        return len(self._counts)

    def __bool__(self) -> bool:
        return bool(self._counts)

    @property
    def size_hint(self) -> int:
        """About how many distinct rows there are, told without any work; 0 only if none are."""
        return len(self._counts)

    def some(self, most: int) -> list[Row]:
        """A few of the rows, told without any work; none if that cannot be had."""
        return list(islice(self._counts, most))

    @property
    def number(self) -> int:
        """How many rows there are, each as often as it counts."""
        return sum(count for _, count in self.items())

    def settled(self) -> Rows:
        """These rows, computed: nothing that uses them will compute them again."""
        return self

    @property
    def is_far(self) -> bool:
        """Whether these rows are too many to be brought into this process's memory."""
        return False

    def gathered(self) -> Rows:
        """The same, in memory if they are few."""
        return self

    def distinct(self, columns: Sequence[str]) -> set[Row]:
        """The values that these columns have together, each once."""
        positions = [self.schema.positions[name] for name in columns]
        return {tuple([row[at] for at in positions]) for row in self}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Rows):
            return NotImplemented
        return self._counts == other._counts and self.schema == other.schema

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._counts.items()))
        return self._hash

    @property
    def byte_count(self) -> int:
        return sum(sum(map(width, row)) * abs(count) for row, count in self.items())

    def sorted_items(self) -> list[tuple[Row, int]]:
        return sorted(self.items(), key=lambda item: sort_key(item[0]))

    def __repr__(self) -> str:
        return show_rows(self)

    # The ring

    def __add__(self, other: Rows) -> Rows:
        if not other:
            return self
        counts = dict(self._counts)
        for row, count in other.items():
            counts[row] = counts.get(row, 0) + count
        return Rows(self.schema, counts)

    def __neg__(self) -> Rows:
        return self.scaled(-1)

    def __sub__(self, other: Rows) -> Rows:
        return self + -other

    def scaled(self, factor: int) -> Rows:
        """Every count times `factor`."""
        if factor == 1:
            return self
        return Rows(self.schema, {row: count * factor for row, count in self.items()})

    # Relational operations

    def select(self, condition: Expression) -> Rows:
        """The rows for which `condition` is true; NULL counts as not true."""
        test = compile_expression(condition, self.schema)
        return _without_zeros(self.schema, {r: n for r, n in self.items() if test(r) is True})

    def project(self, schema: Schema, outputs: Sequence[Expression]) -> Rows:
        """Each row's `outputs`, duplicates kept by adding their counts."""
        output = compile_rows(tuple(outputs), self.schema)
        counts: dict[Row, int] = defaultdict(int)
        for row, count in self.items():
            counts[output(row)] += count
        return Rows(schema, counts)

    def spread(self, schema: Schema, spread: Spread) -> Rows:
        """Each row as several others, each counting so many times what it counts."""
        counts: dict[Row, int] = defaultdict(int)
        for row, count in self.items():
            for other, weight in spread(row):
                counts[other] += count * weight
        return Rows(schema, counts)

    def only(self, schema: Schema) -> Rows:
        """Only these of the columns; rows that have become equal are added up."""
        if schema == self.schema:
            return self
        return self.project(schema, [ColumnRef(c.name, c.type) for c in schema.columns])

    def join(self, other: Rows, on: Sequence[Equality] = ()) -> Rows:
        """The product of both, where each pair of `on` is equal; a NULL joins nothing."""
        return other._joined_behind(self, on)

    def join_size(self, other: Rows, on: Sequence[Equality] = ()) -> int:
        """How many rows the join of both has, each as often as it counts, without making it."""
        own = self._count_by(tuple(left for left, _ in on))
        others = other._count_by(tuple(right for _, right in on))
        return sum(count * others.get(key, 0) for key, count in own.items() if None not in key)

    def _count_by(self, outputs: tuple[Expression, ...]) -> dict[Row, int]:
        """How many rows have each of the values that these expressions have together."""
        key = compile_rows(outputs, self.schema)
        counts: dict[Row, int] = defaultdict(int)
        for row, count in self.items():
            counts[key(row)] += abs(count)
        return counts

    def _joined_behind(self, first: Rows, on: Sequence[Equality]) -> Rows:
        """The join of `first`, held in memory, with these rows."""
        first_key = compile_rows(tuple(left for left, _ in on), first.schema)
        own_key = compile_rows(tuple(right for _, right in on), self.schema)
        matches: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
        if len(first) < len(self):  # to ask for a row is much less than to put one in order
            for row, count in first.items():
                if None not in (key := first_key(row)):
                    matches[key].append((row, count))
            counts = {
                left + right: left_count * right_count
                for right, right_count in self.items()
                if (found := matches.get(own_key(right)))
                for left, left_count in found
            }
        else:
            for row, count in self.items():
                matches[own_key(row)].append((row, count))
            counts = {
                left + right: left_count * right_count
                for left, left_count in first.items()
                if None not in (key := first_key(left))
                for right, right_count in matches.get(key, ())
            }
        Rows.rows_joined += len(counts)
        return _without_zeros(first.schema + self.schema, counts)

    def _summed(self, schema: Schema, parts: tuple[Rows, ...]) -> Rows:
        """The sum of `parts`, of which these are one; only subclasses are asked."""
        raise NotImplementedError

    def key_delete(self, columns: Sequence[str], keys: Iterable[Row]) -> Rows:
        """Without the rows whose `columns` equal one of `keys` (the papers' key-delete)."""
        positions = [self.schema.positions[name] for name in columns]
        gone = frozenset(keys)
        return self._where(lambda row: tuple(row[at] for at in positions) not in gone)

    def among(self, other: Rows) -> Rows:
        """The rows that `other` has too, whatever its counts, with their own counts."""
        return other._kept_of(self)

    def _kept_of(self, first: Rows) -> Rows:
        """Those of `first`, held in memory, that these rows have too."""
        return first._where(lambda row: row in self._counts)

    def positive(self) -> Rows:
        """What a reader sees: the rows whose count is above zero."""
        if all(count > 0 for count in self._counts.values()):
            return self
        return Rows(self.schema, {row: count for row, count in self.items() if count > 0})

    def negative(self) -> Rows:
        return Rows(self.schema, {row: count for row, count in self.items() if count < 0})

    # What tops are made of; counts above zero are what a reader sees

    def holding(self, rows: Rows) -> Rows:
        """Other rows, held as these are."""
        return self._alike(rows) if self.rank > rows.rank else rows

    def _alike(self, rows: Rows) -> Rows:
        """Rows of a lower rank, held as these are; only subclasses are asked."""
        raise NotImplementedError

    def each_once(self) -> Rows:
        """Every row with the count 1."""
        return _without_zeros(self.schema, {row: 1 for row, count in self.items() if count > 0})

    def paired(self, other: Rows, key: Sequence[str], other_key: Sequence[str]) -> Rows:
        """Every pair of rows whose keys are the same; unlike in `join`, NULL is a key too."""
        if other.rank > self.rank:
            return other._alike(self).paired(other, key, other_key)
        own, others = key_reader(self.schema, key), key_reader(other.schema, other_key)
        matches: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
        for row, count in other.items():
            matches[others(row)].append((row, count))
        counts = {
            left + right: left_count * right_count
            for left, left_count in self.items()
            for right, right_count in matches.get(own(left), ())
        }
        return _without_zeros(self.schema + other.schema, counts)

    def restricted(
        self, by: Rows, key: Sequence[str], by_key: Sequence[str], *, anti: bool = False
    ) -> Rows:
        """The rows whose key some row of `by` has, or with `anti` none has; NULL is a key too."""
        if by.rank > self.rank:
            return by._alike(self).restricted(by, key, by_key, anti=anti)
        own, others = key_reader(self.schema, key), key_reader(by.schema, by_key)
        known = {others(row) for row, count in by.items() if count > 0}
        return self._where(lambda row: (own(row) in known) is not anti)

    def less(self, other: Rows) -> Rows:
        """Rows as often as they are here more often than in `other`."""
        if other.rank > self.rank:
            return other._alike(self).less(other)
        counts = {row: n - max(0, other.count(row)) for row, n in self.items() if n > 0}
        return _without_zeros(self.schema, {row: n for row, n in counts.items() if n > 0})

    def aggregated(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[Aggregate],
        *,
        always: bool = False,
    ) -> Rows:
        """A row for each key with its aggregates; with `always` one also if there are no rows."""
        counts = grouped(self.items(), self.schema, keys, aggregates, always=always)
        return _without_zeros(schema, dict.fromkeys(counts, 1))

    def summed(
        self,
        schema: Schema,
        keys: Sequence[str],
        aggregates: Sequence[SummedAggregate],
        *,
        always: bool = False,
    ) -> Rows:
        """The same where these rows are sums (`algebra.sums`)."""
        counts = summed(self.items(), self.schema, keys, aggregates, always=always)
        return _without_zeros(schema, dict.fromkeys(counts, 1))

    def first(self, order: Sequence[Order], limit: int | None, offset: int = 0) -> Rows:
        """The first rows in this order, which all columns complete, behind `offset` others."""
        counts: dict[Row, int] = {}
        skipped, wanted = offset, limit
        for row in in_order((row for row, n in self.items() if n > 0), self.schema, order):
            count = max(0, self.count(row) - skipped)
            skipped = max(0, skipped - self.count(row))
            count = count if wanted is None else min(count, wanted)
            wanted = None if wanted is None else wanted - count
            if count:
                counts[row] = count
        return _without_zeros(self.schema, counts)

    def windowed(self, schema: Schema, functions: Sequence[WindowFunction]) -> Rows:
        """Each row with the values of window functions behind its own."""
        return _without_zeros(schema, windowed(self.items(), self.schema, functions))

    def exploded(
        self, schema: Schema, column: str, *, first: int | None = None, outer: bool = False
    ) -> Rows:
        """Each row with each element of an array behind it, and its number, from `first` on."""
        at = self.schema.positions[column]
        counts: dict[Row, int] = defaultdict(int)
        for row, count in self.items():
            array = row[at]
            elements = array if isinstance(array, tuple) else ()
            found: list[Row] = [(element,) for element in elements]
            if first is not None:
                found = [(*one, number) for number, one in enumerate(found, first)]
            for more in found or ([(None,) * (len(schema) - len(row))] if outer else []):
                counts[row + more] += count
        return _without_zeros(schema, counts)

    def renamed(self, schema: Schema) -> Rows:
        """The same rows under other column names."""
        assert schema.types == self.schema.types
        renamed = _without_zeros(schema, self._counts)
        renamed._hash = self._hash
        return renamed

    def _where(self, keep: Callable[[Row], bool]) -> Rows:
        return _without_zeros(self.schema, {r: n for r, n in self.items() if keep(r)})


def _without_zeros(schema: Schema, counts: dict[Row, int]) -> Rows:
    """Rows over counts that need not be looked at again."""
    rows = Rows.__new__(Rows)
    rows.schema, rows._counts, rows._hash = schema, counts, None
    return rows


def show_row(row: Sequence[Value]) -> str:
    return "[" + ", ".join(map(show, row)) + "]"


def show_rows(rows: Rows) -> str:
    """A relation as the papers print it: `([1], [4], -[2])`, each row as often as it counts."""
    shown = [
        text
        for row, count in rows.sorted_items()
        for text in [("-" if count < 0 else "") + show_row(row)] * abs(count)
    ]
    if not shown:
        return "∅"
    return shown[0] if len(shown) == 1 else "(" + ", ".join(shown) + ")"
