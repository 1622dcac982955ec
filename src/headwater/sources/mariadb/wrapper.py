"""The wrapper of MariaDB and MySQL: answers questions, each in a snapshot whose place is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.rows import Rows
from headwater.algebra.terms import Query
from headwater.algebra.values import Row
from headwater.errors import LostConnectionError, SourceError
from headwater.sources.contract import Lift, Reply, as_it_is
from headwater.sources.fetch import Fetch, answer_query
from headwater.sources.mariadb.connect import Access, close, run
from headwater.sources.mariadb.monitor import Questions
from headwater.sources.mariadb.places import PlaceSnapshot
from headwater.sources.mariadb.snapshot import Holder, begin
from headwater.sources.mariadb.standing import started_at
from headwater.sources.mariadb.statements import pushes, statements
from headwater.sources.mariadb.tables import Tables
from headwater.sources.mariadb.types import Table

DOING = "answer a question"


class MariadbWrapper:
    """Two sessions: one reads, the other keeps the tables as they are meanwhile."""

    def __init__(
        self, tables: Tables, questions: Questions, *, by_lock: bool, lift: Lift = as_it_is
    ) -> None:
        self._access: Access = tables.access
        self._questions = questions
        self._by_lock = by_lock
        self._lift = lift
        self._connection = self._access.connect(waits=False)
        self._other = None
        try:
            self._other = self._access.connect()
            self._tables, self._refused = tables.present(self._connection)
            self._apart = apart(self._tables)
            self._start = started_at(self._access, self._connection)
        except BaseException:
            self.close()
            raise
        self._holder = Holder(self._access, self._other, by_lock=by_lock)

    def ask(self, queries: Sequence[Query], marker: str | None = None) -> Reply:
        asked = [self._table(name) for name in sorted(_asked(queries))]
        try:
            return self._ask(queries, asked)
        except SourceError:
            self._roll_back()
            raise

    def close(self) -> None:
        close(self._connection)
        if self._other is not None:
            close(self._other)

    def _ask(self, queries: Sequence[Query], asked: Sequence[Table]) -> Reply:
        self._holder.hold(asked)
        place = begin(self._access, self._connection, self._holder, asked, self._by_lock)
        if self._by_lock:
            self._holder.release()
        results = tuple(
            answer_query(query, self._run, pushes, self._lift, self._is_apart) for query in queries
        )
        with self._access.errors(DOING):
            run(self._connection, "COMMIT")
        if not self._by_lock:
            self._holder.release()
        if self._questions.start not in ("", self._start):
            raise LostConnectionError(
                f"Source {self._access.source}: the server was started anew; it is asked again."
            )
        snapshot = PlaceSnapshot(place.stamp, self._start)
        return Reply(results, snapshot, self._questions.add(place.stamp))

    def _run(self, fetch: Fetch) -> Rows:
        tables = {item.alias: self._table(item.relation) for item in fetch.items}
        for alias, column in named_columns(fetch):
            if column not in tables[alias].by_name:
                raise LostConnectionError(
                    f"Source {self._access.source}: table {tables[alias].label} has no column "
                    f"{column} any more; the question is asked anew."
                )
        forms = [tables[ref.alias].by_name[ref.column] for ref in fetch.columns]
        owners = [tables[ref.alias] for ref in fetch.columns]
        counts: dict[Row, int] = defaultdict(int)
        for sql in statements(fetch, tables):
            with self._access.errors(DOING):
                rows = run(self._connection, sql)
            for *texts, count in rows:
                try:
                    row = tuple(
                        [
                            None if text is None else column.form.read(text)
                            for column, text in zip(forms, texts, strict=True)
                        ]
                    )
                except ValueError:
                    for table, read, text in zip(owners, forms, texts, strict=True):
                        table.value(read, text)
                    raise
                counts[row] += int(count)
        return Rows(fetch.schema, counts)

    def _table(self, relation: str) -> Table:
        if relation in self._tables:
            return self._tables[relation]
        reason = self._refused.get(relation, "it is not one of its tables")
        raise SourceError(f"Source {self._access.source}: {relation} cannot be read: {reason}.")

    def _is_apart(self, relation: str, column: str) -> bool:
        return (relation, column) in self._apart

    def _roll_back(self) -> None:
        for connection in (self._connection, self._other):
            try:
                with self._access.errors(DOING):
                    run(connection, "UNLOCK TABLES")
                    run(connection, "ROLLBACK")
            except SourceError:
                return  # lost, and with it the transaction


def named_columns(fetch: Fetch) -> set[tuple[str, str]]:
    """The columns that a fetch names, each with the alias of its table."""
    named = [*fetch.columns, *(ref for ref, _, _ in fetch.filters)]
    named += [ref for one, _, other in fetch.joins for ref in (one, other)]
    named += [ref for keys in fetch.keys for ref in keys.columns]
    return {(ref.alias, ref.column) for ref in named}


def apart(tables: Mapping[str, Table]) -> set[tuple[str, str]]:
    """The columns that the server does not compare with others as we do, or not at all.

    Texts of two collations are not compared there; those of the one that most columns have are.
    """
    texts = [
        ((name, column.name), column.collation)
        for name, table in tables.items()
        for column in table.wanted
        if column.collation
    ]
    collations = [collation for _, collation in texts]
    common = max(collations, key=collations.count, default="")
    found = {place for place, collation in texts if collation != common}
    return found | {
        (name, column.name)
        for name, table in tables.items()
        for column in table.wanted
        if not column.form.is_own
    }


def _asked(queries: Iterable[Query]) -> set[str]:
    return {
        term.occurrence(at).relation.short_name
        for query in queries
        for term in query
        for at in term.base
    }
