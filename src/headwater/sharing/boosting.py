"""Making boosters: of relations whose rows are at hand, for updategrams that are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.catalog import Catalog, ListedUpdategram
from headwater.sharing.contents import Contents
from headwater.sharing.errors import MissingBoosterError, VersionGapError
from headwater.sharing.refresh import Copy, Refresher
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval


def missing_boosters(
    catalog: Catalog, view: SharedView, held: Mapping[str, Contents], copy: Copy
) -> Iterator[Booster]:
    """The boosters of `held` relations that a view could use and nobody has published.

    Where no condition connects the relation with the one that changes, it is made through one in
    between; if nothing is known of that yet, it is left for another time.
    """
    if view.beyond_rules:
        return
    for changed in view.relations:
        there = {(b.interval, b.of) for b in catalog.boosters(changed) if b.view == view}
        for name in view.relations:
            if name == changed or name not in held:
                continue
            for listed in catalog.updategrams(changed):
                if (_interval(listed), (name,)) not in there:
                    updategram = catalog.load_updategram(listed)
                    part = _up_to(catalog, view, updategram, name, copy)
                    if part is not None:
                        yield rules.a3(view, part, held[name])


def _up_to(
    catalog: Catalog, view: SharedView, updategram: Updategram, name: str, copy: Copy
) -> Updategram | None:
    """The updategram, joined with what lies between it and a relation, if that is possible."""
    between = view.between(updategram.subject, name)
    if between is None:
        return updategram
    listed = [b for b in catalog.boosters(updategram.subject) if b.of == (between,)]
    versions = {catalog.newest(between), *(b.versions[between] for b in listed)}
    for version in sorted(versions, reverse=True):
        try:
            refresher = Refresher(catalog, copy)
            return refresher.joined(view, updategram, [between], {between: version})
        except (VersionGapError, MissingBoosterError):
            continue
    return None


def _interval(listed: ListedUpdategram) -> Interval:
    (name,) = listed.first
    return Interval(name, listed.first[name], listed.last[name])
