"""Views that are in the warehouse and whose files are gone: what is only there for them.

Their tables at the sources go on being logged, so that a file which is away for a while misses
nothing. A table that cannot be used and that nobody else names is no mistake of the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.names import find_relation
from headwater.algebra.sql.sources import TableName
from headwater.algebra.sql.text import RefusalError
from headwater.algebra.sql.view import tables_of
from headwater.errors import HeadwaterError, SourceError
from headwater.project.project import Project
from headwater.sources.contract import Source

Leftovers = Mapping[str, tuple[TableName, ...]]
"""The tables that each of these views names."""


def leftovers(project: Project) -> Leftovers:
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    warehouse = Warehouse(project.warehouse)
    found = {}
    for name in warehouse.view_names():
        if name not in project.units and name not in project.refused:
            with suppress(HeadwaterError):  # told where the warehouse is looked at
                selects = warehouse.view(name).definition.selects
                found[name] = tuple(table for each in selects for table in tables_of(each))
    return found


def unusable_for_leftovers(
    project: Project, source: Source, left: Leftovers
) -> Iterator[tuple[SourceError, str]]:
    """Why tables cannot be used that only such views name, and the same with what to do."""
    listed = project.settings.sources[source.name].names
    named = [table for file in project.view_files.values() for table in file.tables()]
    for name, why in source.unusable().items():
        users = [view for view, tables in left.items() if _is_named(name, source.name, tables)]
        if users and name not in listed and not _is_named(name, source.name, named):
            is_one = len(users) == 1
            yield (
                why,
                f"{why.message} Only {', '.join(users)} {'uses' if is_one else 'use'} it, of which "
                f"the {'file is' if is_one else 'files are'} gone: headwater drop "
                f"{' '.join(users)}, or put {'it' if is_one else 'them'} back.",
            )


def _is_named(name: str, source: str, tables: Iterable[TableName]) -> bool:
    known = [Relation(f"{source}.{name}", source, Schema(()))]
    for table in tables:
        with suppress(RefusalError):
            find_relation(table.name, table.source, known, table.within)
            return True
    return False
