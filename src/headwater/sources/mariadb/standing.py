"""What a server is like: settings that its log depends on, who it is, and what setup made there."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headwater.errors import BrokenLogError, RefusedError, SourceError
from headwater.sources.mariadb.connect import Access, Connection, quoted, run, text_literal
from headwater.sources.mariadb.places import Place

_DOING = "read the server's settings"
_VARIABLES = (
    "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "server_id",
    "server_uid", "server_uuid", "lower_case_table_names",
    "binlog_transaction_compression", "binlog_row_value_options",
)  # fmt: skip
_NEEDED = {
    "log_bin": ("ON", "1"),
    "binlog_format": ("ROW",),
    "binlog_row_image": ("FULL", "FULL_NODUP"),
    "binlog_row_metadata": ("FULL",),
    "binlog_transaction_compression": ("OFF", "0"),
    "binlog_row_value_options": ("",),
    "lower_case_table_names": ("0", "1"),
}
_AT_START = ("log_bin", "lower_case_table_names")


@dataclass(frozen=True)
class Own:
    """The tables that are made in a database for one warehouse."""

    database: str
    owner: str

    @property
    def table(self) -> str:
        return f"_headwater_{self.owner}" if self.owner else "_headwater"


def variables(access: Access, connection: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    with access.errors(_DOING):
        rows = run(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name): str(value) for name, value in rows}


def faults(access: Access, connection: Connection) -> list[SourceError]:
    """The settings of the server with which its log cannot be followed."""
    found = []
    known = variables(access, connection)
    for name, allowed in _NEEDED.items():
        value = known.get(name)
        if value is None and name in ("log_bin", "binlog_row_metadata"):
            value = "missing"
        if value is None or value.upper() in allowed:
            continue
        how = (
            "Start the server with it"
            if name in _AT_START
            else f"Run: SET GLOBAL {name} = '{allowed[0]}'; have it in the server's settings, too"
        )
        found.append(
            SourceError(
                f"Source {access.source}: the server has {name} = {value or 'empty'}, and what is "
                f"logged then cannot be followed; it must be {allowed[0] or 'empty'}.",
                f"{how}, and let sessions that are open reconnect.",
            )
        )
    if not found:
        found += _filtered(access, connection)
    return found


def _filtered(access: Access, connection: Connection) -> list[SourceError]:
    """Whether the server leaves databases out of its log."""
    row = log_status(access, connection)
    if row is None or not (row[2] or row[3]):
        return []
    return [
        SourceError(
            f"Source {access.source}: the server leaves databases out of its log (binlog_do_db or "
            "binlog_ignore_db).",
            "Start it without these settings.",
        )
    ]


def log_status(access: Access, connection: Connection) -> Sequence[str] | None:
    """The end of the server's log, and what is left out of it."""
    with access.errors("ask where its log ends"):
        if access.kind == "mysql":
            known = run(connection, "SELECT VERSION()")[0][0]
            new = tuple(int(part) for part in str(known).split("-")[0].split(".")[:2]) >= (8, 2)
            rows = run(connection, "SHOW BINARY LOG STATUS" if new else "SHOW MASTER STATUS")
        else:
            rows = run(connection, "SHOW MASTER STATUS")
    return [str(value or "") for value in rows[0]] if rows else None


def log_end(access: Access, connection: Connection) -> Place:
    row = log_status(access, connection)
    if row is None:
        raise SourceError(
            f"Source {access.source}: the server has no binary log.",
            "Start it with log_bin, binlog_format = ROW and binlog_row_metadata = FULL.",
        )
    return Place(row[0], int(row[1]))


def started_at(access: Access, connection: Connection) -> str:
    """Which run of the server this is: when it was started."""
    schema = "information_schema" if access.kind == "mariadb" else "performance_schema"
    with access.errors("ask when it was started"):
        rows = run(
            connection,
            f"SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE FROM {schema}.global_status "
            "WHERE VARIABLE_NAME = 'Uptime'",
        )
    return str(int(float(str(rows[0][0])))) if rows else ""


def identity(access: Access, connection: Connection) -> str:
    known = variables(access, connection)
    name = known.get("server_uid") or known.get("server_uuid") or "without a name"
    return (
        f"database {access.database} of server {name} ({known.get('server_id')}), started at "
        f"{started_at(access, connection)}"
    )


