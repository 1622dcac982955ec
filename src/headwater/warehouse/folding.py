"""Folding: the tail of a view's signed log becomes part of its plain table.

On Spark only the files that rows go from are written anew; a small view is written anew whole, in
memory, where a session need not be at hand.

Two commits, in this order: the plain table takes the tail's sum in, then the log lets the folded
files go. Killed in between, nothing is lost or double, since readers go by commit numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headwater.frames.expressions import spark_schema
from headwater.warehouse.commits import OWN_FILES, FoldedBase, LogLine, ViewCommit
from headwater.warehouse.compaction import remove_folded
from headwater.warehouse.delta_log import OvertakenError
from headwater.warehouse.files import delete, read_spark, write_contents, write_spark
from headwater.warehouse.replacing import settle
from headwater.warehouse.states import ViewState
from headwater.warehouse.table_versions import DataFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.view_table import ViewTable

CHECKPOINT_EVERY = 50
FILE_SIZE = 128 * 1024 * 1024
SMALL_FILE = 8 * 1024 * 1024
MANY_SMALL_FILES = 16
"""So many small files of a plain table are rewritten together with the next fold."""


@dataclass(frozen=True)
class Unfolded:
    """Why a tail cannot be folded now; it may be later, when more has been committed."""

    reason: str


Rewritten: TypeAlias = tuple[Sequence[DataFile], Sequence[DataFile]]
"""Files of a plain table that go, and those that come instead."""


def fold(view: ViewTable, spark: Spark, runner: str) -> ViewCommit | Unfolded | None:
    settle(view)
    commit = _fold_into_plain(view, view.at(), spark, runner)
    remove_folded(view)
    return commit


def _fold_into_plain(
    view: ViewTable, state: ViewState, spark: Spark, runner: str
) -> ViewCommit | Unfolded | None:
    if state.base.plain == OWN_FILES:
        return None  # just loaded anew
    if state.number <= state.base.number or not _worth_folding(view, state):
        return None
    if not callable(spark):
        rewritten = _on_spark(view, state, spark)
    elif state.is_small:
        rewritten = _in_memory(view, state)
    else:
        rewritten = _on_spark(view, state, spark())
    if rewritten is None:
        return Unfolded(
            f"The plain table of {view.name} stays at version {state.base.number}: at version "
            f"{state.number} some rows have a count below zero. They should be made up for soon; "
            f"if not, 'headwater reload {view.name}' helps."
        )
    old, new = rewritten
    version = state.plain.version + 1
    commit = ViewCommit(
        view.name,
        state.number,
        "fold",
        runner,
        state.commit.vector,
        FoldedBase(version, state.number),
        algorithm=state.commit.algorithm,
        level=state.commit.level,
        rows=sum(file.rows for file in new),
        version=version,
    )
    actions: list[LogLine] = [
        *commit.actions(),
        *(file.remove() for file in old),
        *(file.add() for file in new),
    ]
    try:
        if view.plain.put(version, actions):
            if version % CHECKPOINT_EVERY == 0:
                view.plain.try_checkpoint()
            return commit
    except OvertakenError:
        pass
    delete(view.plain.folder, new)
    return None


def _on_spark(view: ViewTable, state: ViewState, spark: SparkSession) -> Rewritten | None:
    """Files with the tail in them; None if some count is below zero."""
    patch = state.patch(spark)
    below_zero, names = patch.touched(state.plain_frame_with_files(spark))
    if below_zero:
        return None
    old = _files_to_rewrite(state, names)
    changed = patch.applied_to(
        read_spark(spark, view.plain.folder, old, spark_schema(state.schema))
    ).coalesce(max(1, math.ceil(sum(file.size for file in old) / FILE_SIZE)))
    new = write_spark(changed, view.plain.folder, view.staging, None)
    return old, new


def _in_memory(view: ViewTable, state: ViewState) -> Rewritten | None:
    """The same for a small view, all of whose files are written anew."""
    if not state.tail_files:
        return (), ()
    rows = state.signed_rows()
    if rows.negative():
        return None
    new = write_contents(rows, state.schema, view.plain.folder, view.staging)
    return state.plain.files, new


def _worth_folding(view: ViewTable, state: ViewState) -> bool:
    """Whether there are rows, or the vector has moved."""
    folded = view.plain_commit(state.plain)
    return bool(state.tail_files) or folded is None or folded.vector != state.commit.vector


def _files_to_rewrite(state: ViewState, names: Set[str]) -> Sequence[DataFile]:
    """The plain files of these names, and the small ones if there are many."""
    small = {file.name for file in state.plain.files if file.size < SMALL_FILE}
    if len(small) >= MANY_SMALL_FILES:
        names = names | small
    return [file for file in state.plain.files if file.name in names]
