"""One updategram for many: what was published step by step, published as one step too (A10).

Who was away for long then takes one object instead of thousands, and less of it where rows came and
went again many times. Changes of a base relation are coalesced by its owner, those of a view by
every node that has them. The steps stay: others stand in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.errors import InputError
from headwater.sharing.catalog import ListedUpdategram
from headwater.sharing.errors import ForeignObjectError, VersionGapError
from headwater.sharing.history import updategram_between
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

if TYPE_CHECKING:
    from headwater.sharing.node import SharingNode


def coalesce(
    node: SharingNode, name: str, first: Mapping[str, int] | None = None
) -> Updategram | None:
    """Publish all changes of a relation or view as one, from a version or from the first on.

    None if that has been done, or there was one step only.
    """
    catalog = node.catalog
    if name not in (*catalog.views, *catalog.relations):
        raise catalog.unknown(name)
    if name not in catalog.views and catalog.relation(name).owner != node.name:
        raise ForeignObjectError(
            f"{name} belongs to node {catalog.relation(name).owner}.",
            "Only the owner of a relation publishes its changes; let it coalesce them.",
        )
    with catalog.store.locked():
        catalog.refresh()
        there = catalog.updategrams(name)
        if not there:
            raise VersionGapError(
                f"There is no updategram of {name}.", "Exchange with a node that has some."
            )
        end = max((u.last for u in there), key=_age)
        begin = _first_before(there, end) if first is None else Versions(first)
        if begin.keys() != there[0].first.keys():
            raise InputError(
                f"({begin}) is no version of {name}.",
                f"It has versions of {', '.join(there[0].first)}.",
            )
        if begin == end or any((u.first, u.last) == (begin, end) for u in there):
            return None
        whole = updategram_between(catalog, name, begin, end, forwards=True)
        catalog.add(whole)
    return whole


def _first_before(there: Sequence[ListedUpdategram], end: Versions) -> Versions:
    """The oldest version from which these lead to one: none leads over a hole."""
    arriving: dict[Versions, list[Versions]] = {}
    for found in there:
        arriving.setdefault(found.last, []).append(found.first)
    reached, waiting = {end}, [end]
    while waiting:
        new = [before for before in arriving.get(waiting.pop(), ()) if before not in reached]
        reached.update(new)
        waiting += new
    return min(reached, key=_age)


def _age(versions: Versions) -> tuple[int, str]:
    return sum(versions.values()), str(versions)
