"""Publishing a project: its warehouse as updategrams, and boosters from answers of its sources.

A booster is the answer to a question: which rows of S join with the rows that an updategram of R
touches. The answer reflects some state of S; the change log tells which transactions it has too
many or too few, and those are taken out or put in, so that the booster is of a version that
peers know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headwater.algebra.expressions import ColumnRef
from headwater.algebra.rows import Rows
from headwater.algebra.terms import Base, Bound, Query, Term
from headwater.algebra.views import Join, Occurrence
from headwater.errors import HeadwaterError, InputError, SourceError
from headwater.pipeline.sessions import engine_of
from headwater.pipeline.verify import corrections, open_logs
from headwater.project.project import Project
from headwater.project.settings import ShareSettings
from headwater.sharing import rules
from headwater.sharing.booster import Booster
from headwater.sharing.catalog import Catalog
from headwater.sharing.contents import Contents
from headwater.sharing.errors import SharingError
from headwater.sharing.history import relation_between
from headwater.sharing.lives import offset_of
from headwater.sharing.node import SharingNode
from headwater.sharing.owed import OwedBooster, read_owed, write_owed
from headwater.sharing.peers import require_name
from headwater.sharing.policies import Policy
from headwater.sharing.publishing import PublishedObjects, publish_warehouse
from headwater.sharing.shared_views import SharedView
from headwater.sharing.updategram import Updategram
from headwater.sharing.versions import Versions
from headwater.sources.contract import Reply
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import MODES, Warehouse


def open_node(
    project: Project, folder: Path | None = None, name: str = "", system: str = ""
) -> SharingNode:
    """The node of a project, made if it is not there yet; as `[share]` says, if nothing else is."""
    settings = project.settings.share
    place = folder or node_folder(project)
    if (place / "node.json").exists():
        node = SharingNode.open(place)
        node.require_named(name, system)
    else:
        require_name("node", name or "unnamed")
        require_name("system", system or settings.system)
        if not place.exists():
            place.mkdir(parents=True)
            place.chmod(MODES[project.settings.warehouse.readers])
        name = name or settings.node or project.folder.absolute().name
        try:
            node = SharingNode.create(place, name, system or settings.system)
        except InputError:
            if not (place / "node.json").exists():
                raise
            node = SharingNode.open(place)  # another process has made it just now
    if place == node_folder(project):
        policy = _wanted_policy(node.policy, settings)
        if policy != node.policy:
            node.set_policy(policy)
    return node


def _wanted_policy(policy: Policy, settings: ShareSettings) -> Policy:
    """A node's policy with what the settings say of it."""
    if settings.boosters is not None:
        chosen = replace(policy.boosters, views=tuple(settings.boosters))
        policy = replace(policy, boosters=chosen)
    if settings.granularity is not None:
        policy = replace(policy, granularity=settings.granularity)
    return policy


def node_folder(project: Project) -> Path:
    """Where the node of a project is."""
    return project.folder / project.settings.share.folder


def publish_project(
    project: Project,
    node: SharingNode,
    views: Iterable[str] | None = None,
    report: Callable[[str], None] = lambda step: None,
    *,
    anew: bool = False,
) -> PublishedObjects:
    """Publish what the warehouse has, and boosters for the views that the node's policy names.

    Views that cannot be published are told in what is returned, and so are boosters that could not
    be made: they are owed. `report` is told what is being done. `anew` as in `publish_warehouse`.
    """
    warehouse = Warehouse(project.warehouse)
    done = publish_warehouse(
        node.catalog,
        warehouse,
        views,
        each_transaction=node.policy.granularity == "transaction",
        spark=engine_of(project).for_small,
        report=report,
        boosted=node.policy.boosters.wants,
        anew=anew,
        verify=True,
    )
    if done.owed:
        report("asking the sources for boosters")
        made = make_owed(project, warehouse, node, done.owed)
        done.note("booster", made.count)
        done.owed = made.left
        done.unmade = made.failures
    return done


# Boosters


@dataclass
class MadeBoosters:
    """What became of boosters that were owed."""

    count: int = 0
    left: list[OwedBooster] = field(default_factory=list)
    """Those that are owed still."""
    failures: dict[str, HeadwaterError] = field(default_factory=dict)
    """By source: why it could not be asked."""
    given_up: dict[str, str] = field(default_factory=dict)
    """By booster: why it can never be made any more."""


