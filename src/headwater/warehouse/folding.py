"""Folding: the tail of a view's signed log becomes part of its plain table.

On Spark only the files that rows go from are written anew; a small view is written anew whole, in
memory, where a session need not be at hand. Of a view with a top the stored parts take the tail in,
and the plain table what they show then. Of a group its own table does, and the plain tables of its
members what they show then: each in a commit of its own, behind the one that decides.

Two commits, in this order: the plain table takes the tail's sum in, then the log lets the folded
files go. Killed in between, nothing is lost or double, since readers go by commit numbers. Stored
parts are put before; they count when the plain table names them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import Top, evaluate_top
from headwater.errors import ExpressionError
from headwater.frames.arrow import COUNT
from headwater.frames.naming import named, tell
from headwater.frames.spark_types import spark_schema
from headwater.warehouse.columns import FILE, HASH
from headwater.warehouse.commits import OWN_FILES, FoldedBase, LogLine, ViewCommit
from headwater.warehouse.compaction import remove_folded
from headwater.warehouse.delta_log import OvertakenError
from headwater.warehouse.failing import before_error
from headwater.warehouse.files import (
    delete,
    read_spark,
    renewed,
    write_contents,
    write_counted,
    write_spark,
)
from headwater.warehouse.netting import Patch, summed, suspects, with_hash
from headwater.warehouse.replacing import settle
from headwater.warehouse.showing import counted, shown_patch, whole
from headwater.warehouse.states import ViewState
from headwater.warehouse.stored import names_stored, put_stored
from headwater.warehouse.table_versions import DataFile, TableVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.frames.session import Spark
    from headwater.warehouse.groups import MemberTable
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
    is_unsound: bool = True
    """Whether what was committed may be wrong, and not only a row at a source."""


Rewritten: TypeAlias = tuple[Sequence[DataFile], Sequence[DataFile]]
"""Files of a table that go, and those that come instead."""


@dataclass(frozen=True)
class _Folded:
    """What a fold does to the plain table, and what names stored parts to it, if there are any."""

    plain: Rewritten
    named: Sequence[LogLine] = ()
    members: Sequence[tuple[MemberTable, TableVersion, Rewritten]] = ()
    """Of a group, what it does to the plain tables of its members, as they are now."""


def fold(view: ViewTable, spark: Spark, runner: str) -> ViewCommit | Unfolded | None:
    settle(view)
    state = _foldable(view)
    done: ViewCommit | Unfolded | None
    with named(f"{view.name}: fold"):
        if not callable(spark):
            tell(spark)
        try:
            done = _fold_into_plain(view, state, spark, runner)
        except ExpressionError as error:
            done = _fold_before_error(view, state, error, spark, runner)
    remove_folded(view)
    return done


def _fold_before_error(
    view: ViewTable, failing: ViewState, error: ExpressionError, spark: Spark, runner: str
) -> Unfolded:
    """Fold up to the last state before the top began to fail."""

    def look(state: ViewState) -> object:
        shown = [member.of(state) for member in view.members] or [state]
        if callable(spark) and state.is_small:
            return [each.rows() for each in shown]
        session = spark() if callable(spark) else spark
        return [each.dataframe(session) for each in shown]

    state = before_error(view, failing, look)
    if not state.commit.is_early:
        _fold_into_plain(view, state, spark, runner)
    return Unfolded(
        f"The plain table of {view.name} stays at version {state.number}: at version "
        f"{failing.number} {error}",
        is_unsound=False,
    )


def _foldable(view: ViewTable) -> ViewState:
    """The newest state that can be folded.

    A top is shown only where no transaction was taken in before an earlier one: what is stored in
    between is not what is stored at any vector.
    """
    state = view.at()
    if (state.top is None and not state.of_group) or not state.commit.is_early:
        return state
    return _last_whole(view, state) or state


def _last_whole(view: ViewTable, state: ViewState) -> ViewState | None:
    """The newest state in which no transaction was taken in before an earlier one."""
    whole = next((commit for commit in view.commits() if not commit.is_early), None)
    return None if whole is None else replace(state, commit=whole)


def _fold_into_plain(
    view: ViewTable, state: ViewState, spark: Spark, runner: str
) -> ViewCommit | Unfolded | None:
    if state.base.plain == OWN_FILES:
        return None  # just loaded anew
    if state.number <= state.base.number or not _worth_folding(view, state):
        return None
    if not callable(spark):
        folded = _on_spark(view, state, spark)
    elif state.is_small:
        folded = _in_memory(view, state)
    else:
        folded = _on_spark(view, state, spark())
    if folded is None:
        # An algorithm that commits early may delete what it has not inserted yet.
        is_early = state.commit.is_early
        whole = _last_whole(view, state) if is_early else None
        if whole is not None and whole.number > state.base.number:
            return _fold_into_plain(view, whole, spark, runner)
        return Unfolded(
            f"The plain table of {view.name} stays at version {state.base.number}: at version "
            f"{state.number} some rows have a count below zero. They should be made up for soon; "
            f"if not, 'headwater reload {view.name}' helps.",
            is_unsound=not is_early,
        )
    old, new = folded.plain
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
        *folded.named,
        *(file.remove() for file in old),
        *(file.add() for file in new),
    ]
    view.log.make_durable()  # whoever has committed what is taken in may have been killed before
    try:
        if view.plain.put(version, actions, [view.plain.folder / file.name for file in new]):
            if version % CHECKPOINT_EVERY == 0:
                for table in view.bases(state.plain):
                    table.try_checkpoint()
            for member, plain, rewritten in folded.members:
                member.publish(commit, plain, rewritten)
            return commit
    except OvertakenError:
        pass
    delete(view.plain.folder, new)
    for member, _, (_, written) in folded.members:
        delete(member.plain.folder, written)
    return None


def _put_stored(view: ViewTable, state: ViewState, rewritten: Rewritten) -> list[LogLine]:
    """Bring the stored parts to their next version; what names it to the plain table."""
    old, new = rewritten
    gone = {file.name for file in old}
    files = [*(file for file in state.stored.files if file.name not in gone), *new]
    return [names_stored(put_stored(view.stored, view.name, state.schema, files, new))]


def _on_spark(view: ViewTable, state: ViewState, spark: SparkSession) -> _Folded | None:
    """Files with the tail in them; None if some count is below zero."""
    if state.of_group:
        table = _stored_on_spark(view, state, spark) if state.tail_files else ((), ())
        if table is None:
            return None
        members = _members_on_spark(view, state, spark)
        return _Folded((table[0], renewed(view.plain.folder, table[1])), members=members)
    if state.top is None:
        patch = state.patch(spark)
        below_zero, names = patch.touched(state.plain_frame_with_files(spark))
        if below_zero:
            return None
        return _Folded(_patched(view, state.plain, state.schema, patch, names, spark))
    if not state.tail_files:
        return _Folded(((), ()))
    stored = _stored_on_spark(view, state, spark)
    if stored is None:
        return None
    named = _put_stored(view, state, stored)  # at once, while its files are young
    return _Folded(_shown_on_spark(view, state, state.top, spark), named)


def _stored_on_spark(view: ViewTable, state: ViewState, spark: SparkSession) -> Rewritten | None:
    """Files of the stored parts in which the rows of the tail stand with their new counts."""
    tail = state.net_tail(spark).cache()
    try:
        hashes = with_hash(tail, state.schema).select(HASH)
        touched = suspects(state.stored_frame_with_files(spark), hashes, state.schema)
        names = frozenset(row[0] for row in touched.select(FILE).distinct().collect())
        after = summed(touched.drop(FILE).unionAll(tail), state.schema)
        if not after.where(state.is_lacking).isEmpty():
            return None
        old = _files_to_rewrite(state.stored, names)
        counted_schema = spark_schema(state.schema, COUNT)
        kept = read_spark(spark, state.stored.folder, old, counted_schema)
        changed = summed(kept.unionAll(tail), state.schema).coalesce(
            max(1, math.ceil(sum(file.size for file in old) / FILE_SIZE))
        )
        return old, write_spark(changed, state.stored.folder, view.staging, None)
    finally:
        tail.unpersist()


def _shown_on_spark(view: ViewTable, state: ViewState, top: Top, spark: SparkSession) -> Rewritten:
    """Files of the plain table with what the top shows now: only the keys that are touched, if
    it has any."""
    patch = shown_patch(state, top, spark)
    if patch is not None:
        _, names = patch.touched(state.plain_frame_with_files(spark))
        return _patched(view, state.plain, state.shown_schema, patch, names, spark)
    shown = counted(whole(state, top, spark), spark)
    new = write_contents(shown, state.shown_schema, view.plain.folder, view.staging)
    return state.plain.files, new


def _members_on_spark(
    group: ViewTable, state: ViewState, spark: SparkSession
) -> list[tuple[MemberTable, TableVersion, Rewritten]]:
    """The same for the plain tables of members; one that has still to follow does so later, from
    what is folded, and its top is only seen not to fail."""
    found = []
    for member in group.members:
        shown = member.of(state)
        if shown.is_published:
            rewritten = _shown_on_spark(member, shown, member.top, spark)
            found.append((member, shown.plain, rewritten))
        else:
            whole(shown, member.top, spark)
    return found


def _patched(
    view: ViewTable,
    table: TableVersion,
    schema: Schema,
    patch: Patch,
    names: Set[str],
    spark: SparkSession,
) -> Rewritten:
    """The files of these names, and small ones, with a patch applied to their rows."""
    old = _files_to_rewrite(table, names)
    changed = patch.applied_to(read_spark(spark, table.folder, old, spark_schema(schema))).coalesce(
        max(1, math.ceil(sum(file.size for file in old) / FILE_SIZE))
    )
    return old, write_spark(changed, table.folder, view.staging, None)


def _in_memory(view: ViewTable, state: ViewState) -> _Folded | None:
    """The same for a small view, all of whose files are written anew."""
    if not state.tail_files:
        return _Folded(((), ()))
    rows = state.signed_rows()
    if state.lacking(rows):
        return None
    if state.of_group:
        return _group_in_memory(view, state, rows)
    if state.top is None:
        new = write_contents(rows, state.schema, view.plain.folder, view.staging)
        return _Folded((state.plain.files, new))
    shown = evaluate_top(state.top, rows)
    new = write_contents(shown, state.shown_schema, view.plain.folder, view.staging)
    stored = write_counted(rows, state.schema, view.stored.folder, view.staging)
    named = _put_stored(view, state, (state.stored.files, stored))
    return _Folded((state.plain.files, new), named)


def _group_in_memory(group: ViewTable, state: ViewState, rows: Rows) -> _Folded:
    shown = [(member, evaluate_top(member.top, rows)) for member in group.members]
    table = write_counted(rows, state.schema, group.plain.folder, group.staging)
    members = []
    for member, each in shown:
        if (before := member.of(state)).is_published:
            files = write_contents(each, each.schema, member.plain.folder, group.staging)
            members.append((member, before.plain, (before.plain.files, files)))
    return _Folded((state.plain.files, table), members=members)


def _worth_folding(view: ViewTable, state: ViewState) -> bool:
    """Whether there are rows, or the vector has moved."""
    folded = view.plain_commit(state.plain)
    return bool(state.tail_files) or folded is None or folded.vector != state.commit.vector


def _files_to_rewrite(table: TableVersion, names: Set[str]) -> Sequence[DataFile]:
    """The files of these names, and the small ones if there are many."""
    small = {file.name for file in table.files if file.size < SMALL_FILE}
    if len(small) >= MANY_SMALL_FILES:
        names = names | small
    return [file for file in table.files if file.name in names]
