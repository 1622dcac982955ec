"""Columns: relations held by Arrow, in memory, column by column. A `Rows`, stored elsewhere.

For what is too large for a dictionary and too small for Spark: from some thousand rows on, up to
the engine's threshold. Copying, joining and adding up work on whole columns; whatever Arrow cannot
do with exactly our meaning is done on the rows themselves, and gives a `Rows`. So it is with all
that has to compare or join rows with arrays or structs in them.

Rows may stand in several places with parts of their count until something asks (`merged`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy
import pyarrow
import pyarrow.compute as pc

from headwater.algebra.expressions import Call, ColumnRef, Expression, Literal
from headwater.algebra.rows import Equality, Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Type, Value
from headwater.frames.arrow import (
    COUNT,
    arrow_type,
    arrow_value,
    from_arrow,
    row_values,
    to_arrow,
)
from headwater.frames.distinctness import differ

FEW = 1_000
"""Up to this many rows a dictionary is as fast as Arrow's columns, or faster."""

_OURS = frozenset({"bool", "int", "decimal", "text", "bytes", "date", "timestamp", "timestamp_tz"})
"""Types that Arrow compares as we do; of a float it takes NaN for equal to nothing."""
_COMPARISONS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Columns(Rows):
    """A signed multiset of rows as an Arrow table."""

    __slots__ = ("_merged", "_table")

    rank = 1

    def __init__(self, schema: Schema, table: pyarrow.Table, merged: bool = False) -> None:
        """`table` has the columns of `schema` by place in Arrow's types, and then the count."""
        self.schema = schema
        self._hash = None
        self._table = table.rename_columns([*map(_place, range(len(schema))), COUNT])
        self._merged = merged

    @classmethod
    def of_rows(cls, rows: Rows) -> Columns:
        return rows if isinstance(rows, Columns) else cls(rows.schema, to_arrow(rows), merged=True)

    @classmethod
    def of_plain(cls, schema: Schema, table: pyarrow.Table) -> Columns:
        """The rows of a table without counts, each as often as it is there."""
        return cls(schema, table.append_column(COUNT, _repeated(1, table.num_rows)))

    # Reading

    def __getattr__(self, name: str) -> dict[Row, int]:
        """The rows one by one, which all that reads a `Rows` looks at; made when first asked."""
        if name != "_counts":
            raise AttributeError(name)
        self._counts = dict(from_arrow(self._merge(), self.schema).items())
        return self._counts

    def __len__(self) -> int:
        return int(self._merge().num_rows)

    def __bool__(self) -> bool:
        if not self._merged and self._table.num_rows:
            bounds = pc.min_max(self._table[COUNT])
            if bounds["min"].as_py() > 0 or bounds["max"].as_py() < 0:
                return True
        return len(self) > 0

    @property
    def size_hint(self) -> int:
        return int(self._table.num_rows)

    def some(self, most: int) -> list[Row]:
        return list(row_values(self._table.slice(0, most), self.schema))

    @property
    def table(self) -> pyarrow.Table:
        """Each row once, by column name, with its count as the column `_count`."""
        return self._merge().rename_columns([*self.schema.names, COUNT])

    def collected(self) -> Rows:
        """The same rows one by one."""
        return Rows(self.schema, self._counts)

    def distinct(self, columns: Sequence[str]) -> set[Row]:
        once = list(dict.fromkeys(columns))  # Arrow groups by a column only once
        if _has_nested(self.schema.only(once)):
            return Rows.distinct(self, columns)
        names = [_place(self.schema.positions[name]) for name in once]
        found = self._merge().select(names).group_by(names).aggregate([])
        places = [once.index(name) for name in columns]
        rows = row_values(found.select(names), self.schema.only(once))
        return {tuple([row[at] for at in places]) for row in rows}

    def _merge(self) -> pyarrow.Table:
        """Every row in one place, with a count that is not zero."""
        if not self._merged:
            names = self._table.column_names[:-1]
            if _has_nested(self.schema):
                table = to_arrow(from_arrow(self._table, self.schema)).rename_columns(
                    [*names, COUNT]
                )
            elif names and differ(self._table.drop_columns([COUNT])):
                table = self._table
            elif names:
                # Threads would take twice the work for the same time.
                grouped = self._table.group_by(names, use_threads=False).aggregate([(COUNT, "sum")])
                table = grouped.select([*names, f"{COUNT}_sum"]).rename_columns([*names, COUNT])
            else:
                total = pc.sum(self._table[COUNT]).as_py() or 0
                table = pyarrow.table({COUNT: pyarrow.array([total], pyarrow.int64())})
            self._table = table.filter(pc.field(COUNT) != 0)
            self._merged = True
        return self._table

    # The ring

    def __add__(self, other: Rows) -> Rows:
        return Rows.sum(self.schema, (self, other))

    def __radd__(self, other: Rows) -> Rows:
        return Rows.sum(other.schema, (other, self))

    def _summed(self, schema: Schema, parts: tuple[Rows, ...]) -> Rows:
        in_memory = [part for part in parts if not isinstance(part, Columns)]
        tables = [part._table for part in parts if isinstance(part, Columns) and part.size_hint]
        small = Rows.sum(schema, in_memory)
        if small:
            tables.append(Columns.of_rows(small)._table)
        if not tables:
            return Rows.empty(schema)
        merged = len(tables) == 1 and all(p._merged for p in parts if isinstance(p, Columns))
        return Columns(schema, pyarrow.concat_tables(tables), merged)

    def scaled(self, factor: int) -> Rows:
        if factor == 1:
            return self
        if factor == 0:
            return Rows.empty(self.schema)
        counts = pc.multiply_checked(self._table[COUNT], factor)
        at = self._table.num_columns - 1
        return Columns(self.schema, self._table.set_column(at, COUNT, counts), self._merged)

    # Relational operations

    def select(self, condition: Expression) -> Rows:
        match condition:
            case Call(operator, (a, b)) if operator in _COMPARISONS and a.type == b.type:
                if _is_plain(a) and _is_plain(b):
                    test = _COMPARISONS[operator](self._operand(a), self._operand(b))
                    return Columns(self.schema, self._table.filter(test), self._merged)
        return super().select(condition)

    def project(self, schema: Schema, outputs: Sequence[Expression]) -> Rows:
        if not all(isinstance(output, ColumnRef | Literal) for output in outputs):
            return super().project(schema, outputs)
        columns = [
            self._column(output, kind) for output, kind in zip(outputs, schema.types, strict=True)
        ]
        table = pyarrow.Table.from_arrays(
            [*columns, self._table[COUNT]], [*map(_place, range(len(schema))), COUNT]
        )
        return Columns(schema, table)

    def join(self, other: Rows, on: Sequence[Equality] = ()) -> Rows:
        if other.rank > self.rank:
            return other._joined_behind(self, on)
        return self._joined(self, other, on)

    def _joined_behind(self, first: Rows, on: Sequence[Equality]) -> Rows:
        return self._joined(first, self, on)

    def _joined(self, first: Rows, second: Rows, on: Sequence[Equality]) -> Rows:
        if not (first.size_hint and second.size_hint):
            return Rows.empty(first.schema + second.schema)
        nested = _has_nested(first.schema) or _has_nested(second.schema)
        if not on or nested or not all(map(_is_joinable, on)):
            return Rows.join(_in_memory(first), _in_memory(second), on)
        left, right = Columns.of_rows(first), Columns.of_rows(second)
        here, there = _matching(left, right, on)
        ours, theirs = left._table.take(here), right._table.take(there)
        counts = pc.multiply_checked(ours[COUNT], theirs[COUNT])
        schema = left.schema + right.schema
        table = pyarrow.Table.from_arrays(
            [*ours.columns[:-1], *theirs.columns[:-1], counts],
            [*map(_place, range(len(schema))), COUNT],
        )
        Rows.rows_joined += table.num_rows
        return Columns(schema, table, left._merged and right._merged)

    def key_delete(self, columns: Sequence[str], keys: Iterable[Row]) -> Rows:
        return Rows.key_delete(_in_memory(self), columns, keys)

    def positive(self) -> Rows:
        return self._where_count(pc.field(COUNT) > 0)

    def negative(self) -> Rows:
        return self._where_count(pc.field(COUNT) < 0)

    def each_once(self) -> Rows:
        present = self._merge().filter(pc.field(COUNT) > 0)
        ones = _repeated(1, present.num_rows)
        once = present.set_column(present.num_columns - 1, COUNT, ones)
        return Columns(self.schema, once, merged=True)

    def _alike(self, rows: Rows) -> Rows:
        return Columns.of_rows(rows)

    def renamed(self, schema: Schema) -> Rows:
        assert schema.types == self.schema.types
        return Columns(schema, self._table, self._merged)

    # Parts of these

    def _where_count(self, test: pc.Expression) -> Rows:
        found = self._merge().filter(test)
        return self if found.num_rows == len(self) else Columns(self.schema, found, merged=True)

    def _operand(self, expression: Expression) -> pc.Expression:
        if isinstance(expression, ColumnRef):
            return pc.field(_place(self.schema.positions[expression.name]))
        assert isinstance(expression, Literal)
        return pc.scalar(_scalar(expression.value, expression.type))

    def _column(self, output: Expression, kind: Type) -> pyarrow.ChunkedArray | pyarrow.Array:
        if isinstance(output, ColumnRef):
            return self._table[_place(self.schema.positions[output.name])]
        assert isinstance(output, Literal)
        return pyarrow.repeat(_scalar(output.value, kind), self._table.num_rows)


