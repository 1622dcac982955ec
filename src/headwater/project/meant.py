"""Which tables of a source are meant, where its settings leave that to the views.

A source whose settings list no relations has those that views name; one with patterns, such as
`sales.*`, those of them that match. Views count whose files are there, and views that are loaded:
a file may be gone for a while. No source is asked: a table that is not there is told by `check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.names import find_relation
from headwater.algebra.sql.sources import TableName
from headwater.algebra.sql.text import QuotedName, RefusalError, means
from headwater.algebra.sql.view import tables_of
from headwater.errors import HeadwaterError
from headwater.sources.settings import SourceSettings
from headwater.storage.location import Location

Sources = Mapping[str, SourceSettings]


def known_relations(sources: Sources) -> list[Relation]:
    """What the settings say of relations: their names, and where they are."""
    return [
        Relation(f"{source}.{name}", source, Schema(()), within=place)
        for source, settings in sources.items()
        for name, place in zip(settings.names, settings.places, strict=True)
    ]


def meant(
    sources: Sources, tables: Iterable[TableName], warehouse: Location
) -> dict[str, SourceSettings]:
    """The settings of every source with the relations that are meant."""
    left_open = [name for name, settings in sources.items() if settings.is_open]
    if not left_open:
        return dict(sources)
    known = known_relations(sources)
    named: dict[str, list[tuple[str, str]]] = {name: [] for name in left_open}
    for table in (*_loaded(warehouse), *tables):
        if not _is_listed(table, known):
            source, within = _place(table, sources, left_open)
            if source in named:
                name = QuotedName(table.name) if table.is_quoted else table.name
                place = QuotedName(within) if within and table.is_place_quoted else within
                named[source].append((place, name))
    return {
        name: settings.meaning(named[name]) if name in named else settings
        for name, settings in sources.items()
    }


def _is_listed(table: TableName, known: list[Relation]) -> bool:
    with suppress(RefusalError):
        find_relation(table.name, table.source, known, table.within)
        return True
    return False


def _place(table: TableName, sources: Sources, left_open: list[str]) -> tuple[str, str]:
    """The source and the part of its database that a table is in; no source if that is not told."""
    for name in sources:
        if table.source and means(table.source, name):
            return name, table.within
    return (left_open[0], table.source) if len(left_open) == 1 and not table.within else ("", "")


def _loaded(warehouse: Location) -> Iterator[TableName]:
    """The tables that loaded views name."""
    if not warehouse.is_folder():
        return
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    with suppress(HeadwaterError):
        views = Warehouse(warehouse)
        for name in views.view_names():
            with suppress(HeadwaterError):
                for select in views.view(name).definition.selects:
                    yield from tables_of(select)
