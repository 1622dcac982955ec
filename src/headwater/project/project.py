"""A project: a folder with `headwater.toml`, `views/*.sql`, `functions/*.sql` and `schema/*.sql`:
all that the user writes.

Opening one reads and checks the files; no source is contacted and nothing is written. What only
the sources know, the columns of their tables, is asked for by `relations`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.functions import NONE
from headwater.algebra.sql.names import closest_first, find_relation
from headwater.algebra.sql.sources import TableName
from headwater.algebra.sql.text import RefusalError, means
from headwater.algorithms.hosted import Hosted
from headwater.check.levels import Level
from headwater.costs.statistics import Statistics
from headwater.errors import EngineError, InputError, UnsupportedViewError, one_of
from headwater.project.choice import Choice, ForcedError, choose, resolve
from headwater.project.function_files import FOLDER as FUNCTIONS
from headwater.project.function_files import read_functions
from headwater.project.groups import check_groups, units_of
from headwater.project.meant import known_relations, meant
from headwater.project.over_views import with_others
from headwater.project.schema_files import FOLDER as SCHEMA
from headwater.project.schema_files import check_sources, with_schema
from headwater.project.settings import (
    FILE,
    Problems,
    ProjectError,
    Settings,
    read_document,
    read_settings,
    source_settings,
    warehouse_in,
    warehouse_of,
)
from headwater.project.view_files import DefinedView, ViewFile, read_view_file
from headwater.sources.contract import Source
from headwater.sources.settings import SourceSettings
from headwater.storage.location import Location
from headwater.warehouse.identity import owner_of

VIEWS = "views"


@dataclass(frozen=True)
class Project:
    """A project whose files are sound; see `Project.open`."""

    folder: Path
    settings: Settings
    view_files: Mapping[str, ViewFile]
    """By the views' names."""
    needs: Mapping[str, tuple[str, ...]] = field(repr=False)
    """The sources of each view."""
    mistakes: tuple[InputError, ...] = field(default=(), repr=False)
    """What is wrong with views that were left out."""
    refused: Mapping[str, InputError] = field(default_factory=dict, repr=False)
    """The same for each view or group, by its name; a file without one stands for its view."""

    @classmethod
    def open(cls, folder: str | Path = ".", only: Collection[str] | None = None) -> Self:
        """Read a project; InputError or ProjectError has every mistake in its files.

        If `only` some views are wanted, and they are sound, views that are not are left out;
        `mistakes` has then what is wrong with these.
        """
        folder = Path(folder)
        problems = Problems()
        settings = read_settings(folder / FILE, read_document(folder / FILE), problems)
        are_sound = not problems
        files, twice = _view_files(folder, problems)
        files, endless = with_others(files, problems)
        functions = next((file.functions for file in files.values()), NONE)
        files, schema, misled = with_schema(files, folder / SCHEMA, functions, problems)
        known = _meant(folder, settings, files.values()) if are_sound else None
        if known is not None:
            left_open = [name for name, s in settings.sources.items() if s.is_open]
            check_sources(schema, known, left_open, problems)
        twice |= check_groups(files.values(), problems)
        needs = {}
        for name, file in files.items():
            before = len(problems)
            with problems.collecting(name):
                _check_using(file, settings, known)
                _check_table_of_changes(file, files)
            if name in endless | misled:
                continue
            with problems.collecting(name):
                tables = file.tables()
                if known is not None:
                    needed = _needed(file, tables, known)
                    _check_level(file, needed, known)
                    if len(problems) == before and name not in twice:
                        needs[name] = needed
        units = units_of(files)
        for members in units.values():
            if not needs.keys() >= set(members):  # a group is sound if all of it is
                needs = {name: needed for name, needed in needs.items() if name not in members}
        wanted = {name for each in only or () for name in units.get(each, (each,))}
        if only is None or not are_sound or not needs.keys() >= wanted:
            problems.raise_any()
        sound = {name: files[name] for name in needs}
        refused = _refused(files, problems)
        return cls(folder, settings, sound, needs, tuple(problems), refused)

    def check_some_are_sound(self) -> None:
        """InputError or ProjectError, with every mistake, if no view is sound."""
        if not self.view_files:
            Problems(self.mistakes).raise_any()

    @cached_property
    def units(self) -> Mapping[str, tuple[str, ...]]:
        """What is maintained as one: views by themselves and groups, each with its views."""
        return units_of(self.view_files)

    def unit_of(self, name: str) -> str:
        """The unit that a view belongs to: its group, or itself. A unit's name is one, too."""
        file = self.view_files.get(name)
        return name if file is None else file.group or name

    def is_group(self, unit: str) -> bool:
        return self.units.get(unit, (unit,)) != (unit,)

    def files_of(self, unit: str) -> tuple[ViewFile, ...]:
        """The files of a view, or of all members of a group."""
        return tuple(self.view_files[view] for view in self.units[unit])

    def sources_of(self, unit: str) -> tuple[str, ...]:
        """The sources of a view, or of all members of a group."""
        return tuple(dict.fromkeys(s for view in self.units[unit] for s in self.needs[view]))

    def told_of(self, name: str) -> str:
        """What is wrong with files of views, if that may be why there is no view of this name."""
        if not self.mistakes:
            return ""
        told = [str(m) for m in self.mistakes if f"{name}.sql:".lower() in str(m).lower()]
        if told:
            return f"Its file has a mistake: {told[0]} "
        return "Some files of views have mistakes, which 'headwater check' tells. "

    @property
    def warehouse(self) -> Location:
        """Where the warehouse is."""
        return warehouse_of(self.folder, self.settings.warehouse)

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Every source; no connection is opened.

        What is made at a source is named for the warehouse, which gets its name here if it has
        none yet.
        """
        return self.open_sources(_owner(self.warehouse))

    def open_sources(self, owner: str) -> dict[str, Source]:
        """Every source, with the logs that belong to the warehouse of this name."""
        found = _meant(self.folder, self.settings, self.view_files.values())
        place = self.warehouse
        return {n: s.kept_in(place).open(n, self.folder, owner) for n, s in found.items()}

    def relations(self, units: Iterable[str] | None = None) -> tuple[Relation, ...]:
        """What the sources of these views and groups, or of all, say about their relations."""
        wanted = self.units if units is None else units
        needed = dict.fromkeys(source for unit in wanted for source in self.sources_of(unit))
        return tuple(
            relation for name in needed for relation in self.sources[name].relations().values()
        )

    def definitions(self, relations: Iterable[Relation] | None = None) -> dict[str, DefinedView]:
        """Every view and group over these relations, or over those that the sources have now."""
        known = self.relations() if relations is None else tuple(relations)
        problems, found = Problems(), {}
        for name in self.units:
            with problems.collecting():
                found[name] = self.definition(name, known)
        problems.raise_any()
        return found

    def definition(
        self,
        unit: str,
        relations: Iterable[Relation],
        sources: Mapping[str, Source] | None = None,
    ) -> DefinedView:
        """One view or group over these relations, of which only its own sources' count.

        `sources` are those that were asked for them, if not the project's own.
        """
        known = tuple(relations)
        views = []
        for name in self.units[unit]:
            own = [relation for relation in known if relation.source in self.needs[name]]
            views.append((self._view(name, own, sources), own))
        return DefinedView.of_group(unit, views) if self.is_group(unit) else views[0][0]

    def _view(
        self, view: str, relations: Iterable[Relation], sources: Mapping[str, Source] | None
    ) -> DefinedView:
        try:
            return self.view_files[view].define(relations)
        except InputError:
            self._check_usable(view, sources or self.sources)
            raise

    def check_usable(self, unit: str) -> None:
        """SourceError if a view names a table that was found unusable when sources were asked."""
        for view in self.units[unit]:
            self._check_usable(view, self.sources)

    def _check_usable(self, view: str, sources: Mapping[str, Source]) -> None:
        reasons = []
        for source in self.needs[view]:
            for name, reason in sources[source].unusable().items():
                table = Relation(f"{source}.{name}", source, Schema(()))
                for named in self.view_files[view].tables():
                    with suppress(RefusalError):
                        find_relation(named.name, named.source, [table], named.within)
                        reasons.append(reason)
        if reasons:
            raise one_of(reasons)

    def choose(self, definition: DefinedView, running: str | None = None) -> Choice:
        """The algorithm for a view, and why; `running` is the one that it had last."""
        file, run = definition.file, self.settings.run
        view, keys = definition.view, file.keep_keys
        forced = file.algorithm, file.parameters
        try:
            choice = choose(view, file.level, *forced, run, keys, self.statistics, running)
        except (ForcedError, UnsupportedViewError) as error:
            raise _misused(file, error) from None
        return replace(choice, reason=choice.reason + self._nodes_of(choice))

    def _nodes_of(self, choice: Choice) -> str:
        """Where the nodes of a view's sources are, if its algorithm has any."""
        if not isinstance(choice.manager, Hosted):
            return ""
        known = self.settings.sources
        apart = [s for s in choice.manager.sources if s in known and known[s].node == "by itself"]
        commands = ", ".join(f"'headwater node {source}'" for source in apart)
        where = f"by themselves: {commands}" if apart else "in the runner"
        others = "; the others are in the runner" * (0 < len(apart) < len(choice.manager.sources))
        return f" Its nodes run {where}{others}."

    @property
    def statistics(self) -> Statistics:
        """What was measured so far."""
        from headwater.project.measured import read_statistics  # would slow down all commands

        return read_statistics(self.warehouse / "_headwater")

    def publish_every(self, unit: str) -> float:
        """Seconds between two renewals of plain tables."""
        return self.files_of(unit)[0].publish_every or self.settings.warehouse.publish_every


