"""How a table stands to its log: whether the triggers that were made for it still see everything.

Between two looks a file may have been altered in any way. What SQLite itself follows (a new
column, a column that was renamed, which it renames in our triggers too) is told from what
breaks the log of a table or of some of its columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from headwater.algebra.values import Json
from headwater.errors import SourceError
from headwater.sources.sqlite.access import Access, Connection
from headwater.sources.sqlite.catalog import describe, is_key_kept
from headwater.sources.sqlite.described import Table, TableShape, base_of
from headwater.sources.sqlite.names import Names, is_ours
from headwater.sources.sqlite.triggers import Logging, renamed_columns
from headwater.sources.sqlite.uniques import unique_of

_AFTER = re.compile(r"\bAFTER\s+(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Trouble:
    """What is not known any more of a table: some columns, or None for all, and why."""

    columns: frozenset[str] | None
    reason: str


@dataclass(frozen=True)
class LoggedColumn:
    """A column in the log: the declared type it had, and the last number before it was logged."""

    declared: str
    slot: int
    since: int


@dataclass(frozen=True)
class StoredSetup:
    """What the setup wrote down about a relation."""

    logging: Logging
    columns: Mapping[str, LoggedColumn]


@dataclass(frozen=True)
class Followed:
    """A relation as its log has it."""

    number: int
    table: Table
    columns: Mapping[str, LoggedColumn]
    trouble: Trouble | None
    unlogged: str
    """Finds out whether a statement ended in the middle of a change."""

    @property
    def is_another(self) -> bool:
        """Whether the log is of a table whose columns have other types than this one's."""
        return any(
            column in self.columns and self.columns[column].declared != self.table.declared[column]
            for column in set(self.table.stored) - self.broken
        )

    @property
    def broken(self) -> frozenset[str]:
        """The columns that cannot be read from the log; all of them if it is the whole table."""
        if self.trouble is None:
            return frozenset()
        return frozenset(self.table.stored) if self.trouble.columns is None else (
            self.trouble.columns
        )  # fmt: skip


def has_log(connection: Connection, names: Names) -> bool:
    found = connection.execute(
        "SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name IN "
        f"({', '.join('?' * len(names.tables))})",
        names.tables,
    ).fetchone()
    return bool(found[0] == len(names.tables))


def stored_relations(connection: Connection, names: Names) -> dict[str, StoredSetup]:
    columns: dict[int, dict[str, LoggedColumn]] = {}
    for number, column, declared, slot, since in connection.execute(
        f"SELECT relation, name, declared, slot, since FROM {names.column} ORDER BY slot"
    ):
        columns.setdefault(int(number), {})[str(column)] = LoggedColumn(str(declared), slot, since)
    found = {}
    for number, name, shape in connection.execute(f"SELECT id, name, shape FROM {names.relation}"):
        its = columns.get(int(number), {})
        slots = tuple((column, entry.slot) for column, entry in its.items())
        logging = Logging(names, shape_of(str(name), json.loads(shape)), int(number), slots)
        found[str(name)] = StoredSetup(logging, its)
    return found


def shape_json(shape: TableShape, logged: Collection[str]) -> str:
    """What the triggers of a table are made from, without the columns that they do not name."""
    kept = shape.kept(logged)
    made: dict[str, Json] = {
        "columns": list(kept),
        "rowid": shape.rowid,
        "primary": list(shape.primary),
        "uniques": [unique.json() for unique in shape.uniques],
        "defaults": {column: text for column, text in shape.defaults if column in kept},
        "keys": list(shape.keys),
        "followed": [column for column in shape.followed if column in kept],
        "acted on": shape.is_acted_on,
    }
    return json.dumps(made)


def shape_of(name: str, made: Mapping[str, Json]) -> TableShape:
    columns, primary, uniques = made["columns"], made["primary"], made["uniques"]
    rowid, defaults, keys = made["rowid"], made["defaults"], made["keys"]
    followed = made.get("followed", [])
    assert isinstance(followed, list)
    assert isinstance(keys, list)
    assert isinstance(columns, list)
    assert isinstance(primary, list)
    assert isinstance(uniques, list)
    assert isinstance(defaults, dict)
    return TableShape(
        name,
        tuple(map(str, columns)),
        None if rowid is None else str(rowid),
        tuple(map(str, primary)),
        tuple(unique_of(unique) for unique in uniques),
        tuple((column, str(text)) for column, text in defaults.items()),
        tuple(map(str, keys)),
        tuple(map(str, followed)),
        bool(made.get("acted on")),
    )


