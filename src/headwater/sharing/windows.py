"""Windows: the first rows of a view, more of them than it shows, refilled from larger ones.

Section 4.2 of the paper, after K. Yi et al., Efficient Maintenance of Materialized Top-k Views
(2003): the auxiliary view of a top-k view is a top-k' view. Each deletion may take a row from the
window; when fewer than k are left, it is refilled from a peer's larger window, or from the rows.

Choices. Which rows a window has is told by its bound, the last place in the order up to which it
has every row: the number of rows changes with every change, the bound does not. Rows beyond it
that come are not kept, for others beyond it are not known. Rule A17, printed as an equality, holds
as long as the larger window has not run dry itself; then it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.order import Order, order_key
from headwater.algebra.rows import Rows
from headwater.algebra.tops import (
    First,
    Part,
    Project,
    Select,
    Top,
    evaluate_top,
    inputs_of,
    with_inputs,
)
from headwater.algebra.values import Row, sort_key
from headwater.sharing.errors import MissingContentsError, PreconditionError
from headwater.sharing.grouping import rows_of_view
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions


@dataclass(frozen=True)
class Window:
    """All rows of a view's order up to `bound`, at `versions`; without a bound, all there are."""

    view: SharedView
    versions: Versions
    rows: Rows
    bound: Row | None

    def __str__(self) -> str:
        return f"the window of {self.view.name} at ({self.versions})"

    @property
    def size(self) -> int:
        return sum(count for _, count in self.rows.items())

    @property
    def wanted(self) -> int | None:
        """How many rows the view needs to be shown."""
        first = first_of(self.view)
        return None if first.limit is None else first.limit + first.offset

    @property
    def suffices(self) -> bool:
        """Whether what the view shows is in it."""
        return self.bound is None or (self.wanted is not None and self.size >= self.wanted)

    def shown(self) -> Rows:
        """What readers see; MissingContentsError if the window has run dry."""
        if not self.suffices:
            raise MissingContentsError(
                f"The window of view {self.view.name} has {self.size} rows left and needs "
                f"{self.wanted}.",
                "Refill it from a larger window, or from the rows of its relations.",
            )
        return evaluate_top(_above(self.view), self.rows)

    def after(self, change: Updategram) -> Window:
        """The window after a change of the view's one relation, or of its rows."""
        if change.first != self.versions:
            raise PreconditionError(
                f"An updategram from ({change.first}) does not apply to a window at "
                f"({self.versions}).",
                "It must start exactly where the window stands.",
            )
        delta = _ordered_rows(self.view, change)
        return replace(self, versions=change.last, rows=self.rows + self._within(delta))

    def refilled(self, larger: Window, most: int) -> Window:
        """The window with up to so many rows, from a larger one of the same version."""
        if larger.versions != self.versions or _order(larger.view) != _order(self.view):
            raise PreconditionError(
                f"A window of view {larger.view.name} at ({larger.versions}) does not refill one "
                f"of view {self.view.name} at ({self.versions}).",
                "Both must be in one order over the same rows, and at one version.",
            )
        if larger.bound is not None and larger.size < most:
            raise MissingContentsError(
                f"The window of view {larger.view.name} has {larger.size} rows left, and "
                f"{most} are asked for.",
                "Ask a node with a larger one, or with the rows of the relations.",
            )
        return _cut(self.view, self.versions, larger.rows, most, larger.bound)

    def _within(self, delta: Rows) -> Rows:
        if self.bound is None:
            return delta
        key = _place(self.view)
        last = key(self.bound)
        kept = {row: count for row, count in delta.items() if not last < key(row)}
        return Rows(delta.schema, kept)


def window(view: SharedView, versions: Versions, stored: Rows, most: int) -> Window:
    """The first rows of what a view has stored, so many of them."""
    rows = evaluate_top(first_of(view).input, stored)
    return _cut(view, versions, rows, most, None)


def a17(view: SharedView, change: Updategram, mine: Window, larger: Window) -> Updategram:
    """A17. If V and W are top-k queries and V_A is contained in W_A, then
    mu_R x gamma_W(mu_R) = mu_{V_A}: a window follows a change and is full again.

    Holds for windows of one version, while W_A has enough rows itself.
    """
    after = mine.after(change).refilled(larger.after(change), mine.size)
    net = after.rows - mine.rows
    return Updategram.of_net(view.name, change.first, change.last, net)


def first_of(view: SharedView) -> First:
    """Where a view takes its first rows; PreconditionError if it is no such view."""
    found = view.view.top
    while isinstance(found, Project):
        found = found.input
    if isinstance(found, First) and found.limit is not None and _is_row_by_row(found.input):
        return found
    raise PreconditionError(
        f"View {view.name} does not show the first of its rows.",
        "Windows are for views with ORDER BY and LIMIT over a join.",
    )


def shown_order(view: SharedView) -> tuple[Order, ...]:
    """By which of its columns a view with first rows is in order, as far as it shows these."""
    top, names = view.view.top, {name: name for name in view.schema.names}
    while isinstance(top, Project):
        outputs = zip(top.schema.names, top.outputs, strict=True)
        names = {
            output.name: names[name]
            for name, output in outputs
            if isinstance(output, ColumnRef) and name in names
        }
        top = top.input
    order = top.order if isinstance(top, First) else ()
    known = takewhile(lambda one: one.column in names, order)
    return tuple(replace(one, column=names[one.column]) for one in known)


def _is_row_by_row(top: Top) -> bool:
    while isinstance(top, Project | Select):
        top = top.input
    return isinstance(top, Part)


def _ordered_rows(view: SharedView, change: Updategram) -> Rows:
    """The change of the rows that are put in order."""
    inserted, deleted = rows_of_view(view, change)
    below = first_of(view).input
    return evaluate_top(below, inserted) - evaluate_top(below, deleted)


def _cut(view: SharedView, versions: Versions, rows: Rows, most: int, bound: Row | None) -> Window:
    """The first of these rows, which are all up to `bound`."""
    found: dict[Row, int] = {}
    left = most
    for row in sorted(rows, key=_place(view)):
        if left <= 0:
            last = max(found, key=_place(view), default=None)
            return Window(view, versions, Rows(rows.schema, found), last)
        found[row] = rows.count(row)  # equal rows have one place, and are in together
        left -= found[row]
    return Window(view, versions, Rows(rows.schema, found), bound)


def _order(view: SharedView) -> object:
    first = first_of(view)
    return list(view.relations), first.input, first.order


def _place(view: SharedView) -> Callable[[Row], Any]:
    """Where a row stands in the order, which all columns complete."""
    first = first_of(view)
    by_order = order_key(first.schema, first.order)
    return lambda row: (by_order(row), sort_key(row))


def _above(view: SharedView) -> Top:
    """What is done with the rows in order: the view's top over them."""
    first = first_of(view)

    def over(top: Top) -> Top:
        if top == first:
            whole = Part(first.schema.names, first.schema)
            return replace(first, input=whole)
        return with_inputs(top, tuple(map(over, inputs_of(top))))

    assert view.view.top is not None
    return over(view.view.top)
