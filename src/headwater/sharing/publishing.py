"""From a warehouse to shared objects: its change logs and its views' commits as updategrams.

A relation is published with the columns that its change log has, and its version is the number
of its source's transaction: `shop.orders` at 7 is that table after the seventh transaction of
`shop`. A view's version vector follows from the vector of its commit. So what `headwater
status` shows as numbers are versions here, and relations of one source move together.

Rows of base relations are not published: a warehouse has none. Peers start from a view's contents
and go on by updategrams of the view, or by updategrams of its relations and boosters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import HeadwaterError, InputError, one_or_several
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import ConflictError, SharingError
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sharing.view_publication import CommittedVersion, ViewPublication, no_spark
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog, between
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse


@dataclass
class PublishedObjects:
    """What was published: objects by kind, the views' vectors, and relations' new intervals."""

    counts: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, Versions] = field(default_factory=dict)
    updategrams: list[Updategram] = field(default_factory=list)
    """Of base relations, those that are new."""
    refused: dict[str, HeadwaterError] = field(default_factory=dict)
    """The views that cannot be published, and why."""

    def note(self, kind: str, count: int = 1) -> None:
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count


def publish_warehouse(
    catalog: Catalog,
    warehouse: Warehouse,
    views: Iterable[str] | None = None,
    *,
    each_transaction: bool = False,
    spark: Spark = no_spark,
    report: Callable[[str], None] = lambda step: None,
) -> PublishedObjects:
    """Publish what views and their relations did since the last time.

    One updategram for each, or with `each_transaction` one for each transaction and commit.
    `spark` may be what gives a session; it is called only for views with a top that are not small.
    `report` is told what is being done. A view that cannot be published is no reason to leave the
    others; if there is none that can, that is raised.
    """
    tables = [warehouse.shown_view(name) for name in views or warehouse.shown_names()]
    if not tables:
        raise InputError(f"The warehouse {warehouse.path} has no views.", "Load one first.")
    with catalog.store.locked():
        catalog.refresh()
        done = PublishedObjects()
        relations = _relations(catalog, warehouse)
        found: dict[str, _Found] = {}
        for table in tables:
            report(f"publishing {table.name}")
            try:
                definition = _definition(catalog, table, relations)
                publication = ViewPublication(catalog, definition, table, each_transaction, spark)
                versions = publication.versions()
                items = [*publication.items(versions)]
                found[table.name] = _Found(definition, versions, items)
            except HeadwaterError as error:
                done.refused[table.name] = error
        done.updategrams = _relation_updategrams(
            catalog, warehouse, found, done.refused, each_transaction
        )
        found = {name: view for name, view in found.items() if name not in done.refused}
        if not found:
            raise one_or_several(done.refused.values())
        done.vectors = {name: view.versions[-1].versions for name, view in found.items()}
        before = catalog.addresses()
        catalog.add_all(_items(catalog, found.values(), done.updategrams))
        numbers = {name: view.versions[-1].number for name, view in found.items()}
        catalog.describe(published=catalog.description.get("published", {}) | numbers)
        for listed in catalog:
            if listed.address not in before:
                done.note(listed.kind)
    return done


@dataclass(frozen=True)
class _Found:
    """A view, its commits since the last time, and what the catalog lacks of them."""

    definition: SharedView
    versions: Sequence[CommittedVersion]
    items: Sequence[Item]


def _items(
    catalog: Catalog, views: Iterable[_Found], updategrams: Iterable[Updategram]
) -> Iterator[Item]:
    """First what there is, then what it holds and how it changed."""
    known = {r.name: r for view in views for r in view.definition.known}
    yield from (RelationEntry(relation, catalog.node) for relation in known.values())
    yield from (ViewEntry(view.definition) for view in views)
    yield from (item for view in views for item in view.items)
    yield from updategrams


# Definitions


def _relations(catalog: Catalog, warehouse: Warehouse) -> dict[str, Relation]:
    """The relations as they are published, else as far as the change log has them."""
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
    return narrow | {name: entry.relation for name, entry in catalog.relations.items()}


def _definition(
    catalog: Catalog, table: ViewTable, relations: Mapping[str, Relation]
) -> SharedView:
    """A view over its relations, as it may be published here."""
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
                "Relations keep their columns: publish into a new catalog (--catalog).",
            )
    definition = SharedView.parse(table.name, sql, mine)
    if definition.schema != table.shown_schema:
        raise SharingError(
            f"View {table.name} has other columns in the warehouse than its SELECT gives.",
            "Load it anew.",
        )
    if catalog.views.get(table.name, definition) != definition:
        raise ConflictError(
            f"View {table.name} was published with another SELECT.",
            "What was published under a name stays: give the view another name, or publish into a "
            "new catalog (--catalog).",
        )
    return definition


# Relations


def _relation_updategrams(
    catalog: Catalog,
    warehouse: Warehouse,
    views: Mapping[str, _Found],
    refused: dict[str, HeadwaterError],
    each_transaction: bool,
) -> list[Updategram]:
    """Those that are new; if a relation has none, for a gap, the views that read it are refused."""
    relations = {r.name: r for view in views.values() for r in view.definition.relations.values()}
    histories = [view.versions for view in views.values()]
    found: list[Updategram] = []
    for relation in sorted(relations.values(), key=lambda relation: relation.source):
        log = ChangeLog(warehouse.changes, relation.source)
        borders = _borders(catalog, log, relation.name, histories, each_transaction)
        try:
            if len(borders) > 1:
                found += _between_borders(log, relation, borders, each_transaction)
        except HeadwaterError as error:
            reading = [n for n, view in views.items() if relation.name in view.definition.relations]
            refused |= {name: error for name in reading if name not in refused}
    return found


def _borders(
    catalog: Catalog,
    log: ChangeLog,
    relation: str,
    histories: Iterable[Sequence[CommittedVersion]],
    each_transaction: bool,
) -> list[int]:
    """Where updategrams of a relation start and end: where views that were published stand."""
    vectors = [
        [version.versions[relation] for version in history]
        for history in histories
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
