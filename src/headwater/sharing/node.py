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

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.rows import Rows, show_row
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import parse_type
from headwater.errors import InputError
from headwater.sharing.booster import Booster
from headwater.sharing.boosting import missing_boosters
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.encoding import address_of, decode, encode
from headwater.sharing.entries import RelationEntry, ViewEntry
from headwater.sharing.errors import (
    MissingBoosterError,
    MissingContentsError,
    SharingError,
    UnknownNameError,
    VersionGapError,
)
from headwater.sharing.exchange import Copied, copy
from headwater.sharing.history import contents_at, relation_between
from headwater.sharing.limits import Limits
from headwater.sharing.peers import Peer
from headwater.sharing.policies import Moment, Policy, is_due, policy_from_json, policy_to_json
from headwater.sharing.refresh import Refresher
from headwater.sharing.shared_views import SharedView
from headwater.sharing.store import Envelope, shared_object
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions

Tuples = Iterable[Sequence[object]]


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
    """Base relations whose copy was asked because there was no booster."""


class SharingNode:
    """One participant of a data sharing system, in a folder of its own."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.policy = policy_from_json(catalog.description.get("policy"))

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
        assert isinstance(found, Contents)
        return found

    def holdings(self) -> dict[str, Contents]:
        return {
            name: found
            for name in self.catalog.store.held()
            if (found := self.held(name)) is not None
        }

    def _hold(self, contents: Contents) -> None:
        content = encode(contents)
        envelope = Envelope(self.catalog.system, self.name, address_of(content))
        self.catalog.store.hold(contents.subject, envelope, content)

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

    def hold(
        self, name: str, at: Mapping[str, int] | None = None, rows: Rows | None = None
    ) -> Contents:
        """Materialize a view: from published contents of it, or from its relations.

        `rows` are the view at the whole vector `at`, if they come from somewhere else.
        """
        definition = self.catalog.view(name)
        with self.catalog.store.locked():
            self.catalog.refresh()
            if (there := self.held(name)) is not None and at is None:
                return there
            published = self.catalog.contents(name)
            if rows is not None:
                contents = Contents(name, Versions(at or {}), rows)
                self.catalog.known.copy().admit(contents, self.name)
            elif published and at is None:
                newest = max(published, key=lambda c: (sum(c.versions.values()), c.address))
                contents = self.catalog.load_contents(newest)
            else:
                newest_of = {r: self.catalog.newest(r) for r in definition.relations}
                contents = self._recomputed(definition, Versions({**newest_of, **(at or {})}))
            self._hold(contents)
        return contents

    def publish(self, name: str) -> Contents:
        """Give what this node holds under a name to other nodes too, whole."""
        contents = self.held(name)
        if contents is None:
            raise UnknownNameError(
                f"Node {self.name} does not hold {name}.",
                f"It holds {', '.join(self.catalog.store.held()) or 'nothing'}.",
            )
        self.catalog.add(contents)
        return contents

    def _recomputed(self, definition: SharedView, versions: Versions) -> Contents:
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
        return Contents(definition.name, versions, evaluate_shown(definition.view, state))

    def advance(self, name: str, to: Mapping[str, int] | None = None) -> Advanced:
        """Bring a view that this node holds to a vector, or as far as what is here leads.

        A vector that cannot be reached is an error that says what is missing, and the view stays.
        """
        definition = self.catalog.view(name)
        with self.catalog.store.locked():
            self.catalog.refresh()
            before = self.held(name)
            if before is None:
                raise UnknownNameError(
                    f"Node {self.name} does not hold view {name}.", "Hold it first."
                )
            refresher = Refresher(self.catalog, self._copy)
            if to is None:
                updategram = refresher.as_far_as_possible(definition, before.versions)
            else:
                target = self._vector(definition, before.versions, to)
                updategram = (
                    None
                    if target == before.versions
                    else refresher.updategram(definition, before.versions, target)
                )
            if updategram is None:
                return Advanced(name, before.versions, before.versions, None)
            after = before.after(updategram)
            if before.versions.precedes(after.versions):
                self.catalog.add(updategram)
            self._publish_boosters(refresher.made)
            self._hold(after)
        return Advanced(
            name,
            before.versions,
            after.versions,
            updategram,
            tuple(refresher.used),
            tuple(refresher.copies),
        )

    def _vector(
        self, definition: SharedView, start: Versions, given: Mapping[str, int]
    ) -> Versions:
        """A whole vector from versions of some relations; the others stay where they are."""
        for name in given:
            definition.require(name)
        return Versions({**start, **given})

    # Boosters

    def boost(self, views: Iterable[str] | None = None) -> list[Booster]:
        """Publish boosters of the relations held here, for all updategrams that are known.

        For these views, or for those that the policy names. What is there is not made again.
        """
        with self.catalog.store.locked():
            self.catalog.refresh()
            wanted = (
                [name for name in self.catalog.views if self.policy.boosters.wants(name)]
                if views is None
                else list(views)
            )
            held = {
                name: self._current(name)
                for name in self.catalog.store.held()
                if name in self.catalog.relations
            }
            made = [
                booster
                for name in wanted
                for booster in missing_boosters(
                    self.catalog, self.catalog.view(name), held, self._copy
                )
            ]
            return self._publish(made)

    def _publish_boosters(self, made: Iterable[Booster]) -> None:
        """Boosters that came about on the way, if the policy asks for them."""
        self._publish([b for b in made if self.policy.boosters.wants(b.view.name)])

    def _publish(self, made: Iterable[Booster]) -> list[Booster]:
        chosen = [b for b in made if self.policy.boosters.admits(len(b.rows))]
        self.catalog.add_all(chosen)
        return chosen

    # Meeting others

    def take(
        self,
        peer: Peer,
        *,
        skip_bad: bool = False,
        unsigned: bool = False,
        limits: Limits | None = None,
    ) -> Copied:
        """Take what a peer has and this node lacks, and follow the policy."""
        copied = copy(peer, self.catalog, skip_bad=skip_bad, unsigned=unsigned, limits=limits)
        self.follow("update")
        return copied

    def exchange(
        self, other: SharingNode, *, fetch_only: bool = False, skip_bad: bool = False
    ) -> tuple[Copied, ...]:
        """Take what another node of one's own has, and let it take what it lacks."""
        taken = copy(other.as_peer(), self.catalog, skip_bad=skip_bad)
        given = () if fetch_only else (other.take(self.as_peer(), skip_bad=skip_bad),)
        self.follow("update")
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
        for name, path in self.catalog.store.held().items():
            if name in self.catalog.views:
                age = (time.time() if now is None else now) - path.modified()
                if is_due(self.policy.propagation, moment, self._waiting(name), age):
                    done.append(self.advance(name))
        return [advanced for advanced in done if advanced.updategram is not None]

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

    def query(self, name: str, at: Mapping[str, int] | None = None) -> Contents:
        """A relation or view, as it is here by the policy, or as it was at a version (vector)."""
        if name in self.catalog.views:
            if at is None:
                if (path := self.catalog.store.held().get(name)) is not None:
                    waiting = self._waiting(name)
                    if is_due(self.policy.propagation, "query", waiting, path.age_s()):
                        self.advance(name)
                return self.hold(name)
            return self._view_at(self.catalog.view(name), at)
        self.catalog.relation(name)
        if at is None:
            held = self.held(name)
            at = held.versions if held else {name: self.catalog.newest(name)}
        if set(at) != {name}:
            raise InputError(
                f"{name} has no versions of {', '.join(at)}.", f"Give a version of {name}."
            )
        return contents_at(self.catalog, name, Versions(at), self.held(name))

    def _view_at(self, definition: SharedView, at: Mapping[str, int]) -> Contents:
        """From the view's own updategrams, then from boosters, then from the relations."""
        held = self.held(definition.name)
        starts = [held] if held is not None else []
        starts += [
            self.catalog.load_contents(listed) for listed in self.catalog.contents(definition.name)
        ]
        default = starts[0].versions if starts else Versions(
            {r: self.catalog.newest(r) for r in definition.relations}
        )  # fmt: skip
        target = self._vector(definition, default, at)
        try:
            return contents_at(self.catalog, definition.name, target, held)
        except (VersionGapError, MissingContentsError) as error:
            reason: SharingError = error
        for start in starts:
            try:
                refresher = Refresher(self.catalog, self._copy)
                return start.after(refresher.updategram(definition, start.versions, target))
            except (VersionGapError, MissingBoosterError) as error:
                reason = error
        try:
            return self._recomputed(definition, target)
        except MissingContentsError:
            raise reason from None


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
