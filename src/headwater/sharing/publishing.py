"""From a warehouse to shared objects: its change logs and its views' commits as updategrams.

A relation is published with the columns that its change log has, and its version is the number
of its source's transaction: `shop.orders` at 7 is that table after the seventh transaction of
`shop`. A view's version vector follows from the vector of its commit. So what `headwater
status` shows as numbers are versions here, until a life begins (`lives`), and relations of one
source move together.

Rows of base relations are not published: a warehouse has none. Peers start from a view's contents
and go on by updategrams of the view, or by updategrams of its relations and boosters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.algebra.schema import Relation
from headwater.errors import HeadwaterError, InputError, one_or_several
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import ConflictError, SharingError
from headwater.sharing.lives import Lives
from headwater.sharing.owed import OwedBooster, owed_for, read_owed, with_more, write_owed
from headwater.sharing.relation_publication import holes, intervals_of, made_again, way_of
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.view_publication import CommittedVersion, ViewPublication, no_spark
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

_LOST = "files of what was published are gone, and the warehouse does not have it any more"
_NO_COMMITS = "it was loaded anew, or its commits since the last time are not kept any more"


@dataclass
class PublishedObjects:
    """What was published: objects by kind, the views' vectors, and relations' new intervals."""

    counts: dict[str, int] = field(default_factory=dict)
    vectors: dict[str, Versions] = field(default_factory=dict)
    updategrams: list[Updategram] = field(default_factory=list)
    """Of base relations, those that are new."""
    refused: dict[str, HeadwaterError] = field(default_factory=dict)
    """The views that cannot be published, and why."""
    anew: dict[str, str] = field(default_factory=dict)
    """The relations and views that begin anew, behind a hole in what was published; and why."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The commits up to which views are published."""
    owed: list[OwedBooster] = field(default_factory=list)
    """Boosters that are to be made, those of earlier publications first."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By address: objects of the node that were damaged and are removed."""
    unmade: dict[str, HeadwaterError] = field(default_factory=dict)
    """By source: why boosters that are owed could not be made now."""

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
    boosted: Callable[[str], bool] = lambda view: False,
    anew: bool = False,
    verify: bool = False,
) -> PublishedObjects:
    """Publish what views and their relations did since the last time.

    One updategram for each, or with `each_transaction` one for each transaction and commit.
    `spark` may be what gives a session; it is called only for views with a top that are not small.
    `report` is told what is being done. `boosted` says for which views boosters are then owed. A
    view that cannot be published is no reason to leave the others; if there is none that can, that
    is raised. `anew` asks for a life of its own, under versions that nobody has seen (see `lives`),
    `verify` for reading what the node has: what is damaged is removed, and made again if possible.
    """
    done = publish_what_can_be(
        catalog,
        warehouse,
        views,
        each_transaction=each_transaction,
        spark=spark,
        report=report,
        boosted=boosted,
        anew=anew,
        verify=verify,
    )
    if not done.numbers:
        raise one_or_several(done.refused.values())
    return done


def publish_what_can_be(
    catalog: Catalog,
    warehouse: Warehouse,
    views: Iterable[str] | None = None,
    *,
    each_transaction: bool = False,
    spark: Spark = no_spark,
    report: Callable[[str], None] = lambda step: None,
    boosted: Callable[[str], bool] = lambda view: False,
    anew: bool = False,
    verify: bool = False,
    wait: bool = True,
) -> PublishedObjects:
    """The same; it may be that nothing can. BusyError if another process is at it, and this one is
    not to `wait`.

    How far everything is published is written down when all objects are there, and what is owed
    before that. A process that is killed meanwhile leaves objects that the next one meets again.
    """
    tables = [warehouse.shown_view(name) for name in views or warehouse.shown_names()]
    if not tables:
        raise InputError(f"The warehouse {warehouse.path} has no views.", "Load one first.")
    with catalog.store.locked(wait):
        catalog.reread()
        catalog.refresh()
        done = PublishedObjects(owed=read_owed(catalog.store))
        if verify:
            done.damaged = catalog.remove_damaged()
        lives = Lives(catalog, warehouse, anew=anew)
        relations = _relations(catalog, warehouse)
        found: dict[str, _Found] = {}
        filled: dict[str, list[Updategram] | None] = {}
        for table in tables:
            report(f"publishing {table.name}")
            try:
                definition = _definition(catalog, table, relations)
                offsets = _offsets(lives, definition, table)
                lost = _fill(catalog, warehouse, definition, lives, filled)
                publication = ViewPublication(
                    catalog,
                    definition,
                    table,
                    offsets,
                    each_transaction,
                    spark,
                    lost,
                    boosted(table.name),
                )
                table.log.make_durable()  # a commit that is lost again must not be published
                versions = publication.versions()
                if why := _begun(lives, definition):
                    done.anew[table.name] = why
                elif publication.begins_anew(versions):
                    done.anew[table.name] = _NO_COMMITS
                elif publication.begins_behind_a_hole:
                    done.anew[table.name] = _LOST
                items = [*publication.items(versions)]
                found[table.name] = _Found(definition, versions, items)
            except HeadwaterError as error:
                done.refused[table.name] = error
        done.updategrams += [step for steps in filled.values() if steps for step in steps]
        reached = dict(catalog.description.get("reached", {}))
        moved = _relation_updategrams(
            catalog, warehouse, found, reached, done, lives, each_transaction
        )
        found = {name: view for name, view in found.items() if name not in done.refused}
        if not found:
            return done
        done.vectors = {name: view.versions[-1].versions for name, view in found.items()}
        done.numbers = {name: view.versions[-1].number for name, view in found.items()}
        known = catalog.views | {name: view.definition for name, view in found.items()}
        _owe(catalog, done, {n: view for n, view in known.items() if boosted(n)}, moved, lives)
        made = _items(catalog, found.values(), done.updategrams)
        for listed in catalog.add_new(made, lives.publication):
            if listed.kind != "publication":
                done.note(listed.kind)
        _note(catalog, lives.published(), published=done.numbers, reached=reached)
    return done


