"""What a view was loaded with, and by which algorithm it was maintained last."""

from __future__ import annotations

from contextlib import suppress

from headwater.errors import HeadwaterError
from headwater.project.view_files import DefinedView
from headwater.warehouse.warehouse import Warehouse


def as_it_goes_on(definition: DefinedView, warehouse: Warehouse) -> tuple[DefinedView, str | None]:
    """A view as it is stored in its table, if it has one, and the algorithm that it had last.

    What is wrong with the table is told by who opens it.
    """
    if warehouse.has_view(definition.name):
        with suppress(HeadwaterError):
            table = warehouse.view(definition.name)
            return definition.as_loaded(table.definition.kept), table.latest().algorithm
    return definition, None
