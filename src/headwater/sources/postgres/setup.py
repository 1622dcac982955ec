"""What Headwater needs at a PostgreSQL server: a publication, whole old rows, and a slot.

The statements can be read, and run by someone else, before anything is changed. Running them
again does nothing. The server refuses the application's updates of a table that is published and
has no identity, so a table gets one before it is published, and loses it after. What it had is
noted first. Each statement that needs a lock waits for it only shortly, because whoever wants the
table after it would wait as well; then it tries again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from psycopg import sql

from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.contract import Reader
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.locks import run_steps
from headwater.sources.postgres.ownership import Note, Publication, named_for, publications
from headwater.sources.postgres.pgoutput import lsn_text, parse_lsn
from headwater.sources.postgres.privileges import current_role, left_to_run, not_owned
from headwater.sources.postgres.types import Partition, Table

# Not from pg_publication_tables, which waits for whoever has locked one of the tables.
_PUBLISHED = """
WITH wanted AS (SELECT oid, oid AS above FROM unnest(%s::oid[]) oid
                UNION SELECT oid, relid
                FROM unnest(%s::oid[]) oid, pg_catalog.pg_partition_ancestors(oid))
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AND NOT p.pubviaroot,
       coalesce((SELECT pg_catalog.array_agg(w.oid::int8)
                 FROM wanted w JOIN pg_catalog.pg_class c ON c.oid = w.above
                 WHERE p.puballtables {} OR c.oid IN (
                     SELECT prrelid FROM pg_catalog.pg_publication_rel WHERE prpubid = p.oid)),
                '{{}}')
FROM pg_catalog.pg_publication p WHERE p.pubname = %s
"""
_OF_SCHEMAS = """
OR c.relnamespace IN (
    SELECT pnnspid FROM pg_catalog.pg_publication_namespace WHERE pnpubid = p.oid)
