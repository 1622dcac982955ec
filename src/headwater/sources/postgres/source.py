"""PostgreSQL as a source: changes from a replication slot or from triggers, answers by snapshot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.errors import InputError
from headwater.sources.contract import Answers, Capture, Source, UsedColumns
from headwater.sources.postgres.answers import PostgresAnswers
from headwater.sources.postgres.capture import PostgresCapture, ServerNames
from headwater.sources.postgres.connect import Access
from headwater.sources.postgres.replication import ReplicationCapture
from headwater.sources.postgres.tables import Tables
from headwater.sources.postgres.triggers.capture import TriggerCapture

_LONGEST_NAME = 63
CAPTURES: Mapping[str, type[PostgresCapture]] = {
    "replication": ReplicationCapture,
    "triggers": TriggerCapture,
}
"""The ways in which changes can be captured, by the names that settings have for them."""


class PostgresSource(Source):
    """Some tables of one PostgreSQL database.

    `relations` are names such as `lines` or `sales.lines`; the relation is called by the last
    part. `keys` replaces primary keys. `slot` must be unique at the server; what is not named is
    named for the `owner`, a warehouse. `limit_s` bounds how long one statement may take; it is
    long, because a question that waits for a lock holds up nothing but the view that asked.
    Every `watch_s` a monitor looks whether the tables are still as they were. `changes` is one of
    CAPTURES; triggers are for servers where no slot can be had. `as_text` names columns, by
    table, that are read as what the database prints for them.
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
        changes: str = "replication",
        owner: str = "",
        as_text: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        default = default_name(name, owner)
        names = ServerNames(publication or default, slot or default, owner)
        if not re.fullmatch(rf"[a-z0-9_]{{1,{_LONGEST_NAME}}}", names.slot):
            raise InputError(
                f"Source {name}: the slot's name {names.slot!r} is not one that PostgreSQL allows.",
                f"Use up to {_LONGEST_NAME} lower-case letters, digits and underscores.",
            )
        way = CAPTURES[changes]
        access = Access(name, dsn, limit_s)
        tables = Tables(
            access,
            relations,
            keys or {},
            partitioned=way.follows_partitioned,
            as_text=as_text or {},
        )
        capture = way(tables, names, watch_s)

        def halves(columns: UsedColumns) -> tuple[Capture, Answers]:
            narrow = replace(capture, tables=tables.narrowed(columns))
            return narrow, PostgresAnswers(narrow.tables, narrow)

        super().__init__(name, halves)


def default_name(name: str, owner: str) -> str:
    """What is made at the server for a source, unless it is named."""
    suffix = f"_{owner}" if owner else ""
    default = re.sub(r"[^a-z0-9_]", "_", f"headwater_{name}".lower())
    return default[: _LONGEST_NAME - len(suffix)] + suffix
