"""One view of a warehouse on its way into a catalog: its commits as versions and updategrams.

Only commits that stand for one number of each source count. One that holds later transactions
already (PVM commits early) is taken together with the next. So is one on which the view's top
fails, or that has an error row: what is published is what readers see, and they keep the state
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NoReturn

from headwater.algebra.rows import Rows
from headwater.algebra.totals import without_errors
from headwater.errors import ExpressionError, InputError
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog, ListedContents
from headwater.sharing.contents import Contents
from headwater.sharing.entries import Item
from headwater.sharing.errors import SharingError
from headwater.sharing.grouping import GroupingBooster
from headwater.sharing.shared_views import SharedView
from headwater.sharing.stored import kept, whole
from headwater.sharing.updategram import Updategram, composed
from headwater.sharing.versions import Versions
from headwater.sharing.windows import Window
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.failing import seen
from headwater.warehouse.states import ViewState
from headwater.warehouse.view_table import ViewTable

_KEPT_LEVELS = ("weak", "strong", "complete")


def no_spark() -> NoReturn:
    raise InputError("A view is too large to be published without Spark.", "Give a session.")


@dataclass(frozen=True)
class CommittedVersion:
    """A commit that stands for a vector, and the change since the one before.

    Where more is stored than shown, that is found out between the two versions that need it.
    """

    number: int
    versions: Versions
    change: Rows | None


@dataclass(frozen=True)
class ViewPublication:
    """A view, where it is published to and how."""

    catalog: Catalog
    definition: SharedView
    table: ViewTable
    offsets: Mapping[str, int]
    """For each source, what is added to numbers of its transactions (see `lives`)."""
    each_transaction: bool
    spark: Spark
    is_lost: bool = False
    """Whether updategrams of its relations are lost, so that peers need its contents."""
    boosted: bool = False
    """Whether what is stored of it is published too, once: with it peers follow its relations."""

    @property
    def _is_stored(self) -> bool:
        """Whether what readers see is what is stored, but for errors."""
        return self.definition.view.top is None and not self.table.definition.view.members

    def versions(self) -> list[CommittedVersion]:
        """From the commit on that was published last, or all if it is not there any more."""
        number = self._number
        if 0 < number <= self.table.latest().number:
            versions = self._versions(number - 1)
            if versions[0].number >= number and versions[0].versions in self._known:
                return versions
        return self._versions(0)

    def begins_anew(self, versions: Sequence[CommittedVersion]) -> bool:
        """Whether nothing that was published of it before leads to any of these."""
        known = self._known
        return bool(known) and not any(version.versions in known for version in versions)

    def items(self, versions: Sequence[CommittedVersion]) -> Iterable[Item]:
        """What the catalog lacks of them: contents to start from, and updategrams.

        Updategrams go on from where it is known that all are there. What a process that was killed
        has published behind that is met again, and nothing is left out between.
        """
        known = self._known
        places = [at for at, version in enumerate(versions) if version.versions in known]
        yield from self._again
        newest = versions[-1]
        if not places or self.begins_behind_a_hole:  # or so late that old commits are gone
            shown = _rows(self.table.at(newest.number), self.spark)
            yield Contents(self.definition.name, newest.versions, shown)
        yield from self._stored(versions[-1])
        goes_on = places[:1] == [0] and versions[0].number >= self._number > 0
        start = 0 if goes_on or not places else places[-1]
        borders = sorted({start, *(at for at in places if at > start), len(versions) - 1})
        if not self._is_stored:
            chosen = versions[start:] if self.each_transaction else [versions[at] for at in borders]
            yield from self._shown_steps(chosen)
            return
        for first, last in pairwise(borders):
            steps = [
                self._step(before, after, after.change)
                for before, after in pairwise(versions[first : last + 1])
                if after.change is not None
            ]
            yield from steps if self.each_transaction or not steps else [composed(steps)]

    @property
    def begins_behind_a_hole(self) -> bool:
        """Whether something that was published is lost, and its contents are published again."""
        return self.is_lost or len(self._again) < len(self._lacking) or self._lacks_contents

    @cached_property
    def _lacking(self) -> list[tuple[Versions, Versions]]:
        """From where to where nothing leads any more of what was published here of this life, and
        no contents are behind."""
        name, node = self.definition.name, self.catalog.node
        mine = [
            u for u in self.catalog.updategrams(name) if u.maker == node and self._lives(u.last)
        ]
        starts = self._own_contents
        steps = {(u.first, u.last) for u in mine}
        places = {*(end for step in steps for end in step), *(c.versions for c in starts)}
        ways = pairwise(sorted(places, key=lambda versions: sum(versions.values())))
        return [(first, last) for first, last in ways if (first, last) not in steps
                and not any(last.precedes(c.versions) for c in starts)]  # fmt: skip

    @cached_property
    def _again(self) -> list[Updategram]:
        """What can be made again of that, from the commits that are kept."""
        if not self._lacking:
            return []
        every = self._versions(0)
        at = {version.versions: place for place, version in enumerate(every)}
        found = [(at[first], at[last]) for first, last in self._lacking if {first, last} <= set(at)]
        if not self._is_stored:
            return [
                step for first, last in found
                for step in self._shown_steps([every[first], every[last]])
            ]  # fmt: skip
        made = []
        for first, last in found:
            steps = [
                self._step(before, after, after.change)
                for before, after in pairwise(every[first : last + 1])
                if after.change is not None
            ]
            made.append(composed(steps))
        return made

    @property
    def _own_contents(self) -> list[ListedContents]:
        found = self.catalog.contents(self.definition.name)
        return [c for c in found if c.maker == self.catalog.node and self._lives(c.versions)]

    @property
    def _lacks_contents(self) -> bool:
        """Whether there is nothing to begin with any more."""
        return bool(self._known) and not self._own_contents

    def _lives(self, versions: Versions) -> bool:
        """Whether they are of the life that goes on."""
        relations = self.definition.relations
        return all(at >= self.offsets[relations[name].source] for name, at in versions.items())

    @cached_property
    def _known(self) -> set[Versions]:
        """Where what was published of the view begins and ends."""
        name = self.definition.name
        known = {u.last for u in self.catalog.updategrams(name)}
        return known | {c.versions for c in self.catalog.contents(name)}

    @property
    def _number(self) -> int:
        """The commit up to which everything was published; 0 if that is not known."""
        number: int = self.catalog.description.get("published", {}).get(self.table.name, 0)
        return number

    def _stored(self, newest: CommittedVersion) -> Iterator[GroupingBooster | Window]:
        """What is stored, or a window of it, where it is small and as other nodes compute it."""
        view = self.definition
        if not self.boosted or view.view.top is None or self.table.definition.view.members:
            return
        known = [
            s for s in self.catalog.stored() if s.view == view and s.maker == self.catalog.node
        ]
        if known and not self.begins_anew([newest]):
            return
        state = self.table.at(newest.number)
        if state.is_small and not state.is_left_to_spark:
            rows = state.signed_rows()
            if rows.schema == view.view.stored_schema:
                part = kept(whole(view, newest.versions, rows))
                if part is not None:
                    yield part

    # Versions

    def _versions(self, after: int) -> list[CommittedVersion]:
        """The commits that can be published, oldest first; the first has no change."""
        found = self._stored_versions(after) if self._is_stored else self._shown_versions(after)
        if not found:
            raise SharingError(
                f"View {self.table.name} has no commit that stands for one number of each source.",
                "Publish again when the runner has gone on.",
            )
        return self._distinct(found)

    def _stored_versions(self, after: int) -> list[CommittedVersion]:
        found: list[CommittedVersion] = []
        waiting: list[Rows] = []
        stored = self.table.schema
        for commit, rows in self.table.changes(after):
            waiting.append(rows)
            versions = self._vector(commit)
            if versions is not None:
                change = self._without_errors(commit, Rows.sum(stored, waiting) if found else None)
                if change is not None:  # else until what it comes from has been corrected
                    found.append(CommittedVersion(commit.number, versions, change))
                waiting = waiting if found and change is None else []
        return found

    def _without_errors(self, commit: ViewCommit, change: Rows | None) -> Rows | None:
        """What a reader sees of a commit: a change since one without errors, or nothing for the
        first. None if there is an error in it."""
        table, name = self.table, self.table.error_column
        if name is None:
            return Rows.empty(table.schema) if change is None else change
        try:
            if change is None:
                table.at(commit.number).tail_rows()
                return Rows.empty(table.shown_schema)
            return without_errors(change, name)
        except ExpressionError:
            return None

    def _shown_versions(self, after: int) -> list[CommittedVersion]:
        """Up to the last state that readers see."""
        _, newest = seen(self.table, lambda state: (_rows(state, self.spark), state.number))
        found = []
        for commit, _ in self.table.changes(after):
            versions = self._vector(commit)
            if versions is not None and commit.number <= newest:
                found.append(CommittedVersion(commit.number, versions, None))
        return found

    def _vector(self, commit: ViewCommit) -> Versions | None:
        """The versions of relations that it stands for; None if some transactions are early."""
        if commit.level and commit.level not in _KEPT_LEVELS:
            raise SharingError(
                f"View {self.table.name} is maintained {commit.level}: its states do not belong to "
                "vectors.",
                "Share views of a higher level.",
            )
        if any(reached.also for reached in commit.vector.values()):
            return None
        relations = self.definition.relations.values()
        return Versions(
            {r.name: commit.vector[r.source].number + self.offsets[r.source] for r in relations}
        )

    def _distinct(self, found: Sequence[CommittedVersion]) -> list[CommittedVersion]:
        """Commits of one vector taken together."""
        kept: list[CommittedVersion] = []
        for version in found:
            if kept and kept[-1].versions == version.versions:
                if version.change:
                    raise SharingError(
                        f"Commits {kept[-1].number} and {version.number} of view "
                        f"{self.table.name} differ and stand for one vector.",
                        "Reload the view.",
                    )
                kept[-1] = CommittedVersion(version.number, version.versions, kept[-1].change)
            else:
                kept.append(version)
        return kept

    # Changes

    def _shown_steps(self, versions: Sequence[CommittedVersion]) -> Iterator[Updategram]:
        """What readers saw change; a version on which the top fails is passed over."""
        before, *later = versions
        for after in later:
            try:
                change = self.table.shown_changes(before.number, after.number, self.spark)
            except ExpressionError:
                continue
            yield self._step(before, after, Rows(change.schema, dict(change.items())))
            before = after

    def _step(self, before: CommittedVersion, after: CommittedVersion, change: Rows) -> Updategram:
        return Updategram.of_net(self.definition.name, before.versions, after.versions, change)


def _rows(state: ViewState, spark: Spark) -> Rows:
    """What readers see of a state; ExpressionError if its top fails."""
    if not state.is_left_to_spark:
        return state.rows()
    from headwater.frames.frame import Frame

    shown = state.dataframe(spark() if callable(spark) else spark)
    return Frame.of_dataframe(shown, state.shown_schema, signed=False).collected()
