"""How a view is maintained, in words: what is stored for it, what is looked up when a table
changes, and how what it shows is computed from what is stored.

Looks at the sources' catalogs and at the tables of the warehouse, and changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from headwater.algebra.expressions import ColumnRef, Expression, show_expression, substituted
from headwater.algebra.order import Order
from headwater.algebra.tops import (
    Constant,
    Distinct,
    Exploded,
    First,
    Found,
    Grouped,
    Less,
    Part,
    Product,
    Project,
    Recursive,
    Restrict,
    Select,
    Top,
    UnionAll,
    Windowed,
    inputs_of,
)
from headwater.algebra.values import Json
from headwater.algebra.views import Join, View, equated_columns
from headwater.costs.recomputing import Crossover, Recompute, crossover, recomputes
from headwater.errors import HeadwaterError, InputError
from headwater.mediation.telling import Line, never_told, steps_of
from headwater.project.cost_lines import CostLine, cost_lines
from headwater.project.project import Project as ProjectFolder
from headwater.project.project import known_owner
from headwater.project.stored_parts import (
    StoredCopy,
    StoredPart,
    stored_copies,
    stored_parts,
    told_of_pairs,
)
from headwater.project.view_files import DefinedView
from headwater.sources.contract import Source
from headwater.storage.location import Location

LARGE_ROWS = 1_000_000
"""A part that copies a table of so many rows is worth a warning."""


@dataclass(frozen=True)
class Lookup:
    """What is asked when a table changes: of which table, and by which of its columns."""

    changed: str
    asked: str
    by: tuple[str, ...]
    is_copied: bool = False
    """Whether a copy is looked at, and no source asked."""

    def __str__(self) -> str:
        what = f"{self.asked} by {', '.join(self.by)}" if self.by else f"all of {self.asked}"
        return f"{what} (in its copy)" if self.is_copied else what


@dataclass(frozen=True)
class StoredNow:
    """How large the tables of a view are."""

    stored_rows: int
    stored_bytes: int
    shown_rows: int
    shown_bytes: int
    copied_rows: Mapping[str, int] = field(default_factory=dict)
    """Of each relation that is copied."""

    def to_json(self) -> dict[str, Json]:
        return {**vars(self), "copied_rows": dict(self.copied_rows)}


@dataclass(frozen=True)
class Explanation:
    """One view, or a group with a tree for each of its members."""

    name: str
    level: str
    algorithm: str
    reason: str
    over_views: tuple[str, ...]
    """The views of the project that it reads, which are unfolded to tables."""
    functions: tuple[str, ...]
    """The functions of the project that it calls, which are unfolded to what they return."""
    parts: tuple[StoredPart, ...]
    tables: Mapping[str, int | None]
    """The tables that it reads, with about how many rows they have, where that is known."""
    lookups: tuple[Lookup, ...]
    shown: Mapping[str, tuple[tuple[int, str], ...]]
    """By view: how what it shows is computed, as lines of a tree with their depths."""
    left_to_spark: tuple[str, ...]
    """The functions that only Spark computes."""
    all_pairs: tuple[str, ...]
    """Where every pair of rows is stored, and what to write instead."""
    copies: tuple[StoredCopy, ...]
    """The relations of which copies are kept."""
    now: StoredNow | None
    """None if it is not loaded."""
    mediation: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    """By view: how what it asks of a mediated schema is answered, as lines with their depths."""
    never: tuple[str, ...] = ()
    """What it can never answer of a mediated schema, and why."""
    costs: tuple[CostLine, ...] = ()
    """What each algorithm would cost; none where nothing is asked."""
    recompute: Recompute = "never"
    """When it is recomputed rather than maintained."""
    crossover: Crossover | None = None
    """What either way costs; None if it never is."""

    @property
    def large_copies(self) -> list[tuple[str, int]]:
        """Large tables of which something is stored for every row."""
        sizes = [(p.relations[0], self.tables.get(p.relations[0])) for p in self.parts if p.is_copy]
        return [(name, rows) for name, rows in sizes if rows is not None and rows >= LARGE_ROWS]

    def to_json(self) -> dict[str, Json]:
        return {
            "view": self.name,
            "level": self.level,
            "algorithm": self.algorithm,
            "reason": self.reason,
            "over_views": list(self.over_views),
            "functions": list(self.functions),
            "tables": dict(self.tables),
            "stored": [part.to_json() for part in self.parts],
            "lookups": [
                {
                    "changed": one.changed,
                    "asked": one.asked,
                    "by": list(one.by),
                    "copied": one.is_copied,
                }
                for one in self.lookups
            ],
            "shown": {
                name: [{"depth": depth, "step": step} for depth, step in lines]
                for name, lines in self.shown.items()
            },
            "left_to_spark": list(self.left_to_spark),
            "all_pairs": list(self.all_pairs),
            "copies": [copy.to_json() for copy in self.copies],
            "mediation": {
                name: [{"depth": depth, "step": step} for depth, step in lines]
                for name, lines in self.mediation.items()
            },
            "never": list(self.never),
            "now": None if self.now is None else self.now.to_json(),
            "costs": [line.to_json() for line in self.costs],
            "recompute": {"when": self.recompute, **self._crossing_to_json()},
        }

    def _crossing_to_json(self) -> dict[str, Json]:
        if (crossing := self.crossover) is None:
            return {}
        rows = {name: crossing.rows_of(name) for name in self.tables}
        return {
            "load_s": round(crossing.load_s, 3),
            "measured": crossing.is_measured,
            "from_rows": {name: round(n) for name, n in rows.items() if n < float("inf")},
        }

    @property
    def recomputed(self) -> str:
        """When it is recomputed, as a sentence."""
        if (crossing := self.crossover) is None:
            return "It is never recomputed, however much waits."
        if crossing.from_rows is not None:
            return f"It is recomputed when {crossing.from_rows:,} changed rows wait."
        known = {name: crossing.rows_of(name) for name in self.tables}
        listed = " or ".join(f"{rows:,.0f} of {name}" for name, rows in known.items())
        how = "as measured" if crossing.is_measured else "by estimate"
        return (
            f"It is recomputed when so much waits that a load is quicker, {how}: about "
            f"{crossing.load_s:.1f} s, so from about {listed} changed rows on."
        )


def explain(project: ProjectFolder, name: str) -> Explanation:
    """How a view or a group of a project is maintained; HeadwaterError says what is in the way."""
    unit = next((u for u, members in project.units.items() if name in (u, *members)), None)
    if unit is None:
        there = f"There are {', '.join(project.units)}." if project.units else "There are none."
        raise InputError(f"There is no view '{name}'.", project.told_of(name) + there)
    sources = project.open_sources(known_owner(project.warehouse))
    needed = project.sources_of(unit)
    relations = [r for source in needed for r in sources[source].relations().values()]
    definition, running = _as_it_goes_on(project, project.definition(unit, relations))
    choice = project.choose(definition, running)
    view = definition.view
    files = project.files_of(unit)
    recompute = recomputes(files[0].recompute, files[0].level)
    return Explanation(
        unit,
        str(files[0].level),
        choice.algorithm,
        choice.reason,
        tuple(dict.fromkeys(name for file in files for name in file.read_views)),
        tuple(dict.fromkeys(name for file in files for name in file.called)),
        stored_parts(view),
        table_sizes(view, sources),
        tuple(lookups(view)),
        {
            each.view.name: tuple(steps(each.view))
            for each in definition.members or (definition,)
            if each.view.top is not None
        },
        view.left_to_spark,
        tuple(
            told
            for each in definition.members or (definition,)
            for told in told_of_pairs(each.view)
        ),
        stored_copies(view),
        _now(project.warehouse, unit),
        {name: steps_of(answer) for name, answer in definition.answered.items()},
        tuple(told for answer in definition.answered.values() for told in never_told(answer)),
        cost_lines(project, definition, choice, running),
        recompute,
        crossover(
            view.narrowed(),
            choice.algorithm,
            choice.parameters,
            project.statistics,
            unit,
            recompute,
            project.settings.spark.spark_from,
        ),
    )


def _as_it_goes_on(
    project: ProjectFolder, definition: DefinedView
) -> tuple[DefinedView, str | None]:
    from headwater.project.loaded import as_it_goes_on
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    return as_it_goes_on(definition, Warehouse(project.warehouse))


def table_sizes(view: View, sources: Mapping[str, Source]) -> dict[str, int | None]:
    """About how many rows the tables of a view have; None where nobody knows."""
    found: dict[str, int | None] = {relation.name: None for relation in view.relations}
    for source in view.sources:
        with suppress(HeadwaterError):
            for table in sources[source].discover():
                name = f"{source}.{table.name}"
                if name in found:
                    found[name] = table.rows
    return found


def _now(warehouse: Location, unit: str) -> StoredNow | None:
    from headwater.warehouse.warehouse import Warehouse  # would slow down all commands

    opened = Warehouse(warehouse)
    if unit not in opened.view_names():
        return None
    state = opened.view(unit).at()
    stored = (*state.stored.files, *state.tail_files)
    return StoredNow(
        sum(file.rows for file in stored),
        sum(file.size for file in stored),
        sum(file.rows for file in state.plain.files),
        sum(file.size for file in state.plain.files),
        opened.view(unit).copied_rows(),
    )


# What is asked


def lookups(view: View) -> Iterator[Lookup]:
    """For each table what has to be looked up in the others when it changes."""
    seen: set[Lookup] = set()
    for join in view.joins:
        for start in range(len(join.occurrences)):
            for lookup in _from(join, start):
                if lookup not in seen:
                    seen.add(lookup)
                    yield replace(lookup, is_copied=lookup.asked in view.copies)


def _from(join: Join, start: int) -> Iterator[Lookup]:
    """From one occurrence to all others, over the columns that are compared."""
    partners: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for a, b in filter(None, map(equated_columns, join.condition)):
        partners[join.owner[a]].add((join.owner[b], a))
        partners[join.owner[b]].add((join.owner[a], b))
    known, left = {start}, [at for at in range(len(join.occurrences)) if at != start]
    while left:
        reached = [at for at in left if any(other in known for other, _ in partners[at])]
        at = reached[0] if reached else left[0]
        occurrence = join.occurrences[at]
        by = {column for other, column in partners[at] if other in known}
        names = (name.removeprefix(f"{occurrence.alias}.") for name in sorted(by))
        yield Lookup(join.occurrences[start].relation.name, occurrence.relation.name, tuple(names))
        known.add(at)
        left.remove(at)


# What is shown


def steps(view: View) -> Iterator[tuple[int, str]]:
    """How a top makes what is shown, from the last step down, with depths."""
    assert view.top is not None
    stored: dict[int | None, Mapping[str, Expression]] = {
        join.number: dict(zip(join.schema.names, join.outputs, strict=True)) for join in view.joins
    }
    _, lines = _lines(view.top, stored)
    yield 0, f"{view.name}({', '.join(view.top.schema.names)})"
    yield from ((depth + 1, line) for depth, line in lines)


Meanings = Mapping[str, Expression]
Lines = list[tuple[int, str]]


def _lines(top: Top, stored: Mapping[int | None, Meanings]) -> tuple[dict[str, Expression], Lines]:
    """What the columns of a node mean, and its lines. A projection has none of its own."""
    below = [_lines(each, stored) for each in inputs_of(top)]
    meanings = {name: each for found, _ in below for name, each in found.items()}
    lines = [(depth + 1, line) for _, found in below for depth, line in found]
    own = dict(meanings)
    match top:
        case Part(columns=columns, number=number):
            told = stored.get(number, {})
            pairs = zip(top.schema.names, columns, top.schema.types, strict=True)
            own = {name: told.get(column, ColumnRef(column, kind)) for name, column, kind in pairs}
            of = "what is stored" if number is None else f"part {number}"
            return own, [(0, f"{of}: {', '.join(map(show_expression, own.values())) or 'rows'}")]
        case Project(outputs=outputs, schema=schema):
            named = zip(schema.names, outputs, strict=True)
            return {n: substituted(o, meanings) for n, o in named}, [
                (depth - 1, line) for depth, line in lines
            ]
        case Grouped():
            shown = [str(aggregate.over(meanings)) for aggregate in top.aggregates]
            keys = [show_expression(meanings[key]) for key in top.keys]
            values = zip(
                top.schema.names[len(keys) :], shown, top.schema.types[len(keys) :], strict=True
            )
            own = dict(zip(top.schema.names, (meanings[key] for key in top.keys), strict=False))
            own |= {name: ColumnRef(text, kind) for name, text, kind in values}
            by = f"for each {', '.join(keys)}" if keys else "for all rows"
            text = f"{', '.join(shown) or 'one row'} {by}"
        case UnionAll():
            own = dict(below[0][0])
            text = "all rows of"
        case Recursive(name=name, distinct=distinct, most_steps=most):
            own = dict(below[0][0])
            each = "each row once, " if distinct else ""
            text = (
                f"{name}, step by step, {each}at most {most:,} steps: the first of these, then "
                "the second until it finds nothing"
            )
        case _:
            text = _words(top, meanings)
    for name, kind in zip(top.schema.names, top.schema.types, strict=True):
        own.setdefault(name, ColumnRef(name, kind))
    return own, [(0, text), *lines]


def _words(top: Top, meanings: Meanings) -> str:
    def shown(names: Sequence[str]) -> str:
        return ", ".join(show_expression(meanings[name]) for name in names if name in meanings)

    match top:
        case Select(condition=condition):
            return f"rows where {show_expression(substituted(condition, meanings))}"
        case Distinct():
            return "every row once"
        case Restrict(key=key, anti=anti):
            return f"rows with {'no ' if anti else 'a '}partner by {shown(key) or 'any row'} in"
        case Product(left_key=key):
            return f"pairs by {shown(key)} of" if key else "all pairs of"
        case Less():
            return "rows of the first without those of the second"
        case First(order=order, limit=limit, offset=offset):
            rows = "all rows" if limit is None else f"the first {limit}"
            behind = f" behind {offset}" if offset else ""
            return f"{rows}{behind} by {_ordered(order, meanings)}"
        case Windowed(functions=functions):
            parted = dict.fromkeys(shown(f.partition) or "all rows" for f in functions)
            names = ", ".join(f.function.upper() for f in functions)
            return f"{names} over {' and '.join(parted)}"
        case Exploded(column=column):
            return f"a row for each element of {shown([column])}"
        case Found(name=name):
            return f"what the last step of {name} has found"
        case Constant(rows=rows):
            return f"{len(rows)} rows that the query names"
    return type(top).__name__


def _ordered(order: Sequence[Order], meanings: Meanings) -> str:
    return (
        ", ".join(
            show_expression(meanings[one.column]) + (" DESC" if one.descending else "")
            for one in order
            if one.column in meanings
        )
        or "all columns"
    )
