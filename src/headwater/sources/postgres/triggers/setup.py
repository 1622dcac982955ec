"""What Headwater needs at a server without a slot: a log table, and triggers that write it.

All of it is in a schema of its own, which belongs to one warehouse: the log; what was
acknowledged; for each table how the catalog showed it then; and which columns a logged row has.
The statements can be read, and run by someone else, before anything is changed. Running them
again does nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from headwater.errors import BrokenLogError, LostConnectionError, SourceError
from headwater.sources.contract import Retained
from headwater.sources.postgres.connect import Access, Connection
from headwater.sources.postgres.locks import run_steps
from headwater.sources.postgres.privileges import (
    check_log_granted,
    current_role,
    grants,
    left_to_run,
    may_use_log,
    not_owned,
)
from headwater.sources.postgres.snapshot import XidSnapshot
from headwater.sources.postgres.triggers.functions import (
    LEFT,
    TAG,
    VALUES_LEFT,
    VERSION,
    Logging,
    array,
    create_function,
    create_tag,
    create_values_left,
    tag_body,
)
from headwater.sources.postgres.triggers.trust import (
    TABLES,
    GuardedLog,
    check_trusted,
    lock_log,
    owners,
)
from headwater.sources.postgres.triggers.watch import ALWAYS, SEEN, Seen, is_watched, read_seen
from headwater.sources.postgres.types import Table

_LONGEST_NAME = 63
_COMMENT = "Headwater's log"
_CREATE = (
    "CREATE SCHEMA {schema}",
    "COMMENT ON SCHEMA {schema} IS {comment}",
    """CREATE TABLE {log} (
  xid pg_catalog.xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
  seen pg_catalog.pg_snapshot NOT NULL DEFAULT pg_catalog.pg_current_snapshot(),
  relation pg_catalog.oid, shape pg_catalog.int8,
  old pg_catalog.text[], new pg_catalog.text[], note pg_catalog.text)""",
    "CREATE INDEX ON {log} (xid)",
    """CREATE TABLE {state} (version pg_catalog.int8, owner pg_catalog.text, log pg_catalog.oid,
  acknowledged pg_catalog.pg_snapshot)""",
    """INSERT INTO {state} SELECT {version}, {owner}, {quoted_log}::pg_catalog.regclass,
  pg_catalog.pg_current_snapshot()""",
    """CREATE TABLE {tables} (relation pg_catalog.text PRIMARY KEY, shape pg_catalog.int8,
  seen pg_catalog.jsonb)""",
    "CREATE TABLE {shapes} (shape pg_catalog.int8 PRIMARY KEY, columns pg_catalog.text[])",
    "CREATE TABLE {bodies} (body pg_catalog.text PRIMARY KEY)",
)
_ROWS = "CREATE OR REPLACE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table} "
_ROWS += "FOR EACH ROW EXECUTE FUNCTION {function}()"
_TRUNCATED = "CREATE OR REPLACE TRIGGER {trigger} BEFORE TRUNCATE ON {table} "
_TRUNCATED += "FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
_ALWAYS = "ALTER TABLE ONLY {table} ENABLE ALWAYS TRIGGER {trigger}"
_RECORD = """
INSERT INTO {tables} SELECT {relation}, {shape}, {seen} FROM pg_catalog.pg_class c
WHERE c.oid = {relation}::pg_catalog.regclass
ON CONFLICT (relation) DO UPDATE SET shape = EXCLUDED.shape
"""
_EMPTY = (
    "TRUNCATE ONLY {log}",  # waits until nobody is writing it
    "UPDATE ONLY {state} SET acknowledged = pg_catalog.pg_current_snapshot()",
    """UPDATE ONLY {tables} SET seen = (SELECT {seen} FROM pg_catalog.pg_class c
WHERE c.oid = pg_catalog.to_regclass(relation))""",
)
_COUNTED_BYTES = 64 << 20
_FORGET = "DELETE FROM {tables} WHERE relation = ANY({relations})"
_FUNCTIONS = """
SELECT p.proname, p.prosrc FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = %s
"""
_DROPPED = """
SELECT p.oid::pg_catalog.regprocedure::text, NOT EXISTS (
  SELECT FROM pg_catalog.pg_depend d
  WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid = p.oid
    AND d.classid <> 'pg_catalog.pg_trigger'::pg_catalog.regclass)
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = %s AND p.proname ~ %s AND pg_catalog.pg_get_userbyid(p.proowner) = %s
"""
"""Functions of a role by their names, and whether nothing but triggers uses them."""
_EARLIER_TABLES = """
SELECT c.relname::text FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'headwater' AND c.relname = ANY(%s) AND c.relkind = 'r'
  AND pg_catalog.pg_get_userbyid(c.relowner) = current_user
