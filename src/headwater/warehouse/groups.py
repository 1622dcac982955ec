"""A group of views in the warehouse: one table of what is stored, one signed log, several tops.

The group is maintained as a view without a top, whose plain table lies out of sight and holds what
is stored for all members. A member is read from that: its state is what its top makes of a state
of the group. So members that are read at one number are at one vector.

Each member also has a plain table, for others to read. Delta commits one table at a time, so these
follow the group's own table one by one; each version names the number, the vector and the version
of the group's table that it shows. Whoever comes next makes up for what a crash has left undone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.tops import Top, evaluate_top
from headwater.algebra.views import Member
from headwater.errors import EngineError, FencedError, HeadwaterError, InputError, SeveralError
from headwater.storage.location import Location
from headwater.warehouse.cleaning import HOUR, clean_published
from headwater.warehouse.commits import FoldedBase, LogLine, ViewCommit
from headwater.warehouse.delta_log import OvertakenError, is_occupied, is_table
from headwater.warehouse.failing import seen
from headwater.warehouse.files import delete, renewed, write_contents
from headwater.warehouse.folding import CHECKPOINT_EVERY, Rewritten, Unfolded
from headwater.warehouse.remaking import aside_for, remade, whole
from headwater.warehouse.replacing import settle
from headwater.warehouse.showing import counted
from headwater.warehouse.showing import whole as evaluated_whole
from headwater.warehouse.states import ViewState
from headwater.warehouse.stored import names_stored
from headwater.warehouse.table_versions import DataFile, TableVersion
from headwater.warehouse.tables import definition_of, member_table, schema_of
from headwater.warehouse.view_table import ViewTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.frames.session import Spark


class GroupTable(ViewTable):
    """A group; its plain table holds what is stored, and nobody is shown it."""

    def __init__(
        self,
        name: str,
        stored: Location,
        log: Location,
        staging: Location,
        internal: Location,
        plain_tables: Location,
    ) -> None:
        super().__init__(name, stored, stored, log, staging, internal)
        self._plain_tables = plain_tables

    @property
    def members(self) -> tuple[MemberTable, ...]:
        return tuple(
            MemberTable(self, member, self._plain_tables / member.name)
            for member in self.definition.view.stored_members
        )

    def _state(
        self, commit: ViewCommit, plain: TableVersion, log: TableVersion, base: FoldedBase
    ) -> ViewState:
        left = bool(definition_of(log).view.left_to_spark)
        state = super()._state(commit, plain, log, base)
        return replace(state, of_group=True, is_left_to_spark=left)

    def member(self, name: str) -> MemberTable:
        return next(member for member in self.members if member.name == name)

    def frames(
        self, spark: SparkSession, number: int | None = None, names: Collection[str] | None = None
    ) -> dict[str, DataFrame]:
        """What readers see of members after one commit, or now: of all of them at the same."""
        wanted = [m for m in self.members if names is None or m.name in names]

        def look(state: ViewState) -> dict[str, DataFrame]:
            return {member.name: member.of(state).dataframe(spark) for member in wanted}

        return seen(self, look) if number is None else look(self.at(number))

    def states(self, number: int | None = None) -> dict[str, Rows]:
        """The same without Spark."""
        members = self.members

        def look(state: ViewState) -> dict[str, Rows]:
            return {member.name: member.of(state).rows() for member in members}

        return seen(self, look) if number is None else look(self.at(number))

    def fold(self, spark: Spark, runner: str) -> ViewCommit | Unfolded | None:
        done = super().fold(spark, runner)
        self.follow(spark)
        return done

    def follow(self, spark: Spark) -> None:
        """Bring the plain tables of members up to the group's own, where they are not."""
        settle(self)
        state = self.at()
        failures: list[HeadwaterError] = []
        for member in self.members:
            try:
                if not member.of(state).is_published:
                    member.make_up(state, spark)
            except FencedError:
                raise  # somebody else is at work on the group
            except HeadwaterError as error:  # no reason to leave the others behind
                failures.append(error)
        if failures:
            raise failures[0] if len(failures) == 1 else SeveralError(failures)

    def follow_changes(self, spark: Spark) -> None:
        for member in self.members:
            member.follow_changes(spark)

    def trim_changes(
        self,
        changes: timedelta,
        versions: timedelta,
        spark: Spark,
        *,
        minimum_age: timedelta = HOUR,
    ) -> None:
        for member in self.members:
            member.trim_changes(changes, versions, spark, minimum_age=minimum_age)

    def clean_up(self, keep: timedelta, *, minimum_age: timedelta = HOUR) -> None:
        super().clean_up(keep, minimum_age=minimum_age)
        for member in self.members:
            with suppress(HeadwaterError):  # one that is damaged is made anew by the next fold
                clean_published(member, keep, minimum_age)


