"""The SELECT for what is to be read of PostgreSQL: names quoted, values as parameters.

The database only pre-filters, and must find at least what our equality does. A column is compared
by the database's own equality where that is so, and where any text can be passed to it; otherwise
by the text that it is here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from headwater.algebra.values import Row, Type, Value
from headwater.sources.fetch import Fetch, Keys, Ref
from headwater.sources.postgres.types import Table, TableColumn

_ORDERED = frozenset({"int", "decimal", "date", "timestamp", "timestamp_tz"})


def pushes(operator: str, kind: Type) -> bool:
    """Equality always finds at least what ours does; order only where it is the same.

    Arrays and structs are compared here: there is no text of them that equal ones share.
    """
    return kind.name in _ORDERED or (operator == "=" and not kind.is_nested)


@dataclass(frozen=True)
class _Places:
    """The tables of a statement, under names of its own: a view's aliases may be too long."""

    tables: Mapping[str, Table]

    def column(self, ref: Ref) -> TableColumn:
        return self.tables[ref.alias].by_name[ref.column]

    def named(self, ref: Ref) -> sql.Identifier:
        return _quoted(f"t{list(self.tables).index(ref.alias)}", ref.column)

    def text(self, ref: Ref) -> sql.Composed:
        """The column as the text that it is here."""
        return sql.SQL(self.column(ref).form.text).format(self.named(ref))

    def compared(self, ref: Ref) -> sql.Composable:
        """The column as it is compared with values."""
        return self.named(ref) if self.column(ref).form.parameter else self.text(ref)

    def parameter_type(self, ref: Ref) -> sql.SQL:
        """What a value is passed as when it is compared with a column."""
        return sql.SQL(self.column(ref).form.parameter or "text")

    def may_have(self, ref: Ref, value: Value) -> bool:
        """Whether a column could hold a value at all; a text with a zero byte none can."""
        if not isinstance(value, str):
            return True
        pattern = self.column(ref).form.pattern
        if pattern is not None:
            return pattern.fullmatch(value) is not None
        try:
            return b"\0" not in value.encode()
        except UnicodeEncodeError:
            return False

    def listed(self) -> sql.Composed:
        return sql.SQL(", ").join(
            sql.SQL("{}{} AS {}").format(
                sql.SQL("ONLY " if table.partitions is None else ""),
                _quoted(table.schema, table.name),
                sql.Identifier(f"t{at}"),
            )
            for at, table in enumerate(self.tables.values())
        )


def build_statement(fetch: Fetch, tables: Mapping[str, Table]) -> tuple[sql.Composed, list[object]]:
    """The SELECT for a fetch: names quoted, values as parameters."""
    places = _Places(tables)
    parameters: list[object] = []
    conditions = [_join(places, *join) for join in fetch.joins]
    for ref, operator, value in fetch.filters:
        conditions.append(
            sql.SQL("{} {} %s::{}").format(
                places.compared(ref), sql.SQL(_operator(operator)), places.parameter_type(ref)
            )
        )
        parameters.append(value if places.may_have(ref, value) else None)  # equal to nothing
    for keys in fetch.keys:
        conditions.append(_among(places, keys))
        rows = _possible_rows(places, keys)
        parameters.extend(
            _array([row[at] for row in rows], keys.columns[at].type)
            for at in range(len(keys.columns))
        )
    shown = sql.SQL(", ").join(map(places.named, fetch.columns))
    statement = sql.SQL("SELECT {} FROM {}").format(
        shown if fetch.columns else sql.SQL("count(*)"), places.listed()
    )
    if conditions:
        statement += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(conditions)
    return statement, parameters


def _join(places: _Places, a: Ref, operator: str, b: Ref) -> sql.Composed:
    left: sql.Composable = places.named(a)
    right: sql.Composable = places.named(b)
    if not _are_alike(places.column(a), places.column(b)):
        left, right = places.text(a), places.text(b)
    elif places.column(a).collation != places.column(b).collation:
        # Two collations cannot be compared under either; bytes can, and that is our equality.
        left = sql.SQL('{} COLLATE "C"').format(left)
        right = sql.SQL('{} COLLATE "C"').format(right)
    return sql.SQL("{} {} {}").format(left, sql.SQL(_operator(operator)), right)


def _are_alike(a: TableColumn, b: TableColumn) -> bool:
    """Whether the database has an equality for both columns that finds what ours does."""
    if not a.form.parameter or not b.form.parameter:
        return False
    return a.form == b.form or not (a.is_printed or b.is_printed)


def _among(places: _Places, keys: Keys) -> sql.Composed:
    kinds = [places.parameter_type(ref) for ref in keys.columns]
    if len(kinds) == 1:
        return sql.SQL("{} = ANY(%s::{}[])").format(places.compared(keys.columns[0]), kinds[0])
    return sql.SQL("({}) IN (SELECT * FROM unnest({}))").format(
        sql.SQL(", ").join(map(places.compared, keys.columns)),
        sql.SQL(", ").join(sql.SQL("%s::{}[]").format(kind) for kind in kinds),
    )


def _quoted(*names: str) -> sql.Identifier:
    """Names for a statement that has parameters, where a percent sign must be doubled."""
    return sql.Identifier(*(name.replace("%", "%%") for name in names))


def _operator(operator: str) -> str:
    assert operator in ("=", "<", "<=", ">", ">=")
    return operator


def _array(values: list[Value], kind: Type) -> object:
    """An array as a parameter: of whole numbers as text, which takes the driver long to make."""
    return "{" + ",".join(map(str, values)) + "}" if kind.name == "int" else values


def _possible_rows(places: _Places, keys: Keys) -> Sequence[Row]:
    """The keys that may be in the table at all."""
    if all(ref.type.name == "int" for ref in keys.columns):
        return keys.values
    return [row for row in keys.values if all(map(places.may_have, keys.columns, row))]