"""
_MADE = r"^(rows_[0-9]+|truncated_[0-9]+|values_left|tag)$"
_OWNED = re.compile(r"[0-9a-f]{8}")
_IS_THERE = """
SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
WHERE n.nspname = %s AND c.relname = 'state'
"""
_OTHERS = """
SELECT pg_catalog.obj_description(n.oid, 'pg_namespace'), n.nspname,
       pg_catalog.pg_total_relation_size(c.oid)
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c
  ON c.relnamespace = n.oid AND c.relname = 'log'
WHERE n.nspname <> %s AND pg_catalog.starts_with(
    pg_catalog.obj_description(n.oid, 'pg_namespace'), %s)
"""


@dataclass(frozen=True)
class State:
    """What the log says of itself."""

    owner: str
    acknowledged: XidSnapshot
    shapes: dict[int, tuple[str, ...]]
    bodies: frozenset[str]
    tables: dict[str, tuple[int, Seen | None]]
    """By the quoted name of a table: what is logged of it, and how it was acknowledged; None
    where the relation was another table before."""

    def others(self, table: Table, tables: Iterable[Table]) -> list[str]:
        """The tables elsewhere that were followed under the same name, and are no more."""
        ending, here = "." + sql.Identifier(table.name).as_string(None), set(map(quoted, tables))
        return [name for name in self.tables if name.endswith(ending) and name not in here]


@dataclass(frozen=True)
class TriggerInstallation:
    """The log in a schema called `name`, which belongs to the warehouse `owner`.

    `relations` are the names of the tables that it is about.
    """

    access: Access
    name: str
    owner: str = ""
    relations: Sequence[str] = ()

    def table(self, name: str) -> sql.Identifier:
        return sql.Identifier(self.name, name)

    @property
    def log(self) -> sql.Identifier:
        return self.table("log")

    def guarded(self, tables: Sequence[str] = TABLES) -> GuardedLog:
        return GuardedLog(self.access, self.name, self.relations, tables)

    def missing(self, connection: Connection, tables: Iterable[Table]) -> list[str]:
        return [statement for step in self._steps(connection, tables) for statement in step]

    def install(self, connection: Connection, tables: Iterable[Table]) -> None:
        """Run what is missing, each table by itself, so that no lock waits for another."""
        tables = list(tables)
        steps = self._steps(connection, tables)
        if steps:
            self._check_role(connection)
            self._check_owned(connection, tables, steps)
        run_steps(self.access, connection, steps, [table.oid for table in tables])

    def renew(self, connection: Connection, tables: Iterable[Table]) -> None:
        """Begin the log anew. Where only the log is at fault, that takes no owner's rights."""
        tables = list(tables)
        try:
            there = self.state(connection) is not None
            is_whole = there and not self._steps(connection, tables, with_tags=False)
        except LostConnectionError:
            raise
        except SourceError:
            is_whole = False
        if is_whole:
            run_steps(self.access, connection, [self._emptying()], (), self.guarded())
            return
        self.remove(connection)
        self.install(connection, tables)

    def retained(self, connection: Connection) -> Retained | None:
        """How large the log is, acknowledged or not; its rows are counted while they are few."""
        if self._owner(connection) is None:
            return None
        log = self.log.as_string(None)
        with self.access.errors("read the log's size"), self._held(connection):
            row = connection.execute(
                "SELECT pg_catalog.pg_total_relation_size(%s::pg_catalog.regclass)", [log]
            ).fetchone()
            size = int(row[0]) if row is not None else 0
            if size > _COUNTED_BYTES:
                return Retained(size)
            count = sql.SQL("SELECT count(*) FROM ONLY {} WHERE relation IS NOT NULL").format(
                self.log
            )
            counted = connection.execute(count).fetchone()
        return Retained(size, rows=counted[0] if counted is not None else None)

    def remove(self, connection: Connection) -> None:
        """Drop everything that `install` made."""
        if (owner := self._owner(connection)) is not None:
            self._check_owner(owner)
            self._drop(connection, self.name)
        if earlier := self._earlier(connection):
            run_steps(self.access, connection, [earlier], ())

    def other_logs(self, connection: Connection) -> dict[str, int]:
        """The logs of other warehouses in this database, by owner, with their bytes."""
        return {owner: size for owner, _, size in self._others(connection)}

    def remove_log(self, connection: Connection, owner: str) -> None:
        """Drop the log of a warehouse that is no more."""
        for found, schema, _ in self._others(connection):
            if found == owner:
                self._drop(connection, schema)

    def state(self, connection: Connection) -> State | None:
        """What the log says of itself; None where there is none."""
        if self._owner(connection) is None:
            return None
        with self.access.errors("read the log's state"), self._held(connection):
            row = connection.execute(
                sql.SQL("SELECT version, owner, log::int8, acknowledged::text, {}").format(
                    sql.SQL("pg_catalog.to_regclass({})::oid::int8 FROM ONLY {}").format(
                        self.log.as_string(None), self.table("state")
                    )
                )
            ).fetchone()
            read = "SELECT * FROM ONLY {}"
            shapes, bodies, tables = (
                connection.execute(sql.SQL(read).format(self.table(name))).fetchall()
                for name in ("shapes", "bodies", "tables")
            )
        if row is None or row[0] != VERSION or row[2] != row[4]:
            raise BrokenLogError(
                self.access.source,
                f"the log in the schema {self.name} was made by another version, or copied from "
                "elsewhere.",
            )
        return State(
            row[1],
            XidSnapshot.parse(row[3]),
            {shape: tuple(columns) for shape, columns in shapes},
            frozenset(body for (body,) in bodies),
            {relation: (shape, seen) for relation, shape, seen in tables},
        )

    def check(self, connection: Connection, tables: Iterable[Table], seek: bool = False) -> State:
        """See that all is set up; with `seek`, that a log which was read before is there."""
        source = self.access.source
        state = self.state(connection)
        if state is None and seek:
            raise BrokenLogError(source, f"its log, the schema {self.name}, is gone.")
        if state is None:
            raise self._not_set_up("is not set up yet")
        self._check_owner(state.owner)
        for table in tables:
            shape, _ = state.tables.get(quoted(table), (0, None))
            if shape not in state.shapes:
                raise self._not_set_up(f"has no triggers on {table.label} yet")
            lacking = set(Logging(self.name, table).columns).difference(state.shapes[shape])
            if lacking:
                names = ", ".join(sorted(lacking))
                raise self._not_set_up(f"does not log these columns of {table.label} yet: {names}")
        return state

    def check_watched(self, connection: Connection, tables: Sequence[Table]) -> None:
        """See that the triggers are at work, before something relies on them from now on."""
        state = self.check(connection, tables)
        with self.access.errors("read the catalog"):
            seen = read_seen(connection, self.name, tables)
        for table in tables:
            if not is_watched(seen[table.schema, table.name], state.bodies):
                raise self._not_set_up(f"has its triggers on {table.label} switched off or lost")

    def _owner(self, connection: Connection) -> str | None:
        """Whose log is here; None where there is none."""
        state = self.table("state")
        check_trusted(self.access, connection, self.name, self.relations)
        with self.access.errors("read the log's state"):
            if connection.execute(_IS_THERE, [self.name]).fetchone() is None:
                return None
        check_log_granted(self.access, connection, self.name)
        with self.access.errors("read the log's state"), self._held(connection):
            row = connection.execute(sql.SQL("SELECT owner FROM ONLY {}").format(state)).fetchone()
        return row[0] if row else None

    @contextmanager
    def _held(self, connection: Connection) -> Iterator[None]:
        """The log's tables stay as they were found: what setup makes."""
        with connection.transaction():
            found = check_trusted(self.access, connection, self.name, self.relations)
            if found:
                connection.execute(lock_log(self.name, found, "ACCESS SHARE").encode())
                check_trusted(self.access, connection, self.name, self.relations)
            yield

    def _not_set_up(self, what: str) -> SourceError:
        source = self.access.source
        return SourceError(f"Source {source}: it {what}.", f"Run 'headwater setup {source}'.")

    def _check_owner(self, owner: str) -> None:
        if owner != self.owner:
            raise SourceError(
                f"Source {self.access.source}: the schema {self.name} holds the log of another "
                f"warehouse ({owner or 'without a name'}).",
                "Give this source another slot in headwater.toml, or remove that log there.",
            )

    def _check_role(self, connection: Connection) -> None:
        """Nobody else may own the schema: what is in it runs with our rights."""
        with self.access.errors("read the catalog"):
            row = connection.execute(
                "SELECT nspowner::pg_catalog.regrole::text, "
                "nspowner = current_user::pg_catalog.regrole FROM pg_catalog.pg_namespace "
                "WHERE nspname = %s",
                [self.name],
            ).fetchone()
        if row is not None and not row[1]:
            raise SourceError(
                f"Source {self.access.source}: the role {row[0]} owns the schema {self.name}.",
                f"Run setup as {row[0]}, or give the source another slot in headwater.toml.",
            )

    def _check_owned(
        self, connection: Connection, tables: Iterable[Table], steps: Sequence[Sequence[str]]
    ) -> None:
        """Nothing is begun that only the tables' owner can end."""
        names = not_owned(self.access, connection, [table.oid for table in tables])
        if names and self._owner(connection) is None:
            raise SourceError(
                f"Source {self.access.source}: this role does not own {', '.join(names)}, and only "
                "a table's owner may make triggers that run in every session.",
                left_to_run(self.access.source, [text for step in steps for text in step]),
            )

    # The statements

    def _steps(
        self, connection: Connection, tables: Iterable[Table], with_tags: bool = True
    ) -> list[list[str]]:
        """What is still to be run; each step is one transaction."""
        role = current_role(self.access, connection)
        check_trusted(self.access, connection, self.name, self.relations)
        if not may_use_log(self.access, connection, self.name):
            return [grants(self.name, role)]  # until then it cannot be told what else is missing
        steps = [self._earlier(connection)]
        state = self.state(connection)
        if state is None:
            # Somebody else may run this, for the role that asks.
            steps.append([*self._creating(), *grants(self.name, role)])
        else:
            self._check_owner(state.owner)
        tables = list(tables)
        with self.access.errors("read the catalog"):
            functions = dict(connection.execute(_FUNCTIONS, [self.name]).fetchall())
            seen = read_seen(connection, self.name, tables)
        if state is not None and functions.get(LEFT) != VALUES_LEFT:
            steps.append([part.as_string(None) for part in create_values_left(self.name)])
        if state is not None and with_tags and functions.get(TAG) != tag_body(self.name):
            steps.append([part.as_string(None) for part in create_tag(self.name)])
        for table in tables:
            here = seen[table.schema, table.name]
            others = state.others(table, tables) if state else []
            steps.append(self._watching(table, here, functions, state, others))
        return [step for step in steps if step]

    def _creating(self) -> list[str]:
        parts: dict[str, Any] = {name: self.table(name) for name in TABLES}
        parts |= {
            "schema": sql.Identifier(self.name),
            "comment": f"{_COMMENT} {self.owner}".rstrip(),
            "quoted_log": self.log.as_string(None),
            "version": VERSION,
            "owner": self.owner,
        }
        made = [sql.SQL(text).format(**parts) for text in _CREATE]
        functions = (*create_values_left(self.name), *create_tag(self.name))
        return [part.as_string(None) for part in (*made, *functions)]

    def _watching(
        self,
        table: Table,
        seen: Seen,
        functions: dict[str, str],
        state: State | None,
        others: Sequence[str],
    ) -> list[str]:
        known, _ = (state and state.tables.get(quoted(table))) or (None, None)
        logging = Logging(self.name, table)
        statements: list[sql.Composed] = []
        for name, body in logging.bodies.items():
            if functions.get(name) != body:
                statements += self._function(name, body)
        fire = {row[3] for row in seen["triggers"] or () if row[2] == ALWAYS}
        for function, trigger, text in (
            (logging.rows, f"{self.name}_rows", _ROWS),
            # The last of its kind by name: it sees what others have left.
            (logging.truncated, f"zz_{self.name}_truncate", _TRUNCATED),
        ):
            if function not in fire:
                parts = {"trigger": sql.Identifier(fitting(trigger)), "table": table.identifier}
                made = sql.SQL(text).format(function=self.table(function), **parts)
                statements += [made, sql.SQL(_ALWAYS).format(**parts)]
        if statements or others or known != logging.shape:
            statements += self._recording(table, logging, others)
        return [statement.as_string(None).strip() for statement in statements]

    def _function(self, name: str, body: str) -> list[sql.Composed]:
        return [
            sql.SQL("INSERT INTO {} VALUES (pg_catalog.md5({})) ON CONFLICT DO NOTHING").format(
                self.table("bodies"), body
            ),
            *create_function(self.name, name, body),
        ]

    def _recording(
        self, table: Table, logging: Logging, others: Sequence[str]
    ) -> list[sql.Composed]:
        """Where the relation was another table, it is written down as one never seen: a gap."""
        columns = array(map(sql.Literal, logging.columns))
        seen: sql.Composable = sql.SQL(SEEN).format(schema=sql.Literal(self.name))
        tables = self.table("tables")
        forgotten = []
        if others:
            seen = sql.SQL("NULL")
            names = array(map(sql.Literal, [*others, quoted(table)]))
            forgotten = [sql.SQL(_FORGET).format(tables=tables, relations=names)]
        return [
            *forgotten,
            sql.SQL("INSERT INTO {} VALUES ({}, {}) ON CONFLICT DO NOTHING").format(
                self.table("shapes"), logging.shape, columns
            ),
            sql.SQL(_RECORD).format(
                tables=tables, relation=quoted(table), shape=logging.shape, seen=seen
            ),
        ]

    # What is to be given up

    def _emptying(self) -> list[str]:
        """Give up what is logged: what comes after it is all there, from this moment on."""
        seen = sql.SQL(SEEN).format(schema=sql.Literal(self.name))
        parts = {name: self.table(name) for name in ("log", "state", "tables")}
        made = (sql.SQL(text).format(seen=seen, **parts) for text in _EMPTY)
        return [statement.as_string(None) for statement in made]

    def _drop(self, connection: Connection, schema: str) -> None:
        owner, _ = owners(self.access, connection, [schema], self.relations)[schema]
        statements = self._dropping(connection, schema, _MADE, owner)
        for table in TABLES:
            name = sql.Identifier(schema, table)
            statements.append(sql.SQL("DROP TABLE IF EXISTS {}").format(name).as_string(None))
        statements.append(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(schema)).as_string(None))
        run_steps(self.access, connection, [statements], ())

    def _dropping(self, connection: Connection, schema: str, names: str, owner: str) -> list[str]:
        """Statements that drop a role's functions; triggers go with them, and nothing else does."""
        with self.access.errors("read the catalog"):
            found = connection.execute(_DROPPED, [schema, names, owner]).fetchall()
        return [
            f"DROP FUNCTION {function}{' CASCADE' if only_triggers else ''}"
            for function, only_triggers in found
        ]

    def _earlier(self, connection: Connection) -> list[str]:
        """Statements that drop what the first version made for this source, as this role."""
        default = re.sub(r"[^a-z0-9_]", "_", f"headwater_{self.access.source}".lower())
        role = current_role(self.access, connection)
        statements: list[str] = []
        for name in dict.fromkeys((self.name, default[:_LONGEST_NAME])):
            functions = self._dropping(connection, "headwater", f"^{name}_on_[0-9]+$", role)
            if not functions:
                continue
            with self.access.errors("read the catalog"):
                names = [[f"{name}_log", f"{name}_state"]]
                tables = connection.execute(_EARLIER_TABLES, names).fetchall()
            dropped = sql.SQL("DROP TABLE {}")
            statements += functions
            statements += [
                dropped.format(sql.Identifier("headwater", table)).as_string(None)
                for (table,) in tables
            ]
        return statements

    def _others(self, connection: Connection) -> list[tuple[str, str, int]]:
        """Owner, schema and bytes of the logs that setup may have made for other warehouses."""
        with self.access.errors("read the catalog"):
            rows = connection.execute(_OTHERS, [self.name, _COMMENT]).fetchall()
        schemas = [schema for _, schema, _ in rows]
        trusted = owners(self.access, connection, schemas, self.relations)
        return [
            (owner, schema, size)
            for text, schema, size in rows
            if (owner := text.removeprefix(_COMMENT).strip())
            and _OWNED.fullmatch(owner)
            and trusted.get(schema, ("", False))[1]
        ]


def quoted(table: Table) -> str:
    """A table's name as a statement has it."""
    return table.identifier.as_string(None)


def fitting(name: str) -> str:
    """A name that PostgreSQL does not cut off, and that stays unique."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"
