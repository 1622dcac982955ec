"""Unions and grouping: the rules A12 to A16, and grouping boosters.

Section 4 of the paper. What is stored of a view in the warehouse, its rows or its sums, is the
paper's auxiliary view V_A: with it alone the view follows changes. A grouping booster is the part
of it that an updategram touches: the groups whose keys some row of it has.

Choices. Printed, and not so:

- A12 for sets: a row of V1 and of V2 that is deleted from V1 only stays. With counts it holds, and
  a union of sets is what is shown of a union of multisets.
- A14: the groups that are touched do not make a coarser group up, of which others are a part too.
  The booster must have all groups with the coarser keys that are touched (`by`).
- A15: a grouping booster is the state at its first version. For a later part of its interval what
  came before is applied first.
- A16: of a group in both boosters the earlier state counts, and a group that is in the earlier one
  and was empty there must not come back from the later one. So a booster says which groups it
  covers, also where it has no rows of them.

A group is touched by rows that came and went again, too: some version in between had them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import evaluate_top
from headwater.sharing.errors import PreconditionError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

# Unions


def a12(
    view: SharedView, parts: Sequence[Updategram], ends: tuple[Versions, Versions]
) -> Updategram:
    """A12. If V = V1 u ... u Vn, then the union of mu_Vk is mu_V: with counts, added up.

    What is shown of a union of sets is a matter of the rows that are stored for it (A13).
    """
    schema, (first, last) = view.view.schema, ends
    for part in parts:
        if part.schema != schema:
            raise PreconditionError(
                f"An updategram of {part.subject} does not have the columns of view {view.name}.",
                "Give updategrams of its parts.",
            )
    inserted = Rows.sum(schema, (part.inserted for part in parts))
    deleted = Rows.sum(schema, (part.deleted for part in parts))
    return Updategram(view.name, first, last, inserted, deleted)


# What is stored of a view


def auxiliary(view: SharedView, state: Mapping[str, Rows]) -> Rows:
    """V_A: what is stored of a view over base relations."""
    return view.view.condensed(evaluate_view(view.view, state))


def shown(view: SharedView, stored: Rows) -> Rows:
    """What readers see of what is stored."""
    top = view.view.stored_top
    return stored.positive() if top is None else evaluate_top(top, stored)


def of_auxiliary(view: SharedView, change: Updategram) -> Updategram:
    """mu_{V_A} from the updategram of the view's rows, or of its one relation."""
    inserted, deleted = map(view.view.condensed, rows_of_view(view, change))
    return Updategram(view.name, change.first, change.last, inserted, deleted)


def rows_of_view(view: SharedView, change: Updategram) -> tuple[Rows, Rows]:
    """What comes and what goes in a view's rows, from their updategram or that of its relation."""
    if change.subject == view.name:
        return change.inserted, change.deleted
    if list(view.relations) != [change.subject]:
        raise PreconditionError(
            f"The updategram of {change.subject} is not yet one of view {view.name}.",
            "Join it with the other relations of the view first.",
        )
    inserted, deleted = (
        evaluate_view(view.view, {change.subject: side})
        for side in (change.inserted, change.deleted)
    )
    return inserted, deleted


def group_columns(view: SharedView) -> tuple[str, ...]:
    """The stored columns by which a view is computed group by group."""
    top = view.view.stored_top
    found = None if top is None else keying(top)
    if found is None or list(found) != [None]:
        raise PreconditionError(
            f"View {view.name} is not computed group by group.",
            "Grouping boosters are for views with GROUP BY or DISTINCT over one join.",
        )
    return found[None]


# Grouping boosters


