"""From a warehouse to shared objects: its change logs and its views' commits as updategrams.

A relation is published with the columns that its change log has, and its version is the number
of its source's transaction: `shop.orders` at 7 is that table after the seventh transaction of
`shop`. A view's version vector follows from the vector of its commit. So what `headwater
status` shows as numbers are versions here, and relations of one source move together.

Only commits that stand for one number of each source count. One that holds later transactions
already (PVM commits early) is taken together with the next. So is one on which a view's top fails:
what is published is what readers see, and they keep the state before.

Rows of base relations are not published: a warehouse has none. Peers start from a view's contents
and go on by updategrams of the view, or by updategrams of its relations and boosters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.algebra.totals import without_errors
from headwater.errors import ExpressionError, InputError
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import SharingError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram, composed
from headwater.sharing.versions import Versions
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog, between
from headwater.warehouse.commits import ViewCommit
from headwater.warehouse.failing import seen
from headwater.warehouse.states import ViewState
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_KEPT_LEVELS = ("weak", "strong", "complete")


def no_spark() -> NoReturn:
    raise InputError("A view is too large to be published without Spark.", "Give a session.")


@dataclass
class PublishedObjects:
    """What was published: objects by kind, the views' vectors, and relations' new intervals."""

    counts: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, Versions] = field(default_factory=dict)
    updategrams: list[Updategram] = field(default_factory=list)
    """Of base relations, those that are new."""

    def note(self, kind: str, count: int = 1) -> None:
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count


@dataclass(frozen=True)
class _Version:
    """A commit that stands for a vector, and the change since the one before.

    Of a view with a top the change is found out between the two versions that need it.
    """

    number: int
    versions: Versions
    change: Rows | None


def publish_warehouse(
    catalog: Catalog,
    warehouse: Warehouse,
    views: Iterable[str] | None = None,
    *,
    each_transaction: bool = False,
    spark: Spark = no_spark,
) -> PublishedObjects:
    """Publish what views and their relations did since the last time.

    One updategram for each, or with `each_transaction` one for each transaction and commit.
    `spark` may be what gives a session; it is called only for views with a top that are not small.
    """
    tables = [warehouse.shown_view(name) for name in views or warehouse.shown_names()]
    if not tables:
        raise InputError(f"The warehouse {warehouse.path} has no views.", "Load one first.")
    with catalog.store.locked():
        catalog.refresh()
        done = PublishedObjects()
        definitions = _definitions(catalog, warehouse, tables)
        items: list[Item] = [
            RelationEntry(relation, catalog.node)
            for relation in {r.name: r for d in definitions.values() for r in d.known}.values()
        ]
        items += [ViewEntry(definition) for definition in definitions.values()]
        histories = {}
        for table in tables:
            definition = definitions[table.name]
            histories[table.name] = versions = _since(catalog, definition, table)
            publication = _Publication(catalog, definition, table, each_transaction, spark)
            items += publication.items(versions)
            done.vectors[table.name] = versions[-1].versions
        done.updategrams = list(
            _relation_updategrams(catalog, warehouse, definitions, histories, each_transaction)
        )
        items += done.updategrams
        before = catalog.addresses()
        catalog.add_all(items)
        numbers = {name: history[-1].number for name, history in histories.items()}
        catalog.describe(published=catalog.description.get("published", {}) | numbers)
        for listed in catalog:
            if listed.address not in before:
                done.note(listed.kind)
    return done


# Definitions


def _definitions(
    catalog: Catalog, warehouse: Warehouse, tables: Sequence[ViewTable]
) -> dict[str, SharedView]:
    """The views over their relations as far as the change log has them."""
    used: dict[str, set[str]] = {}
    whole: dict[str, Relation] = {}
    for name in warehouse.view_names():
        view = warehouse.view(name).definition.view
        whole |= {relation.name: relation for relation in view.relations}
        for relation, columns in view.used_columns.items():
            used.setdefault(relation, set()).update(columns)
    narrow = {
        name: found.only([column for column in found.schema.names if column in used[name]])
        for name, found in whole.items()
    }
    narrow |= {name: entry.relation for name, entry in catalog.relations.items()}
    return {table.name: _definition(table, narrow) for table in tables}


def _definition(table: ViewTable, relations: Mapping[str, Relation]) -> SharedView:
    whole = table.definition.view
    sql, names = whole.sql, [relation.name for relation in whole.relations]
    for member in whole.members:
        if member.name == table.name:
            sql, names = member.sql, list(member.relations)
    mine = [relations[name] for name in names]
    for relation in mine:
        if lost := [c for c in whole.used_columns[relation.name] if c not in relation.schema.names]:
            raise SharingError(
                f"View {table.name} uses {', '.join(lost)} of {relation.name}, which was published "
                "without that.",
                "Relations keep their columns: publish into a new catalog.",
            )
    definition = SharedView.parse(table.name, sql, mine)
    if definition.schema != table.shown_schema:
        raise SharingError(
            f"View {table.name} has other columns in the warehouse than its SELECT gives.",
            "Load it anew.",
        )
    return definition


# Views


def _since(catalog: Catalog, definition: SharedView, table: ViewTable) -> list[_Version]:
    """From the commit on that was published last, or all if it is not there any more."""
    number = catalog.description.get("published", {}).get(table.name, 0)
    known = {c.versions for c in catalog.contents(table.name)}
    known |= {u.last for u in catalog.updategrams(table.name)}
    if 0 < number <= table.latest().number:
        versions = _versions(definition, table, number - 1)
        if versions[0].number >= number and versions[0].versions in known:
            return versions
    return _versions(definition, table, 0)


def _versions(definition: SharedView, table: ViewTable, after: int) -> list[_Version]:
    """The commits that can be published, oldest first; the first has no change."""
    if not _is_stored(definition, table):
        return _distinct(_shown_versions(definition, table, after), table)
    found: list[_Version] = []
    waiting: list[Rows] = []
    stored = table.schema
    for commit, rows in table.changes(after):
        _check_level(table, commit)
        waiting.append(rows)
        versions = _vector(definition, commit)
        if versions is not None:
            change = _shown(table, commit, Rows.sum(stored, waiting) if found else None)
            if change is not None:  # else until what it comes from has been corrected
                found.append(_Version(commit.number, versions, change))
            waiting = waiting if found and change is None else []
    return _distinct(found, table)


def _is_stored(definition: SharedView, table: ViewTable) -> bool:
    """Whether what readers see is what is stored, but for errors."""
    return definition.view.top is None and not table.definition.view.members


def _shown_versions(definition: SharedView, table: ViewTable, after: int) -> list[_Version]:
    """The same of a view with a top, up to the last state that readers see."""
    newest = seen(table, _evaluated)
    found = []
    for commit, _ in table.changes(after):
        _check_level(table, commit)
        versions = _vector(definition, commit)
        if versions is not None and commit.number <= newest:
            found.append(_Version(commit.number, versions, None))
    return found


def _evaluated(state: ViewState) -> int:
    """The number of a state whose top does not fail."""
    state.rows()
    return state.number


def _shown(table: ViewTable, commit: ViewCommit, change: Rows | None) -> Rows | None:
    """What a reader sees of a commit: a change since one without errors, or nothing for the first.

    None if there is an error in it.
    """
    name = table.error_column
    if name is None:
        return Rows.empty(table.schema) if change is None else change
    try:
        if change is None:
            table.at(commit.number).tail_rows()
            return Rows.empty(table.shown_schema)
        return without_errors(change, name)
    except ExpressionError:
        return None


def _distinct(found: Sequence[_Version], table: ViewTable) -> list[_Version]:
    """Commits of one vector taken together."""
    if not found:
        raise SharingError(
            f"View {table.name} has no commit that stands for one number of each source.",
            "Publish again when the runner has gone on.",
        )
    kept: list[_Version] = []
    for version in found:
        if kept and kept[-1].versions == version.versions:
            if version.change:
                raise SharingError(
                    f"Commits {kept[-1].number} and {version.number} of view {table.name} differ "
                    "and stand for one vector.",
                    "Reload the view.",
                )
            kept[-1] = _Version(version.number, version.versions, kept[-1].change)
        else:
            kept.append(version)
    return kept


def _check_level(table: ViewTable, commit: ViewCommit) -> None:
    if commit.level and commit.level not in _KEPT_LEVELS:
        raise SharingError(
            f"View {table.name} is maintained {commit.level}: its states do not belong to vectors.",
            "Share views of a higher level.",
        )


def _vector(definition: SharedView, commit: ViewCommit) -> Versions | None:
    """The versions of relations that a commit stands for; None if some transactions are early."""
    if any(reached.also for reached in commit.vector.values()):
        return None
    return Versions({r.name: commit.vector[r.source].number for r in definition.relations.values()})


@dataclass(frozen=True)
class _Publication:
    """One view on its way into a catalog."""

    catalog: Catalog
    definition: SharedView
    table: ViewTable
    each_transaction: bool
    spark: Spark

    def items(self, versions: Sequence[_Version]) -> Iterable[Item]:
        name = self.definition.name
        known = {u.last for u in self.catalog.updategrams(name)}
        known |= {c.versions for c in self.catalog.contents(name)}
        last_known = max((at for at, v in enumerate(versions) if v.versions in known), default=None)
        if last_known is None:  # the first time, or so late that old commits are gone
            newest = versions[-1]
            yield Contents(name, newest.versions, self.table.rows(newest.number))
        fresh = versions[last_known or 0 :]
        if not _is_stored(self.definition, self.table):
            yield from self._shown_steps(fresh)
            return
        steps = [
            self._step(before, after, after.change)
            for before, after in pairwise(fresh)
            if after.change is not None
        ]
        yield from steps if self.each_transaction or not steps else [composed(steps)]

    def _shown_steps(self, versions: Sequence[_Version]) -> Iterator[Updategram]:
        """What readers saw change; a version on which the top fails is passed over."""
        before, *later = versions if self.each_transaction else dict.fromkeys(
            (versions[0], versions[-1])
        )  # fmt: skip
        for after in later:
            try:
                change = self.table.shown_changes(before.number, after.number, self.spark)
            except ExpressionError:
                continue
            yield self._step(before, after, Rows(change.schema, dict(change.items())))
            before = after

    def _step(self, before: _Version, after: _Version, change: Rows) -> Updategram:
        return Updategram.of_net(self.definition.name, before.versions, after.versions, change)


# Relations


def _relation_updategrams(
    catalog: Catalog,
    warehouse: Warehouse,
    definitions: Mapping[str, SharedView],
    histories: Mapping[str, Sequence[_Version]],
    each_transaction: bool,
) -> Iterable[Updategram]:
    relations = {r.name: r for d in definitions.values() for r in d.relations.values()}
    for source in sorted({relation.source for relation in relations.values()}):
        log = ChangeLog(warehouse.changes, source)
        for relation in (r for r in relations.values() if r.source == source):
            borders = _borders(catalog, log, relation.name, histories, each_transaction)
            if len(borders) > 1:
                yield from _between_borders(log, relation, borders, each_transaction)


def _borders(
    catalog: Catalog,
    log: ChangeLog,
    relation: str,
    histories: Mapping[str, Sequence[_Version]],
    each_transaction: bool,
) -> list[int]:
    """Where updategrams of a relation start and end: where views that were published stand."""
    vectors = [
        [version.versions[relation] for version in history]
        for history in histories.values()
        if relation in history[-1].versions
    ]
    wanted = {n for vector in vectors for n in (vector if each_transaction else vector[-1:])}
    published = [u.last[relation] for u in catalog.updategrams(relation)]
    start = max(published) if published else max(min(map(min, vectors)), log.first - 1)
    return sorted({start, *(n for n in wanted if n > start)})


def _between_borders(
    log: ChangeLog, relation: Relation, borders: Sequence[int], each_transaction: bool
) -> Iterable[Updategram]:
    start, ends = borders[0], list(borders[1:])
    inserted: list[Rows] = []
    deleted: list[Rows] = []

    def finish(last: int) -> Updategram:
        nonlocal start
        name, schema = relation.name, relation.schema
        made = Updategram(
            name,
            Versions({name: start}),
            Versions({name: last}),
            Rows.sum(schema, inserted),
            Rows.sum(schema, deleted),
        )
        start = last
        inserted.clear()
        deleted.clear()
        return made

    for change in between(log, borders[0], borders[-1]):
        if isinstance(change, Break):
            if change.columns is None or relation.name in change.columns:
                raise SharingError(
                    f"The change log of {log.source} has a gap at number {change.number}: "
                    f"{change.reason}",
                    f"What became of {relation.name} there is not known: publish it into a new "
                    "node.",
                )
            delta = None
        else:
            delta = change.transaction.deltas.get(relation.name)
        if delta:
            step = _only(delta, relation, log.source, change.number)
            inserted.append(step.positive())
            deleted.append(-step.negative())
        if change.number == ends[0] or (each_transaction and delta):
            yield finish(change.number)
        if change.number == ends[0]:
            ends.pop(0)


def _only(delta: Rows, relation: Relation, source: str, number: int) -> Rows:
    missing = [c for c in relation.schema.names if c not in delta.schema.positions]
    if missing:
        raise SharingError(
            f"Transaction {number} of {source} was logged without {', '.join(missing)} of "
            f"{relation.name}.",
            "Publish again once the change log starts after it ('retention' in headwater.toml).",
        )
    return delta.only(relation.schema)
