"""Shown changes: the rows that went and came from one version of a view to another.

Where the commits between them are still there and short, they tell it, for a view with a keyed top
by the keys that they touch; elsewhere both states are evaluated and subtracted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.totals import without_errors
from headwater.algebra.touched import Keying, shown_change
from headwater.errors import InputError
from headwater.frames.columns import Columns
from headwater.warehouse.scanning import check_memory_tells, scan_of, touched_rows
from headwater.warehouse.states import SMALL_TAIL, ViewState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.view_table import ViewTable


def changes_between(view: ViewTable, first: int, last: int | None, spark: Spark | None) -> Rows:
    """What a reader sees after one commit, or now, less what one sees after another.

    `spark` may be what gives the session; it is called only if the view is not small. Where there
    is none, all is done in memory; LeftToSparkError if that cannot be.
    """
    before, after = view.at(first), view.at(last)
    if after.number < before.number:
        return -changes_between(view, after.number, before.number, spark)
    if before.shown_schema != after.shown_schema:
        raise InputError(
            f"Versions {before.number} and {after.number} of the view {view.name} have other "
            "columns.",
            "The view was loaded anew between them: ask for changes behind that; a stream starts "
            "anew, with a new checkpointLocation.",
        )
    session = spark if not callable(spark) else None
    if callable(spark) and not (before.is_small and after.is_small):
        session = spark()
    most = None if spark is None else SMALL_TAIL
    found = _by_commits(view, before, after, session, most)
    return _shown(after, session) - _shown(before, session) if found is None else found


def _by_commits(
    view: ViewTable,
    before: ViewState,
    after: ViewState,
    spark: SparkSession | None,
    most: int | None,
) -> Rows | None:
    """The changes from what was committed in between; None if that does not tell them."""
    by = None if after.top is None else keying(after.top)
    if spark is None and after.top is not None:
        check_memory_tells(after, is_keyed=by is not None)
    if (after.top is not None and by is None) or before.commit.is_early or after.commit.is_early:
        return None
    stored = _committed(view, before, after, most)
    if stored is None or after.top is None or by is None:
        return stored
    return shown_change(after.top, by, _stored(before, stored, by, spark), stored)


def _committed(
    view: ViewTable, before: ViewState, after: ViewState, most: int | None
) -> Rows | None:
    """The sum of the commits behind one state up to another; None if they are gone or many."""
    between = range(before.number + 1, after.number + 1)
    commits = [commit for commit in view.commits() if commit.number in between]
    if len(commits) != len(between) or any(commit.kind == "load" for commit in commits):
        return None
    behind = sum(commit.rows for commit in view.commits() if commit.number > before.number)
    if most is not None and behind > most:
        return None
    found = [rows for commit, rows in view.changes(before.number) if commit.number in between]
    if len(found) != len(between):
        return None
    if after.error_column is None:
        return Rows.sum(after.schema, found)
    return without_errors(Rows.sum(found[0].schema, found), after.error_column) if found else None


def _stored(state: ViewState, change: Rows, by: Keying, spark: SparkSession | None) -> Rows:
    """What is stored, at least of the keys that a change touches."""
    if spark is None:
        return touched_rows(state, change, by) + state.tail_rows()
    from headwater.frames.frame import Frame

    return Frame.of_dataframe(state.signed(spark), state.schema, signed=True)


def _shown(state: ViewState, spark: SparkSession | None) -> Rows:
    if spark is None:
        scan = scan_of(state)
        return Columns.of_plain(scan.schema, scan.table())
    from headwater.frames.frame import Frame

    return Frame.of_dataframe(state.dataframe(spark), state.shown_schema, signed=False)