@dataclass(frozen=True)
class GroupingBooster:
    """gamma_V(mu): what is stored at `first` of the groups that changes up to `last` touch."""

    view: SharedView
    first: Versions
    last: Versions
    groups: Rows
    """The keys that are covered, also of groups that are empty at `first`; each once."""
    rows: Rows

    def __str__(self) -> str:
        ends = f"({self.first}) to ({self.last})"
        return f"the grouping booster of {self.view.name} for {ends}"

    @property
    def by(self) -> tuple[str, ...]:
        """The stored columns that the groups are told apart by."""
        return self.groups.schema.names


def grouping_booster(
    view: SharedView, change: Updategram, stored: Rows, by: Sequence[str] = ()
) -> GroupingBooster:
    """gamma_V(mu_R) from V_A at the updategram's first version, by V's keys or by coarser ones."""
    columns = tuple(by) or group_columns(view)
    touched = of_auxiliary(view, change).touched
    groups = _groups(touched, columns)
    rows = stored.restricted(groups, columns, columns)
    return GroupingBooster(view, change.first, change.last, groups, rows)


def a13(view: SharedView, change: Updategram, booster: GroupingBooster) -> Updategram:
    """A13. mu_R x R = mu_R x V_A = mu_R x gamma_V(mu_R) = mu_V. Holds.

    For a booster that begins where the updategram does; a later part of it is A15.
    """
    _require(booster.first == change.first and change.last.precedes(booster.last), change, booster)
    return _regrouped(view, of_auxiliary(view, change), booster.rows)


def a14(wide: SharedView, change: Updategram, booster: GroupingBooster) -> Updategram:
    """A14. If W groups by fewer columns than V and has its aggregates, then
    mu_R x gamma_V(mu_R) = mu_W, provided that the booster has whole groups of W.

    Printed without that: gamma_V has the groups of V that are touched, and a group of W has others
    too. A booster that was made by W's keys has them.
    """
    _require(booster.first == change.first and change.last.precedes(booster.last), change, booster)
    columns = _columns_of(wide, booster.view)
    coarse = {columns[name] for name in group_columns(wide)}
    if not set(booster.by) <= coarse:
        raise PreconditionError(
            f"The grouping booster of view {booster.view.name} has single groups by "
            f"{', '.join(booster.by)}; a group of view {wide.name} has others too.",
            f"Use one that was made by what {wide.name} groups by.",
        )
    stored = wide.view.stored_schema
    fine = booster.rows.schema
    cut = Schema(tuple(fine.columns[fine.positions[columns[n]]] for n in stored.names))
    return _regrouped(wide, of_auxiliary(wide, change), booster.rows.only(cut).renamed(stored))


def a15(
    view: SharedView, earlier: Updategram, change: Updategram, booster: GroupingBooster
) -> Updategram:
    """A15. If i <= j < k <= l, then mu_R^{j,k} x gamma_V(mu_R^{i,l}) = mu_V^{j,k}.

    Printed without the updategram from i to j; the booster is the state at i, and where groups of
    it changed until j it says something else.
    """
    _require(
        booster.first == earlier.first
        and earlier.last == change.first
        and change.last.precedes(booster.last),
        change,
        booster,
    )
    return _regrouped(view, of_auxiliary(view, change), later(booster, earlier).rows)


def later(booster: GroupingBooster, change: Updategram) -> GroupingBooster:
    """The same booster at a later version of its interval."""
    _require(booster.first == change.first and change.last.precedes(booster.last), change, booster)
    delta = of_auxiliary(booster.view, change).net
    mine = delta_of(delta, booster.groups)
    return GroupingBooster(
        booster.view, change.last, booster.last, booster.groups, booster.rows + mine
    )


