"""Making boosters: of relations whose rows are at hand, for updategrams that are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.catalog import ListedUpdategram
from headwater.sharing.contents import Contents
from headwater.sharing.group_plans import GroupPlans
from headwater.sharing.grouping import GroupingBooster, grouping_booster
from headwater.sharing.planning import Planner
from headwater.sharing.shared_views import SharedView
from headwater.sharing.stored import has_window, is_by_group, window_of
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.windows import Window


def missing_boosters(
    planner: Planner, view: SharedView, held: Mapping[str, Contents]
) -> Iterator[Booster]:
    """The boosters of `held` relations that a view could use and nobody has published.

    Where no condition connects the relation with the one that changes, it is made through one in
    between; if nothing is known of that yet, it is left for another time.
    """
    if view.beyond_rules:
        return
    catalog = planner.catalog
    for changed in view.relations:
        there = {(b.interval, b.of) for b in catalog.boosters(changed) if b.view == view}
        for name in view.relations:
            if name == changed or name not in held:
                continue
            for listed in catalog.updategrams(changed):
                if (_interval(listed), (name,)) not in there:
                    part = _up_to(planner, view, listed, name)
                    if part is not None:
                        yield rules.a3(view, part, held[name])


def missing_stored(planner: Planner, view: SharedView) -> Iterator[GroupingBooster | Window]:
    """What of a view with groups or first rows could be used by others and nobody has published.

    A grouping booster goes on from the one before, or else from contents of the view, from which
    others start; or from as far back as rows can be had.
    """
    if view.view.top is None:
        return
    plans, there = GroupPlans(planner, view), planner.catalog.stored()
    mine = [listed for listed in there if listed.view == view]
    if has_window(view):
        newest = Versions({name: planner.catalog.newest(name) for name in view.relations})
        part = plans.whole_at(newest)
        if part is not None and all(listed.first != newest for listed in mine):
            yield window_of(part)
    elif is_by_group(view):
        starts = [listed.last for listed in mine if listed.by] or [
            listed.versions for listed in planner.catalog.contents(view.name)
        ]
        first = max(starts, key=lambda v: (sum(v.values()), str(v)), default=None)
        if first is None or (last := plans.rows_lead_to(first)) == first:
            return
        part, rows = plans.whole_at(first), planner.summed(view, first, last)
        if part is not None and rows is not None:
            change = planner.carrying_out(view).done(rows)
            yield grouping_booster(view, change, part.rows)


def _up_to(
    planner: Planner, view: SharedView, listed: ListedUpdategram, name: str
) -> Updategram | None:
    """The updategram, joined with what lies between it and a relation, if that is possible."""
    catalog, between = planner.catalog, view.between(listed.subject, name)
    if between is None:
        return catalog.load_updategram(listed)
    made = [b for b in catalog.boosters(listed.subject) if b.of == (between,)]
    versions = {catalog.newest(between), *(b.versions[between] for b in made)}
    for version in sorted(versions, reverse=True):
        plan = planner.joined(view, listed, [between], {between: version})
        if plan is not None:
            return planner.carrying_out(view).done(plan.change)
    return None


def _interval(listed: ListedUpdategram) -> Interval:
    (name,) = listed.first
    return Interval(name, listed.first[name], listed.last[name])
