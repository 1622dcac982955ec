"""Looking a project over: its files, its sources as they are now, and what each view will get.

Nothing is changed anywhere. What is wrong with one source or view does not hide the others. What
a run needs besides, Java and a warehouse that can be written, is looked at too.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from headwater.algebra.schema import Relation
from headwater.algebra.views import View, equated_columns
from headwater.check.levels import Level
from headwater.errors import HeadwaterError, InputError, SeveralError, SourceError
from headwater.mediation.telling import never_told
from headwater.project.aligned import level_behind
from headwater.project.choice import Choice
from headwater.project.cost_lines import CostLine, cost_lines
from headwater.project.differences import cannot_be_relied_on, describe_difference
from headwater.project.explanation import table_sizes
from headwater.project.java import check_java
from headwater.project.leftovers import Leftovers, leftovers, unusable_for_leftovers
from headwater.project.project import (
    Project,
    known_owner,
)
from headwater.project.remarks import cautions_of, constants_of, told_of_constants
from headwater.project.settings import (
    FILE,
    Problems,
    ProjectError,
    read_document,
    read_settings,
)
from headwater.project.stored_parts import (
    StoredPart,
    describe_copies,
    describe_parts,
    stored_parts,
    told_of_pairs,
)
from headwater.project.view_files import DefinedView, ViewFile
from headwater.sources.contract import Origin, Source
from headwater.storage.location import Location

_LITTLE_BYTES = 1 << 30


@dataclass
class SourceFound:
    """A source; without relations if it could not be read."""

    name: str
    relations: tuple[Relation, ...] = ()
    set_up: bool | None = None
    """Whether nothing is left to be set up; None if that is not known."""
    missing_indexes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    """What somebody should know who looks after it."""


@dataclass(frozen=True)
class ViewFound:
    """A view or a group; without an algorithm if one of its sources could not be read."""

    name: str
    files: tuple[ViewFile, ...]
    """Its file, or those of the members of a group."""
    sources: tuple[str, ...]
    algorithm: str | None
    reason: str
    cautions: tuple[str, ...] = ()
    """Where it means something else than at its source."""
    parts: tuple[StoredPart, ...] = ()
    """What is stored of it, if that is not what it shows."""
    stored: str = ""
    """The same in a sentence."""
    copies: str = ""
    """Which copies of relations are kept beside it, in a sentence."""
    costs: tuple[CostLine, ...] = ()
    """What each algorithm would cost; none where nothing is asked."""
    level: Level | None = None
    """With regard to all databases, also those behind views of other projects, where that is known;
    its file has what is asked for."""

    @property
    def file(self) -> ViewFile:
        """What says how it is maintained: the same in all files of a group."""
        return self.files[0]

    @property
    def members(self) -> tuple[str, ...]:
        """The views of a group; none if it is a view by itself."""
        return () if self.file.group is None else tuple(file.name for file in self.files)


@dataclass
class Inspection:
    """Everything that was found, and what is wrong."""

    sources: list[SourceFound] = field(default_factory=list)
    views: list[ViewFound] = field(default_factory=list)
    problems: list[HeadwaterError] = field(default_factory=list)
    warnings: list[HeadwaterError] = field(default_factory=list)
    """What will keep a run from working here, or may; the project itself can be sound."""


def inspect(folder: Path) -> Inspection:
    """Look over a project and ask its sources about themselves."""
    found = Inspection()
    try:
        project = Project.open(folder, only=())
    except InputError as error:
        problems = error.problems if isinstance(error, ProjectError) else (error,)
        for readable in _readable_sources(folder):
            _source(readable, found.problems)
        found.problems += problems
        return found
    with _noting(found.warnings):
        check_java()
    with _noting(found.problems):
        _check_warehouse(project.warehouse, found.warnings)
        _look_at_warehouse(project, found.problems)
    sources = project.open_sources(known_owner(project.warehouse))
    found.sources = [_source(source, found.problems) for source in sources.values()]
    _look_at_logs(project, sources, found)
    _excuse_leftovers(project, sources, found)
    views = [view for name in project.units for view in _view(project, name, sources, found)]
    for source in found.sources:
        if source.relations and (wanted := probes(views, source.name)):
            with _noting(found.problems):
                missing = sources[source.name].missing_indexes(wanted)
                source.missing_indexes = tuple(missing)
    found.problems += project.mistakes  # a source may explain what is wrong with a view
    found.problems = list({str(problem): problem for problem in found.problems}.values())
    return found


def _look_at_warehouse(project: Project, problems: list[HeadwaterError]) -> None:
    """Whether views that were loaded can go on from what lies there."""
    from headwater.project.gaps import check_goes_on
    from headwater.warehouse.changes import ChangeLog
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    warehouse = Warehouse(project.warehouse)
    vectors = {}
    for name in warehouse.view_names():
        with _noting(problems):
            table = warehouse.view(name)
            table.tail()
            vectors[name] = table.latest().vector
    logs = {}  # looked at after the views, which a runner never lets come further than them
    for source in project.settings.sources:
        with _noting(problems):
            log = ChangeLog(warehouse.changes, source)
            log.scan()
            logs[source] = log
    for name in filter(project.units.__contains__, vectors):
        with _noting(problems):
            for source, reached in vectors[name].items():
                if source in logs:
                    check_goes_on(name, source, reached.number, logs[source])


def _look_at_logs(project: Project, sources: Mapping[str, Source], found: Inspection) -> None:
    """Whether each source is set up for what views need, and what somebody should know of it."""
    from headwater.project.needs import narrowed, needed_columns
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    relations = {s.name: s.relations for s in found.sources if s.relations}
    with _noting(found.problems):
        columns = needed_columns(project, Warehouse(project.warehouse), relations)
        for source in found.sources:
            if source.relations:
                with _noting(found.problems):
                    opened = sources[source.name]
                    found.problems += opened.lacking()
                    narrow = narrowed(opened, columns.get(source.name, {}))
                    source.set_up = not narrow.setup_statements()
                    source.cautions = tuple(_cautions(opened, project))


def _excuse_leftovers(project: Project, sources: Mapping[str, Source], found: Inspection) -> None:
    """What is wrong with tables that only views without a file use is no mistake."""
    left: Leftovers = {}
    with _noting(found.problems):
        left = leftovers(project)
    for source in found.sources:
        for why, caution in unusable_for_leftovers(project, sources[source.name], left):
            found.problems = [each for each in found.problems if str(each) != str(why)]
            source.cautions = (*source.cautions, caution)


def _cautions(source: Source, project: Project) -> Iterator[str]:
    yield from source.cautions()
    views = [name for name, needs in project.needs.items() if source.name in needs]
    if source.limits and any(project.view_files[v].level >= Level.COMPLETE for v in views):
        yield f"Source {source.name}: {source.limits}"
    for log in source.other_logs():
        size = f" ({log.size_bytes:,} bytes)" if log.size_bytes is not None else ""
        yield (
            f"Source {source.name}: the warehouse {log.owner} has a log here{size}, which grows "
            f"until it is read. If that warehouse is no more: headwater teardown {source.name} "
            f"--owner {log.owner}."
        )


def _as_it_goes_on(project: Project, definition: DefinedView) -> tuple[DefinedView, str | None]:
    from headwater.project.loaded import as_it_goes_on
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    return as_it_goes_on(definition, Warehouse(project.warehouse))


def _reload_would(
    project: Project, filed: DefinedView, goes_on: DefinedView, now: Choice
) -> Iterator[str]:
    """What a reload would bring, where a view is not stored as its file has it."""
    if filed.view.kept != goes_on.view.kept:
        then = project.choose(filed)
        words = "with hidden keys" if goes_on.view.kept else "without the keys of KEEP KEYS"
        yield (
            f"View {filed.name} goes on as it was loaded, {words}, by {now.algorithm}; after "
            f"headwater reload {filed.name} it would be maintained by {then.algorithm}."
        )


def _since_loaded(project: Project, name: str, definition: DefinedView) -> str | None:
    """Why a view no longer fits the table that it was loaded into."""
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    warehouse = Warehouse(project.warehouse)
    if name not in warehouse.view_names():
        return None
    table = warehouse.view(name)
    return describe_difference(table.definition, definition.stored) or cannot_be_relied_on(
        table.latest(), definition.file.level
    )


def _readable_sources(folder: Path) -> list[Source]:
    """The sources whose settings are sound, in a project that is not."""
    try:
        settings = read_settings(folder / FILE, read_document(folder / FILE), Problems())
    except InputError:
        return []
    return [source.open(name, folder) for name, source in settings.sources.items() if source.names]


def _check_warehouse(place: Location, warnings: list[HeadwaterError]) -> None:
    """InputError if the warehouse cannot be there."""
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    Warehouse(place)  # refuses paths that its tables cannot have, and stores that do not answer
    if not place.storage.moves_folders:
        return
    path = place.path
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise InputError(
            f"The warehouse {path} cannot be made: {there} is not a folder.",
            f"Choose another path for the warehouse in {FILE}.",
        )
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(
            f"The warehouse {path} cannot be written: {there} may not be changed by this user.",
            f"Change its permissions, or choose another path for the warehouse in {FILE}.",
        )
    free = shutil.disk_usage(there).free
    if free < _LITTLE_BYTES:
        warnings.append(
            InputError(
                f"The disk of the warehouse {path} has only {free >> 20:,} MiB left.",
                "Make room, or choose another path.",
            )
        )


def probes(views: Iterable[View], source: str) -> dict[str, list[tuple[str, ...]]]:
    """By which columns the relations of a source are looked up when another one changes."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for view, join in ((each, join) for each in views for join in each.joins):
        partners: dict[tuple[int, int], set[str]] = defaultdict(set)
        for a, b in filter(None, map(equated_columns, join.condition)):
            if join.owner[a] != join.owner[b]:
                partners[join.owner[a], join.owner[b]].add(a)
                partners[join.owner[b], join.owner[a]].add(b)
        for (at, _), columns in sorted(partners.items()):
            occurrence = join.occurrences[at]
            copied = occurrence.relation.name in view.copies
            if occurrence.relation.source == source and not copied:
                found[occurrence.relation.short_name].append(
                    tuple(
                        column.removeprefix(f"{occurrence.alias}.")
                        for column in occurrence.schema.names
                        if column in columns
                    )
                )
    return dict(found)


