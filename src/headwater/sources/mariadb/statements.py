"""The SELECTs for what is to be read: names quoted, values written in digits alone.

A server only pre-filters, and must find at least what our equality does. Text columns are compared
by their own collations, which find more, so that their indexes serve; columns of different
collations are not joined there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from headwater.algebra.values import Type, Value
from headwater.sources.fetch import Fetch, Ref
from headwater.sources.mariadb.charsets import encodes
from headwater.sources.mariadb.connect import quoted, text_literal
from headwater.sources.mariadb.types import Table, TableColumn

_MOST_KEYS = 2000
_MOST_BYTES = 1 << 20
_ORDERED = ("int", "decimal", "date", "timestamp", "timestamp_tz")


def pushes(operator: str, kind: Type) -> bool:
    """Whether the server's comparison finds at least what Headwater's does."""
    if operator == "=":
        return not kind.is_nested
    return kind.name in _ORDERED


def literal(value: Value) -> str | None:
    """A value in SQL; None if no value of the server can equal it."""
    match value:
        case bool():
            return str(int(value))
        case int():
            return str(value)
        case float():
            return f"{value!r}e0" if "e" not in repr(value) else repr(value)
        case Decimal():
            return format(value, "f")
        case str():
            try:
                return text_literal(value)
            except UnicodeEncodeError:
                return None
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP'{value.replace(tzinfo=None).isoformat(' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
    return None


def _literal(value: Value, column: TableColumn) -> str | None:
    """A value that is compared with a column; None if no row can have it."""
    if isinstance(value, str) and column.charset and not encodes(column.charset, value):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return literal(value)


@dataclass(frozen=True)
class Naming:
    """The tables of one statement, by their aliases in a fetch and in SQL."""

    names: Mapping[str, str]
    tables: Mapping[str, Table]

    def read(self, ref: Ref) -> str:
        return self.column(ref).form.select.format(self._column(ref))

    def compared(self, ref: Ref) -> str:
        return self.column(ref).form.compare.format(self._column(ref))

    def column(self, ref: Ref) -> TableColumn:
        return self.tables[ref.alias].by_name[ref.column]

    def _column(self, ref: Ref) -> str:
        return f"{self.names[ref.alias]}.{quoted(ref.column)}"


def statements(fetch: Fetch, tables: Mapping[str, Table]) -> Iterator[str]:
    """The statements that together read a fetch; the last column counts equal rows.

    `tables` has the tables by the aliases that they have in the fetch.
    """
    naming = Naming({item.alias: f"t{at}" for at, item in enumerate(fetch.items)}, tables)
    where = [f"{naming.compared(a)} {o} {naming.compared(b)}" for a, o, b in fetch.joins]
    for ref, operator, value in fetch.filters:
        shown = _literal(value, naming.column(ref))
        if shown is not None:
            where.append(f"{naming.compared(ref)} {operator} {shown}")
        elif operator == "=":
            return
    chunked: tuple[Sequence[Ref], list[str]] | None = None
    for keys in sorted(fetch.keys, key=lambda keys: len(keys.values)):
        compared = [naming.column(ref) for ref in keys.columns]
        rows = list(dict.fromkeys(filter(None, (_row(row, compared) for row in keys.values))))
        if not rows:
            return
        if chunked is None:
            chunked = keys.columns, rows  # the fewest first; the others only narrow
        elif len(rows) <= _MOST_KEYS and sum(map(len, rows)) <= _MOST_BYTES:
            where.append(_among(naming, keys.columns, rows))
    if chunked is None:
        yield _select(fetch, naming, where)
        return
    columns, rows = chunked
    for part in _parts(rows):
        yield _select(fetch, naming, [*where, _among(naming, columns, part)])


def _row(values: Sequence[Value], columns: Sequence[TableColumn]) -> str | None:
    """Values in SQL, in brackets if they are several."""
    shown = [_literal(value, of) for value, of in zip(values, columns, strict=True)]
    if None in shown:
        return None
    text = ", ".join(map(str, shown))
    return text if len(shown) == 1 else f"({text})"


def _parts(rows: list[str]) -> Iterator[Sequence[str]]:
    """Rows in parts that a statement has room for."""
    start, size = 0, 0
    for at, row in enumerate(rows):
        if at > start and (at - start >= _MOST_KEYS or size + len(row) > _MOST_BYTES):
            yield rows[start:at]
            start, size = at, 0
        size += len(row)
    yield rows[start:]


def _among(naming: Naming, columns: Sequence[Ref], rows: Sequence[str]) -> str:
    names = [naming.compared(ref) for ref in columns]
    left = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return f"{left} IN ({', '.join(rows)})"


def _select(fetch: Fetch, naming: Naming, where: Sequence[str]) -> str:
    columns = [naming.read(ref) for ref in fetch.columns]
    sources = ", ".join(
        f"{naming.tables[item.alias].identifier} AS {naming.names[item.alias]}"
        for item in fetch.items
    )
    sql = f"SELECT {', '.join([*columns, '1' if columns else 'count(*)'])} FROM {sources}"
    return sql + (f" WHERE {' AND '.join(where)}" if where else "")