def _place(at: int) -> str:
    """Columns are addressed by their place: names may be anything."""
    return f"c{at}"


def _repeated(value: int, times: int) -> pyarrow.Array:
    return pyarrow.repeat(pyarrow.scalar(value, pyarrow.int64()), times)


def _scalar(value: Value, kind: Type) -> pyarrow.Scalar:
    return pyarrow.scalar(arrow_value(value, kind), arrow_type(kind))


def _has_nested(schema: Schema) -> bool:
    return any(kind.is_nested for kind in schema.types)


def _is_plain(expression: Expression) -> bool:
    """Whether it is a column or a value that Arrow compares as we do."""
    if expression.type.name not in _OURS:
        return False
    return isinstance(expression, ColumnRef) or (
        isinstance(expression, Literal) and expression.value is not None
    )


def _is_joinable(pair: Equality) -> bool:
    a, b = pair
    return a.type == b.type and all(isinstance(e, ColumnRef) and _is_plain(e) for e in pair)


def _matching(
    left: Columns, right: Columns, on: Sequence[Equality]
) -> tuple[pyarrow.ChunkedArray, pyarrow.ChunkedArray]:
    """The places of the rows that belong together, pair by pair.

    Only what is compared goes through the join: other columns would be copied row by row there.
    """
    names = [f"k{at}" for at in range(len(on))]
    sides = []
    for rows, keys, place in (
        (left, [one for one, _ in on], "left"),
        (right, [other for _, other in on], "right"),
    ):
        found = [rows._column(key, key.type) for key in keys]
        at = pyarrow.array(numpy.arange(rows._table.num_rows))
        sides.append(pyarrow.Table.from_arrays([*found, at], [*names, place]))
    pairs = sides[0].join(sides[1], names, names, join_type="inner")
    return pairs["left"], pairs["right"]


def _in_memory(rows: Rows) -> Rows:
    """The rows one by one."""
    return rows.collected() if isinstance(rows, Columns) else rows


def arrow_table(rows: Rows) -> pyarrow.Table:
    """Signed rows as a table by column name, whose last column is the count."""
    return rows.table if isinstance(rows, Columns) else to_arrow(rows)


def copies(rows: Rows) -> pyarrow.Table:
    """Rows without counts, each as often as it counts."""
    table = arrow_table(rows)
    plain, counts = table.drop_columns([COUNT]), table.column(COUNT).to_numpy()
    if (counts == 1).all():
        return plain
    return plain.take(pyarrow.array(numpy.repeat(numpy.arange(len(counts)), counts)))


def rows_of_table(table: pyarrow.Table, schema: Schema) -> Rows:
    """The signed rows of such a table, each there once, held as suits their number."""
    if table.num_rows > FEW:
        return Columns(schema, table, merged=True)
    return from_arrow(table, schema)
