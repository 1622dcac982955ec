"""From a warehouse to shared objects: its change logs and its views' commits as updategrams.

A relation is published with the columns that its change log has, and its version is the number
of its source's transaction: `shop.orders` at 7 is that table after the seventh transaction of
`shop`. A view's version vector follows from the vector of its commit. So what `headwater
status` shows as numbers are versions here, and relations of one source move together.

Rows of base relations are not published: a warehouse has none. Peers start from a view's contents
and go on by updategrams of the view, or by updategrams of its relations and boosters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import InputError
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import SharingError
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
            publication = ViewPublication(catalog, definition, table, each_transaction, spark)
            histories[table.name] = versions = publication.versions()
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


# Relations


def _relation_updategrams(
    catalog: Catalog,
    warehouse: Warehouse,
    definitions: Mapping[str, SharedView],
    histories: Mapping[str, Sequence[CommittedVersion]],
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
    histories: Mapping[str, Sequence[CommittedVersion]],
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
