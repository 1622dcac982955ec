"""From a warehouse to shared objects: its change logs and its views' commits as updategrams.

A relation is published with the columns that its change log has, and its version is the number
of its source's transaction: `shop.orders` at 7 is that table after the seventh transaction of
`shop`. A view's version vector follows from the vector of its commit. So what `headwater
status` shows as numbers are versions here, and relations of one source move together.

Rows of base relations are not published: a warehouse has none. Peers start from a view's contents
and go on by updategrams of the view, or by updategrams of its relations and boosters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation
from headwater.errors import HeadwaterError, InputError, one_or_several
from headwater.frames.session import Spark
from headwater.sharing.catalog import Catalog
from headwater.sharing.entries import Item, RelationEntry, ViewEntry
from headwater.sharing.errors import ConflictError, SharingError
from headwater.sharing.owed import OwedBooster, owed_for, read_owed, with_more, write_owed
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Interval, Versions
from headwater.sharing.view_publication import CommittedVersion, ViewPublication, no_spark
from headwater.warehouse.change_records import Break
from headwater.warehouse.changes import ChangeLog, between
from headwater.warehouse.view_table import ViewTable
from headwater.warehouse.warehouse import Warehouse

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
) -> PublishedObjects:
    """Publish what views and their relations did since the last time.

    One updategram for each, or with `each_transaction` one for each transaction and commit.
    `spark` may be what gives a session; it is called only for views with a top that are not small.
    `report` is told what is being done. `boosted` says for which views boosters are then owed. A
    view that cannot be published is no reason to leave the others; if there is none that can, that
    is raised.
    """
    done = publish_what_can_be(
        catalog,
        warehouse,
        views,
        each_transaction=each_transaction,
        spark=spark,
        report=report,
        boosted=boosted,
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
        relations = _relations(catalog, warehouse)
        found: dict[str, _Found] = {}
        for table in tables:
            report(f"publishing {table.name}")
            try:
                definition = _definition(catalog, table, relations)
                publication = ViewPublication(
                    catalog, definition, table, each_transaction, spark, boosted(table.name)
                )
                table.log.make_durable()  # a commit that is lost again must not be published
                versions = publication.versions()
                if publication.begins_anew(versions):
                    done.anew[table.name] = _NO_COMMITS
                items = [*publication.items(versions)]
                found[table.name] = _Found(definition, versions, items)
            except HeadwaterError as error:
                done.refused[table.name] = error
        reached = dict(catalog.description.get("reached", {}))
        moved = _relation_updategrams(catalog, warehouse, found, reached, done, each_transaction)
        found = {name: view for name, view in found.items() if name not in done.refused}
        if not found:
            return done
        done.vectors = {name: view.versions[-1].versions for name, view in found.items()}
        done.numbers = {name: view.versions[-1].number for name, view in found.items()}
        known = catalog.views | {name: view.definition for name, view in found.items()}
        _owe(catalog, done, {n: view for n, view in known.items() if boosted(n)}, moved)
        for listed in catalog.add_new(_items(catalog, found.values(), done.updategrams)):
            done.note(listed.kind)
        _note(catalog, published=done.numbers, reached=reached)
    return done


def _note(catalog: Catalog, **reached: Mapping[str, int]) -> None:
    """Write down how far everything is published, if that has changed."""
    before = {name: catalog.description.get(name, {}) for name in reached}
    now = {name: before[name] | dict(numbers) for name, numbers in reached.items()}
    if now != before:
        catalog.describe(**now)


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
) -> None:
    """Write down what is owed from now on; what was owed for nothing is forgotten.

    It is owed to all views that are published here: of some only a relation has moved.
    That is what a process has left that was killed before it had published the updategrams.
    """
    before = done.owed
    reached = catalog.description.get("reached", {})
    kept = [o for o in before if o.last <= reached.get(o.changed, 0) and o.view in boosted]
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
    each_transaction: bool,
) -> list[Interval]:
    """Make those that are new, and say how far that reaches; over which intervals they are.

    If a relation has none, for a gap, the views that read it are refused.
    """
    relations = {r.name: r for view in views.values() for r in view.definition.relations.values()}
    moved: list[Interval] = []
    for name, relation in sorted(relations.items(), key=lambda item: item[1].source):
        reading = {n: v for n, v in views.items() if name in v.definition.relations}
        vectors = [[at.versions[name] for at in view.versions] for view in reading.values()]
        log = ChangeLog(warehouse.changes, relation.source)
        try:
            way = _way(catalog, log, name, vectors, reached.get(name), each_transaction)
            steps = list(way.steps(log, relation, each_transaction))
        except HeadwaterError as error:
            done.refused |= {n: error for n in reading if n not in done.refused}
            continue
        if way.anew:
            done.anew[name] = way.anew
        reached[name] = max(way.borders)
        done.updategrams += steps
        moved += _intervals(steps)
    return moved


def _intervals(steps: Iterable[Updategram]) -> Iterator[Interval]:
    """Those that steps which follow each other cover together."""
    whole: Interval | None = None
    for step in steps:
        interval = step.interval
        if whole is not None and whole.last == interval.first:
            whole = Interval(whole.relation, whole.first, interval.last)
            continue
        if whole is not None:
            yield whole
        whole = interval
    if whole is not None:
        yield whole


@dataclass
class _Way:
    """Where updategrams of a relation start and end: where views that are published stand.

    `vectors` has for each view the relation's versions at which it stood.
    """

    borders: list[int]
    vectors: Sequence[Sequence[int]]
    anew: str = ""
    """Why it does not start where the last one ended, if that is so."""

    def steps(
        self, log: ChangeLog, relation: Relation, each_transaction: bool
    ) -> Iterator[Updategram]:
        """The updategrams, from what the change log says."""
        step = _Step(relation, self.borders[0])
        ends = deque(self.borders[1:])
        for change in between(log, self.borders[0], self.borders[-1]):
            if isinstance(change, Break):
                if change.columns is None or relation.name in change.columns:
                    step = _Step(relation, self._behind(log, relation, change))
                    ends = deque(end for end in ends if end > step.first)
            elif change.number > step.first:
                delta = change.transaction.deltas.get(relation.name)
                if delta:
                    step.take(_only(delta, relation, log.source, change.number))
                if each_transaction and delta and change.number != ends[0]:
                    yield step.made(change.number)
                    step = _Step(relation, change.number)
            if ends and change.number == ends[0]:
                yield step.made(ends.popleft())
                step = _Step(relation, change.number)

    def _behind(self, log: ChangeLog, relation: Relation, gap: Break) -> int:
        """Where to begin anew behind a gap: where a view was loaded after it."""
        across = any(vector[0] < gap.number <= vector[-1] for vector in self.vectors)
        later = [n for vector in self.vectors for n in vector if n >= gap.number]
        if across or not later:
            raise SharingError(
                f"The change log of {log.source} has a gap at number {gap.number}: {gap.reason}",
                f"What became of {relation.name} there is not known: publish it into a new node.",
            )
        self.anew = f"the change log has a gap at number {gap.number}: {gap.reason.rstrip('.')}"
        return min(later)


class _Step:
    """What has happened to a relation since a version: inserted and deleted apart."""

    def __init__(self, relation: Relation, first: int) -> None:
        self.first = first
        self._relation = relation
        self._inserted: list[Rows] = []
        self._deleted: list[Rows] = []

    def take(self, delta: Rows) -> None:
        self._inserted.append(delta.positive())
        self._deleted.append(-delta.negative())

    def made(self, last: int) -> Updategram:
        name, schema = self._relation.name, self._relation.schema
        return Updategram(
            name,
            Versions({name: self.first}),
            Versions({name: last}),
            Rows.sum(schema, self._inserted),
            Rows.sum(schema, self._deleted),
        )


def _way(
    catalog: Catalog,
    log: ChangeLog,
    relation: str,
    vectors: Sequence[Sequence[int]],
    reached: int | None,
    each_transaction: bool,
) -> _Way:
    """From where it is known that all updategrams are there, over those that are there already."""
    wanted = {n for vector in vectors for n in (vector if each_transaction else vector[-1:])}
    ends = {u.last[relation] for u in catalog.updategrams(relation)}
    start, kept, anew = max(ends, default=None) if reached is None else reached, log.first - 1, ""
    if start is None:
        start = max(min(map(min, vectors)), kept)
    elif start < kept and (later := [n for vector in vectors for n in vector if n >= kept]):
        anew = f"the change log begins at number {kept + 1}, and {start} was published last"
        start = min(later)
    borders = sorted({start, *(n for n in wanted | ends if n > start)})
    return _Way(borders, vectors, anew)


def _only(delta: Rows, relation: Relation, source: str, number: int) -> Rows:
    missing = [c for c in relation.schema.names if c not in delta.schema.positions]
    if missing:
        raise SharingError(
            f"Transaction {number} of {source} was logged without {', '.join(missing)} of "
            f"{relation.name}.",
            "Publish again once the change log starts after it ('retention' in headwater.toml).",
        )
    return delta.only(relation.schema)
