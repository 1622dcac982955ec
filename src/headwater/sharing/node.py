"""A node: what it owns and holds, and what it does with what it knows.

A node owns base relations and publishes their updategrams, holds views, publishes boosters of
what it holds, exchanges objects with nodes that it meets, and answers questions about the
present and the past. All that is in one folder. What it does of its own accord says its policy.

Every step writes immutable objects first and then replaces what the node holds, so a process
that is killed anywhere can be started again and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows, show_row
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import parse_type
from headwater.errors import InputError
from headwater.sharing.answering import Answering, Way
from headwater.sharing.asking import Asking
from headwater.sharing.booster import Booster
from headwater.sharing.boosting import missing_boosters, missing_stored
from headwater.sharing.carrying_out import DryWindowError, Lift
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import address_of, decode, encode
from headwater.sharing.engines import StartSpark, lift_for, start_spark
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import (
    DamagedObjectError,
    MissingContentsError,
    UnknownNameError,
    VersionGapError,
)
from headwater.sharing.exchange import Copied, copy
from headwater.sharing.fetching import take_from
from headwater.sharing.following import catch_up
from headwater.sharing.freshness import heard_from, note, say
from headwater.sharing.grouping import GroupingBooster, shown
from headwater.sharing.history import contents_at, relation_between
from headwater.sharing.limits import Limits
from headwater.sharing.mediating import mediated_answer
from headwater.sharing.offers import Offering
from headwater.sharing.peers import NODE_FILE, Peer, place_of
from headwater.sharing.plan_costs import Speeds
from headwater.sharing.planning import Planner, ViewPlan
from headwater.sharing.policies import Moment, Policy, is_due, policy_from_json, policy_to_json
from headwater.sharing.shared_views import SharedView
from headwater.sharing.store import Envelope, shared_object
from headwater.sharing.stored import StoredPart, computed, kept
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sharing.windows import Window
from headwater.storage.location import Location

Tuples = Iterable[Sequence[object]]
AnyBooster = TypeVar("AnyBooster", Booster, GroupingBooster | Window)


@dataclass(frozen=True)
class Advanced:
    """How a view came from one vector to another; without an updategram it was there already."""

    view: str
    first: Versions
    last: Versions
    updategram: Updategram | None
    boosters: tuple[str, ...] = ()
    """Addresses of the boosters that were used."""
    copies: tuple[str, ...] = ()
    """Base relations whose rows were asked because no booster was cheaper."""
    plan: ViewPlan | None = None


class SharingNode:
    """One participant of a data sharing system, in a folder of its own."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.policy = _policy_of(catalog)
        self.speeds = Speeds()
        self.start_spark: StartSpark = start_spark
        """For plans of very many rows."""

    @classmethod
    def create(
        cls,
        folder: Path | str,
        name: str,
        system: str = "shared",
        policy: Policy | None = None,
        *,
        durable: bool = True,
    ) -> SharingNode:
        """A new node in an empty folder; nodes that exchange objects are of one system."""
        chosen = policy_to_json(policy or Policy())
        return cls(Catalog.create(folder, name, system, durable=durable, policy=chosen))

    @classmethod
    def open(cls, folder: Path | str, *, durable: bool = True) -> SharingNode:
        return cls(Catalog.open(folder, durable=durable))

    @property
    def name(self) -> str:
        return self.catalog.node

    def require_named(self, name: str = "", system: str = "") -> None:
        """InputError if this node is called otherwise than somebody says."""
        for what, given, known in (
            ("node", name, self.name),
            ("system", system, self.catalog.system),
        ):
            if given and given != known:
                of = "is called" if what == "node" else "belongs to the system"
                raise InputError(
                    f"The node in {self.catalog.store.folder} {of} '{known}', not '{given}'.",
                    f"Leave out --{what}, or have a node made in another folder, with --catalog.",
                )

    def set_policy(self, policy: Policy) -> None:
        with self.catalog.store.locked():
            self.catalog.describe(policy=policy_to_json(policy))
        self.policy = policy

    # What it holds

    def held(self, name: str) -> Contents | None:
        """The view, or the copy of a relation, that this node holds."""
        path = self.catalog.store.held().get(name)
        if path is None:
            return None
        found = decode(self.catalog.store.read_held(path), shared_object(path))
        if not isinstance(found, Contents) or found.subject != name or not self._fits(found):
            what = found.subject if isinstance(found, Contents) else "something else"
            raise _not_what_is_held(path, name, what)
        return found

    def _fits(self, held: Contents) -> bool:
        """Whether it has the columns and versions that what has its name has here."""
        view = self.catalog.views.get(held.subject)
        if view is not None:
            return held.schema == view.schema and set(held.versions) == set(view.relations)
        entry = self.catalog.relations.get(held.subject)
        return entry is None or held.schema == entry.relation.schema

    def holdings(self) -> dict[str, Contents]:
        return {
            name: found
            for name in self.catalog.store.held()
            if (found := self.held(name)) is not None
        }

    def stored(self, name: str) -> StoredPart | None:
        """What this node keeps as stored of a view that it holds: all of it, or a window."""
        path = self.catalog.store.stored(name)
        if path is None:
            return None
        found = decode(self.catalog.store.read_held(path), shared_object(path))
        if not isinstance(found, GroupingBooster | Window) or found.view != self.catalog.view(name):
            raise DamagedObjectError(
                f"{shared_object(path)} is not what is stored of view {name}.",
                "Delete the file; it is made anew when it is needed.",
            )
        return found

    def _hold(self, contents: Contents, stored: StoredPart | None = None) -> None:
        """What is stored comes first: at another version than the view it is taken on by plans."""
        if stored is not None:
            self.catalog.store.hold_stored(contents.subject, *self._enveloped(stored))
        self.catalog.store.hold(contents.subject, *self._enveloped(contents))

    def _enveloped(self, item: Item) -> tuple[Envelope, bytes]:
        content = encode(item)
        return Envelope(self.catalog.system, self.name, address_of(content)), content

    # Base relations

    def own(
        self,
        name: str,
        columns: Mapping[str, str] | Schema,
        rows: Tuples | Rows = (),
        *,
        key: Sequence[str] = (),
        version: int = 0,
        publish: bool = False,
    ) -> Contents:
        """Own a base relation from now on; its rows are this version.

        With `publish` its contents are given to other nodes too, whole.
        """
        schema = columns if isinstance(columns, Schema) else _schema(name, columns)
        if missing := [column for column in key if column not in schema.positions]:
            raise InputError(
                f"{name} has no column {missing[0]}.", "Its key must be among its columns."
            )
        relation = Relation(name, self.name, schema, tuple(key))
        contents = Contents.of_relation(
            name, version, rows if isinstance(rows, Rows) else _rows(name, schema, rows)
        )
        _check_key(relation, contents.rows)
        with self.catalog.store.locked():
            self.catalog.refresh()
            if name in self.catalog.store.held():
                raise InputError(f"Node {self.name} owns {name} already.", "Update it instead.")
            self.catalog.add(RelationEntry(relation, self.name))
            self._hold(contents)
            if publish:
                self.catalog.add(contents)
                say(self.catalog)
        return contents

    def update(
        self,
        name: str,
        *,
        inserted: Tuples = (),
        deleted: Tuples = (),
        modified: Iterable[tuple[Sequence[object], Sequence[object]]] = (),
    ) -> Updategram:
        """Change a relation of this node's own and publish the updategram to its next version."""
        entry = self.catalog.relation(name)
        if entry.owner != self.name:
            raise InputError(
                f"{name} belongs to node {entry.owner}.", "Only its owner changes a relation."
            )
        with self.catalog.store.locked():
            self.catalog.refresh()
            before = self._current(name)
            version = before.versions[name]
            try:
                updategram = Updategram.of_relation(
                    name,
                    entry.relation.schema,
                    version,
                    version + 1,
                    inserted=inserted,
                    deleted=deleted,
                    modified=modified,
                )
            except ValueError as error:
                raise InputError(f"{name}: {error}.", "Give rows of the relation.") from None
            after = before.after(updategram)
            _check_key(entry.relation, after.rows)
            self.catalog.add(updategram)
            self._hold(after)
            say(self.catalog)
            self._follow("update")
        return updategram

    def _current(self, name: str) -> Contents:
        """An own relation at its newest version, also if a process died after publishing it."""
        held = self.held(name)
        if held is None:
            raise MissingContentsError(
                f"Node {self.name} does not hold the rows of {name}.",
                "Publish its updategrams from where its rows are.",
            )
        newest = self.catalog.newest(name)
        if held.versions[name] < newest:
            held = held.after(relation_between(self.catalog, name, held.versions[name], newest))
        return held

    def _copy(self, name: str, version: int) -> Contents | None:
        """A base relation at a version from what is here, if that is possible."""
        try:
            return contents_at(self.catalog, name, Versions({name: version}), self.held(name))
        except (VersionGapError, MissingContentsError):
            return None

    # Views

    def define(self, name: str, sql: str) -> SharedView:
        """Publish the definition of a view over relations that are known here."""
        with self.catalog.store.locked():
            self.catalog.refresh()
            known = [entry.relation for entry in self.catalog.relations.values()]
            definition = SharedView.parse(name, sql, known)
            self.catalog.add(ViewEntry(definition))
        return definition

    def mediate(self, name: str, sql: str, schema: str) -> SharedView:
        """Publish the definition of a view over a mediated schema, of which this node has no data.

        `schema` has the statements of `schema/*.sql`, with base relations by the names of their
        owners; the definition is over these.
        """
        self.catalog.refresh()
        known = [entry.relation for entry in self.catalog.relations.values()]
        views = {view: definition.sql for view, definition in self.catalog.views.items()}
        return self.define(name, mediated_answer(schema, sql, known, views).sql)

    def hold(
        self, name: str, at: Mapping[str, int] | None = None, rows: Rows | None = None
    ) -> Contents:
        """Materialize a view: from published contents of it, or from its relations.

        `rows` are the view at the whole vector `at`, if they come from somewhere else.
        """
        definition = self.catalog.view(name)
        if at is None and rows is None and (there := self.held(name)) is not None:
            return there
        with self.catalog.store.locked():
            self.catalog.refresh()
            if (there := self.held(name)) is not None and at is None:
                return there
            published = self.catalog.contents(name)
            stored: StoredPart | None = None
            if rows is not None:
                contents = Contents(name, Versions(at or {}), rows)
                self.catalog.known.copy().admit(contents, self.name)
            elif published and at is None:
                newest = max(published, key=lambda c: (sum(c.versions.values()), c.address))
                contents = self.catalog.load_contents(newest)
            else:
                newest_of = {r: self.catalog.newest(r) for r in definition.relations}
                wanted = Versions({**newest_of, **(at or {})})
                contents, stored = self._recomputed(definition, wanted)
            self._hold(contents, stored)
        return contents

    def publish(self, name: str) -> Contents:
        """Give what this node holds under a name to other nodes too, whole."""
        contents = self.held(name)
        if contents is None:
            raise UnknownNameError(
                f"Node {self.name} does not hold {name}.",
                f"It holds {', '.join(self.catalog.store.held()) or 'nothing'}.",
            )
        stored = self.stored(name) if name in self.catalog.views else None
        self.catalog.add_all([contents] if stored is None else [contents, stored])
        return contents

    def _recomputed(
        self, definition: SharedView, versions: Versions
    ) -> tuple[Contents, StoredPart | None]:
        """The view, and what is stored of it if that is something else."""
        state = {}
        for relation in definition.relations:
            found = self._copy(relation, versions[relation])
            if found is None:
                raise MissingContentsError(
                    f"View {definition.name} at ({versions}) cannot be computed here: there are no "
                    f"rows of {relation} at version {versions[relation]}.",
                    "Exchange with a node that publishes contents of the view or of the relation.",
                )
            state[relation] = found.rows
        if definition.view.top is None:
            rows = evaluate_shown(definition.view, state)
            return Contents(definition.name, versions, rows), None
        part = computed(definition, versions, state)
        return Contents(definition.name, versions, shown(definition, part.rows)), kept(part)

    def advance(self, name: str, to: Mapping[str, int] | None = None) -> Advanced:
        """Bring a view that this node holds to a vector, or as far as what is here leads.

        A vector that cannot be reached is an error that says what is missing, and the view stays.
        """
        definition = self.catalog.view(name)
        with self.catalog.store.locked():
            self.catalog.refresh()
            before = self.held(name)
            if before is None:
                raise self._not_held(name)
            return self._advanced(self.planner(definition), before, to)

    def _lift(self, plan: ViewPlan) -> Lift:
        return lift_for(plan, self.start_spark)

    def _advanced(
        self, planner: Planner, before: Contents, to: Mapping[str, int] | None
    ) -> Advanced:
        """The same, while the node is locked."""
        name = before.subject
        definition = self.catalog.view(name)
        plan = self._planned(planner, definition, before.versions, to)
        reached = before.versions if plan is None else plan.last
        if to is None and (later := self._begun_anew(name, reached)) is not None:
            self._hold(later)
            last = self.advance(name).last
            change = self._holding(name).rows - before.rows
            whole = Updategram.of_net(name, before.versions, last, change)
            return Advanced(name, before.versions, last, whole)
        if plan is None:
            return Advanced(name, before.versions, before.versions, None)
        wanted = self.policy.boosters.wants(name)
        try:
            updategram, carrying = planner.carried(plan, self._lift, makes_boosters=wanted)
        except DryWindowError:  # without that window it goes less far, or not at all
            if to is None:
                return self._advanced(planner, before, to)
            raise
        after = before.after(updategram)
        if before.versions.precedes(after.versions):
            self.catalog.add(updategram)
        if wanted:
            paying = self.policy.boosters.only_paying
            self._publish([b for b in carrying.made if not paying or planner.pays(b)])
            self._publish(carrying.grouped)
        self._hold(after, carrying.stored_after)
        return Advanced(
            name,
            before.versions,
            after.versions,
            updategram,
            tuple(carrying.used),
            tuple(carrying.copies),
            plan,
        )

    def _begun_anew(self, name: str, reached: Versions) -> Contents | None:
        """Contents of a view behind all to which updategrams lead: its owner has begun anew."""
        later = [
            c for c in self.catalog.contents(name) if reached.precedes(c.versions) and
            c.versions != reached
        ]  # fmt: skip
        if not later:
            return None
        newest = max(later, key=lambda c: (sum(c.versions.values()), c.address))
        return self.catalog.load_contents(newest)

    def _holding(self, name: str) -> Contents:
        held = self.held(name)
        assert held is not None
        return held

    def plan(self, name: str, to: Mapping[str, int] | None = None) -> ViewPlan | None:
        """How `advance` would bring a view there; None if it is there already."""
        definition = self.catalog.view(name)
        self.catalog.refresh()
        before = self.held(name)
        if before is None:
            raise self._not_held(name)
        return self._planned(self.planner(definition), definition, before.versions, to)

    def _planned(
        self,
        planner: Planner,
        definition: SharedView,
        here: Versions,
        to: Mapping[str, int] | None,
    ) -> ViewPlan | None:
        if to is None:
            return planner.as_far_as_possible(definition, here)
        target = self._vector(definition, here, to)
        return None if target == here else planner.between(definition, here, target)

    def planner(self, *definitions: SharedView) -> Planner:
        """A planner that knows what is held here of these views and their relations."""
        names = {n for definition in definitions for n in (definition.name, *definition.relations)}
        found = ((name, self.held(name)) for name in sorted(names))
        held = {name: mine for name, mine in found if mine is not None}
        kept = ((definition.name, self.stored(definition.name)) for definition in definitions)
        stored = {name: part for name, part in kept if part is not None}
        return Planner(self.catalog, held, self.speeds, stored=stored)

    def _not_held(self, name: str) -> UnknownNameError:
        return UnknownNameError(f"Node {self.name} does not hold view {name}.", "Hold it first.")

    def _vector(
        self, definition: SharedView, start: Versions, given: Mapping[str, int]
    ) -> Versions:
        """A whole vector from versions of some relations; the others stay where they are."""
        for name in given:
            definition.require(name)
        return Versions({**start, **given})

    # Boosters

    def boost(self, views: Iterable[str] | None = None) -> list[Booster | GroupingBooster | Window]:
        """Publish boosters of the relations held here, for all updategrams that are known.

        Of a view with groups it is a grouping booster for all that has changed since the one
        before, of one with first rows a window.

        For these views, or for those that the policy names. What is there is not made again.
        """
        with self.catalog.store.locked():
            self.catalog.refresh()
            wanted = (
                [name for name in self.catalog.views if self.policy.boosters.wants(name)]
                if views is None
                else list(views)
            )
            definitions = [self.catalog.view(name) for name in wanted]
            held = self._at_hand({name for view in definitions for name in view.relations})
            planner = self.planner(*definitions)
            made = [
                booster
                for definition in definitions
                for booster in missing_boosters(planner, definition, held)
            ]
            stored = [part for view in definitions for part in missing_stored(planner, view)]
            return [*self._publish(made), *self._publish(stored)]

    def _at_hand(self, names: Iterable[str]) -> dict[str, Contents]:
        """Relations that are held here; for a volunteer those too whose rows others published."""
        found = {}
        for name in sorted(names):
            if name in self.catalog.store.held():
                found[name] = self._current(name)
            elif (
                self.policy.boosters.volunteers
                and (copy := self._copy(name, self.catalog.newest(name))) is not None
            ):
                found[name] = copy
        return found

    def _publish(self, made: Iterable[AnyBooster]) -> list[AnyBooster]:
        chosen = [b for b in made if self.policy.boosters.admits(len(b.rows))]
        self.catalog.add_all(chosen)
        return chosen

    # Meeting others

    def take(
        self,
        peer: Peer | Offering,
        *,
        skip_bad: bool = False,
        unsigned: bool = False,
        limits: Limits | None = None,
    ) -> Copied:
        """Take what a peer has and this node lacks, and follow the policy."""
        met = time.time()
        if self.policy.only:
            copied = catch_up(
                self, peer, self.policy.only, skip_bad=skip_bad, unsigned=unsigned, limits=limits
            ).copied
        elif isinstance(peer, Peer):
            copied = copy(peer, self.catalog, skip_bad=skip_bad, unsigned=unsigned, limits=limits)
            if not copied.refused:
                note(self.catalog, heard_from(peer, self.catalog, met))
        else:
            copied = take_from(
                peer, self.catalog, skip_bad=skip_bad, unsigned=unsigned, limits=limits
            )
        self.follow("update")
        return copied

    def exchange(
        self, other: SharingNode, *, fetch_only: bool = False, skip_bad: bool = False
    ) -> tuple[Copied, ...]:
        """Take what another node of one's own has, and let it take what it lacks."""
        taken = self.take(other.as_peer(), skip_bad=skip_bad)  # and makes what it volunteers for
        given = () if fetch_only else (other.take(self.as_peer(), skip_bad=skip_bad),)
        return (taken, *given)

    def as_peer(self) -> Peer:
        """This node as others see it."""
        return Peer(self.catalog.store.folder)

    def follow(self, moment: Moment, now: float | None = None) -> list[Advanced]:
        """Do what the policy asks for at such a moment; the views that were advanced."""
        with self.catalog.store.locked():
            self.catalog.refresh()
            return self._follow(moment, now)

    def _follow(self, moment: Moment, now: float | None = None) -> list[Advanced]:
        if self.policy.boosters.views:
            self.boost()
        done = []
        for name in self.catalog.store.held():
            if name in self.catalog.views and self.due(name, moment, now):
                done.append(self.advance(name))
        return [advanced for advanced in done if advanced.updategram is not None]

    def due(self, name: str, moment: Moment, now: float | None = None) -> bool:
        """Whether a view that is held here is to follow at such a moment, by the policy."""
        path = self.catalog.store.held()[name]
        age = (time.time() if now is None else now) - path.modified()
        return is_due(self.policy.propagation, moment, self._waiting(name), age)

    def _waiting(self, name: str) -> int:
        """How many rows of updategrams lie before the view that this node holds."""
        held = self.held(name)
        assert held is not None
        return sum(
            listed.rows
            for relation, version in held.versions.items()
            for listed in self.catalog.updategrams(relation)
            if listed.first[relation] >= version
        )

    # Questions

    def query(
        self,
        name: str,
        at: Mapping[str, int] | None = None,
        *,
        fresh_s: float | None = None,
        peers: Sequence[Peer] = (),
    ) -> Contents:
        """A relation or view, as it is here by the policy, or as it was at a version (vector).

        With `fresh_s` no older than so many seconds; NotFreshError says what can be had. What is
        not here, or not as fresh, is looked for at `peers`, whose objects are then taken.
        """
        return Asking(self, name, at or {}, fresh_s, peers).answer()

    def ways(
        self,
        name: str,
        at: Mapping[str, int] | None = None,
        *,
        fresh_s: float | None = None,
        peers: Sequence[Peer] = (),
    ) -> list[Way]:
        """The ways in which `query` could answer about a view, the one it takes first."""
        return Asking(self, name, at or {}, fresh_s, peers).ways()

    def answering(self, name: str) -> Answering:
        """What weighs the ways to answers about a view, and goes them."""
        return Answering(self.planner(self.catalog.view(name)), self.start_spark)