def _fill(
    catalog: Catalog,
    warehouse: Warehouse,
    definition: SharedView,
    lives: Lives,
    filled: dict[str, list[Updategram] | None],
) -> bool:
    """Make updategrams of a view's relations again that are missing here; whether some are lost."""
    for name, relation in definition.relations.items():
        reached = catalog.description.get("reached", {}).get(name)
        if name in filled or reached is None or relation.source in lives.begun:
            continue
        offset = lives.offset(relation.source, [name])
        log = ChangeLog(warehouse.changes, relation.source)
        made = [made_again(log, relation, offset, hole)
                for hole in holes(catalog, name, offset, reached)]  # fmt: skip
        filled[name] = None if None in made else [step for step in made if step is not None]
    return any(filled.get(name, []) is None for name in definition.relations)


def _offsets(lives: Lives, definition: SharedView, table: ViewTable) -> dict[str, int]:
    """For each source of a view, how its versions follow from numbers."""
    relations, vector = definition.relations.values(), table.latest().vector
    return {
        source: lives.offset(
            source, [r.name for r in relations if r.source == source], vector[source].number
        )
        for source in sorted({relation.source for relation in relations})
    }


def _begun(lives: Lives, definition: SharedView) -> str:
    """Why a life begins of what a view reads, if one does."""
    sources = (relation.source for relation in definition.relations.values())
    return next((lives.begun[source] for source in sources if source in lives.begun), "")


def _note(catalog: Catalog, lives: Mapping[str, Any], **reached: Mapping[str, int]) -> None:
    """Write down how far everything is published, if that has changed."""
    before = {name: catalog.description.get(name, {}) for name in reached}
    now = {name: before[name] | dict(numbers) for name, numbers in reached.items()}
    if now != before or lives:
        catalog.describe(**now, **lives)


def _published(catalog: Catalog, view: str) -> Versions | None:
    """The newest vector at which a view was published here; None if it never was."""
    found = [u.last for u in catalog.updategrams(view) if u.maker == catalog.node]
    found += [c.versions for c in catalog.contents(view) if c.maker == catalog.node]
    return max(found, key=lambda versions: sum(versions.values()), default=None)


def _owe(
    catalog: Catalog,
    done: PublishedObjects,
    boosted: Mapping[str, SharedView],
    moved: Iterable[Interval],
    lives: Lives,
) -> None:
    """Write down what is owed from now on; what was owed for nothing is forgotten.

    It is owed to all views that are published here: of some only a relation has moved.
    That is what a process has left that was killed before it had published the updategrams.
    """
    before = done.owed
    reached = catalog.description.get("reached", {})
    kept = [o for o in before if o.last <= reached.get(o.changed, 0) and o.view in boosted
            and lives.is_current(o)]  # fmt: skip
    vectors = {name: done.vectors.get(name) or _published(catalog, name) for name in boosted}
    at = {name: vector for name, vector in vectors.items() if vector is not None}
    done.owed = with_more(kept, owed_for([boosted[name] for name in at], at, moved))
    if done.owed != before:
        write_owed(catalog.store, done.owed)


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
    reached: dict[str, int],
    done: PublishedObjects,
    lives: Lives,
    each_transaction: bool,
) -> list[Interval]:
    """Make those that are new, and say how far that reaches; over which intervals they are.

    If a relation has none, for a gap, the views that read it are refused.
    """
    relations = {r.name: r for view in views.values() for r in view.definition.relations.values()}
    moved: list[Interval] = []
    for name, relation in sorted(relations.items(), key=lambda item: item[1].source):
        reading = {n: v for n, v in views.items() if name in v.definition.relations}
        versions = [[at.versions[name] for at in view.versions] for view in reading.values()]
        log = ChangeLog(warehouse.changes, relation.source)
        offset = lives.offset(relation.source, [name])
        known = None if relation.source in lives.begun else reached.get(name)
        try:
            way = way_of(catalog, log, name, versions, offset, known, each_transaction)
            steps = list(way.steps(log, relation, each_transaction))
        except HeadwaterError as error:
            done.refused |= {n: error for n in reading if n not in done.refused}
            continue
        if why := lives.begun.get(relation.source) or way.anew:
            done.anew[name] = why
        reached[name] = max(way.borders) + offset
        done.updategrams += steps
        moved += intervals_of(steps)
    return moved
