"""The sources that a runner reads: what they are like, which columns are read, and their feeds.

A source is read with the columns that all views need, also those whose files are gone for a
while, so that its change log holds what each of them will ask of it. More are read as soon as a
view needs them, and a source is described anew when its tables have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from headwater.algebra.schema import Relation
from headwater.algebra.views import View
from headwater.errors import (
    LostConnectionError,
    RefusedError,
    SeveralSourceError,
    SourceError,
)
from headwater.pipeline.feed import Feed
from headwater.pipeline.known_parts import KnownParts
from headwater.pipeline.repair import begin_anew, repair_source
from headwater.project.needs import Columns, loaded_columns, narrowed, needed_columns
from headwater.project.project import Project
from headwater.sources.contract import Lift, Reader, Source
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import Lease
from headwater.warehouse.warehouse import Warehouse


class FollowedSources:
    """The sources of a project for one runner. Belongs to the runner's thread."""

    def __init__(self, project: Project, warehouse: Warehouse, lease: Lease, lift: Lift) -> None:
        self.feeds: dict[str, Feed] = {}
        self.parts = KnownParts()
        """Where the parts of global transactions are, of all sources together."""
        self._project = project
        self._warehouse = warehouse
        self._lease = lease
        self._lift = lift
        self._relations: dict[str, Mapping[str, Relation]] = {}
        self._needed: Mapping[str, Columns] | None = None
        self._read: dict[str, Columns] = {}
        """Which columns of each source are read now."""
        self._described: dict[str, Mapping[str, Relation]] = {}
        """Its relations, as they were when it was last opened."""

    def relations(self, source: str) -> Mapping[str, Relation]:
        """What a source says about its relations; asked once."""
        if source not in self._relations:
            try:
                self._relations[source] = dict(self._project.sources[source].relations())
            except SeveralSourceError:
                self._relations[source] = {}  # each view is told of its own tables
        return self._relations[source]

    def relations_of(self, unit: str) -> list[Relation]:
        """What the sources of a view or group say about their relations."""
        return [r for s in self._project.sources_of(unit) for r in self.relations(s).values()]

    def ask_again(self, project: Project | None = None) -> None:
        """Ask the sources again, and find out anew what is needed of them."""
        self._project = project or self._project
        self._relations.clear()
        self._needed = None

    def read(self, source: str, view: View) -> None:
        """Have a source read, with the columns of a view and of all the others."""
        wanted = {
            relation.short_name: set(view.used_columns[relation.name])
            for relation in view.relations
            if relation.source == source
        }
        if source in self.feeds and self.feeds[source].channel.is_over:
            self.close(source)
        if source not in self.feeds:
            self._open(source)
        read = self._read[source]
        lacks = read and any(needed - read.get(name, set()) for name, needed in wanted.items())
        if lacks or self._is_altered(source, view):
            self._widen(source, sorted(wanted))

    def close(self, source: str) -> None:
        """Read a source no more."""
        feed = self.feeds.pop(source, None)
        if feed is not None:
            feed.close()

    def set_up_again(self, source: str) -> None:
        """Begin the log of a source anew, which no feed reads now."""
        narrow = narrowed(self._project.sources[source], self._columns(source))
        after = max(self._warehouse.reached(source), default=0)
        repair_source(narrow, ChangeLog(self._warehouse.changes, source), self._lease, after)

    def _is_altered(self, source: str, view: View) -> bool:
        """Whether a view's columns, or a table, are others than when the source was described."""
        described = self._described[source]
        return any(
            relation.source == source
            and not (
                relation.name in described
                and set(relation.schema.columns) <= set(described[relation.name].schema.columns)
            )
            for relation in view.relations
        )

    def _widen(self, source: str, wanted: list[str]) -> None:
        self._needed = None  # a source may have been down when it was found out
        columns = self._columns(source)
        narrow = narrowed(self._project.sources[source], columns)
        described = {r.name: r for r in narrow.relations().values()}
        self._set_up(source, narrow)
        narrow.open_load(wanted, 1).close()  # says so if the log lacks a column
        self.feeds[source].channel.widen(narrow)
        self._read[source], self._described[source] = columns, described

    def _open(self, source: str) -> None:
        log = ChangeLog(self._warehouse.changes, source)
        columns = self._logged_columns(source)
        narrow = narrowed(self._project.sources[source], columns)
        described = {r.name: r for r in narrow.relations().values()}
        log.scan()
        reached = self._warehouse.reached(source)
        if log.position and not reached:
            self._begin_anew_if_useless(narrow, log)
        needed = min(reached, default=None)
        feed = Feed(narrow, log, self._lease, self._lift, self.parts, needed)
        feed.start()
        self.feeds[source], self._read[source] = feed, columns
        self._described[source] = described

    def _logged_columns(self, source: str) -> Columns:
        """What all views need; without the new ones, if the source is not set up for them yet."""
        columns = self._columns(source)
        narrow = narrowed(self._project.sources[source], columns)
        loaded = loaded_columns(self._warehouse, source)
        if not loaded:
            self._set_up(source, narrow)
            return columns
        if all(name in loaded and found <= loaded[name] for name, found in columns.items()):
            return columns
        try:
            self._set_up(source, narrow)
            narrow.open_load(sorted(narrow.relations()), 1).close()
        except LostConnectionError:
            raise
        except SourceError:
            return loaded
        return columns

    def _set_up(self, source: str, narrow: Source) -> None:
        """Have a source log what is to be read, where its settings leave that to a runner.

        What was logged before is logged on: a setup leaves no gap.
        """
        if self._project.settings.sources[source].setup != "by run":
            return
        try:
            if narrow.setup_statements():
                narrow.setup()
        except LostConnectionError:
            raise
        except SourceError as error:
            by_hand = f"Or run 'headwater setup {source}' with the rights that it takes."
            raise SourceError(error.message, f"{error.hint} {by_hand}".strip()) from error

    def _columns(self, source: str) -> Columns:
        """What all views need of a source."""
        if self._needed is None:
            needs = self._project.needs.values()
            asked = {}
            for name in dict.fromkeys(source for needed in needs for source in needed):
                with suppress(SourceError):
                    if found := self.relations(name):
                        asked[name] = found.values()
            self._needed = needed_columns(self._project, self._warehouse, asked)
        return self._needed.get(source, {})

    def _begin_anew_if_useless(self, source: Source, log: ChangeLog) -> None:
        """A log that its source cannot go on from, and that no view needs, is no obstacle."""
        reader = Reader(self._lease.warehouse, self._lease.epoch)
        try:
            source.open_monitor(log.position, reader).close()
        except (LostConnectionError, RefusedError):
            raise
        except SourceError as error:
            begin_anew(log, self._lease, error.message)