def open_source(folder: str | Path, name: str, owner: str | None = None) -> Source:
    """One source of a project; no other source and no view need be right.

    `owner` is the warehouse that its log is for, if not the project's own.
    """
    path = Path(folder) / FILE
    document = read_document(path)
    found = source_settings(path, document, name)
    warehouse = warehouse_in(path, document)
    if found.is_open:
        problems = Problems()
        files, _ = _view_files(Path(folder), problems)
        files, _ = with_others(files, problems)
        functions = next((file.functions for file in files.values()), NONE)
        files, *_ = with_schema(files, Path(folder) / SCHEMA, functions, problems)
        found = meant({name: found}, _named(files.values()), warehouse)[name]
    found = found.kept_in(warehouse)
    return found.open(name, Path(folder), _owner(warehouse) if owner is None else owner)


def _owner(warehouse: Location) -> str:
    try:
        return owner_of(warehouse / "_headwater")
    except OSError as error:
        raise EngineError(
            f"The warehouse cannot be written: {warehouse}: {error.strerror}.",
            f"See to the folder, or choose another path for it in {FILE}.",
        ) from None


def known_owner(warehouse: Location) -> str:
    """The name of a warehouse, for one who may change nothing; empty if it has none yet."""
    internal = warehouse / "_headwater"
    return owner_of(internal) if internal.is_folder() else ""


