"""How a view differs from what it should be: what is shown of it, and what is stored.

Rows are compared on Spark, or in memory where there is no session. A view without a top shows what
is stored. With one, what is stored may be wrong where nobody sees it yet, and so may the plain
table, which readers of the newest state look at only in part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.tops import evaluate_top
from headwater.algebra.views import View
from headwater.errors import TooManyRowsError
from headwater.frames.frame import Frame
from headwater.warehouse.states import ViewState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.warehouse.view_table import ViewTable

_MOST_SHOWN = 20


@dataclass(frozen=True)
class Difference:
    """Rows that differ, and where, if that is not what a reader sees."""

    missing: Rows
    extra: Rows
    place: str = ""
    member: str = ""
    """The view of a group in which they are; empty if they are not in one alone."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)


def compare(
    view: View,
    state: ViewState,
    expected: Rows,
    base: Mapping[str, Rows],
    spark: SparkSession | None,
) -> tuple[Difference, int]:
    """How what is to be stored differs from what is, and what is to be shown from what is.

    Also the number of rows that a reader sees. A row whose count is below zero a reader does not
    miss, but the next change will.
    """
    expected = expected if spark is None else Frame.of_rows(spark, expected)
    shown, number_of_rows = _shown(state, spark)
    found = _difference(view.shown(expected), shown)
    if state.top is not None:
        wanted = view.stored(expected, base)
        found = found or _difference(wanted, _stored(state, spark), "what is stored")
        based = evaluate_top(state.top, _base(state, spark))
        found = found or _difference(based, _plain(state, spark), "the plain table")
    if not found.missing and (below := -state.below_zero(_no_session if spark is None else spark)):
        found = replace(found, missing=below)
    return found, number_of_rows


def compare_group(
    group: View,
    table: ViewTable,
    state: ViewState,
    expected: Rows,
    base: Mapping[str, Rows],
    spark: SparkSession | None,
) -> tuple[Difference, int]:
    """The same for a group: what readers see of each member, then what is stored for all of them,
    then the plain tables. The number of rows is that of all members together."""
    expected = expected if spark is None else Frame.of_rows(spark, expected)
    found: Difference | None = None
    total = 0
    states = {member.name: member.of(state) for member in table.members}
    for member in group.members:
        rows, number_of_rows = _shown(states[member.name], spark)
        total += number_of_rows
        wrong = _difference(group.of_member(member).shown(expected), rows)
        found = found or replace(wrong, member=member.name)
    stored = _stored(state, spark)
    found = found or _difference(group.stored(expected, base), stored, "what is stored")
    for member in group.stored_members:
        shown = states[member.name]
        if shown.is_published:
            based = evaluate_top(member.top, _base(shown, spark))
            wrong = _difference(based, _plain(shown, spark), "the plain table")
            found = found or replace(wrong, member=member.name)
    return found, total


def _difference(expected: Rows, actual: Rows, place: str = "") -> Difference:
    wrong = expected - actual
    if isinstance(wrong, Frame):
        wrong = wrong.settled()
    return Difference(_some(wrong.positive()), -_some(wrong.negative()), place)


def _stored(state: ViewState, spark: SparkSession | None) -> Rows:
    """All that is stored, with counts below zero too."""
    if spark is None:
        return state.signed_rows()
    return Frame.of_dataframe(state.signed(spark), state.schema, signed=True)


def _base(state: ViewState, spark: SparkSession | None) -> Rows:
    """What was stored at the last fold."""
    if spark is None:
        return state.stored_rows()
    return Frame.of_dataframe(state.stored_frame(spark), state.schema, signed=True)


def _plain(state: ViewState, spark: SparkSession | None) -> Rows:
    if spark is None:
        return state.plain_rows()
    return Frame.of_dataframe(state.plain_frame(spark), state.shown_schema, signed=False)


def _no_session() -> SparkSession:
    raise TooManyRowsError("The view is too large for memory.")


def _shown(state: ViewState, spark: SparkSession | None) -> tuple[Rows, int]:
    """What a reader sees, and how many rows that is."""
    if spark is None:
        rows = state.rows()
        return rows, sum(count for _, count in rows.items())
    frame = state.dataframe(spark)
    return Frame.of_dataframe(frame, state.shown_schema, signed=False), frame.count()


def _some(rows: Rows) -> Rows:
    """Some rows, to be shown."""
    if not isinstance(rows, Frame):
        return Rows(rows.schema, dict(rows.sorted_items()[:_MOST_SHOWN]))
    few = Frame.of_dataframe(rows.dataframe.limit(_MOST_SHOWN), rows.schema, signed=True)
    return few.collected()
