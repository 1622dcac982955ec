"""What is stored of a view and travels: all of V_A, the groups that changes touch, its first rows.

Section 4.2 of the paper. A view with groups or first rows follows changes of its relations by one
of these, beside the updategram of its rows: `updategram` is A13, A14 or A17, as what is there
allows, and `after` is the same part at the version that the change leads to (A15 for grouping
boosters). All of V_A is a grouping booster by no columns: one group, which everything touches
("auxiliary views can be thought of as boosters relevant to all updates").

Choices: with all of V_A any view can be followed that is a function of its rows, not only groups
and first rows; what such a view shows is then computed before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.sharing.errors import PreconditionError
from headwater.sharing.grouping import (
    GroupingBooster,
    a13,
    a14,
    auxiliary,
    group_columns,
    later,
    of_auxiliary,
    shown,
)
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sharing.windows import Window, first_of, window

StoredPart: TypeAlias = GroupingBooster | Window
_NOTHING = Schema(())
WINDOW_TIMES, WINDOW_LEAST = 4, 20
"""A window that is made has so many times the rows that its view needs, but not fewer than that."""


def whole(view: SharedView, versions: Versions, rows: Rows) -> GroupingBooster:
    """All that is stored of a view."""
    return GroupingBooster(view, versions, versions, Rows(_NOTHING, {(): 1}), rows)


def computed(view: SharedView, versions: Versions, state: Mapping[str, Rows]) -> GroupingBooster:
    """The same from the rows of its relations."""
    return whole(view, versions, auxiliary(view, state))


def is_whole(part: StoredPart) -> bool:
    return isinstance(part, GroupingBooster) and not part.by


def at(part: StoredPart) -> Versions:
    return part.versions if isinstance(part, Window) else part.first


def is_by_group(view: SharedView) -> bool:
    """Whether grouping boosters can be made for it."""
    try:
        return bool(group_columns(view))
    except PreconditionError:
        return False


def has_window(view: SharedView) -> bool:
    """Whether windows can be made for it."""
    try:
        first_of(view)
    except PreconditionError:
        return False
    return True


def window_of(part: GroupingBooster) -> Window:
    """A window of a usual size, from all that is stored."""
    limit, offset = first_of(part.view).limit or 0, first_of(part.view).offset
    most = max(WINDOW_LEAST, WINDOW_TIMES * (limit + offset))
    return window(part.view, part.first, part.rows, most)


def updategram(view: SharedView, change: Updategram, part: StoredPart) -> Updategram:
    """The view's updategram from that of its rows (or of its one relation) and what is stored.

    MissingContentsError if a window has run dry.
    """
    if isinstance(part, Window):
        _require_start(view, change, part)
        net = part.after(change).shown() - part.shown()
        return Updategram.of_net(view.name, change.first, change.last, net)
    if part.view != view:
        return a14(view, change, part)
    if not is_whole(part):
        return a13(view, change, part)
    _require_start(view, change, part)
    if is_by_group(view):
        return a13(view, change, replace(part, last=change.last))
    after = part.rows + of_auxiliary(view, change).net
    net = shown(view, after) - shown(view, part.rows)
    return Updategram.of_net(view.name, change.first, change.last, net)


def after(part: StoredPart, change: Updategram) -> StoredPart:
    """The same part where a change leads."""
    if isinstance(part, Window):
        return part.after(change)
    if not is_whole(part):
        return later(part, change)
    _require_start(part.view, change, part)
    rows = part.rows + of_auxiliary(part.view, change).net
    return whole(part.view, change.last, rows)


def kept(part: StoredPart) -> StoredPart | None:
    """What a node keeps for the next time: rows in memory, of first rows no more than a window.

    Nothing of a grouping booster, which is for one change, and of a window that has run dry.
    """
    match part:
        case Window():
            return part if part.suffices else None
        case GroupingBooster(view=view, rows=rows) if is_whole(part):
            in_memory = replace(part, rows=Rows(rows.schema, dict(rows.items())))
            return window_of(in_memory) if has_window(view) else in_memory
    return None


def _require_start(view: SharedView, change: Updategram, part: StoredPart) -> None:
    if at(part) != change.first:
        raise PreconditionError(
            f"What is stored of view {view.name} at ({at(part)}) does not go with an updategram "
            f"from ({change.first}).",
            "It must start exactly there.",
        )