def _not_what_is_held(path: Location, name: str, what: str) -> DamagedObjectError:
    return DamagedObjectError(
        f"{shared_object(path)} is not what this node holds of {name}, but of {what}.",
        "Put back the file that was there; if it is lost, delete this one: a view is then made "
        "anew from what is published.",
    )


def _policy_of(catalog: Catalog) -> Policy:
    try:
        return policy_from_json(catalog.description.get("policy"))
    except InputError as error:
        place = place_of(catalog.store.folder / NODE_FILE, "policy")
        raise InputError(
            f"{place}: {error.message}",
            f"{error.hint.rstrip('.')}. Put the file right, or set the policy with --policy.",
        ) from None


def _schema(name: str, columns: Mapping[str, str]) -> Schema:
    try:
        return Schema.of((column, parse_type(kind)) for column, kind in columns.items())
    except ValueError as error:
        raise InputError(f"{name}: {error}.", "Give each column one of these types.") from None


def _rows(name: str, schema: Schema, rows: Tuples) -> Rows:
    try:
        return Rows.of(schema, rows)
    except ValueError as error:
        raise InputError(f"{name}: {error}.", "Give rows of the relation.") from None


def _check_key(relation: Relation, rows: Rows) -> None:
    if not relation.key:
        return
    seen = set()
    for row, count in rows.items():
        key = relation.key_of(row)
        if key in seen or count != 1:
            raise InputError(
                f"{relation.name} would have two rows with the key {show_row(key)}.",
                f"({', '.join(relation.key)}) is its key.",
            )
        seen.add(key)
