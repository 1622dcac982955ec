"""Statistics of relations, sources and the warehouse: values, with defaults until they are known.

Pure arithmetic. How they are gathered, and where they are kept, is others' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from headwater.algebra.schema import Relation
from headwater.algebra.values import Json, Type

KINDS = ("inserts", "deletes", "updates")
FORMAT = 1
ENOUGH = 20
"""So many transactions say something of what is to be expected."""
MEMORY_S = 3600.0
"""What is new counts as if no more than so long had been observed before."""
MEMORY = 1000
"""What new questions took counts as if no more than so many had been asked before."""


@dataclass(frozen=True)
class RelationStatistics:
    """One relation: its size, and how often it changes."""

    rows: float = 100_000.0
    row_bytes: float | None = None
    """Of a whole row; None: told by the types of its columns."""
    distinct: Mapping[str, float] = field(default_factory=dict)
    """How many different values columns have, where that is known."""
    inserts: float = 0.5
    deletes: float = 0.25
    updates: float = 0.25
    """Rows a second; only how they compare matters where nothing was observed."""
    observed_s: float = 0.0
    """For how long that was observed."""

    def different(self, relation: Relation, column: str) -> float:
        """How many values a column has; half as many as rows where nobody knows."""
        known = self.distinct.get(column)
        if known is None:
            known = self.rows if relation.key == (column,) else self.rows / 2
        return max(1.0, min(known, self.rows))


@dataclass(frozen=True)
class SourceStatistics:
    """What a question costs at a source, and how its transactions come."""

    question_s: float = 0.003
    questions: float = 0.0
    """So many were asked to know that."""
    byte_s: float = 2e-8
    """For each byte of an answer."""
    transactions: float = 1.0
    """A second."""
    together: float = 1.0
    """How many of them come at once."""
    observed_s: float = 0.0


@dataclass(frozen=True)
class Prices:
    """What the warehouse's own work takes, in seconds."""

    delivery_s: float = 0.001
    event_s: float = 0.0005
    """For one transaction or answer that a manager takes in."""
    row_s: float = 6e-6
    """For each row that is joined or written."""
    commit_s: float = 0.004
    look_up_s: float = 0.002
    """Finding the rows of a view that have some keys."""


@dataclass(frozen=True)
class Spent:
    """What maintaining a view has cost by one algorithm, for a transaction."""

    messages: float
    bytes: float
    time_s: float
    transactions: int
    """So many were counted."""


