"""MariaDB and MySQL as sources: changes from the binary log, answers by snapshots in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.sources.contract import Answers, Capture, Source, UsedColumns
from headwater.sources.mariadb.answers import MariadbAnswers
from headwater.sources.mariadb.capture import MariadbCapture
from headwater.sources.mariadb.catalog import Wanted
from headwater.sources.mariadb.connect import Access
from headwater.sources.mariadb.monitor import Questions
from headwater.sources.mariadb.tables import Tables


class MariadbSource(Source):
    """Some tables of a MariaDB or MySQL server.

    `relations` are names such as `lines` or `sales.lines`; the relation is called by the last part.
    `keys` replaces primary keys. `snapshots` says how the place of a snapshot is known: by the
    server's `status`, or by a `lock`; of MySQL always by a lock. `limit_s` bounds how long one
    statement may take. `as_text` names columns, by table, that are read as printed.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        relations: Sequence[str],
        keys: Mapping[str, Sequence[str]] | None = None,
        *,
        kind: str = "mariadb",
        snapshots: str = "status",
        limit_s: float = 3600.0,
        owner: str = "",
        as_text: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        access = Access(name, kind, dsn, limit_s)
        wanted = Wanted(tuple(dict.fromkeys(relations)), keys or {}, as_text or {})
        by_lock = kind == "mysql" or snapshots == "lock"
        capture = MariadbCapture(Tables(access, wanted), owner, Questions(), by_lock)

        def halves(columns: UsedColumns) -> tuple[Capture, Answers]:
            narrow = replace(capture, tables=capture.tables.narrowed(columns))
            return narrow, MariadbAnswers(narrow.tables, narrow)

        super().__init__(name, halves)
