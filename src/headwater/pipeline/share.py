"""Publishing a project: its warehouse as updategrams, and boosters from answers of its sources.

A booster is the answer to a question: which rows of S join with the rows that an updategram of R
touches. The answer reflects some state of S; the change log tells which transactions it has too
many or too few, and those are taken out or put in, so that the booster is of a version that
peers know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Base, Bound, Query, Term
from headwater.algebra.views import Join, Occurrence
from headwater.pipeline.api import engine_of
from headwater.pipeline.verify import corrections, open_logs
from headwater.project.project import Project
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.contents import Contents
from headwater.sharing.node import SharingNode
from headwater.sharing.publishing import PublishedObjects, publish_warehouse
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import MODES, Warehouse

FOLDER = "share"
"""Where a project's catalog is, beside its headwater.toml."""


def open_node(
    project: Project, folder: Path | None = None, name: str = "", system: str = ""
) -> SharingNode:
    """The node of a project, made if it is not there yet."""
    place = folder or project.folder / FOLDER
    if (place / "node.json").exists():
        return SharingNode.open(place)
    if not place.exists():
        place.mkdir(parents=True)
        place.chmod(MODES[project.settings.warehouse.readers])
    return SharingNode.create(place, name or project.folder.absolute().name, system or "shared")


def publish_project(
    project: Project,
    node: SharingNode,
    views: Iterable[str] | None = None,
    report: Callable[[str], None] = lambda step: None,
) -> PublishedObjects:
    """Publish what the warehouse has, and boosters for the views that the node's policy names.

    Views that cannot be published are told in what is returned; `report` is told what is being
    done.
    """
    warehouse = Warehouse(project.warehouse)
    each = node.policy.granularity == "transaction"
    done = publish_warehouse(
        node.catalog,
        warehouse,
        views,
        each_transaction=each,
        spark=engine_of(project).for_small,
        report=report,
    )
    wanted = [name for name in done.vectors if node.policy.boosters.wants(name)]
    if wanted:
        report("asking the sources for boosters")
        made = _boosters(project, warehouse, node, wanted, done)
        chosen = [b for b in made if node.policy.boosters.admits(len(b.rows))]
        with node.catalog.store.locked():
            node.catalog.add_all(chosen)
        done.note("booster", len(chosen))
    return done


@dataclass(frozen=True)
class _Wanted:
    """A booster that is to be made: of `name` at `version`, for an updategram in a view.

    The updategram may be joined already with a relation that lies between.
    """

    definition: SharedView
    updategram: Updategram
    name: str
    version: int

    @property
    def source(self) -> str:
        return self.definition.relations[self.name].source

    def question(self) -> Query:
        """The rows of S that join with a touched row, each beside every such row."""
        names, part = rules.qualified(self.definition, self.updategram)
        occurrences = tuple(
            Occurrence(name, self.definition.relations[name]) for name in (*names, self.name)
        )
        schema = self.definition.columns((self.name,)) + self.definition.columns(names)
        join = Join(
            occurrences,
            self.definition.condition((*names, self.name)),
            tuple(ColumnRef(column.name, column.type) for column in schema.columns),
            schema,
        )
        touched = Rows(part.schema, dict.fromkeys(part.touched, 1))
        bound = Bound(tuple(range(len(names))), touched)
        return (Term(join, (bound, Base(len(names)))),)

    def booster(self, answer: Rows, correction: Rows | None) -> Booster:
        """From the answer, with what the log says it has too many or too few."""
        relation = self.definition.relations[self.name]
        width = len(relation.schema)
        rows = Rows(relation.schema, {row[:width]: count for row, count in answer.items()})
        contents = Contents.of_relation(self.name, self.version, rows)
        found = rules.a3(self.definition, self.updategram, contents)
        if correction is None:
            return found
        at = Versions({self.name: self.version})
        change = Updategram.of_net(self.name, at, at, correction)
        return rules.moved(self.definition, self.updategram, found, change)


def _boosters(
    project: Project,
    warehouse: Warehouse,
    node: SharingNode,
    views: Iterable[str],
    done: PublishedObjects,
) -> list[Booster]:
    """First of relations that a condition connects with the one that changed, then through them."""
    near: list[_Wanted] = []
    far: list[tuple[_Wanted, str]] = []
    for definition in map(node.catalog.view, views):
        if definition.beyond_rules:
            continue
        vector = done.vectors[definition.name]
        for updategram in done.updategrams:
            if updategram.subject not in definition.relations:
                continue
            for name in definition.relations:
                wanted = _Wanted(definition, updategram, name, vector[name])
                between = definition.between(updategram.subject, name)
                if between is not None:
                    far.append((wanted, between))
                elif name != updategram.subject:
                    near.append(wanted)
    made = _asked(project, warehouse, near)
    known = {(b.view, b.interval, b.of[0]): b for b in made}
    joined = []
    for wanted, between in far:
        first = known[wanted.definition, wanted.updategram.interval, between]
        part = rules.a2(wanted.definition, wanted.updategram, first)
        joined.append(replace(wanted, updategram=part))
    return [*made, *_asked(project, warehouse, joined)]


def _asked(project: Project, warehouse: Warehouse, wanted: Sequence[_Wanted]) -> list[Booster]:
    """Ask each source once for all of its boosters."""
    made: list[Booster] = []
    if not wanted:
        return made
    with open_logs(project, warehouse, 1) as opened:
        for source in dict.fromkeys(item.source for item in wanted):
            mine = [item for item in wanted if item.source == source]
            wrapper = project.sources[source].open_wrapper()
            try:
                reply = wrapper.ask([item.question() for item in mine])
            finally:
                wrapper.close()
            names = sorted({item.definition.relations[item.name].short_name for item in mine})
            load, log = opened(source, names)
            load.close()  # what it reads is later than the reply, so the log has that too
            off: dict[tuple[str, int], dict[str, Rows]] = {}
            for item, answer in zip(mine, reply.results, strict=True):
                key = item.definition.name, item.version
                if key not in off:
                    schemas = {n: r.schema for n, r in item.definition.relations.items()}
                    reached = Reached(item.version, None)
                    off[key], _ = corrections(reply, log, reached, item.definition.name, schemas)
                made.append(item.booster(answer, off[key].get(item.name)))
    return made