# What setup makes


def statements(access: Access, connection: Connection, own: Own) -> Iterator[str]:
    """What is missing there."""
    there = _tables(access, connection, own.database)
    table = quoted(own.database, own.table)
    if own.table not in there:
        yield (
            f"CREATE TABLE {table} (n TINYINT PRIMARY KEY, log VARCHAR(64) NOT NULL, "
            "file VARCHAR(512) NOT NULL, position BIGINT NOT NULL) ENGINE = InnoDB "
            "DEFAULT CHARSET = utf8mb4"
        )
    if own.table not in there or _row(access, connection, own) is None:
        yield beginning(access, connection, own)
    if TAGGING not in there:
        yield (
            f"CREATE TABLE IF NOT EXISTS {quoted(own.database, TAGGING)} "
            "(n BIGINT AUTO_INCREMENT PRIMARY KEY, id TEXT, parts TEXT) ENGINE = InnoDB "
            "DEFAULT CHARSET = utf8mb4"
        )


def beginning(access: Access, connection: Connection, own: Own) -> str:
    """Says where the log of this warehouse begins: here, or a little before it is run."""
    place = log_end(access, connection)
    log = text_literal(secrets.token_hex(16))
    return (
        f"REPLACE INTO {quoted(own.database, own.table)} (n, log, file, position) "
        f"VALUES (1, {log}, {text_literal(place.file)}, {place.position})"
    )


def read_own(access: Access, connection: Connection, own: Own) -> tuple[str, Place]:
    """What setup wrote: the name of the log, and where it begins."""
    if own.table not in _tables(access, connection, own.database):
        raise not_set_up(access.source)
    row = _row(access, connection, own)
    if row is None:
        raise not_set_up(access.source)
    return row


def not_set_up(source: str) -> SourceError:
    return BrokenLogError(source, "it is not set up for this warehouse, or not any more.")


def owners(access: Access, connection: Connection, own: Own) -> list[str]:
    """The other warehouses that are set up in the same database."""
    found = _tables(access, connection, own.database) - {own.table, TAGGING}
    return sorted(name.removeprefix("_headwater_") for name in found if name != "_headwater")


def _tables(access: Access, connection: Connection, database: str) -> set[str]:
    with access.errors("read the catalog"):
        rows = run(
            connection,
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = "
            f"{text_literal(database)} AND TABLE_NAME LIKE '\\_headwater%'",
        )
    return {str(name) for (name,) in rows}


def _row(access: Access, connection: Connection, own: Own) -> tuple[str, Place] | None:
    with access.errors("read what setup made there"):
        rows = run(
            connection,
            f"SELECT log, file, position FROM {quoted(own.database, own.table)} WHERE n = 1",
        )
    if not rows:
        return None
    log, file, position = rows[0]
    return str(log), Place(str(file), int(str(position)))


TAGGING = "_headwater_global"


def lacking(access: Access, connection: Connection, *, by_lock: bool) -> list[SourceError]:
    """The rights that a run needs and this account has not."""
    with access.errors("read the account's rights"):
        told = " ".join(str(row[0]) for row in run(connection, "SHOW GRANTS")).upper()
        ((account,),) = run(connection, "SELECT CURRENT_USER()")
    name, _, host = str(account).partition("@")
    to = f"'{name}'@'{host}'"
    found: list[SourceError] = []
    everything = "GRANT ALL PRIVILEGES ON *.*" in told
    needed = [
        (("REPLICATION SLAVE", "REPLICATION REPLICA"), "REPLICATION SLAVE"),
        (
            ("BINLOG MONITOR", "REPLICATION CLIENT", "SUPER"),
            "BINLOG MONITOR" if access.kind == "mariadb" else "REPLICATION CLIENT",
        ),
    ]
    if by_lock:
        needed.append((("LOCK TABLES",), "LOCK TABLES"))
    for names, wanted in needed:
        if not everything and not any(each in told for each in names):
            found.append(
                RefusedError(
                    f"Source {access.source}: the account {to} lacks the right {wanted}.",
                    f"As an administrator run: GRANT {wanted} ON *.* TO {to};",
                )
            )
    return found
