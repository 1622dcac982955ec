"""How applications tag transactions as parts of global ones in a SQLite file.

They insert a row into a table that all owners of logs share. A trigger of each owner logs it: a row
of the log in its transaction's place, and the tag under the same number. The row itself is
removed at once, so nothing is left of it. What does not fit is logged as it is and told by the
monitor: an application's statement never fails because of what it says.
"""

from __future__ import annotations

from collections.abc import Iterator

from headwater.protocol.transactions import Tag
from headwater.sources.sqlite.access import Connection
from headwater.sources.sqlite.names import TAGGING, Names

TAGGED = 5
"""The action of a row of the log that has a tag; it is of no relation."""
STATEMENT = f"INSERT INTO {TAGGING} (id, parts) VALUES ('transfer 17', 2)"


def tagging_statements(connection: Connection, names: Names, anew: bool) -> Iterator[str]:
    """What is missing so that tags are logged for an owner; `anew`, when all of it was removed."""
    rows = connection.execute("SELECT name, sql FROM main.sqlite_master").fetchall()
    there = {} if anew else {str(name): sql for name, sql in rows}
    if TAGGING not in there:
        yield f"CREATE TABLE IF NOT EXISTS {TAGGING} (id, parts)"
    if names.tag not in there:
        yield f"CREATE TABLE {names.tag} (seq INTEGER PRIMARY KEY, id, parts)"
    if there.get(names.tagged) != _trigger(names):
        yield f"DROP TRIGGER IF EXISTS {names.tagged}"
        yield _trigger(names)


def _trigger(names: Names) -> str:
    return (
        f"CREATE TRIGGER {names.tagged} AFTER INSERT ON {TAGGING} BEGIN "
        f"UPDATE {names.head} SET seq = seq + 1, nonce = random(); "
        f"INSERT INTO {names.log} (seq, nonce, relation, action) "
        f"SELECT seq, nonce, 0, {TAGGED} FROM {names.head}; "
        f"INSERT INTO {names.tag} (seq, id, parts) SELECT seq, NEW.id, NEW.parts "
        f"FROM {names.head}; "
        f"DELETE FROM {TAGGING}; END"
    )


def untagging_statements(connection: Connection, names: Names) -> Iterator[str]:
    """Remove the shared table when no other owner logs what is written there."""
    rows = connection.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (TAGGING,)
    ).fetchall()
    if all(str(name) == names.tagged for (name,) in rows):
        yield f"DROP TABLE IF EXISTS {TAGGING}"


def tags_between(connection: Connection, names: Names, after: int, upto: int) -> dict[int, Tag]:
    """The tags in a part of the log, by their numbers; none where setup has made no table."""
    known = connection.execute(
        "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?", (names.tag,)
    ).fetchone()
    if known is None:
        return {}
    rows = connection.execute(
        f"SELECT seq, id, parts FROM {names.tag} WHERE seq > ? AND seq <= ?", (after, upto)
    )
    return {int(seq): Tag.of(id_, parts) for seq, id_, parts in rows}


LOST = Tag("", 0, "somebody has removed it from the log")
