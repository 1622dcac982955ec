"""Random views as values: written for Headwater, for the database itself, and evaluated here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.faults.schemas import Column, Schema, Value

LEVELS = ("CONVERGENCE", "WEAK", "STRONG", "STRONG", "COMPLETE")
Contents = Mapping[tuple[str, str], Sequence[Mapping[str, Value]]]
"""The rows of each table, by source and name."""


@dataclass(frozen=True)
class Place:
    """A column of an occurrence of a table."""

    alias: str
    column: Column


@dataclass(frozen=True)
class Occurrence:
    alias: str
    source: str
    table: str


@dataclass(frozen=True)
class Condition:
    """A selection: a column is NULL, or compares with a constant in a way that all agree on."""

    place: Place
    operator: str
    constant: Value = None

    def holds(self, value: Value) -> bool:
        match self.operator:
            case "IS NULL":
                return value is None
            case "IS NOT NULL":
                return value is not None
            case "=":
                return value is not None and value == self.constant
            case _:
                assert isinstance(self.constant, int)
                return isinstance(value, int) and value > self.constant


@dataclass(frozen=True)
class Part:
    """One SELECT: a join by equal columns, a selection, a projection."""

    occurrences: tuple[Occurrence, ...]
    equalities: tuple[tuple[Place, Place], ...]
    conditions: tuple[Condition, ...]
    outputs: tuple[Place, ...]

    def evaluate(self, contents: Contents) -> Counter[tuple[Value, ...]]:
        joined: list[dict[str, Mapping[str, Value]]] = [{}]
        for occurrence in self.occurrences:
            joined = self._join(joined, occurrence, contents)
        found: Counter[tuple[Value, ...]] = Counter()
        for row in joined:
            if all(c.holds(row[c.place.alias][c.place.column.name]) for c in self.conditions):
                found[tuple(row[p.alias][p.column.name] for p in self.outputs)] += 1
        return found

    def _join(
        self,
        joined: list[dict[str, Mapping[str, Value]]],
        occurrence: Occurrence,
        contents: Contents,
    ) -> list[dict[str, Mapping[str, Value]]]:
        known = set(joined[0]) if joined else set()
        pairs = []
        for a, b in self.equalities:
            for one, other in ((a, b), (b, a)):
                if one.alias == occurrence.alias and other.alias in known:
                    pairs.append((one, other))
        index = defaultdict(list)
        for row in contents[occurrence.source, occurrence.table]:
            index[tuple(row[one.column.name] for one, _ in pairs)].append(row)
        result = []
        for left in joined:
            values = tuple(left[other.alias][other.column.name] for _, other in pairs)
            if None not in values:
                result += [{**left, occurrence.alias: row} for row in index.get(values, ())]
        return result

    def places(self) -> list[Place]:
        return [
            *self.outputs,
            *(c.place for c in self.conditions),
            *(place for pair in self.equalities for place in pair),
        ]


@dataclass(frozen=True)
class View:
    name: str
    parts: tuple[Part, ...]
    level: str = "STRONG"
    quotes: str = "`"

    @property
    def sources(self) -> set[str]:
        return {o.source for part in self.parts for o in part.occurrences}

    def evaluate(self, contents: Contents) -> Counter[tuple[Value, ...]]:
        return sum((part.evaluate(contents) for part in self.parts), Counter())

    def used(self) -> dict[tuple[str, str], set[Column]]:
        """The columns that it names, of each table."""
        found: dict[tuple[str, str], set[Column]] = defaultdict(set)
        for part in self.parts:
            tables = {o.alias: (o.source, o.table) for o in part.occurrences}
            for table in tables.values():
                found[table] |= set()
            for place in part.places():
                found[tables[place.alias]].add(place.column)
        return found

    def columns(self) -> set[tuple[str, str, str]]:
        """The same as names of source, table and column."""
        return {(*table, column.name) for table, found in self.used().items() for column in found}

    def all_columns(self) -> set[Column]:
        return {column for found in self.used().values() for column in found}

    def fits(self, schemas: Mapping[str, Schema]) -> bool:
        """Whether everything that it names is there."""
        for (source, name), columns in self.used().items():
            table = schemas[source].tables.get(name)
            if table is None or not all(table.has(column) for column in columns):
                return False
        return True

    def file(self) -> str:
        """The view as its file has it."""
        selects = " UNION ALL ".join(_select(part, self.quotes, True) for part in self.parts)
        return f"CREATE MATERIALIZED VIEW {self.name} WITH {self.level} CONSISTENCY AS {selects}\n"

    def query(self) -> str:
        """The view for the one database that it is over."""
        return " UNION ALL ".join(_select(part, '"', False) for part in self.parts)


def _select(part: Part, quotes: str, with_sources: bool) -> str:
    def name(text: str) -> str:
        return quotes + text.replace(quotes, 2 * quotes) + quotes

    def column(place: Place) -> str:
        return f"{place.alias}.{name(place.column.name)}"

    tables = ", ".join(
        f"{o.source + '.' if with_sources else ''}{name(o.table)} AS {o.alias}"
        for o in part.occurrences
    )
    conditions = [f"{column(a)} = {column(b)}" for a, b in part.equalities]
    for c in part.conditions:
        constant = "" if c.constant is None else f" {_literal(c.constant)}"
        conditions.append(f"{column(c.place)} {c.operator}{constant}")
    outputs = ", ".join(f"{column(place)} AS c{at}" for at, place in enumerate(part.outputs))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {outputs} FROM {tables}{where}"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


# Drawing one


def random_view(random: Random, name: str, schemas: Mapping[str, Schema]) -> View:
    """A join of one to three tables, or a sum of two such."""
    first = _random_part(random, schemas, None)
    parts = [first]
    if random.random() < 0.25:
        kinds = [place.column.kind for place in first.outputs]
        for _ in range(5):
            other = _random_part(random, schemas, kinds)
            if [place.column.kind for place in other.outputs] == kinds:
                parts.append(other)
                break
    return View(name, tuple(parts), quotes=random.choice(["`", '"']))


def _random_part(
    random: Random, schemas: Mapping[str, Schema], kinds: Sequence[str] | None
) -> Part:
    tables = [(source, table) for source, s in schemas.items() for table in s.tables.values()]
    occurrences: list[Occurrence] = []
    places: list[Place] = []
    equalities: list[tuple[Place, Place]] = []
    several = min(len(tables), random.choice([1, 1, 2, 2, 3]))
    for number, (source, table) in enumerate(random.sample(tables, several)):
        alias = f"t{number}"
        own = [Place(alias, column) for column in table.columns]
        if places:
            pairs = [
                (a, b)
                for a in places
                for b in own
                if a.column.kind == b.column.kind and a.column.kind in ("int", "text")
            ]
            if not pairs:
                continue
            equalities += random.sample(pairs, min(len(pairs), random.choice([1, 1, 1, 2])))
        occurrences.append(Occurrence(alias, source, table.name))
        places += own
    conditions = [
        c for place in places if random.random() < 0.06 and (c := _condition(random, place))
    ]
    if kinds is None:
        wanted = random.sample(places, min(len(places), random.randint(1, 5)))
    else:
        candidates = [[p for p in places if p.column.kind == kind] for kind in kinds]
        wanted = [random.choice(c) for c in candidates if c]
    return Part(tuple(occurrences), tuple(equalities), tuple(conditions), tuple(wanted))


def _condition(random: Random, place: Place) -> Condition | None:
    kind = place.column.kind
    if kind == "int" and random.random() < 0.6:
        return Condition(place, ">", random.randint(0, 2))
    if kind == "text" and random.random() < 0.6:
        return Condition(place, "=", random.choice(["a", "A", "b", "x'y"]))
    return Condition(place, random.choice(["IS NULL", "IS NOT NULL", "IS NOT NULL"]))
