"""What MariaDB and MySQL answer: their tables, questions, and loads, each from one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.schema import Relation
from headwater.errors import SourceError
from headwater.sources.contract import (
    Constant,
    Lift,
    Load,
    Reply,
    UsedColumns,
    Wrapper,
    as_it_is,
)
from headwater.sources.discovered import DiscoveredTable, RelationSize
from headwater.sources.mariadb.capture import MariadbCapture
from headwater.sources.mariadb.catalog import Catalog, served_columns
from headwater.sources.mariadb.connect import quoted, run, text_literal
from headwater.sources.mariadb.discovery import discover
from headwater.sources.mariadb.load import MariadbLoad
from headwater.sources.mariadb.places import PlaceSnapshot
from headwater.sources.mariadb.sizes import sizes
from headwater.sources.mariadb.standing import identity
from headwater.sources.mariadb.tables import Tables
from headwater.sources.mariadb.types import TableColumn
from headwater.sources.mariadb.wrapper import MariadbWrapper

_CAST = {"uuid": "uuid", "inet6": "inet6", "inet4": "inet4"}
_TAKEN_AS = {"time", "decimal"}


@dataclass(frozen=True)
class MariadbAnswers:
    """Answers about the tables that `capture` captures."""

    tables: Tables
    capture: MariadbCapture

    def relations(self) -> Mapping[str, Relation]:
        source = self.tables.access.source
        return {name: table.relation(source) for name, table in self.tables.now().items()}

    def discover(self) -> Sequence[DiscoveredTable]:
        with self.tables.access.connected() as connection:
            return list(discover(self.tables, connection))

    def printed(self, constants: Collection[Constant]) -> Mapping[Constant, str | None]:
        """Asked of the server, by a cast to the type of the column."""
        found: dict[Constant, str | None] = {}
        access = self.tables.access
        with self.tables.looking() as (connection, tables):
            for constant in constants:
                table = tables.get(constant.relation)
                column = table.by_name.get(constant.column) if table is not None else None
                if column is None or (kind := _castable(column)) is None:
                    continue
                asked = f"SELECT CAST({text_literal(constant.text)} AS {kind})"
                with access.errors("ask how a constant is printed"):
                    ((text,),) = run(connection, asked)
                found[constant] = None if text is None else str(column.form.read(text))
        return found

    def problems(self) -> Sequence[SourceError]:
        return self.tables.problems()

    def unusable(self) -> Mapping[str, SourceError]:
        return self.tables.unusable

    def missing_indexes(self, probes: Mapping[str, Collection[tuple[str, ...]]]) -> Sequence[str]:
        told: list[str] = []
        with self.tables.looking() as (connection, tables):
            catalogs: dict[str, Catalog] = {}
            for name, wanted in probes.items():
                table = tables[name]
                if table.database not in catalogs:
                    catalogs[table.database] = Catalog(
                        self.tables.access, connection, table.database
                    )
                served = served_columns(catalogs[table.database], table)
                for probe in dict.fromkeys(wanted):
                    if probe and served.isdisjoint(probe):
                        columns = ", ".join(_indexed(table.by_name[c]) for c in probe)
                        told.append(
                            f"CREATE INDEX {_index(probe)} ON {table.identifier} ({columns})"
                        )
        return told

    def sizes(self, columns: UsedColumns) -> Mapping[str, RelationSize]:
        with self.tables.looking() as (connection, tables):
            return sizes(self.tables.access, connection, tables, columns)

    def cautions(self) -> Sequence[str]:
        access = self.tables.access
        if not access.is_unprotected:
            return ()
        return [
            f"Source {access.source}: its connection string has no ssl_ca, so that the connection "
            "may be neither encrypted nor checked; use ssl_ca=ca.pem."
        ]

    def open_wrapper(self, lift: Lift = as_it_is) -> Wrapper:
        capture = self.capture
        return MariadbWrapper(self.tables, capture.questions, by_lock=capture.by_lock, lift=lift)

    def open_load(self, relations: Sequence[str], readers: int) -> Load:
        access, capture = self.tables.access, self.capture
        with access.connected() as connection:
            chosen = self.tables.chosen(connection, relations)
        return MariadbLoad(access, chosen, readers, capture.log, by_lock=capture.by_lock)

    def identity(self) -> str:
        with self.tables.access.connected() as connection:
            return identity(self.tables.access, connection)

    def expected_marker(self) -> str | None:
        return None

    def replied_elsewhere(self, snapshot: str, marker: str | None) -> Reply:
        found = PlaceSnapshot.parse(snapshot)
        return Reply((), found, self.capture.questions.add(found.stamp))


def _castable(column: TableColumn) -> str | None:
    """The type that a constant is cast to, to see how it is printed."""
    kind = column.declared.partition("(")[0].lower()
    if column.form.is_own:
        return None
    if kind in _CAST:
        return kind
    return column.declared if kind in _TAKEN_AS else None


def _indexed(column: TableColumn) -> str:
    """A long text is indexed by its beginning."""
    is_long = column.declared.lower().endswith(("text", "blob"))
    return quoted(column.name) + ("(64)" if is_long else "")


def _index(columns: Sequence[str]) -> str:
    return quoted(("by_" + "_".join(columns))[:60])
