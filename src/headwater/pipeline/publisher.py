"""Publishes what views do beside their maintenance, and boosters that are owed: a thread.

When that is due says the policy (see `publishing_policy`). All that is published is read from what
the warehouse has committed, so it is the same whoever publishes it: a person by hand, this runner,
or one that was replaced. The node's lock lets one of them at it at a time.

What it has to tell is read by others. Nothing that fails here stops maintenance.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.errors import BusyError, HeadwaterError
from headwater.frames.engine import Engine
from headwater.frames.naming import named
from headwater.journal import happened
from headwater.pipeline.feed import Feed
from headwater.pipeline.hearing import Hearing
from headwater.pipeline.kept_views import KeptView
from headwater.pipeline.publishing_policy import PublishingPolicy
from headwater.pipeline.share import make_owed, node_folder, open_node
from headwater.project.project import Project
from headwater.project.settings import ShareSettings
from headwater.sharing.freshness import Heard, note
from headwater.sharing.lives import offset_of, source_of
from headwater.sharing.node import SharingNode
from headwater.sharing.owed import OwedBooster, read_owed
from headwater.sharing.peers import NODE_FILE, read_description
from headwater.sharing.publishing import PublishedObjects, publish_what_can_be
from headwater.sharing.store import ObjectStore
from headwater.warehouse.warehouse import Warehouse

_LOOK_S = 0.1
_NOTHING: Mapping[str, int] = {}


@dataclass
class Published:
    """How far everything is published, as far as it is known here."""

    numbers: Mapping[str, int] | None = None
    """For each view its last commit that is published; None while that cannot be read."""
    reached: Mapping[str, int] = field(default_factory=dict)
    """For each relation the version up to which its updategrams are."""
    vectors: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    """What began anew, and what was given up, with the reasons."""
    owed: Sequence[OwedBooster] = ()
    objects: int = 0
    """How many this runner has published."""
    at: float = 0.0
    """When it last did."""


class Publisher:
    """The thread of one runner."""

    def __init__(
        self,
        project: Callable[[], Project],
        views: Callable[[], Sequence[KeptView]],
        engine: Engine,
        is_replaced: Callable[[], bool],
        feeds: Callable[[], Mapping[str, Feed]] = dict,
    ) -> None:
        self._project = project
        self._views = views
        self._engine = engine
        self._is_replaced = is_replaced
        self._settings: ShareSettings = project().settings.share
        self.retention_s = self._settings.retention
        self._warehouse = Warehouse(project().warehouse)
        self._policy = PublishingPolicy(self._settings.every)
        self._node: SharingNode | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self.published = Published()
        self._hearing = Hearing(feeds, self._settings.every)
        self._said: dict[str, float] = {}
        self._needed: dict[str, int] = {}
        self._logged = ""
        self._members: dict[str, list[str]] = {}

    def start(self) -> None:
        self._read()
        self._thread.start()
        self._hearing.start()

    def catch_up(self) -> bool:
        """Publish what there is without a rest; whether that is done, or cannot be."""
        self._policy.hurry()
        owed = [owed.source for owed in self.published.owed]
        return self._policy.is_done(self._marks(), owed)

    def finish(self, limit_s: float) -> None:
        """Publish what views have committed until now, for which there is so much time, and end.

        Boosters that are owed are made by the next runner: the sources are not followed any more.
        """
        self._stopping.set()
        self._hearing.stop()
        if self._thread.is_alive():
            self._thread.join(limit_s)

    # In the thread

    def _run(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stopping.wait(_LOOK_S)
            try:
                self._look(is_last)
            except HeadwaterError as error:
                may_pass = isinstance(error, BusyError)  # somebody publishes by hand
                self._policy.failed(str(error), time.monotonic(), may_pass)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                self._policy.failed(f"Publishing failed: {what}.", time.monotonic())
            self._log()

    def _log(self) -> None:
        """A line when something keeps it from publishing, or does so no more."""
        trouble = self._policy.trouble
        if trouble != self._logged:
            level = logging.WARNING if trouble else logging.INFO
            state = "failing" if trouble else "mended"
            happened("publisher", level, state=state, because=trouble)
        self._logged = trouble

    def _look(self, is_last: bool) -> None:
        marks = self._marks()
        if is_last:  # views that have ended have committed how far they were
            marks = {name: object() for name in marks}
            self._policy.hurry()
        self._policy.stand(marks, time.monotonic())
        due = self._policy.views_due(time.monotonic())
        if due and not self._is_replaced():
            with named("publish"):
                self._publish(due)
        if not self._is_replaced():
            self._say_how_new()
        sources = self._policy.sources_due(
            list(dict.fromkeys(owed.source for owed in self.published.owed)), time.monotonic()
        )
        if sources and not is_last and not self._is_replaced():
            self._make_boosters(sources)

    def _say_how_new(self) -> None:
        """Say up to which moment what is published is all that the sources had."""
        if self._node is None:
            return
        catalog, heard = self._node.catalog, {}
        for relation, version in self.published.reached.items():
            source = source_of(relation)
            number = version - offset_of(catalog.description, source)
            at = self._hearing.moment(source, number)
            if at is not None and at > self._said.get(relation, 0.0):
                heard[relation] = Heard(version, at)
        if heard:
            with catalog.store.locked(wait=False):
                note(catalog, heard)
            self._said |= {relation: found.at for relation, found in heard.items()}

    def _marks(self) -> dict[str, object]:
        """How each view stands that may have something to be published."""
        found: dict[str, object] = {}
        for view in self._views():
            maintainer = view.maintainer
            if maintainer is None or maintainer.table is None:
                found[view.name] = "at rest"
            else:
                found[view.name] = (maintainer, maintainer.counters.commits)
        return found

    def _publish(self, marks: Mapping[str, object]) -> None:
        began = time.monotonic()
        refused: dict[str, str] = {}
        units: dict[str, list[str]] = {}
        for unit in filter(self._warehouse.has_view, marks):
            try:
                units[unit] = self._names(unit)
            except HeadwaterError as error:  # it is damaged: no reason to leave the others
                refused[unit] = str(error)
        names = [name for shown in units.values() for name in shown]
        if names:
            node = self._opened()
            done = publish_what_can_be(
                node.catalog,
                self._warehouse,
                names,
                each_transaction=node.policy.granularity == "transaction",
                spark=self._engine.for_small,
                boosted=node.policy.boosters.wants,
                verify=not self.published.at,
                wait=False,
            )
            refused |= {
                unit: " ".join(str(done.refused[n]) for n in shown if n in done.refused)
                for unit, shown in units.items()
                if any(name in done.refused for name in shown)
            }
            self._take_note(node, done)
        self._policy.published(marks, refused, began, time.monotonic())

    def _names(self, unit: str) -> list[str]:
        """The views of a unit that are to be published: its own, or a group's members."""
        members = [member.name for member in self._warehouse.view(unit).members]
        self._members[unit] = members
        return self._known_names(unit)

    def _known_names(self, unit: str) -> list[str]:
        """The same as it was when that was looked at last."""
        names = self._members.get(unit) or [unit]
        return [name for name in names if self._settings.publishes(name)]

    def _make_boosters(self, sources: Sequence[str]) -> None:
        began = time.monotonic()
        node = self._opened()
        with named("publish: boosters"):
            made = make_owed(
                self._project(), self._warehouse, node, self.published.owed, sources, wait=False
            )
        notes = self.published.notes | made.given_up
        objects = self.published.objects + made.count
        self.published = replace(self.published, owed=made.left, notes=notes, objects=objects)
        self._policy.asked(sources, {owed.source for owed in made.left}, began, time.monotonic())

    def _opened(self) -> SharingNode:
        """The node, made if it is not there yet, with the policy that the settings ask for."""
        if self._node is None:
            self._node = open_node(self._project())
        return self._node

    def _take_note(self, node: SharingNode, done: PublishedObjects) -> None:
        known, description = self.published, node.catalog.description
        anew = {name: f"It begins anew, since {why}." for name, why in done.anew.items()}
        self.published = Published(
            dict(description.get("published", _NOTHING)),
            dict(description.get("reached", _NOTHING)),
            known.vectors | {name: dict(vector) for name, vector in done.vectors.items()},
            known.notes | anew | done.damaged,
            done.owed,
            known.objects + sum(done.counts.values()),
            time.time(),
        )
        self._needed = self._needed_of(node)

    def _needed_of(self, node: SharingNode) -> dict[str, int]:
        """For each source behind which number its change log is needed."""
        known, description = node.catalog.views, node.catalog.description
        shown = filter(self._settings.publishes, self._warehouse.shown_names())
        views = [known[name] for name in shown if name in known]
        needed: dict[str, int] = {}
        for relation in {r.name: r for view in views for r in view.known}.values():
            if (number := self.published.reached.get(relation.name)) is not None:
                number -= offset_of(description, relation.source)
                needed[relation.source] = min(number, needed.get(relation.source, number))
        for owed in self.published.owed:
            number = owed.version - offset_of(description, owed.source)
            needed[owed.source] = min(number, needed.get(owed.source, number))
        return needed

    def _read(self) -> None:
        """How far earlier runners have published, before the node itself is opened."""
        folder = node_folder(self._project()).absolute()
        if not (folder / NODE_FILE).exists():
            self.published = Published({})
            return
        try:
            description = read_description(folder / NODE_FILE)
            numbers = dict(description.get("published", _NOTHING))
            reached = dict(description.get("reached", _NOTHING))
            owed = read_owed(ObjectStore(folder))
        except HeadwaterError as error:
            self._policy.failed(str(error), time.monotonic())
            return
        self.published = Published(numbers, reached, owed=owed)
        for relation, number in reached.items():
            source = source_of(relation)
            number -= offset_of(description, source)
            self._needed[source] = min(number, self._needed.get(source, number))

    # What is not to be dropped

    def needed(self, source: str) -> int | None:
        """Behind which number a change log is needed for what is not published; None if nothing."""
        return 0 if self.published.numbers is None else self._needed.get(source)

    def number(self, unit: str) -> int | None:
        """The commit of a view up to which it is published; None if nothing of it waits.

        Of a view that was never published only the newest state is needed.
        """
        if self._policy.waits_since(unit) is None:
            return None
        if self.published.numbers is None:
            return 0
        known = (self.published.numbers.get(name) for name in self._known_names(unit))
        return min((number for number in known if number), default=None)

    # What is told

    def describe(self) -> dict[str, Any]:
        """How it stands with the node as a whole."""
        known = self.published
        return {
            "node": self._node.name if self._node is not None else None,
            "folder": str(self._settings.folder),
            "objects": known.objects,
            "at": known.at or None,
            "as_of": min(self._said.values(), default=None),
            "trouble": self._policy.trouble or None,
            "notes": [f"{name}: {why}" for name, why in known.notes.items()],
            "owed": [
                {"booster": str(owed), "source": owed.source, "why": owed.why or None}
                for owed in known.owed
            ],
        }

    def describe_view(self, unit: str) -> dict[str, Any] | None:
        """How far a view is published; None for one that is not to be."""
        names = self._known_names(unit)
        if not names:
            return None
        known, since = self.published, self._policy.waits_since(unit)
        waited = None if since is None else time.time() - (time.monotonic() - since)
        return {
            "number": min((known.numbers or {}).get(name, 0) for name in names) or None,
            "versions": known.vectors.get(names[0]),
            "waits_since": waited,
            "why": self._policy.why(unit) or None,
        }