def trouble_with(
    access: Access, connection: Connection, stored: StoredSetup, key: Collection[str] = ()
) -> Trouble | None:
    """Why the log of a table, or of some of its columns, cannot be trusted; None if it can.

    A `key` that rows may share is one that takes the wrong ones away.
    """
    logging = stored.logging
    name = logging.shape.name
    try:
        now = describe(access, connection, name, (), ())
    except SourceError as error:
        return Trouble(None, error.message.partition(": ")[2])
    present = _triggers(connection, logging)
    if missing := sorted(logging.triggers().keys() - present.keys()):
        return Trouble(
            None,
            f"table {name} has lost the trigger {missing[0]}: it was made anew, or somebody "
            "dropped the trigger.",
        )
    if not _is_sealed(connection, logging):
        return Trouble(
            None,
            f"the triggers of table {name} were dropped and made again: what changed meanwhile is "
            "not in the log.",
        )
    renamed = renamed_columns(logging, present, now.declared)
    if renamed is None:
        return Trouble(None, f"the triggers of table {name} were altered.")
    if not {u.renamed(renamed) for u in logging.shape.uniques}.issuperset(now.shape.uniques):
        return Trouble(None, f"table {name} has a new unique index, or a new column rowid.")
    if not {renamed.get(c, c) for c in logging.shape.followed}.issuperset(now.shape.followed):
        return Trouble(None, f"a new foreign key acts on updates of table {name}.")
    if now.shape.is_acted_on and not logging.shape.is_acted_on:
        return Trouble(None, f"a new foreign key acts on deletions from table {name}.")
    if younger := _younger(connection, logging):
        return Trouble(
            None,
            f"trigger {younger} of table {name} is younger than Headwater's, and changes the "
            "table before they can log what a REPLACE removed.",
        )
    changed = {
        column: f"renamed to {renamed[column]}"
        if column in renamed
        else f"altered from {entry.declared or 'no type'} to {now.declared.get(column, 'nothing')}"
        for column, entry in stored.columns.items()
        if column in renamed or now.declared.get(column) != entry.declared
    }
    if not changed and not is_key_kept(now, key):
        return Trouble(
            frozenset(key),
            f"table {name}: nothing in the file keeps its key ({', '.join(key)}) unique any more.",
        )
    if not changed:
        return None
    said = ", ".join(f"column {column} was {what}" for column, what in changed.items())
    return Trouble(frozenset(changed), f"table {name}: {said}.")


def follow(
    access: Access, connection: Connection, tables: Mapping[str, Table]
) -> dict[str, Followed]:
    """The relations as the log has them; SourceError if the setup does not cover them."""
    if not has_log(connection, access.names):
        raise access.error(
            f"it is not set up: {access.path} has no log of changes for this warehouse.",
            access.set_up,
        )
    known = stored_relations(connection, access.names)
    check_alone(access, connection, known.values())
    found = {}
    for name, table in tables.items():
        if name not in known:
            raise access.error(f"table {name} is not in the log.", access.set_up)
        trouble = trouble_with(access, connection, known[name], table.relation.key)
        found[name] = _followed(access, table, known[name], trouble)
    return found


def check_alone(access: Access, connection: Connection, known: Iterable[StoredSetup]) -> None:
    """BrokenLogError if somebody has put triggers on the log's own tables."""
    for name, table in foreign_triggers(connection, access.names, known):
        raise access.broken(
            f"somebody has made a trigger {name} on {table}, a table of the log itself: what it "
            "does to the log, and to those who write, is not known."
        )


def foreign_triggers(
    connection: Connection, names: Names, known: Iterable[StoredSetup]
) -> list[tuple[str, str]]:
    """Triggers on the log's own tables that no setup has made, and which table each is on."""
    made = {trigger for stored in known for trigger in stored.logging.triggers()}
    rows = connection.execute(
        "SELECT name, tbl_name FROM main.sqlite_master WHERE type = 'trigger'"
    )
    return [
        (str(name), str(table))
        for name, table in rows.fetchall()
        if names.owns(str(table).lower()) and str(name) not in made
    ]


def _followed(
    access: Access, table: Table, stored: StoredSetup, trouble: Trouble | None
) -> Followed:
    lost = frozenset(table.missing)
    if lost and (trouble is None or (trouble.columns is not None and lost - trouble.columns)):
        said = f"table {table.name} has no column {', '.join(sorted(lost))}."
        before = trouble.columns if trouble is not None else None
        trouble = Trouble(lost | (before or frozenset()), said)
    lacking = [column for column in table.stored if column not in stored.columns]
    if lacking and (trouble is None or trouble.columns is not None):
        raise access.error(
            f"column {lacking[0]} of table {table.name} is not in the log.",
            f"{access.set_up} It adds the columns that views have come to use.",
        )
    logging = stored.logging
    return Followed(logging.number, table, stored.columns, trouble, logging.unlogged())


def check_readable(
    access: Access, followed: Mapping[str, Followed], used: Mapping[str, Collection[str]]
) -> None:
    """SourceError if what is to be read does not go on in the log."""
    for name, columns in used.items():
        if name not in followed:
            raise access.error(f"there is no table {name}.", f"Make it again. {access.set_up}")
        trouble = followed[name].trouble
        if trouble is not None and not followed[name].broken.isdisjoint(map(base_of, columns)):
            raise access.error(
                trouble.reason, f"{access.set_up} Then load the views that use it anew."
            )


def _triggers(connection: Connection, logging: Logging) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger'")
    return {
        str(name): str(sql)
        for name, sql in rows
        if logging.names.number_of(str(name)) == logging.number
    }


def _is_sealed(connection: Connection, logging: Logging) -> bool:
    """Whether the triggers are those that the setup made.

    SQLite keeps triggers and views in the order in which they were made, also when it rewrites
    the file.
    """
    rows = connection.execute(
        "SELECT name FROM main.sqlite_master WHERE type IN ('trigger', 'view') ORDER BY rowid"
    )
    names = logging.names
    ours = [str(name) for (name,) in rows if names.number_of(str(name)) == logging.number]
    return bool(ours) and ours[-1] == names.seal(logging.number)


def _younger(connection: Connection, logging: Logging) -> str | None:
    """A trigger after a change of the table that fires before ours."""
    rows = connection.execute(
        "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' "
        "AND lower(tbl_name) = lower(?) ORDER BY rowid",
        (logging.shape.name,),
    ).fetchall()
    ours = False
    for name, sql in rows:
        ours = ours or logging.names.number_of(str(name)) == logging.number
        if ours and not is_ours(str(name)) and _AFTER.search(str(sql)):
            return str(name)
    return None