def make_owed(
    project: Project,
    warehouse: Warehouse,
    node: SharingNode,
    owed: Sequence[OwedBooster],
    sources: Collection[str] | None = None,
    wait: bool = True,
) -> MadeBoosters:
    """Ask the sources, or only some, for boosters that are owed: those between others first.

    A source that cannot be asked is no reason to leave the others. Two processes that do this at
    once make the same boosters. BusyError if another is at work on the node, and this one is not
    to `wait`.
    """
    done = MadeBoosters()
    settled: list[OwedBooster] = []
    failed: dict[OwedBooster, str] = {}
    near, far = [o for o in owed if not o.through], [o for o in owed if o.through]
    for some in (near, far):
        wanted = []
        for each in some:
            if sources is not None and each.source not in sources:
                continue
            try:
                wanted.append((each, _wanted(node.catalog, each)))
            except SharingError as error:
                if not any(_is_between(o, each) and o not in settled for o in near):
                    done.given_up[str(each)] = error.message
        made: list[tuple[OwedBooster, Booster]] = []
        for source in dict.fromkeys(item.source for _, item in wanted):
            mine = [(each, item) for each, item in wanted if item.source == source]
            try:
                made += _asked(project, warehouse, node, source, mine, done.given_up)
            except HeadwaterError as error:
                done.failures[source] = error
                failed |= {each: error.message for each, _ in mine}
        chosen = [b for _, b in made if node.policy.boosters.admits(len(b.rows))]
        with node.catalog.store.locked(wait):
            node.catalog.refresh()
            done.count += len(node.catalog.add_new(chosen))
        settled += [each for each, _ in made]
    settled += [each for each in owed if str(each) in done.given_up]
    done.left = _settle(node.catalog, settled, failed, wait)
    return done


def _settle(
    catalog: Catalog,
    settled: Sequence[OwedBooster],
    failed: Mapping[OwedBooster, str],
    wait: bool,
) -> list[OwedBooster]:
    """Write down what is owed still; others may owe more by now."""
    with catalog.store.locked(wait):
        before = read_owed(catalog.store)
        kept = [o for o in before if not any(o.is_same(each) for each in settled)]
        why = {replace(each, why=""): text for each, text in failed.items()}
        left = [replace(o, why=why.get(replace(o, why=""), o.why)) for o in kept]
        if left != before:
            write_owed(catalog.store, left)
    return left


def _is_between(near: OwedBooster, far: OwedBooster) -> bool:
    """Whether one booster is what another one goes through."""
    return replace(far, of=far.through, version=far.through_version, through="", through_version=0,
                   why=near.why) == near  # fmt: skip


def _wanted(catalog: Catalog, owed: OwedBooster) -> _Wanted:
    """What is to be asked for a booster; SharingError if what it needs is not there."""
    definition = catalog.view(owed.view)
    updategram = relation_between(catalog, owed.changed, owed.first, owed.last)
    if owed.through:
        at = Versions({owed.through: owed.through_version})
        between = next(
            (
                b
                for b in catalog.boosters(owed.changed)
                if b.view == definition
                and b.of == (owed.through,)
                and b.versions == at
                and b.interval.contains(owed.interval)
            ),
            None,
        )
        if between is None:
            raise SharingError(f"There is no booster of {owed.through} through which it could go.")
        updategram = rules.a2(definition, updategram, catalog.load_booster(between))
    return _Wanted(definition, updategram, owed.of, owed.version)


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


def _asked(
    project: Project,
    warehouse: Warehouse,
    node: SharingNode,
    source: str,
    wanted: Sequence[tuple[OwedBooster, _Wanted]],
    given_up: dict[str, str],
) -> list[tuple[OwedBooster, Booster]]:
    """Ask a source once for all of its boosters; what can never be made is noted as given up."""
    with open_logs(project, warehouse, 1) as opened:
        wrapper = project.sources[source].open_wrapper()
        try:
            reply = wrapper.ask([item.question() for _, item in wanted])
        finally:
            wrapper.close()
        names = {item.definition.relations[item.name].short_name for _, item in wanted}
        load, log = opened(source, sorted(names))
        load.close()  # what it reads is later than the reply, so the log has that too
        off: dict[tuple[str, int], dict[str, Rows] | HeadwaterError] = {}
        made: list[tuple[OwedBooster, Booster]] = []
        for (owed, item), answer in zip(wanted, reply.results, strict=True):
            key = item.definition.name, item.version
            if key not in off:
                number = item.version - offset_of(node.catalog.description, source)
                off[key] = _corrections(reply, log, item, number)
            found = off[key]
            if isinstance(found, HeadwaterError):
                given_up[str(owed)] = found.message
            else:
                made.append((owed, item.booster(answer, found.get(item.name))))
    return made


def _corrections(
    reply: Reply, log: ChangeLog, item: _Wanted, number: int
) -> dict[str, Rows] | HeadwaterError:
    """What an answer has too many or too few; why that will never be known, if it is so."""
    schemas = {n: r.schema for n, r in item.definition.relations.items()}
    reached = Reached(number, None)
    try:
        return corrections(reply, log, reached, item.definition.name, schemas)[0]
    except SourceError:
        raise
    except HeadwaterError as error:  # a gap, or the change log does not go back so far
        return error
