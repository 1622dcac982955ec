"""PostgreSQL as a source: changes from a replication slot, answers stamped by their snapshots."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial

from psycopg import sql

from headwater.algebra.schema import Relation
from headwater.errors import InputError, SourceError
from headwater.sources.contract import (
    Lift,
    Load,
    Logged,
    Monitor,
    OtherLog,
    Position,
    Progressed,
    Reader,
    Retained,
    Wrapper,
    as_it_is,
)
from headwater.sources.postgres.catalog import (
    read_tables,
    search_path,
    served_columns,
    split_name,
)
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.history import check_history, check_known, identify
from headwater.sources.postgres.load import Locate, PostgresLoad
from headwater.sources.postgres.log import Interpreter
from headwater.sources.postgres.monitor import PostgresMonitor
from headwater.sources.postgres.position import LogPosition
from headwater.sources.postgres.privileges import (
    lacking_for_replication,
    lacking_for_triggers,
    not_owned,
)
from headwater.sources.postgres.retention import (
    is_unbounded,
    other_logs,
    remove_log,
    retained,
)
from headwater.sources.postgres.setup import Installation, altered, application_name
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.triggers import (
    MERGED,
    TriggerInstallation,
    TriggerMonitor,
    marker_statement,
)
from headwater.sources.postgres.types import Table
from headwater.sources.postgres.watch import CatalogWatch
from headwater.sources.postgres.wrapper import Mark, PostgresWrapper, baseline, log_message

_LONGEST_NAME = 63
_MOST_AWAITED = 10_000


class PostgresSource:
    """Some tables of one PostgreSQL database.

    `relations` are names such as `lines` or `sales.lines`; the relation is called by the last
    part. `keys` replaces primary keys. `slot` must be unique at the server; what is not named is
    named for the `owner`, a warehouse. `limit_s` bounds how long one statement may take; it is
    long, because a question that waits for a lock holds up nothing but the view that asked.
    Every `watch_s` a monitor looks whether the tables are still as they were. With
    `replication=False` changes come from triggers, for servers where no slot can be had.
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
        watch_s: float = 5.0,
        replication: bool = True,
        owner: str = "",
    ) -> None:
        suffix = f"_{owner}" if owner else ""
        default = re.sub(r"[^a-z0-9_]", "_", f"headwater_{name}".lower())
        default = default[: _LONGEST_NAME - len(suffix)] + suffix
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
        self._is_asked = threading.Event()
        """That the catalog is looked at before the next marker is passed on."""
        self._awaited: dict[str, None] = {}
        """The markers that our questions have written, the last ones."""
        self._replication = Installation(self._access, publication or default, slot, owner)
        self._trigger_logs = TriggerInstallation(self._access, slot, owner, self._names)
        self._triggers = None if replication else self._trigger_logs

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

    def set_up_again(self) -> None:
        with self._access.connect() as connection:
            self._installation.renew(connection, self._tables(connection).values())

    def teardown(self) -> None:
        with self._access.connect() as connection:
            self._installation.remove(connection)

    def stays(self) -> Sequence[str]:
        """What teardown would leave at the source, in sentences."""
        if self._triggers is not None:
            return ()
        with self._access.connect() as connection:
            return self._replication.stays(connection)

    def cautions(self) -> Sequence[str]:
        """What somebody should know who looks after this source, in sentences."""
        told: list[str] = []
        if self._access.is_unprotected:
            told.append(
                f"Source {self.name}: its connection string has no sslmode, so that the connection "
                "may be neither encrypted nor checked; use sslmode=verify-full."
            )
        with self._access.connect() as connection:
            tables = self._tables(connection)
            for table in tables.values():
                told += table.left_out
            told += self._unowned(connection, tables.values())
            if self._triggers is None and is_unbounded(self._access, connection):
                told.append(
                    f"Source {self.name}: while nobody reads, the server keeps its log without a "
                    "limit; max_slot_wal_keep_size would keep its disk from filling."
                )
        return told

    def _unowned(self, connection: Connection, tables: Iterable[Table]) -> Iterator[str]:
        """That triggers can be made by the tables' owner only, until they are."""
        if self._triggers is None or self._triggers.state(connection) is not None:
            return
        names = not_owned(self._access, connection, [table.oid for table in tables])
        if names:
            yield (
                f"Source {self.name}: setup needs a role that owns {', '.join(names)}, which this "
                f"one does not; 'headwater setup {self.name} --print' shows what it is to run."
            )

    def lacking(self) -> Sequence[SourceError]:
        if self._triggers is None:
            return lacking_for_replication(self._access)
        with self._access.connect() as connection:
            return lacking_for_triggers(self._access, connection, self._slot)

    def retained(self) -> Retained | None:
        with self._access.connect() as connection:
            if self._triggers is not None:
                return self._triggers.retained(connection)
            return retained(self._access, connection, self._slot)

    def other_logs(self) -> Sequence[OtherLog]:
        with self._access.connect() as connection:
            found = other_logs(self._access, connection, self._slot)
            logs = {**found, **self._trigger_logs.other_logs(connection)}
        return [OtherLog(owner, size_bytes) for owner, size_bytes in logs.items()]

    def remove_log(self, owner: str) -> None:
        with self._access.connect() as connection:
            remove_log(self._access, connection, owner)
            self._trigger_logs.remove_log(connection, owner)

    @property
    def limits(self) -> str:
        return "" if self._triggers is None else MERGED

    def open_monitor(self, after: Position | None, reader: Reader | None = None) -> Monitor:
        if self._triggers is not None:
            return self._open_polling(self._triggers, after)
        with self._access.connect() as connection:
            tables = self._tables(connection)
            absent = self._absent(connection, tables)
            confirmed = self._replication.check(connection, is_fresh=after is None)
        at = LogPosition(confirmed) if after is None else LogPosition.of(after)
        publication = self._replication.publication
        watch = CatalogWatch(self._access, publication, tables, absent)
        named = {} if reader is None else {"application_name": application_name(reader)}
        pgconn = self._access.connect_replication(**named)
        try:
            server = identify(self._access, pgconn)
            check_history(self._access, pgconn, at, server)
            self._replication.check_reachable(at.start, confirmed)
            if after is not None:
                check_known(self._access, at)
            at = replace(at, server=server.server)
            sight = watch.look()
            missing = sorted({relation for relation, _, _ in absent})
            near_xid = sight.snapshot.xmax
            interpreter = Interpreter(
                self.name, tables, missing, self._awaited, at, near_xid, watch.look
            )
            first: list[Logged] = [*interpreter.compare(sight)]
            if after is None:
                first.append(Progressed(interpreter.at.json()))
        except BaseException:
            watch.close()
            pgconn.finish()
            raise
        monitor = PostgresMonitor(
            self._access, pgconn, interpreter, watch, self._watch_s, self._is_asked, first
        )
        try:
            monitor.start(self._slot, publication, partial(self._evict, reader))
        except BaseException:
            monitor.close()
            raise
        return monitor

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        triggers = self._triggers
        mark: Mark = self._message if triggers is None else partial(marker_statement, triggers)
        log = None if triggers is None else triggers.guarded(["log"])
        with self._kept() as connection:
            seen = baseline(self._access, connection, self._tables(connection).values(), log)
            tables = self._unaltered(self._tables(connection))
            self._is_asked.set()
            return PostgresWrapper(
                self._access,
                connection,
                tables,
                self._slot,
                mark,
                seen,
                log,
                lift=lift,
            )

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        with self._kept() as connection:
            tables = self._tables(connection)
            wanted = {split_name(name)[1] for name in relations}
            chosen = {name: self._as_described(tables[name]) for name in wanted if name in tables}
            locate = self._locator(connection, chosen)
            self._is_asked.set()
            return PostgresLoad(self._access, connection, chosen, readers, locate)

    def _message(self, marker: str, snapshot: XidSnapshot) -> bytes:
        """A marker for the log, of which the monitor is told before it can come by."""
        self._awaited[marker] = None
        if len(self._awaited) > 2 * _MOST_AWAITED:
            for old in list(self._awaited)[:-_MOST_AWAITED]:
                self._awaited.pop(old, None)
        return log_message(marker, snapshot)

    @property
    def _installation(self) -> Installation | TriggerInstallation:
        return self._replication if self._triggers is None else self._triggers

    def _locator(self, connection: Connection, tables: Mapping[str, Table]) -> Locate:
        if self._triggers is not None:
            self._triggers.check_watched(connection, list(tables.values()))
            return lambda snapshot, _: {"snapshot": str(snapshot)}
        confirmed = self._replication.check(connection, is_fresh=True)
        self._replication.check_tables(connection, tables.values())
        return lambda snapshot, until: LogPosition(confirmed, snapshot, until).json()

    def _open_polling(self, triggers: TriggerInstallation, after: Position | None) -> Monitor:
        with self._kept() as connection:
            tables = list(self._tables(connection).values())
            for _, schema, name in self._absent(connection, {t.name: t for t in tables}):
                tables.append(Table(0, schema, name, "", (), ()))
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
        """The tables, with the columns that are wanted: once they were described, the same."""
        found = read_tables(
            self._access, connection, self._names, self._keys, bool(self._described)
        )
        tables = {name: self._narrow(table) for name, table in found.items()}
        self._described = {**tables, **self._described}
        return tables

    def _narrow(self, table: Table) -> Table:
        used = self._used.get(table.name)
        if used is None and table.name in self._described:
            used = [column.name for column in self._described[table.name].wanted]
        return table if used is None else replace(table, used=frozenset(used))

    def _absent(
        self, connection: Connection, tables: Mapping[str, Table]
    ) -> list[tuple[str, str, str]]:
        """Where tables would be that are not there: relation, schema and name."""
        split = [split_name(name) for name in self._names]
        missing = [(schema, name) for schema, name in split if name not in tables]
        if not missing:
            return []
        path = search_path(connection)
        return [
            (name, place, name)
            for schema, name in missing
            for place in ([schema] if schema else path)
        ]

    def _unaltered(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        """The tables with those of the wanted columns that are as they were described."""
        found: dict[str, Table] = {}
        for name, table in tables.items():
            before = {column.name: column.type for column in self._described[name].wanted}
            same = (c.name for c in table.wanted if before.get(c.name) == c.type)
            found[name] = replace(table, used=frozenset(same))
        return found

    def _as_described(self, table: Table) -> Table:
        before = self._described[table.name]
        if before.relational_schema != table.relational_schema:
            raise altered(before, table.schema, table.name, list(table.by_name))
        return table
