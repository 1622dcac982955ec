"""The wrapper of a SQLite source: questions answered in one read transaction each.

The state that an answer reflects is the number of the last change in the log, read in the
same transaction.

Choices: texts are compared in binary, so that a column with another collation cannot find a
row under two keys; such a column is then searched without its index.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.algebra.values import TEXT, Row, Value
from headwater.sources.contract import Lift, Reply, as_it_is
from headwater.sources.fetch import Fetch, Keys, Ref, answer_query
from headwater.sources.sqlite.catalog import Access, Table
from headwater.sources.sqlite.monitor import Markers, SeqSnapshot
from headwater.sources.sqlite.standing import Followed, check_readable, follow
from headwater.sources.sqlite.types import Stored, can_be_stored, pushes, reader, stored
from headwater.sources.sqlite.uniques import quoted

_MOST_PARAMETERS = 30_000


class SqliteWrapper:
    """Answers questions on a connection of its own."""

    def __init__(
        self,
        access: Access,
        tables: Mapping[str, Table],
        markers: Markers,
        lift: Lift = as_it_is,
    ) -> None:
        self._lift = lift
        self._access = access
        self._tables = tables
        self._markers = markers
        self._schema: int | None = None
        self._followed: Mapping[str, Followed] = {}
        self._connection = access.connect()
        self._file = access.identity()

    def ask(self, queries: Sequence[Query]) -> Reply:
        with self._access.failures():
            self._connection.execute("BEGIN")
            try:
                seq = self._begin()
                results = tuple(
                    answer_query(query, self._run, pushes, self._lift) for query in queries
                )
            finally:
                self._connection.execute("ROLLBACK")
        return Reply(results, SeqSnapshot(seq), self._markers.add(seq))

    def close(self) -> None:
        self._connection.close()

    def _begin(self) -> int:
        """Look at the log's head, and at the tables if anything about them changed."""
        self._access.check(self._file)
        (schema,) = self._connection.execute("PRAGMA main.schema_version").fetchone()
        if schema != self._schema:
            self._followed = follow(self._access, self._connection, self._tables)
            self._schema = schema
        head = self._access.names.head
        (seq,) = self._connection.execute(f"SELECT seq FROM {head}").fetchone()
        return int(seq)

    def _run(self, fetch: Fetch) -> Rows:
        check_readable(self._access, self._followed, _used(fetch))
        counts: dict[Row, int] = defaultdict(int)
        readers = [reader(ref.type) for ref in fetch.columns]
        for sql, parameters in statements(fetch):
            for *values, count in self._connection.execute(sql, parameters):
                try:
                    row = tuple(read(v) for read, v in zip(readers, values, strict=True))
                except ValueError:
                    raise self._misfit(fetch, values) from None
                counts[row] += count
        return Rows(fetch.schema, counts)

    def _misfit(self, fetch: Fetch, values: Sequence[Stored]) -> Exception:
        relations = {item.alias: item.relation for item in fetch.items}
        for ref, value in zip(fetch.columns, values, strict=True):
            try:
                reader(ref.type)(value)
            except ValueError:
                table = self._tables[relations[ref.alias]]
                mine = [(r, v) for r, v in zip(fetch.columns, values, strict=True)
                        if r.alias == ref.alias]  # fmt: skip
                return table.misfit(
                    self._access,
                    [r.column for r, _ in mine],
                    [r.type for r, _ in mine],
                    [v for _, v in mine],
                )
        raise AssertionError("every value fits")


def _used(fetch: Fetch) -> dict[str, set[str]]:
    """The columns that a fetch reads, by relation; a relation without columns is counted."""
    used: dict[str, set[str]] = {item.relation: set() for item in fetch.items}
    relations = {item.alias: item.relation for item in fetch.items}
    named = [*fetch.columns, *(ref for ref, _, _ in fetch.filters)]
    named += [ref for one, _, other in fetch.joins for ref in (one, other)]
    named += [ref for keys in fetch.keys for ref in keys.columns]
    for ref in named:
        used[relations[ref.alias]].add(ref.column)
    return used


# Statements


def statements(fetch: Fetch) -> Iterator[tuple[str, list[Stored]]]:
    """The statements that together read a fetch; the last column counts equal rows."""
    names = {item.alias: f"t{at}" for at, item in enumerate(fetch.items)}
    fixed: list[Stored] = []
    where = [f"{_left(names, a)} {o} {_column(names, b)}" for a, o, b in fetch.joins]
    for ref, operator, value in fetch.filters:
        if not can_be_stored(value):
            if operator == "=":
                return
            continue
        where.append(f"{_left(names, ref)} {operator} ?")
        fixed.append(stored(value))
    chunked: Keys | None = None
    for keys in sorted(fetch.keys, key=lambda keys: len(keys.values)):
        if chunked is None:
            chunked = keys  # the fewest first; the others only narrow
        elif len(fixed) + _cost(keys) * len(keys.values) <= _MOST_PARAMETERS // 2:
            condition, parameters = _among(names, keys, keys.values)
            where.append(condition)
            fixed += parameters
    if chunked is None:
        yield _select(fetch, names, where), fixed
        return
    size = (_MOST_PARAMETERS - len(fixed)) // _cost(chunked)
    for start in range(0, len(chunked.values), size):
        values = chunked.values[start : start + size]
        condition, parameters = _among(names, chunked, values)
        yield _select(fetch, names, [*where, condition]), fixed + parameters


def _select(fetch: Fetch, names: Mapping[str, str], where: Sequence[str]) -> str:
    columns = [_column(names, ref) for ref in fetch.columns]
    sources = ", ".join(f"main.{quoted(p.relation)} AS {names[p.alias]}" for p in fetch.items)
    sql = f"SELECT {', '.join([*columns, '1' if columns else 'count(*)'])} FROM {sources}"
    return sql + (f" WHERE {' AND '.join(where)}" if where else "")


def _column(names: Mapping[str, str], ref: Ref) -> str:
    return f"{names[ref.alias]}.{quoted(ref.column)}"


def _left(names: Mapping[str, str], ref: Ref) -> str:
    return _column(names, ref) + (" COLLATE BINARY" if ref.type == TEXT else "")


def _cost(keys: Keys) -> int:
    """How many parameters one key takes."""
    return 1 if len(keys.columns) == 1 else 1 + len(keys.columns)


def _among(names: Mapping[str, str], keys: Keys, values: Sequence[Row]) -> tuple[str, list[Stored]]:
    """That the columns have one of these values together.

    SQLite searches an index for one column only, so several have a condition on the first
    of them besides.
    """
    first = list(dict.fromkeys(row[0] for row in values))
    condition = f"{_left(names, keys.columns[0])} IN ({', '.join('?' * len(first))})"
    parameters: list[Value] = first
    if len(keys.columns) > 1:
        columns = ", ".join(_left(names, ref) for ref in keys.columns)
        one = f"({', '.join('?' * len(keys.columns))})"
        condition += f" AND ({columns}) IN (VALUES {', '.join([one] * len(values))})"
        parameters = [*first, *(value for row in values for value in row)]
    return condition, [stored(value) if can_be_stored(value) else None for value in parameters]
