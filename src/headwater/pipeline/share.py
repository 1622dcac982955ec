"""Publishing a project: its warehouse as updategrams, and boosters from answers of its sources.

A booster is the answer to a question: which rows of S join with the rows that an updategram of R
touches. The answer reflects some state of S; the change log tells which transactions it has too
many or too few, and those are taken out or put in, so that the booster is of a version that
peers know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Base, Bound, Query, Term
from headwater.algebra.views import Join, Occurrence
from headwater.pipeline.project import Project
from headwater.pipeline.verify import corrections, open_logs
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.definitions import Definition
from headwater.sharing.node import Node
from headwater.sharing.publishing import Publication, publish_warehouse
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import Warehouse

FOLDER = "share"
"""Where a project's catalog is, beside its headwater.toml."""


def open_node(
    project: Project, folder: Path | None = None, name: str = "", system: str = ""
) -> Node:
    """The node of a project, made if it is not there yet."""
    place = folder or project.folder / FOLDER
    if (place / "node.json").exists():
        return Node.open(place)
    return Node.create(place, name or project.folder.absolute().name, system or "shared")


def publish_project(
    project: Project, node: Node, views: Iterable[str] | None = None
) -> Publication:
    """Publish what the warehouse has, and boosters for the views that the node's policy names."""
    warehouse = Warehouse(project.warehouse)
    each = node.policy.granularity == "transaction"
    done = publish_warehouse(node.catalog, warehouse, views, each_transaction=each)
    wanted = [name for name in done.vectors if node.policy.boosters.wants(name)]
    if wanted:
        made = _boosters(project, warehouse, node, wanted, done)
        chosen = [b for b in made if node.policy.boosters.admits(len(b.rows))]
        with node.catalog.store.locked():
            node.catalog.add_all((booster, node.name) for booster in chosen)
        done.note("booster", len(chosen))
    return done


@dataclass(frozen=True)
class _Wanted:
    """A booster that is to be made: of `name` at `version`, for an updategram in a view."""

    definition: Definition
    updategram: Updategram
    name: str
    version: int

    @property
    def source(self) -> str:
        return self.definition.relations[self.name].source

    def question(self) -> Query:
        """The rows of S that join with a touched row, each beside every such row."""
        changed = self.definition.relations[self.updategram.subject]
        occurrences = tuple(
            Occurrence(relation.name, relation)
            for relation in (changed, self.definition.relations[self.name])
        )
        schema = occurrences[1].schema + occurrences[0].schema
        join = Join(
            occurrences,
            self.definition.condition((changed.name, self.name)),
            tuple(ColumnRef(column.name, column.type) for column in schema.columns),
            schema,
        )
        touched = dict.fromkeys(self.updategram.touched, 1)
        bound = Bound((0,), Rows(occurrences[0].schema, touched))
        return (Term(join, (bound, Base(1))),)

    def booster(self, answer: Rows, correction: Rows | None) -> Booster:
        """From the answer, with what the log says it has too many or too few."""
        columns = self.definition.columns((self.name,))
        rows = Rows(columns, {row[: len(columns)]: count for row, count in answer.items()})
        found = Booster(
            self.definition,
            self.updategram.interval,
            (self.name,),
            Versions({self.name: self.version}),
            rows,
        )
        if correction is None:
            return found
        relation = self.definition.relations[self.name]
        at = Versions({self.name: self.version})
        change = Updategram.of_net(self.name, at, at, correction.only(relation.schema))
        return rules.moved(self.definition, self.updategram, found, change)


def _boosters(
    project: Project, warehouse: Warehouse, node: Node, views: Iterable[str], done: Publication
) -> list[Booster]:
    wanted = [
        _Wanted(definition, updategram, name, done.vectors[definition.name][name])
        for definition in map(node.catalog.view, views)
        for updategram in done.updategrams
        if updategram.subject in definition.relations
        for name in definition.relations
        if name != updategram.subject
    ]
    made: list[Booster] = []
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
            off: dict[int, dict[str, Rows]] = {}
            for item, answer in zip(mine, reply.results, strict=True):
                if item.version not in off:
                    off[item.version], _ = corrections(reply, log, Reached(item.version, None))
                made.append(item.booster(answer, off[item.version].get(item.name)))
    return made
