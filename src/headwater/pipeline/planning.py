"""How a view is to be maintained, from its file and from what its sources say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headwater.algebra.schema import Relation
from headwater.algebra.sql.view import normalised
from headwater.algorithms.registry import ALGORITHMS
from headwater.costs.recomputing import recomputes
from headwater.errors import HeadwaterError, InputError
from headwater.pipeline.plan import Plan, Ticks
from headwater.project.differences import cannot_be_relied_on, describe_difference
from headwater.project.loaded import as_it_goes_on
from headwater.project.project import Project
from headwater.warehouse.warehouse import Warehouse, refuse_own

_TICKS: dict[str, Ticks] = {"period": "by clock", "query": "when asked"}
"""By the parameter `refresh` of an algorithm that has one."""


def plan_view(
    project: Project, warehouse: Warehouse, view: str, relations: Iterable[Relation], anew: bool
) -> Plan:
    """InputError if its file does not fit its table, unless that is to be made anew."""
    definition, running = project.definition(view, relations), None
    if not anew:
        definition, running = as_it_goes_on(definition, warehouse)
    stored = definition.stored
    narrow = definition.view.narrowed()
    try:
        choice = project.choose(replace(definition, view=narrow), running)
    except InputError:
        project.choose(definition, running)  # tells of keys that the view does not look at
        raise
    for member in narrow.members:
        refuse_own(warehouse, member.name, view)
    if not anew and warehouse.has_view(view):
        table = warehouse.view(view)
        difference = describe_difference(table.definition, stored) or cannot_be_relied_on(
            table.latest(), definition.file.level
        )
        if difference is not None:
            raise InputError(difference)
    return Plan(
        narrow,
        choice.manager,
        choice.algorithm,
        str(definition.file.level),
        stored,
        definition.file.refresh_every,
        project.publish_every(view),
        definition.file.changes,
        choice.parameters,
        _TICKS.get(choice.parameters.get("refresh", ""), "when quiet"),
        recomputes(definition.file.recompute, definition.file.level),
        ALGORITHMS[choice.algorithm].waits and not definition.file.algorithm,
    )


def is_as_loaded(project: Project, warehouse: Warehouse, view: str) -> bool:
    """Whether a view's file is as it was when the view was loaded."""
    if not warehouse.has_view(view):
        return False
    try:
        stored = warehouse.view(view).definition
    except HeadwaterError:
        return True  # its table is damaged: that is told where it is brought up
    relations = [each.relation for each in stored.relations]
    try:
        now = tuple(normalised(file.whole(relations)) for file in project.files_of(view))
    except HeadwaterError:
        return False  # its mediated relations are described by other tables
    return stored.selects == now
