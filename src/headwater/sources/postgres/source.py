"""PostgreSQL as a source: changes from a replication slot, answers stamped by their snapshots."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial

from psycopg import sql

from headwater.algebra.schema import Relation
from headwater.errors import InputError
from headwater.sources.contract import (
    Lift,
    Load,
    Monitor,
    Position,
    Reader,
    Wrapper,
    as_it_is,
)
from headwater.sources.postgres.catalog import read_tables, served_columns, split_name
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.load import Locate, PostgresLoad
from headwater.sources.postgres.log import Interpreter
from headwater.sources.postgres.monitor import PostgresMonitor
from headwater.sources.postgres.setup import Installation, altered, application_name
from headwater.sources.postgres.snapshot import LogPosition, XidSnapshot
from headwater.sources.postgres.triggers import (
    MERGED,
    TriggerInstallation,
    TriggerMonitor,
    marker_statement,
)
from headwater.sources.postgres.types import Table
from headwater.sources.postgres.wrapper import Mark, PostgresWrapper, log_message

_LONGEST_NAME = 63


class PostgresSource:
    """Some tables of one PostgreSQL database.

    `relations` are names such as `lines` or `sales.lines`; the relation is called by the last
    part. `keys` replaces primary keys. `slot` must be unique at the server. `limit_s` bounds
    how long one statement may take; it is long, because a question that waits for a lock holds
    up nothing but the view that asked. Every `watch_s` a monitor looks whether the tables are
    still published as they were. With `replication=False` changes come from triggers, for
    servers where no slot can be had.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
        publication: str | None = None,
        slot: str | None = None,
        limit_s: float = 3600.0,
        watch_s: float = 30.0,
        replication: bool = True,
        owner: str = "",
    ) -> None:
        default = re.sub(r"[^a-z0-9_]", "_", f"headwater_{name}".lower())[:_LONGEST_NAME]
        if owner:
            default = f"{default[: _LONGEST_NAME - len(owner) - 1]}_{owner}"
        slot = slot or default
        if not re.fullmatch(rf"[a-z0-9_]{{1,{_LONGEST_NAME}}}", slot):
            raise InputError(
                f"Source {name}: the slot's name {slot!r} is not one that PostgreSQL allows.",
                f"Use up to {_LONGEST_NAME} lower-case letters, digits and underscores.",
            )
        self._access = Access(name, dsn, limit_s)
        self._watch_s = watch_s
        self._names = tuple(relations)
        self._keys = dict(keys or {})
        self._described: Mapping[str, Table] = {}
        self._used: Mapping[str, Collection[str]] = {}
        self._slot = slot
        self._replication = Installation(self._access, publication or default, slot)
        self._triggers = None if replication else TriggerInstallation(self._access, slot, owner)

    def __repr__(self) -> str:
        return f"PostgresSource({self.name!r}, {', '.join(self._names)})"

    @property
    def name(self) -> str:
        return self._access.source

    def relations(self) -> Mapping[str, Relation]:
        self._described = {}
        with self._access.connect() as connection:
            tables = self._tables(connection)
        return {name: table.relation(self.name) for name, table in tables.items()}

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        with self._access.connect() as connection:
            tables = self._tables(connection)
            served = served_columns(self._access, connection, tables)
        statement = sql.SQL("CREATE INDEX ON {} ({})")
        return [
            statement.format(
                tables[name].identifier, sql.SQL(", ").join(map(sql.Identifier, probe))
            ).as_string(None)
            for name, wanted in probes.items()
            for probe in dict.fromkeys(wanted)
            if served[name].isdisjoint(probe)
        ]

    def narrowed(self, columns: Mapping[str, Collection[str]]) -> PostgresSource:
        source = copy(self)
        source._described, source._used = {}, dict(columns)
        return source

    def setup_statements(self) -> Sequence[str]:
        with self._access.connect() as connection:
            return self._installation.missing(connection, self._tables(connection).values())

    def setup(self) -> None:
        with self._access.connect() as connection:
            self._installation.install(connection, self._tables(connection).values())

    def teardown(self) -> None:
        with self._access.connect() as connection:
            self._installation.remove(connection)

    def other_logs(self) -> Mapping[str, int]:
        """The logs of other warehouses at this source, by owner, with their bytes."""
        if self._triggers is None:
            return {}
        with self._access.connect() as connection:
            return self._triggers.other_logs(connection)

    def remove_log(self, owner: str) -> None:
        """Remove the log of a warehouse that is no more."""
        if self._triggers is not None:
            with self._access.connect() as connection:
                self._triggers.remove_log(connection, owner)

    @property
    def limits(self) -> str:
        """What cannot be promised of this source; empty where nothing is limited."""
        return "" if self._triggers is None else MERGED

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        if self._triggers is not None:
            return self._open_polling(self._triggers, after)
        tables, confirmed, near_xid = self._checked()
        at = LogPosition(confirmed) if after is None else LogPosition.of(after)
        self._replication.check_reachable(at.lsn, confirmed)
        named = {} if reader is None else {"application_name": application_name(reader)}
        pgconn = self._access.connect_replication(**named)
        interpreter = Interpreter(self.name, tables, self._slot, at, near_xid)
        monitor = PostgresMonitor(self._access, pgconn, interpreter, self._checked, self._watch_s)
        try:
            publication = self._replication.publication
            monitor.start(self._slot, publication, partial(self._evict, reader))
        except BaseException:
            monitor.close()
            raise
        return monitor

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        triggers = self._triggers
        mark: Mark = log_message if triggers is None else partial(marker_statement, triggers)
        with self._kept() as connection:
            tables = self._tables(connection)
            return PostgresWrapper(
                self._access,
                connection,
                tables,
                self._slot,
                mark,
                read_only=triggers is None,
                lift=lift,
            )

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        with self._kept() as connection:
            tables = self._tables(connection)
            wanted = {split_name(name)[1] for name in relations}
            chosen = {name: table for name, table in tables.items() if name in wanted}
            locate = self._locator(connection, chosen)
            return PostgresLoad(self._access, connection, chosen, readers, locate)

    @property
    def _installation(self) -> Installation | TriggerInstallation:
        return self._replication if self._triggers is None else self._triggers

    def _locator(self, connection: Connection, tables: Mapping[str, Table]) -> Locate:
        if self._triggers is not None:
            self._triggers.check_watched(connection, list(tables.values()))
            return lambda snapshot, _: {"snapshot": str(snapshot)}
        confirmed = self._replication.check(connection, tables.values())
        return lambda snapshot, until: LogPosition(confirmed, snapshot, until).json()

    def _open_polling(self, triggers: TriggerInstallation, after: Position | None) -> Monitor:
        with self._kept() as connection:
            tables = self._tables(connection)
            return TriggerMonitor(triggers, connection, tables, after, self._watch_s)

    def _evict(self, reader: Reader | None) -> None:
        """End the connection of an earlier epoch of this reader that still holds the slot."""
        if reader is not None:
            with self._access.connect() as connection:
                self._replication.evict(connection, reader)

    @contextmanager
    def _kept(self) -> Iterator[Connection]:
        """A connection that stays open unless the body fails."""
        connection = self._access.connect()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise

    def _tables(self, connection: Connection) -> dict[str, Table]:
        """The tables; they must still be as they were last described to the caller."""
        found = read_tables(self._access, connection, self._names, self._keys)
        tables = {
            name: replace(table, used=frozenset(self._used[name])) if name in self._used else table
            for name, table in found.items()
        }
        for name, before in self._described.items():
            now = tables[name]
            if (now.oid, now.columns) != (before.oid, before.columns):
                raise altered(before, now.schema, now.name, list(now.by_name))
        self._described = tables
        return tables

    def _checked(self) -> tuple[Mapping[str, Table], int, int]:
        """The tables, where the slot stands, and a recent transaction's number."""
        with self._access.connect() as connection:
            tables = self._tables(connection)
            confirmed = self._replication.check(connection, tables.values())
            with self._access.errors("take a snapshot"):
                row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        return tables, confirmed, XidSnapshot.parse(row[0]).xmax