class MemberTable(ViewTable):
    """A view of a group: reads what is stored for it, and keeps its plain table."""

    def __init__(self, group: GroupTable, member: Member, plain: Location) -> None:
        log, stored = group.log.folder, group.plain.folder
        super().__init__(member.name, plain, stored, log, group.staging, group.internal)
        self.log = group.log
        self.group = group
        self.top: Top = member.top

    # Reading

    def of(self, state: ViewState) -> ViewState:
        """What a state of the group is of this member."""
        plain = self._showing(state.plain)
        return replace(
            state,
            plain=plain or TableVersion(self.plain.folder),
            stored=state.plain,
            key=(),
            top=self._top_in(state),
            of_group=False,
            is_published=plain is not None,
        )

    def _newest(self) -> ViewState:
        return self.of(self.group.at())

    def _numbered(self, number: int) -> ViewState:
        return self.of(self.group.at(number))

    def _top_in(self, state: ViewState) -> Top:
        for member in definition_of(state.log).view.stored_members:
            if member.name == self.name:
                return member.top
        raise InputError(
            f"The view {self.name} was not in the group {self.group.name} at version "
            f"{state.number}.",
            "Ask for a later version.",
        )

    def _showing(self, folded: TableVersion) -> TableVersion | None:
        """The plain table, if it shows this version of the group's: the same number and vector."""
        if not is_table(self.plain.folder):
            return None
        with suppress(HeadwaterError):  # one that is damaged shows nothing
            plain = self.plain.snapshot()
            if all(plain.transaction(app) == at for app, at in folded.transactions.items()):
                return plain
        return None

    # The plain table

    def fold(self, spark: Spark, runner: str) -> ViewCommit | Unfolded | None:
        """The whole group is folded: members move together."""
        return self.group.fold(spark, runner)

    def publish(self, commit: ViewCommit, before: TableVersion, rewritten: Rewritten) -> bool:
        """Let the plain table follow a fold of the group; False if somebody else was quicker."""
        old, new = rewritten[0], renewed(self.plain.folder, rewritten[1])
        actions = [
            *self._naming(commit, before.version + 1),
            *(file.remove() for file in old),
            *(file.add() for file in new),
        ]
        return self._put(before.version + 1, actions, new)

    def make_up(self, state: ViewState, spark: Spark) -> None:
        """Let the plain table show what is folded of the group, whatever it shows now."""
        commit = self.group.plain_commit(state.plain)
        if commit is None:
            raise EngineError(
                f"The table of the group {self.group.name} has lost the entry of its last fold.",
                f"Load the group anew with 'headwater reload {self.group.name}'.",
            )
        folded = replace(self.of(state), commit=replace(commit, number=state.base.number))
        schema = self.top.schema
        contents = _contents(folded, self.top, spark)
        before = whole(self.plain)
        folder = self.plain.folder
        if not before.number if before else is_occupied(folder) and not is_table(folder):
            raise in_the_way(folder, self.name)
        if before is None:
            self._make(commit, schema, contents)
            return
        if self.group.plain.snapshot().number != commit.number:
            return  # somebody else has folded further
        files = write_contents(contents, schema, self.plain.folder, self.staging)
        columns = [] if schema_of(before) == schema else self._columns(schema, before)
        actions = [
            *self._naming(commit, before.version + 1),
            *columns,
            *(file.remove() for file in before.files),
            *(file.add() for file in files),
        ]
        self._put(before.version + 1, actions, files)

    def _make(self, commit: ViewCommit, schema: Schema, contents: Rows | DataFrame) -> None:
        with aside_for(self.plain.folder, self.staging) as aside:
            files = write_contents(contents, schema, aside, self.staging)
            version = self.plain.first_version()
            made = [*self._naming(commit, version), *self._columns(schema)]
            actions = [*made, *(file.add() for file in files)]
            self.plain = remade(self.plain, version, aside, actions, self.staging)

    def _columns(self, schema: Schema, before: TableVersion | None = None) -> list[LogLine]:
        return member_table(self.name, self.group.name, schema, before)

    def _naming(self, commit: ViewCommit, version: int) -> list[LogLine]:
        """What a version says that shows a commit: its number, its vector, where it is folded."""
        base = FoldedBase(version, commit.number)
        mine = replace(commit, view=self.name, version=version, base=base)
        return [*mine.actions(), names_stored(commit.version)]

    def _put(self, version: int, actions: Sequence[LogLine], new: Sequence[DataFile]) -> bool:
        with suppress(OvertakenError):
            if self.plain.put(version, actions, [self.plain.folder / file.name for file in new]):
                if version % CHECKPOINT_EVERY == 0:
                    self.plain.try_checkpoint()
                return True
        delete(self.plain.folder, new)
        return False


def in_the_way(folder: Location, view: str) -> InputError:
    return InputError(
        f"The folder {folder} is in the way of the view '{view}'.",
        "It was not made by Headwater: move it away, or give the view another name.",
    )


def _contents(state: ViewState, top: Top, spark: Spark) -> Rows | DataFrame:
    """What a top shows of what is folded, in memory if that is small."""
    if callable(spark):
        if state.is_small:
            return evaluate_top(top, state.stored_rows())
        spark = spark()
    return counted(evaluated_whole(state, top, spark), spark)