def a16(booster: GroupingBooster, other: GroupingBooster) -> GroupingBooster:
    """A16. If i < k <= j < l, then gamma_V(mu_R^{i,j}) u gamma_V(mu_R^{k,l}) = gamma_V(mu_R^{i,l}).

    Of a group that both cover, the state at i counts. One that only the later covers was not
    touched between i and k, so that its state at k is that at i. Intervals may just touch.
    """
    if (
        (booster.view, booster.by) != (other.view, other.by)
        or not booster.first.precedes(other.first)
        or not other.first.precedes(booster.last)
        or not booster.last.precedes(other.last)
    ):
        raise PreconditionError(
            f"Grouping boosters from ({booster.first}) to ({booster.last}) and from "
            f"({other.first}) to ({other.last}) do not follow each other.",
            "They must be of one view, by the same columns, and overlap or touch.",
        )
    columns = booster.by
    fresh = other.rows.restricted(booster.groups, columns, columns, anti=True)
    groups = booster.groups + other.groups.restricted(booster.groups, columns, columns, anti=True)
    return GroupingBooster(booster.view, booster.first, other.last, groups, booster.rows + fresh)


def serves(wide: SharedView, view: SharedView, by: Sequence[str]) -> bool:
    """Whether a booster of another view by these columns has whole groups of `wide` (A14)."""
    try:
        columns = _columns_of(wide, view)
        return bool(by) and set(by) <= {columns[name] for name in group_columns(wide)}
    except PreconditionError:
        return False


def delta_of(delta: Rows, groups: Rows) -> Rows:
    """The part of a change that is about some groups."""
    return delta.restricted(groups, groups.schema.names, groups.schema.names)


def _regrouped(view: SharedView, change: Updategram, before: Rows) -> Updategram:
    """What goes and what comes in what is shown of groups."""
    groups = _groups(change.touched, group_columns(view))
    there = delta_of(before, groups)
    net = shown(view, there + change.net) - shown(view, there)
    return Updategram.of_net(view.name, change.first, change.last, net)


def _groups(rows: Rows, columns: Sequence[str]) -> Rows:
    schema = Schema(tuple(rows.schema.columns[rows.schema.positions[c]] for c in columns))
    keys = (rows.positive() - rows.negative()).only(schema)
    return Rows(schema, dict.fromkeys(keys, 1))


def _columns_of(wide: SharedView, view: SharedView) -> Mapping[str, str]:
    """For each stored column of a coarser view the one of the finer view that has its values."""
    own, other = wide.view.compact, view.view.compact
    fits = _same_rows(wide, view)
    if own is not None and other is not None:
        part, finer = own.parts[None], other.parts[None]
        by_key = dict(zip(finer.keys, finer.columns, strict=True))
        fits = fits and part.slots == finer.slots and set(part.keys) <= set(by_key)
        found = {
            name: by_key.get(key, "") for key, name in zip(part.keys, part.columns, strict=True)
        }
        names = {name: found.get(name, name) for name in own.schema.names}
    else:
        fits = fits and own is other is None
        names = {name: name for name in wide.view.stored_schema.names}
    if not fits or not set(names.values()) <= set(view.view.stored_schema.names):
        raise PreconditionError(
            f"View {wide.name} does not follow from what is stored of view {view.name}.",
            "It must group by fewer of the same columns and have the same aggregates.",
        )
    return names


def _same_rows(wide: SharedView, view: SharedView) -> bool:
    """Whether the rows of a view below its top are those of another, but for columns."""
    if len(wide.view.joins) != len(view.view.joins):
        return False
    for one, other in zip(wide.view.joins, view.view.joins, strict=True):
        named = dict(zip(other.schema.names, other.outputs, strict=True))
        own = dict(zip(one.schema.names, one.outputs, strict=True))
        if (
            one.occurrences != other.occurrences
            or set(one.condition) != set(other.condition)
            or not own.items() <= named.items()
        ):
            return False
    return True


def _require(fits: bool, change: Updategram, booster: GroupingBooster) -> None:
    if not fits:
        raise PreconditionError(
            f"The grouping booster of view {booster.view.name} from ({booster.first}) to "
            f"({booster.last}) does not go with the updategram from ({change.first}) to "
            f"({change.last}).",
            "It is the state at its first version and covers changes up to its last.",
        )
