"""What is read of each source: the columns that any view needs, whether it runs or not.

The change log serves every view, also one whose file was moved away for a while, or that is not
loaded by this command: a source is told to forget what has been logged, so what is left out
is gone for good. A view that is in the warehouse is known by the definition that it was loaded
with, for which no source need be asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from headwater.algebra.schema import Relation
from headwater.algebra.views import View
from headwater.errors import HeadwaterError, SourceError
from headwater.project.project import Project, open_source
from headwater.sources.contract import Source
from headwater.warehouse.warehouse import Warehouse

Columns = Mapping[str, frozenset[str]]
"""For each relation of a source, by its short name, the columns that are needed."""


def needed_columns(
    project: Project, warehouse: Warehouse, relations: Mapping[str, Iterable[Relation]]
) -> Mapping[str, Columns]:
    """For each source what the views of the project and of the warehouse look at.

    `relations` has what those sources say that could be asked. A view that is not loaded yet and
    whose sources could not all be asked needs nothing for now. A relation that no view uses is
    nobody's concern.
    """
    return columns_of([*_loaded(warehouse), *_written(project, relations)])


def loaded_columns(warehouse: Warehouse, source: str) -> Columns:
    """What the views of a source need that are loaded already."""
    return columns_of(_loaded(warehouse)).get(source, {})


def columns_of(views: Iterable[View]) -> Mapping[str, Columns]:
    """For each source what these views look at."""
    found: dict[str, dict[str, frozenset[str]]] = {}
    for view in views:
        for relation in view.relations:
            columns = found.setdefault(relation.source, {})
            known = columns.get(relation.short_name, frozenset())
            columns[relation.short_name] = known.union(view.used_columns[relation.name])
    return found


def narrowed(source: Source, columns: Columns) -> Source:
    """A source of which only these columns are read; all of them while no view is known."""
    return source.narrowed(columns) if columns else source


def narrowed_sources(project: Project, warehouse: Warehouse) -> dict[str, Source]:
    """Every source of a project as a runner reads it."""
    relations = {}
    for name, source in project.sources.items():
        with suppress(SourceError):  # whoever needs it is told when it is opened
            relations[name] = source.relations().values()
    columns = needed_columns(project, warehouse, relations)
    return {
        name: narrowed(source, columns.get(name, {})) for name, source in project.sources.items()
    }


def source_to_set_up(folder: str | Path, name: str) -> tuple[Source, list[SourceError]]:
    """A source with the columns that views need; with all of them if that cannot be told.

    With it why views cannot be followed that name tables of it: the others are nobody's concern.
    """
    source = open_source(folder, name)
    try:
        project = Project.open(folder)
        found = narrowed_sources(project, Warehouse(project.warehouse))[name]
    except HeadwaterError:
        return source, []
    refused = []
    for unit in project.units:
        try:
            if name in project.sources_of(unit):
                project.check_usable(unit)
        except SourceError as error:
            refused.append(error)
    return found, refused


def _loaded(warehouse: Warehouse) -> list[View]:
    found = []
    for name in warehouse.view_names():
        with suppress(HeadwaterError):  # one that is damaged has to be loaded anew in any case
            found.append(warehouse.view(name).definition.view)
    return found


def _written(project: Project, relations: Mapping[str, Iterable[Relation]]) -> list[View]:
    found = []
    for name in project.units:
        needs = project.sources_of(name)
        if not all(source in relations for source in needs):
            continue
        known = [relation for source in needs for relation in relations[source]]
        try:
            found.append(project.definition(name, known).view)
        except HeadwaterError:
            continue  # it is told where the view is brought up
    return found