"""
_MEMBERS = """
SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_publication p
JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s ORDER BY 1, 2
"""
_NARROWED = """
SELECT r.prrelid::int8
FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
WHERE p.pubname = %s AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)
"""
_SLOT = """
SELECT plugin, nullif(database, pg_catalog.current_database())::text, wal_status,
       confirmed_flush_lsn::text
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""
_HOLDER = """
SELECT s.active_pid, a.application_name FROM pg_catalog.pg_replication_slots s
JOIN pg_catalog.pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s
"""
_IDENTITIES = """
SELECT c.oid::text, CASE c.relreplident WHEN 'i' THEN
         (SELECT 'i:' || x.relname FROM pg_catalog.pg_index i
          JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
          WHERE i.indrelid = c.oid AND i.indisreplident) ELSE c.relreplident::text END,
       n.nspname::text, c.relname::text,
       ARRAY(SELECT p.pubname::text FROM pg_catalog.pg_publication_rel r
             JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
             WHERE r.prrelid = c.oid AND p.pubname <> %(publication)s)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY(%(oids)s::oid[])
"""
_LISTED = """
SELECT w.oid::text FROM unnest(%(oids)s::oid[]) AS w(oid)
JOIN pg_catalog.pg_publication p ON p.pubname = %(publication)s
WHERE p.puballtables OR pg_catalog.pg_has_role(p.pubowner, current_user, 'MEMBER') OR EXISTS (
  SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = w.oid
    OR r.prrelid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(w.oid) a)))
"""
"""The tables of which a publication's note is believed: who published them owns them."""
_Slot: TypeAlias = tuple[str | None, str | None, str, str | None]
"""Its plugin, its database if that is another, whether the server keeps its log, and from where."""
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class SlotInstallation:
    """The names of what is set up at one server, and for which warehouse."""

    access: Access
    publication: str
    slot: str
    owner: str = ""

    def missing(self, connection: Connection, tables: Iterable[Table]) -> list[str]:
        """The statements that are still to be run."""
        self._check_wal_level(connection)
        tables = list(tables)
        found = publications(self.access, connection).get(self.publication)
        self._check_owner(found)
        slot = self._slot(connection)
        self._check_slot(slot)
        if slot is not None:
            self._check_made(found)
        statements: list[sql.Composed] = []
        if found is None:
            name = sql.Identifier(self.publication)
            statements.append(sql.SQL("CREATE PUBLICATION {}").format(name))
        statements += self._note_statements(connection, tables, found)
        for table in tables:
            statements += [_identity_statement(part) for part in _not_whole(table)]
        statements += self._publication_statements(connection, tables)
        texts = [statement.as_string(connection) for statement in statements]
        if slot is None:
            texts.append(
                f"SELECT pg_catalog.pg_create_logical_replication_slot('{self.slot}', 'pgoutput')"
            )
        return texts

    def install(self, connection: Connection, tables: Iterable[Table]) -> None:
        tables = list(tables)
        statements = self.missing(connection, tables)
        self._check_owned(connection, tables, statements)
        steps = [[text] for text in statements]
        run_steps(self.access, connection, steps, [table.oid for table in tables])

    def _check_owned(
        self, connection: Connection, tables: Sequence[Table], statements: Sequence[str]
    ) -> None:
        """Nothing is made if the rest of it would be refused."""
        lacking = {part.oid for table in tables for part in _not_whole(table)}
        lacking |= {table.oid for table in self._unpublished(connection, tables)}
        if names := not_owned(self.access, connection, lacking):
            role = current_role(self.access, connection)
            raise SourceError(
                f"Source {self.access.source}: the role {role} does not own {', '.join(names)}, "
                "which setup alters.",
                left_to_run(self.access.source, statements),
            )

    def renew(self, connection: Connection, tables: Iterable[Table]) -> None:
        """Begin the log anew. Where only the slot is at fault, that takes no owner's rights."""
        tables = list(tables)
        found = publications(self.access, connection).get(self.publication)
        self._check_owner(found)
        if self._slot(connection) is not None:
            self._check_made(found)
        self._drop_slot(connection)
        try:
            self.missing(connection, tables)
        except LostConnectionError:
            raise
        except SourceError:  # the publication is not right
            self.remove(connection)
        self.install(connection, tables)

    def remove(self, connection: Connection) -> None:
        """Drop the slot and the publication, if they are there; identities are as before."""
        found = publications(self.access, connection).get(self.publication)
        self._check_owner(found)
        if self._made_slot(found):
            self._drop_slot(connection)
        if found is not None:
            restoring = self._restoring(connection, found.note)
            restored = {oid: statement for oid, statement, stays in restoring if not stays}
            first, last = self._around(connection, found)
            steps = [[statement] for statement in (*first, *restored.values(), last)]
            run_steps(self.access, connection, steps, list(restored))

    def _around(self, connection: Connection, found: Publication) -> tuple[list[str], str]:
        """What takes tables out of our publication, and what puts that back to what it was."""
        name = sql.Identifier(self.publication)
        if found.note is None:
            made, before = self._is_named(found.name), found.comment
        else:
            made, before = found.note.made, found.note.comment
        if not made:
            last = sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(name, before or None)
            return [], last.as_string(connection)
        with self.access.errors("read the catalog"):
            rows = connection.execute(_MEMBERS, [self.publication]).fetchall()
        members = sql.SQL(", ").join(
            sql.SQL("ONLY {}").format(sql.Identifier(*row)) for row in rows
        )
        taken_out = sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(name, members)
        first = [taken_out.as_string(connection)] if rows else []
        return first, sql.SQL("DROP PUBLICATION {}").format(name).as_string(connection)

    def stays(self, connection: Connection) -> list[str]:
        """What `remove` would leave, in sentences."""
        found = publications(self.access, connection).get(self.publication)
        note = None if found is None else found.note
        told = [stays for _, _, stays in self._restoring(connection, note) if stays]
        if found is not None and not (note.made if note else self._is_named(found.name)):
            told.append(f"The publication {self.publication} stays: setup did not make it.")
        if self._slot(connection) is not None and not self._made_slot(found):
            told.append(f"The replication slot {self.slot} stays: setup did not make it.")
        return told

    def check(self, connection: Connection, is_fresh: bool) -> int:
        """See that there is a log of ours; where in it the slot stands."""
        self._check_wal_level(connection)
        found = publications(self.access, connection).get(self.publication)
        self._check_owner(found)
        slot = self._slot(connection)
        if slot is None:
            message = f"there is no replication slot {self.slot}"
            if not is_fresh:
                raise BrokenLogError(self.access.source, f"{message} any more.")
            raise SourceError(
                f"Source {self.access.source}: {message}.",
                f"Run 'headwater setup {self.access.source}', which makes it.",
            )
        self._check_slot(slot)
        if is_fresh:
            self._check_made(found)
        _, _, status, confirmed = slot
        if status == "lost" or confirmed is None:
            raise BrokenLogError(
                self.access.source,
                f"the server has dropped log that the slot {self.slot} still needed; its setting "
                "max_slot_wal_keep_size says how much it keeps.",
            )
        return parse_lsn(confirmed)

    def check_tables(self, connection: Connection, tables: Iterable[Table]) -> None:
        """See that the log tells all about some tables."""
        tables = list(tables)
        lacking = [t.label for t in tables if self._publication_statements(connection, [t])]
        if lacking:
            raise SourceError(
                f"Source {self.access.source}: the publication {self.publication} does not "
                f"publish {', '.join(lacking)}.",
                f"Run 'headwater setup {self.access.source}'.",
            )
        for table in tables:
            if _not_whole(table):
                raise _not_full(table)

    def evict(self, connection: Connection, reader: Reader) -> None:
        """End the connection that holds the slot if it is one of this reader's past epochs."""
        with self.access.errors(f"read who holds the slot {self.slot}"):
            row = connection.execute(_HOLDER, [self.slot]).fetchone()
        if row is None or not _is_past(reader, row[1] or ""):
            return
        with self.access.errors(f"end the connection that holds the slot {self.slot}"):
            connection.execute("SELECT pg_catalog.pg_terminate_backend(%s)", [row[0]])

    def check_reachable(self, lsn: int, confirmed: int) -> None:
        if lsn < confirmed:
            raise BrokenLogError(
                self.access.source,
                f"the slot {self.slot} stands at {lsn_text(confirmed)}, after the position "
                f"{lsn_text(lsn)}. What lies between was acknowledged and is gone.",
            )

    def _check_owner(self, found: Publication | None) -> None:
        if found is None or found.note is None or not (self.owner and found.note.owner):
            return
        if found.note.owner != self.owner:
            raise SourceError(
                f"Source {self.access.source}: the publication {self.publication} belongs to the "
                f"warehouse {found.note.owner}; this one is {self.owner}.",
                "Give other names for slot and publication in headwater.toml, or run teardown in "
                "the other project.",
            )

    def _check_slot(self, slot: _Slot | None) -> None:
        if slot is None:
            return
        plugin, elsewhere, *_ = slot
        if elsewhere is not None:
            raise SourceError(
                f"Source {self.access.source}: the replication slot {self.slot} belongs to the "
                f"database {elsewhere}.",
                "If that was this database before it was replaced, connect to it and run: SELECT "
                f"pg_drop_replication_slot('{self.slot}'); then run 'headwater repair "
                f"{self.access.source}'. Otherwise give another name for the slot in "
                "headwater.toml.",
            )
        if plugin != "pgoutput":
            raise SourceError(
                f"Source {self.access.source}: the replication slot {self.slot} belongs to "
                "something else.",
                "Give another name for the slot in headwater.toml.",
            )

    def _check_made(self, found: Publication | None) -> None:
        """To read or to drop a slot of somebody else would cost its reader what it has not read."""
        if not self._made_slot(found):
            raise SourceError(
                f"Source {self.access.source}: there is a replication slot {self.slot} already, "
                "which was not made for this warehouse.",
                "Give another name for the slot in headwater.toml; or, if nobody needs it, run: "
                f"SELECT pg_drop_replication_slot('{self.slot}');",
            )

    def _made_slot(self, found: Publication | None) -> bool:
        """Whether the slot was made by setup: the publication's note says so, or its name."""
        note = None if found is None else found.note
        is_noted = note is not None and (note.owner, note.slot) == (self.owner, self.slot)
        return not self.owner or is_noted or self._is_named(self.slot)

    def _is_named(self, name: str) -> bool:
        """Whether something has the name that setup gives for this warehouse."""
        return named_for(name) == self.owner if self.owner else name.startswith("headwater_")

    def _note_statements(
        self, connection: Connection, tables: Sequence[Table], found: Publication | None
    ) -> list[sql.Composed]:
        """Write down whose the publication is, and the identities that are about to go."""
        before = None if found is None else found.note
        identities = dict(before.identities) if before is not None else {}
        changing = [part.oid for table in tables for part in _not_whole(table)]
        for oid, identity, *_ in self._identities(connection, changing):
            identities.setdefault(oid, identity)
        is_named = found is None or self._is_named(found.name)
        made = is_named if before is None else before.made
        comment = (found.comment if found is not None else "") if before is None else before.comment
        note = Note(self.owner, self.slot, made, identities, comment)
        if before == note:
            return []
        name = sql.Identifier(self.publication)
        return [sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(name, str(note))]

    def _restoring(self, connection: Connection, note: Note | None) -> list[tuple[int, str, str]]:
        """For each table the statement that gives back its identity, or why it stays as it is."""
        found: list[tuple[int, str, str]] = []
        kinds = {} if note is None else note.identities
        believed = self._listed(connection, kinds)
        for oid, now, schema, name, others in self._identities(connection, map(int, kinds)):
            if now != "f" or oid not in believed or kinds[oid] == "f":
                continue
            restored = {"d": sql.SQL("DEFAULT"), "n": sql.SQL("NOTHING")}.get(
                kinds[oid],
                sql.SQL("USING INDEX {}").format(sql.Identifier(kinds[oid].removeprefix("i:"))),
            )
            statement = sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY {}").format(
                sql.Identifier(schema, name), restored
            )
            text = statement.as_string(connection)
            stays = (
                f"The table {schema}.{name} keeps REPLICA IDENTITY FULL, since the publication "
                f"{others[0]} has it as well; when that does not need it: {text};"
                if others
                else ""
            )
            found.append((int(oid), text, stays))
        return found

    def _listed(self, connection: Connection, oids: Iterable[str]) -> set[str]:
        with self.access.errors("read the catalog"):
            wanted = {"oids": list(map(int, oids)), "publication": self.publication}
            return {oid for (oid,) in connection.execute(_LISTED, wanted)}

    def _identities(
        self, connection: Connection, oids: Iterable[int]
    ) -> list[tuple[str, str, str, str, list[str]]]:
        with self.access.errors("read the catalog"):
            wanted = {"oids": list(oids), "publication": self.publication}
            return connection.execute(_IDENTITIES, wanted).fetchall()

    def _drop_slot(self, connection: Connection) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.access.errors(f"drop the slot {self.slot}"):
                    connection.execute(
                        "SELECT pg_catalog.pg_drop_replication_slot(slot_name)"
                        " FROM pg_catalog.pg_replication_slots"
                        " WHERE slot_name = %s AND database = pg_catalog.current_database()",
                        [self.slot],
                    )
                return
            except SourceError as error:
                if "is active" not in error.message:
                    raise
                if time.monotonic() > deadline:
                    raise SourceError(
                        f"Source {self.access.source}: the slot {self.slot} is being read.",
                        "Stop the runner ('headwater run') that reads it first.",
                    ) from None
                time.sleep(0.05)

    def _publication_statements(
        self, connection: Connection, tables: Sequence[Table]
    ) -> list[sql.Composed]:
        missing = self._unpublished(connection, tables)
        if not missing:
            return []
        name = sql.Identifier(self.publication)
        return [sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, _listed(missing))]

    def _unpublished(self, connection: Connection, tables: Sequence[Table]) -> Sequence[Table]:
        """The tables that are not published yet; SourceError if what is, is not so whole."""
        with self.access.errors("read the catalog"):
            narrows = connection.pgconn.server_version >= 150000
            published_tables = _PUBLISHED.format(_OF_SCHEMAS if narrows else "")
            oids = [table.oid for table in tables]
            row = connection.execute(
                published_tables.encode(), [oids, oids, self.publication]
            ).fetchone()
            narrowed: set[int] = set()
            if narrows:
                rows = connection.execute(_NARROWED, [self.publication])
                narrowed = {oid for (oid,) in rows}
        if row is None:
            return tables
        whole, published = row
        if not whole or any(table.oid in narrowed for table in tables):
            publication = sql.Identifier(self.publication).as_string(connection)
            raise SourceError(
                f"Source {self.access.source}: the publication {self.publication} leaves out "
                "some rows, columns or kinds of changes.",
                f"If setup made it, run 'headwater repair {self.access.source}'. Otherwise let its "
                f"owner publish the tables whole, and run: ALTER PUBLICATION {publication} SET "
                "(publish = 'insert, update, delete, truncate', publish_via_partition_root = "
                "false); or give another name for the publication in headwater.toml, and setup "
                "makes it.",
            )
        return [table for table in tables if table.oid not in published]

    def _slot(self, connection: Connection) -> _Slot | None:
        with self.access.errors("read the catalog"):
            return connection.execute(_SLOT, [self.slot]).fetchone()

    def _check_wal_level(self, connection: Connection) -> None:
        with self.access.errors("read the settings"):
            row = connection.execute("SHOW wal_level").fetchone()
        if row is not None and row[0] != "logical":
            raise SourceError(
                f"Source {self.access.source}: the server's wal_level is {row[0]}; "
                "it must be logical.",
                "As a superuser run: ALTER SYSTEM SET wal_level = 'logical'; and restart the "
                "server.",
            )


def application_name(reader: Reader) -> str:
    """How the connection of a reader is known at the server."""
    return f"headwater {reader.name} {reader.epoch}"


def _is_past(reader: Reader, application: str) -> bool:
    prefix, _, epoch = application.rpartition(" ")
    same = f"{prefix} {reader.epoch}" == application_name(reader)
    return same and epoch.isdecimal() and int(epoch) < reader.epoch


def _not_full(table: Table) -> SourceError:
    statements = "; ".join(_identity_statement(p).as_string(None) for p in _not_whole(table))
    return SourceError(
        f"Table {table.label}: the log does not hold its whole old rows.",
        f"Run: {statements};",
    )


def _not_whole(table: Table) -> list[Table | Partition]:
    """What of a table logs less than whole old rows."""
    return [part for part in table.stored if part.identity != "f"]


def _identity_statement(table: Table | Partition) -> sql.Composed:
    return sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY FULL").format(table.identifier)


def _listed(tables: Iterable[Table]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("ONLY {}").format(table.identifier) for table in tables)
