"""An error that is really there: readers keep the last state before that.

It is a row on which a top fails, or an error row (`algebra.totals`). Commits go on, since what is
stored does not fail. So does folding, up to that state. When the row
has been put right at its source, the newest state is shown again.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from headwater.errors import ExpressionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.warehouse.states import ViewState
    from headwater.warehouse.view_table import ViewTable

_QUICK = 5_000
"""So many stored rows are looked at by who only wants to know how a view stands."""

_T = TypeVar("_T")
Look: TypeAlias = "Callable[[ViewState], object]"
"""Evaluates what a state shows."""


def seen(view: ViewTable, look: Callable[[ViewState], _T], upto: int | None = None) -> _T:
    """What a look at the newest state gives, or at the last before the top failed.

    `upto` is the number of the state that is taken for the newest.
    """
    state = view.at(upto)
    try:
        return look(state)
    except ExpressionError:
        return look(before_error(view, state, look))


def before_error(view: ViewTable, failing: ViewState, look: Look) -> ViewState:
    """The last state before the one in which the top began to fail; at the least its base."""
    base = replace(failing.commit, number=failing.base.number)
    behind = [c for c in view.commits() if base.number < c.number < failing.number]
    states = [replace(failing, commit=commit) for commit in (base, *reversed(behind))]
    return states[bisect(states, False, lo=1, key=lambda state: _fails(look, state)) - 1]


def _fails(look: Look, state: ViewState) -> bool:
    try:
        look(state)
    except ExpressionError:
        return True
    return False


def failures(view: ViewTable, spark: Callable[[], SparkSession] | None = None) -> str:
    """Why what is shown of a view, or of a member of a group, is not the newest state."""
    found = (failure(each, spark) for each in view.members or (view,))
    return next(filter(None, found), "")


def failure(view: ViewTable, spark: Callable[[], SparkSession] | None = None) -> str:
    """Why what is shown is not the newest state; empty if it is, or if that would take long to
    find out: then the next fold does. `spark` is asked for what only Spark can show."""
    state = view.at()
    if not state.tail_files:
        return ""
    if state.is_left_to_spark:
        return "" if spark is None else _told(lambda: state.dataframe(spark()))
    if state.top is None and state.error_column is None:
        return ""
    if (state.tail_size if state.top is None else state.stored_size) > _QUICK:
        return ""
    return _told(state.tail_rows if state.top is None else state.rows)


def _told(look: Callable[[], object]) -> str:
    try:
        look()
    except ExpressionError as error:
        return f"Readers keep the last state before this: {error}"
    return ""