@contextmanager
def _noting(problems: list[HeadwaterError]) -> Iterator[None]:
    try:
        yield
    except SeveralError as error:
        problems += error.problems
    except HeadwaterError as error:
        problems.append(error)


def _source(source: Source, problems: list[HeadwaterError]) -> SourceFound:
    found = SourceFound(source.name)
    with _noting(problems):
        found.relations = tuple(source.relations().values())
    with suppress(SourceError):  # then it is noted already
        told = set(map(str, problems))
        problems += (each for each in source.problems() if str(each) not in told)
    return found


def _constants(view: View, sources: Mapping[str, Source]) -> Iterator[str]:
    """What the sources of a view say of the constants that it compares with their columns."""
    for name in view.sources:
        if constants := constants_of(view, name):
            yield from told_of_constants(view, name, sources[name].printed(constants))


def _view(
    project: Project, name: str, sources: Mapping[str, Source], found: Inspection
) -> list[View]:
    """The view, or none if it is not sound or a source of it could not be read."""
    files, needed = project.files_of(name), project.sources_of(name)
    unread = [s.name for s in found.sources if s.name in needed and not s.relations]
    if unread:
        reason = f"not checked, since source {unread[0]} cannot be read"
        found.views.append(ViewFound(name, files, needed, None, reason))
        return []
    views = []
    with _noting(found.problems):
        relations = [relation for source in found.sources for relation in source.relations]
        filed = project.definition(name, relations, sources)
        definition, running = _as_it_goes_on(project, filed)
        choice = project.choose(definition, running)
        view = definition.view
        alone = [each.view for each in definition.members] or [view]
        told = tuple(
            caution
            for each in alone
            for caution in (*cautions_of(each), *told_of_pairs(each), *_constants(each, sources))
        )
        told += tuple(t for answer in definition.answered.values() for t in never_told(answer))
        parts, stored = stored_parts(view), describe_parts(view)
        copies = describe_copies(view, table_sizes(view, sources)) if view.copies else ""
        level, lowered = level_behind(files[0].level, view.relations, _origins(view, sources))
        if files[0].level == Level.NONE:
            found.warnings.append(_promises_nothing(name, choice.algorithm))
        found.views.append(
            ViewFound(
                name,
                files,
                needed,
                choice.algorithm,
                f"{lowered}. {choice.reason}" if lowered else choice.reason,
                (*told, *_reload_would(project, filed, definition, choice)),
                parts,
                stored,
                copies,
                cost_lines(project, definition, choice, running),
                level,
            )
        )
        views.append(view)
        if difference := _since_loaded(project, name, definition):
            found.problems.append(InputError(difference))
    return views


def _origins(view: View, sources: Mapping[str, Source]) -> dict[str, Origin]:
    """The relations of a view that are views of other projects, by their full names."""
    return {
        f"{source}.{name}": origin
        for source in view.sources
        for name, origin in sources[source].origins().items()
    }


def _promises_nothing(view: str, algorithm: str) -> InputError:
    return InputError(
        f"View {view} is WITH NO CONSISTENCY, by {algorithm}: what it shows may be wrong, now and "
        "for good.",
        "That is for demonstrations; leave the clause out for a view to rely on.",
    )