@dataclass(frozen=True)
class Loaded:
    """What the last load of a view took."""

    seconds: float
    rows: float
    """So many were read of all its relations."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """All that is known; what is not is at its default. Compared by identity, being large."""

    relations: Mapping[str, RelationStatistics] = field(default_factory=dict)
    sources: Mapping[str, SourceStatistics] = field(default_factory=dict)
    prices: Prices = Prices()
    spent: Mapping[str, Mapping[str, Spent]] = field(default_factory=dict)
    """By view and algorithm."""
    loads: Mapping[str, Loaded] = field(default_factory=dict)
    """By view."""
    paces: Mapping[str, float] = field(default_factory=dict)
    """By view: how many times as long large batches took as they were expected to."""

    def relation(self, name: str) -> RelationStatistics:
        return self.relations.get(name, _UNKNOWN_RELATION)

    def source(self, name: str) -> SourceStatistics:
        return self.sources.get(name, _UNKNOWN_SOURCE)

    def is_observed(self, sources: tuple[str, ...]) -> bool:
        """Whether each of these sources was watched, and enough has happened there together."""
        known = [self.source(source) for source in sources]
        happened = sum(source.transactions * source.observed_s for source in known)
        return happened >= ENOUGH and all(source.observed_s > 0 for source in known)

    def to_json(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "relations": {name: _plain(found) for name, found in self.relations.items()},
            "sources": {name: _plain(found) for name, found in self.sources.items()},
            "prices": _plain(self.prices),
            "spent": {
                view: {name: _plain(spent) for name, spent in found.items()}
                for view, found in self.spent.items()
            },
            "loads": {view: _plain(found) for view, found in self.loads.items()},
            "paces": dict(self.paces),
        }

    @classmethod
    def from_json(cls, found: Any) -> Statistics:
        """What `to_json` gave; ValueError if it is something else."""
        try:
            if found["format"] != FORMAT:
                raise ValueError("another form")
            return cls(
                {name: _made(RelationStatistics, t) for name, t in found["relations"].items()},
                {name: _made(SourceStatistics, t) for name, t in found["sources"].items()},
                _made(Prices, found["prices"]),
                {
                    str(view): {name: _made(Spent, told) for name, told in each.items()}
                    for view, each in found["spent"].items()
                },
                {str(v): _made(Loaded, told) for v, told in found.get("loads", {}).items()},
                {str(v): _sound(pace) for v, pace in found.get("paces", {}).items()},
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("are no statistics") from error


_UNKNOWN_RELATION = RelationStatistics()
_UNKNOWN_SOURCE = SourceStatistics()


def column_bytes(relation: Relation, column: str, statistics: RelationStatistics) -> float:
    """How wide a column is: by its type, or its share of the rows."""
    if statistics.row_bytes is not None:
        return max(1.0, statistics.row_bytes / len(relation.schema))
    return type_bytes(relation.schema.only((column,)).types[0])


def type_bytes(kind: Type) -> float:
    """How wide a value of a type is, about."""
    return {"bool": 1.0, "text": 16.0, "bytes": 32.0, "decimal": 16.0}.get(kind.name, 8.0)


def averaged(old: float, new: float, observed_s: float, elapsed_s: float) -> float:
    """An average over time that forgets: the longer ago, the less it counts."""
    share = elapsed_s / (elapsed_s + min(observed_s, MEMORY_S))
    return float(old * (1 - share) + new * share)


@dataclass(frozen=True)
class Counted:
    """What was counted of a relation or of a source over a while."""

    elapsed_s: float
    changes: Mapping[str, float] = field(default_factory=dict)
    """Rows, by kind of change."""
    transactions: int = 0
    bursts: int = 0
    """How often some of them came at once, or one alone."""
    questions: int = 0
    question_s: float | None = None
    """What a question took, typically."""


def with_changes(known: RelationStatistics, counted: Counted) -> RelationStatistics:
    """With what was counted; the first count takes the place of what was only assumed."""

    def rate(kind: str) -> float:
        now = counted.changes.get(kind, 0.0) / counted.elapsed_s
        return averaged(getattr(known, kind), now, known.observed_s, counted.elapsed_s)

    return replace(
        known,
        inserts=rate("inserts"),
        deletes=rate("deletes"),
        updates=rate("updates"),
        observed_s=known.observed_s + counted.elapsed_s,
    )


def with_questions(known: SourceStatistics, counted: Counted) -> SourceStatistics:
    """The same of a source. What a question takes counts by how many were asked, and not by the
    time that has passed: who asks seldom learns little of it."""

    def average(old: float, new: float) -> float:
        return averaged(old, new, known.observed_s, counted.elapsed_s)

    together, question_s = known.together, known.question_s
    if counted.bursts:
        together = average(together, counted.transactions / counted.bursts)
    if counted.question_s is not None and counted.questions:
        share = counted.questions / (counted.questions + min(known.questions, MEMORY))
        question_s = question_s * (1 - share) + counted.question_s * share
    return replace(
        known,
        question_s=question_s,
        questions=known.questions + counted.questions,
        transactions=average(known.transactions, counted.transactions / counted.elapsed_s),
        together=together,
        observed_s=known.observed_s + counted.elapsed_s,
    )


def _plain(value: Any) -> dict[str, Json]:
    found = {each.name: getattr(value, each.name) for each in fields(value)}
    return {name: dict(v) if isinstance(v, Mapping) else v for name, v in found.items()}


def _made(kind: Any, told: Any) -> Any:
    """A value from what was stored of it; ValueError unless everything is a sensible number."""
    known = {each.name for each in fields(kind)}
    if not isinstance(told, dict) or not set(told) <= known:
        raise ValueError("has other parts")
    for value in told.values():
        for number in value.values() if isinstance(value, dict) else (value,):
            if number is not None and not _is_sound(number):
                raise ValueError("has something else than numbers")
    return kind(**told)


def _sound(number: object) -> float:
    if not (isinstance(number, (int, float)) and _is_sound(number)):
        raise ValueError("has something else than numbers")
    return float(number)


def _is_sound(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number < 1e18
