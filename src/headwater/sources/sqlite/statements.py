"""The SELECTs for what is to be read of SQLite: names quoted, values as parameters.

SQLite only pre-filters, and must find at least what our equality does.

Choices: texts are compared in binary, so that a column with another collation cannot find a
row under two keys; such a column is then searched without its index. A column whose values are
texts only here is searched for every value that a text may stand for; one that a view takes as a
text is not searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from headwater.algebra.values import TEXT, Value
from headwater.sources.fetch import Fetch, Keys, Ref
from headwater.sources.sqlite.described import Table, base_of, is_reserved
from headwater.sources.sqlite.types import Stored, can_be_stored, candidates, stored
from headwater.sources.sqlite.uniques import quoted

_MOST_PARAMETERS = 30_000


def is_own(table: Table, column: str) -> bool:
    """Whether the values of a column are here what they are there, so that SQLite compares them."""
    return not is_reserved(column) and not table.meaning(column).is_printed


@dataclass(frozen=True)
class _Among:
    """That some columns have one of these values together."""

    columns: tuple[Ref, ...]
    rows: Sequence[tuple[Stored, ...]]

    @property
    def cost(self) -> int:
        """How many parameters one row takes."""
        return 1 if len(self.columns) == 1 else 1 + len(self.columns)


def statements(fetch: Fetch, tables: Mapping[str, Table]) -> Iterator[tuple[str, list[Stored]]]:
    """The statements that together read a fetch; the last column counts equal rows.

    `tables` has the tables by the aliases that they have in the fetch.
    """
    names = {item.alias: f"t{at}" for at, item in enumerate(fetch.items)}
    fixed: list[Stored] = []
    where = [f"{_left(names, a)} {o} {_column(names, b)}" for a, o, b in fetch.joins]
    for ref, operator, value in fetch.filters:
        if is_reserved(ref.column):
            continue
        values = _stored_as(tables[ref.alias], ref.column, value)
        if operator == "=":
            if not values:
                return
            where.append(f"{_left(names, ref)} IN ({', '.join('?' * len(values))})")
            fixed += values
        elif values:
            where.append(f"{_left(names, ref)} {operator} ?")
            fixed += values
    found = [_among(keys, tables) for keys in fetch.keys]
    chunked: _Among | None = None
    for among in sorted(filter(None, found), key=lambda among: len(among.rows)):
        if not among.rows:
            return
        if chunked is None:
            chunked = among  # the fewest first; the others only narrow
        elif len(fixed) + among.cost * len(among.rows) <= _MOST_PARAMETERS // 2:
            condition, parameters = _condition(names, among.columns, among.rows)
            where.append(condition)
            fixed += parameters
    if chunked is None:
        yield _select(fetch, names, where), fixed
        return
    size = (_MOST_PARAMETERS - len(fixed)) // chunked.cost
    for start in range(0, len(chunked.rows), size):
        condition, parameters = _condition(
            names, chunked.columns, chunked.rows[start : start + size]
        )
        yield _select(fetch, names, [*where, condition]), fixed + parameters


def _stored_as(table: Table, column: str, value: Value) -> list[Stored]:
    """What may be in the file where the value is found; none if nothing can be."""
    if isinstance(value, str) and not is_own(table, column):
        return candidates(value)
    return [stored(value)] if can_be_stored(value) else []


def _among(keys: Keys, tables: Mapping[str, Table]) -> _Among | None:
    """The condition for SQLite; None where it can search none of the columns."""
    places = [at for at, ref in enumerate(keys.columns) if not is_reserved(ref.column)]
    if not places:
        return None
    refs = tuple(keys.columns[at] for at in places)
    rows: dict[tuple[Stored, ...], None] = {}
    for row in keys.values:
        choices = (
            _stored_as(tables[ref.alias], ref.column, row[at])
            for at, ref in zip(places, refs, strict=True)
        )
        rows.update(dict.fromkeys(product(*choices)))
    return _Among(refs, list(rows))


def _select(fetch: Fetch, names: Mapping[str, str], where: Sequence[str]) -> str:
    columns = [_column(names, ref) for ref in fetch.columns]
    sources = ", ".join(f"main.{quoted(p.relation)} AS {names[p.alias]}" for p in fetch.items)
    sql = f"SELECT {', '.join([*columns, '1' if columns else 'count(*)'])} FROM {sources}"
    return sql + (f" WHERE {' AND '.join(where)}" if where else "")


def _column(names: Mapping[str, str], ref: Ref) -> str:
    return f"{names[ref.alias]}.{quoted(base_of(ref.column))}"


def _left(names: Mapping[str, str], ref: Ref) -> str:
    return _column(names, ref) + (" COLLATE BINARY" if ref.type == TEXT else "")


def _condition(
    names: Mapping[str, str], columns: Sequence[Ref], rows: Sequence[tuple[Stored, ...]]
) -> tuple[str, list[Stored]]:
    """SQLite searches an index for one column only, so several have a condition on the first."""
    first = list(dict.fromkeys(row[0] for row in rows))
    condition = f"{_left(names, columns[0])} IN ({', '.join('?' * len(first))})"
    if len(columns) == 1:
        return condition, first
    together = ", ".join(_left(names, ref) for ref in columns)
    one = f"({', '.join('?' * len(columns))})"
    condition += f" AND ({together}) IN (VALUES {', '.join([one] * len(rows))})"
    return condition, [*first, *(value for row in rows for value in row)]
