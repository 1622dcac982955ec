"""What the role that connects lacks for a run, told before anything depends on it.

A session is never trusted to see all rows: a table whose policies hide rows from the role would
make views wrong without a word, so it is refused wherever tables are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from psycopg import sql

from headwater.errors import RefusedError, SourceError
from headwater.sources.postgres.connect import Access, Connection

_LOG_RIGHTS: Mapping[str, tuple[str, ...]] = {
    "log": ("SELECT", "INSERT", "DELETE"),
    "state": ("SELECT", "UPDATE"),
    "tables": ("SELECT", "UPDATE"),
    "shapes": ("SELECT",),
    "bodies": ("SELECT",),
}
"""What a monitor and a wrapper do with the tables of a log that triggers write."""
_TO_BEGIN_ANEW = {"log": ("TRUNCATE",)}
"""What is granted besides, so that an unread log can be given up."""
_ENTERED = """
SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace
WHERE nspname = %s
"""
_GRANTED = """
SELECT coalesce(pg_catalog.bool_and(
    pg_catalog.has_table_privilege(c.oid, w.privilege)), true)
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
JOIN unnest(%s::text[], %s::text[]) AS w(name, privilege) ON w.name = c.relname
WHERE n.nspname = %s
"""
_NOT_OWNED = """
SELECT c.oid::pg_catalog.regclass::text FROM pg_catalog.pg_class c
WHERE c.oid = ANY(%s::oid[]) AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')
ORDER BY c.oid
"""
_MOST_SHOWN = 1000


def hidden_rows(source: str, table: str, role: str) -> SourceError:
    """Why a table is refused of which policies hide rows."""
    return RefusedError(
        f"Source {source}: row-level security hides rows of {table} from the role {role}, and "
        "views would lack them.",
        f"As a superuser run: ALTER ROLE {quoted(role)} BYPASSRLS; or connect as the table's "
        "owner, unless the table has FORCE ROW LEVEL SECURITY; or leave the table out.",
    )


def lacking_for_triggers(access: Access, connection: Connection, schema: str) -> list[SourceError]:
    """What keeps the role from reading and cleaning the log in a schema, if that is there."""
    found = []
    with access.errors("read the settings"):
        row = connection.execute("SHOW transaction_read_only").fetchone()
    if row is not None and row[0] == "on":
        found.append(
            SourceError(
                f"Source {access.source}: sessions of this role are read-only, and with changes = "
                '"triggers" Headwater writes markers into its log and cleans it.',
                f"Run: ALTER ROLE {quoted(current_role(access, connection))} SET "
                "default_transaction_read_only = off; or connect to the primary.",
            )
        )
    if not may_use_log(access, connection, schema):
        found.append(_not_granted(access, connection, schema))
    return found


def check_log_granted(access: Access, connection: Connection, schema: str) -> None:
    if not may_use_log(access, connection, schema):
        raise _not_granted(access, connection, schema)


def may_use_log(access: Access, connection: Connection, schema: str) -> bool:
    """Whether the role has what it needs of a log; true where there is none."""
    wanted = [(name, right) for name, rights in _LOG_RIGHTS.items() for right in rights]
    with access.errors("read the catalog"):
        entered = connection.execute(_ENTERED, [schema]).fetchone()
        granted = connection.execute(
            _GRANTED, [[name for name, _ in wanted], [right for _, right in wanted], schema]
        ).fetchone()
    return entered is None or bool(entered[0] and granted is not None and granted[0])


def grants(schema: str, role: str) -> list[str]:
    """The statements that let a role use the log that another has made."""
    to = sql.Identifier(role)
    statements = [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), to),
        *(
            sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(", ").join(map(sql.SQL, (*rights, *_TO_BEGIN_ANEW.get(name, ())))),
                sql.Identifier(schema, name),
                to,
            )
            for name, rights in _LOG_RIGHTS.items()
        ),
    ]
    return [statement.as_string(None) for statement in statements]


def current_role(access: Access, connection: Connection) -> str:
    with access.errors("read the role's name"):
        row = connection.execute("SELECT current_user::text").fetchone()
    assert row is not None
    return str(row[0])


def quoted(role: str) -> str:
    return sql.Identifier(role).as_string(None)


def _not_granted(access: Access, connection: Connection, schema: str) -> SourceError:
    role = current_role(access, connection)
    return RefusedError(
        f"Source {access.source}: the role {role} may not read and clean the log in the schema "
        f"{schema}.",
        "As the role that ran setup, run: " + "; ".join(grants(schema, role)) + ";",
    )


def not_owned(access: Access, connection: Connection, oids: Iterable[int]) -> list[str]:
    """The tables that this role may not alter, as setup does."""
    with access.errors("read the catalog"):
        rows = connection.execute(_NOT_OWNED, [list(oids)]).fetchall()
    return [name for (name,) in rows]


def left_to_run(source: str, statements: Sequence[str]) -> str:
    """What another role is to run, or, where that is long, how to have it shown."""
    text = "; ".join(statements)
    if len(text) > _MOST_SHOWN or "\n" in text:
        return f"'headwater setup {source} --print' shows the statements for a role that may."
    return f"As a role that may, run: {text};"


def shown(statement: str) -> str:
    """A statement, or the beginning of a long one, in one line."""
    text = " ".join(statement.split())
    return text if len(text) <= _MOST_SHOWN else text[:100] + " ..."
