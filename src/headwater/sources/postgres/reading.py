"""Statements inside a transaction, over a connection of this process or of one of Spark's workers.

Separate from the wrapper, which sees to the transaction and that its tables are what they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import psycopg
from psycopg import pq, sql
from psycopg.types.string import TextLoader

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import Row, Value
from headwater.errors import SourceError
from headwater.sources.fetch import Fetch
from headwater.sources.postgres.columnar import MANY, copy_out, is_readable, rows_of_csv
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.statements import build_statement
from headwater.sources.postgres.types import Table, TableColumn, read_value

PLANNING = "SET random_page_cost = 1.1"
"""Questions look rows up by key. With the default, meant for disks that seek, the server would
read all of a large table for some thousand keys, and a question would cost more as it grows."""
DOING = "answer a question"


class Reading:
    """Runs statements over tables as they were described; `refused` are those that cannot be read,
    with the reason."""

    def __init__(
        self,
        access: Access,
        connection: Connection,
        tables: Mapping[str, Table],
        refused: Mapping[str, SourceError],
    ) -> None:
        self._access = access
        self._connection = connection
        self._tables = tables
        self._refused = refused
        with access.errors(DOING):
            connection.execute(PLANNING)

    def run(self, fetch: Fetch) -> Rows:
        """Execute one statement inside the question's transaction."""
        if any(not keys.values for keys in fetch.keys):
            return Rows.empty(fetch.schema)
        places = {item.alias: self.table(item.relation) for item in fetch.items}
        self._check_columns(fetch, places)
        statement, parameters = build_statement(fetch, places)
        columns = [
            (places[ref.alias], places[ref.alias].by_name[ref.column]) for ref in fetch.columns
        ]
        with self._access.errors(DOING):
            if _is_large(fetch) and is_readable([column for _, column in columns]):
                found = self._copied(statement, parameters, columns, fetch.schema)
                if found is not None:
                    return found
            cursor = self._connection.cursor()
            for column in (column for _, column in columns if column.form.is_loaded_as_text):
                cursor.adapters.register_loader(column.base, TextLoader)
            cursor.execute(statement, parameters)
            if not columns:
                return Rows(fetch.schema, {(): int((cursor.fetchone() or (0,))[0])})
            return Rows(fetch.schema, Counter(_canonical(cursor, columns)))

    def _copied(
        self,
        statement: sql.Composed,
        parameters: Sequence[object],
        columns: Sequence[tuple[Table, TableColumn]],
        schema: Schema,
    ) -> Rows | None:
        """What a SELECT finds, by COPY; it takes no parameters, so they are written out, quoted."""
        cursor = psycopg.ClientCursor(self._connection)
        copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(statement)
        pgconn = self._connection.pgconn
        self.expect(pgconn.exec_(cursor.mogrify(copy, parameters).encode()))
        found = rows_of_csv(copy_out(pgconn), [column for _, column in columns], schema)
        while (result := pgconn.get_result()) is not None:
            self.expect(result)
        return found

    def _check_columns(self, fetch: Fetch, places: Mapping[str, Table]) -> None:
        """A column that was altered since the relation was described has other values."""
        asked = [*fetch.columns, *(ref for a, _, b in fetch.joins for ref in (a, b))]
        asked += [ref for ref, _, _ in fetch.filters]
        asked += [ref for keys in fetch.keys for ref in keys.columns]
        for ref in asked:
            table = places[ref.alias]
            if ref.column not in table.relational_schema.positions:
                raise SourceError(
                    f"Source {self._access.source}: the column {ref.column} of {table.label} is "
                    "gone or was altered.",
                    "Where the table lacks it now, change the views that name it.",
                )

    def table(self, relation: str) -> Table:
        if relation not in self._tables:
            if relation in self._refused:
                raise self._refused[relation]
            raise SourceError(
                f"Source {self._access.source}: {relation} is not one of its relations, or its "
                "table is gone.",
                "They are " + ", ".join(self._tables) + ".",
            )
        return self._tables[relation]

    def expect(self, result: pq.abc.PGresult) -> None:
        """SourceError if the server refused."""
        if result.status == pq.ExecStatus.FATAL_ERROR:
            if self._connection.pgconn.status != pq.ConnStatus.OK:
                raise self._access.failure(None, "the server closed it", DOING)
            raise self._access.result_failure(result, DOING)


def _is_large(fetch: Fetch) -> bool:
    """Whether so many rows may come that they are better kept in columns."""
    return all(len(keys.values) >= MANY for keys in fetch.keys)


def _canonical(
    cursor: psycopg.Cursor[Any], columns: Sequence[tuple[Table, TableColumn]]
) -> Iterable[Row]:
    """The rows that were found; values are read by the driver, where it reads them as we do.

    What a type is loaded as holds for all of its columns, also for those that are no texts here.
    """
    texts = {column.base for _, column in columns if column.form.is_loaded_as_text}
    given = [column.base in texts and not column.form.is_loaded_as_text for _, column in columns]
    found = [
        partial(_read, column) if is_text else column.form.repair
        for (_, column), is_text in zip(columns, given, strict=True)
    ]
    repairs = [(at, repair) for at, repair in enumerate(found) if repair is not None]
    decimals = [
        at for at, (_, c) in enumerate(columns) if c.type.name == "decimal" and not given[at]
    ]
    try:
        rows: list[Row] = cursor.fetchall()
        for at in decimals:
            if not all(map(Decimal.is_finite, (row[at] for row in rows if row[at] is not None))):  # type: ignore[arg-type]
                raise ValueError("not a number")
        if not repairs:
            return rows
        repaired = list(zip(*rows, strict=True)) or [()] * len(columns)
        for at, repair in repairs:
            repaired[at] = tuple(None if v is None else repair(v) for v in repaired[at])
        return zip(*repaired, strict=True)
    except (psycopg.DataError, ValueError):
        _find_unreadable(cursor, columns)
        raise


def _read(column: TableColumn, text: str) -> Value:
    return column.form.read(text.encode())


def _find_unreadable(
    cursor: psycopg.Cursor[Any], columns: Sequence[tuple[Table, TableColumn]]
) -> None:
    """Raise a SourceError that names the first value which cannot be represented."""
    result = cursor.pgresult
    assert result is not None
    for at in range(result.ntuples):
        for number, (table, column) in enumerate(columns):
            read_value(table, column, result.get_value(at, number))
