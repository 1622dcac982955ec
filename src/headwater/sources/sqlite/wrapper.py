"""The wrapper of a SQLite source: questions answered in one read transaction each.

The state that an answer reflects is the number of the last change in the log, read in the
same transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.algebra.values import Row
from headwater.sources.contract import Lift, Reply, as_it_is
from headwater.sources.fetch import Fetch, answer_query
from headwater.sources.markers import Markers
from headwater.sources.sqlite.access import Access
from headwater.sources.sqlite.described import Table
from headwater.sources.sqlite.monitor import SeqSnapshot
from headwater.sources.sqlite.standing import Followed, check_readable, follow
from headwater.sources.sqlite.statements import is_own, statements
from headwater.sources.sqlite.types import Stored, pushes


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

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        with self._access.failures():
            self._connection.execute("BEGIN")
            try:
                seq = self._begin()
                results = tuple(
                    answer_query(query, self._run, pushes, self._lift, self._is_apart)
                    for query in queries
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
        tables = {item.alias: self._tables[item.relation] for item in fetch.items}
        readers = [tables[ref.alias].reader(ref.column) for ref in fetch.columns]
        for sql, parameters in statements(fetch, tables):
            for *values, count in self._connection.execute(sql, parameters):
                try:
                    row = tuple([read(v) for read, v in zip(readers, values, strict=True)])
                except ValueError:
                    raise self._misfit(fetch, tables, values) from None
                counts[row] += count
        return Rows(fetch.schema, counts)

    def _is_apart(self, relation: str, column: str) -> bool:
        return relation in self._tables and not is_own(self._tables[relation], column)

    def _misfit(
        self, fetch: Fetch, tables: Mapping[str, Table], values: Sequence[Stored]
    ) -> Exception:
        for ref, value in zip(fetch.columns, values, strict=True):
            table = tables[ref.alias]
            try:
                table.reader(ref.column)(value)
            except ValueError:
                mine = [(r.column, v) for r, v in zip(fetch.columns, values, strict=True)
                        if r.alias == ref.alias]  # fmt: skip
                columns, stored_values = zip(*mine, strict=True)
                return table.misfit(self._access, self._connection, columns, stored_values)
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