def file_signature(folder: Path) -> frozenset[tuple[str, int, int]]:
    """What changes when somebody writes to a project's files."""
    found = set()
    listed = (folder / VIEWS, folder / FUNCTIONS, folder / SCHEMA)
    for path in (folder / FILE, *(path for each in listed for path in each.glob("*.sql"))):
        with suppress(FileNotFoundError):
            status = path.stat()
            name = str(path.relative_to(folder))
            found.add((name, status.st_mtime_ns, status.st_size))
    return frozenset(found)


# Reading


def _view_files(folder: Path, problems: Problems) -> tuple[dict[str, ViewFile], set[str]]:
    """The files by the names of their views, and the names that several files define."""
    paths = sorted((folder / VIEWS).glob("*.sql"))
    functions = read_functions(folder / FUNCTIONS, problems)
    if not paths:
        problems.append(
            InputError(
                f"{folder / VIEWS}: there is no view.", "Write one to a file that ends in .sql."
            )
        )
    files: list[ViewFile] = []
    for path in paths:
        with problems.collecting(path.name):
            files.append(replace(read_view_file(path), functions=functions))
    found: dict[str, ViewFile] = {}
    twice: set[str] = set()
    for file in files:
        first = found.setdefault(file.name.lower(), file)
        if first is not file:
            twice.add(first.name)
            with problems.collecting(first.name):
                raise file.error(
                    "name",
                    f"view {file.name} is defined in {first.path} already.",
                    "Names of views differ, also without regard to case.",
                )
    return {file.name: file for file in found.values()}, twice


def _check_table_of_changes(file: ViewFile, files: Mapping[str, ViewFile]) -> None:
    table = f"{file.name}_changes"
    if file.changes and table.lower() in {name.lower() for name in files}:
        raise file.error(
            "WITH CHANGES",
            f"its table of changes is called {table}, as another view is.",
            "Give one of both views another name.",
        )


def _refused(files: Mapping[str, ViewFile], problems: Problems) -> dict[str, InputError]:
    """What is wrong with each view or group, by its name."""
    taken = {name.lower() for name in (*files, *units_of(files))}
    found: dict[str, dict[str, InputError]] = {}
    for name, mistakes in problems.of.items():
        stem = Path(name).stem
        unit = name if stem.lower() in taken else stem
        if name in files:
            unit = files[name].group or name
        found.setdefault(unit, {}).update((str(mistake), mistake) for mistake in mistakes)
    return {
        unit: each[0] if len(each) == 1 else ProjectError(each)
        for unit, mistakes in found.items()
        for each in [list(mistakes.values())]
    }


def _meant(
    folder: Path, settings: Settings, files: Iterable[ViewFile]
) -> dict[str, SourceSettings]:
    """The sources with the relations that are meant, whether settings or views name them."""
    return meant(settings.sources, _named(files), warehouse_of(folder, settings.warehouse))


def _named(files: Iterable[ViewFile]) -> list[TableName]:
    """The tables that views name, as far as they can be read."""
    found: list[TableName] = []
    for file in files:
        with suppress(InputError):
            found += file.tables()
    return found


def _needed(
    file: ViewFile, tables: Iterable[TableName], sources: Mapping[str, SourceSettings]
) -> tuple[str, ...]:
    """The sources of a view by what the settings say, without asking them."""
    known = known_relations(sources)
    return tuple(dict.fromkeys(_source_of(file, table, sources, known) for table in tables))


def _source_of(
    file: ViewFile, table: TableName, sources: Iterable[str], known: Sequence[Relation]
) -> str:
    place = f"{file.path}:{table.line}:{table.column}"
    try:
        return find_relation(table.name, table.source, known, table.within).source
    except RefusalError as error:
        if not table.source and table.name.lower() == file.name.lower():
            raise InputError(
                f"{place}: the view {file.name} reads itself.",
                f"A view's own name means a table here, and there is none; {error.hint}",
            ) from None
        if table.source and not any(means(table.source, source) for source in sources):
            listed = closest_first(table.source, sources) or "none"
            raise InputError(
                f"{place}: there is no source {table.source}.", f"The sources in {FILE}: {listed}."
            ) from None
        raise InputError(
            f"{place}: {error}",
            f"{error.hint} They are listed in {FILE}; 'headwater check' says which of "
            "them the sources do not have.",
        ) from None


def _check_using(
    file: ViewFile, settings: Settings, sources: Mapping[str, SourceSettings] | None
) -> None:
    needed: tuple[str, ...] = ("its source",)  # as long as nobody knows more
    if file.algorithm and sources is not None:
        with suppress(InputError):
            needed = _needed(file, file.tables(), sources)
    try:
        resolve(file.level, file.algorithm, file.parameters, settings.run, needed)
    except ForcedError as error:
        raise _misused(file, error) from None
    if file.parameters.get("refresh") == "period" and file.refresh_every is None:
        raise file.error(
            "parameter refresh",
            "with refresh = period nothing says how long the period is.",
            "Write REFRESH EVERY '5 seconds' behind USING.",
        )
    if file.parameters.get("refresh") == "query" and file.refresh_every is not None:
        raise file.error(
            "parameter refresh",
            "with refresh = query nothing is shown until somebody asks, whatever REFRESH EVERY "
            "says.",
            "Leave REFRESH EVERY out, or write refresh = period.",
        )


def _misused(file: ViewFile, error: ForcedError | UnsupportedViewError) -> InputError:
    """What is wrong with USING, at its place in a file."""
    place = error.place if isinstance(error, ForcedError) else "algorithm"
    return file.error(place if place in file.places else "algorithm", error.message, error.hint)


def _check_level(
    file: ViewFile, needed: Iterable[str], sources: Mapping[str, SourceSettings]
) -> None:
    if file.level < Level.COMPLETE:
        return
    for source in needed:
        if why := sources[source].merges:
            raise file.error(
                "WITH",
                f"a view over {source} cannot be complete: {why}.",
                "Write WITH STRONG CONSISTENCY, or let the source's changes come by replication.",
            )
