"""Certain answers by their definition, knowing nothing of rules, unknown values and unfolding.

A setting has source relations, descriptions and a query. An answer is certain if it is one in every
instance of the mediated relations with which what the sources have is consistent. `certain` goes
through the choices that an instance has: for every row that is told, every value for what is not
told. Each consistent instance includes one of these, and queries without negation only find more
in a larger one, so that answers of all of these are answers of all instances. `in_every_instance`
takes nothing for granted and goes through all instances over a few values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import eq, ge, gt, le, lt, ne

import numpy as np

Term = str | int
"""A variable, or a constant."""
Atom = tuple[str, tuple[Term, ...]]
Fact = tuple[str, tuple[int | None, ...]]
Row = tuple[int | None, ...]
Instance = frozenset[Fact]
Comparison = tuple[str, str, int]
OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "<>": ne}


@dataclass(frozen=True)
class Query:
    """A conjunctive query, as SQL has them: a variable that stands twice is not NULL."""

    head: tuple[str, ...]
    atoms: tuple[Atom, ...]
    comparisons: tuple[Comparison, ...] = ()
    present: frozenset[str] = frozenset()
    """Further variables that are not NULL."""

    @property
    def variables(self) -> list[str]:
        found = [t for _, terms in self.atoms for t in terms if isinstance(t, str)]
        return list(dict.fromkeys(found))

    @property
    def joined(self) -> set[str]:
        found = [t for _, terms in self.atoms for t in terms if isinstance(t, str)]
        return {t for t in found if found.count(t) > 1} | self.present

    def rows(self, facts: Instance) -> set[Row]:
        return {tuple(each[v] for v in self.head) for each in self.valuations(facts)}

    def valuations(self, facts: Instance) -> Iterator[dict[str, int | None]]:
        yield from (each for each in self._extended(facts, 0, {}) if self.fits(each))

    def fits(self, values: Mapping[str, int | None]) -> bool:
        """Whether NULLs and comparisons allow these values of some variables."""
        if any(values.get(name, 0) is None for name in self.joined):
            return False
        for name, operator, limit in self.comparisons:
            value = values.get(name, limit)
            if name in values and (value is None or not OPERATORS[operator](value, limit)):
                return False
        return True

    def _extended(
        self, facts: Instance, at: int, known: dict[str, int | None]
    ) -> Iterator[dict[str, int | None]]:
        if at == len(self.atoms):
            yield known
            return
        relation, terms = self.atoms[at]
        for name, row in facts:
            if name != relation:
                continue
            found = dict(known)
            for term, value in zip(terms, row, strict=True):
                wanted = found.setdefault(term, value) if isinstance(term, str) else term
                if wanted != value:
                    break
            else:
                yield from self._extended(facts, at + 1, found)


@dataclass(frozen=True)
class Told:
    """That each row of `told` is one of `target`: what they have in common are the variables."""

    told: Query
    target: Query
    is_source_view: bool = False
    """Whether it is one relation of a source, and stands in a source view of its name."""


@dataclass(frozen=True)
class Setting:
    """Descriptions over sources, further ones over mediated relations, and a query."""

    descriptions: tuple[Told, ...]
    inner: tuple[Told, ...]
    """Foreign keys and mediated views, each over what the ones before it tell."""
    query: tuple[Query, ...]
    tables: Mapping[str, int]
    """How many columns the mediated relations have."""
    sources: Mapping[str, int]
    keyed: frozenset[str] = frozenset()
    """The source relations whose first column is their key."""

    def fits(self, facts: Instance) -> bool:
        """Whether facts of sources keep their keys."""
        keys = [(name, row[0]) for name, row in facts if name in self.keyed]
        return len(set(keys)) == len(keys) and all(key is not None for _, key in keys)


@dataclass(frozen=True)
class _Choice:
    """A row that is told, for whose unknown variables values are chosen."""

    target: Query
    known: Mapping[str, int | None]

    @property
    def unknown(self) -> list[str]:
        return [name for name in self.target.variables if name not in self.known]

    def instances(self, values: Sequence[int | None]) -> Iterator[Instance]:
        for chosen in product(values, repeat=len(self.unknown)):
            every = {**self.known, **dict(zip(self.unknown, chosen, strict=True))}
            if self.target.fits(every):
                yield frozenset(
                    (name, tuple(every[t] if isinstance(t, str) else t for t in terms))
                    for name, terms in self.target.atoms
                )


def _choices(descriptions: Sequence[Told], facts: Instance) -> list[_Choice]:
    found = []
    for each in descriptions:
        common = set(each.told.head) & set(each.target.variables)
        for row in sorted(each.told.rows(facts), key=str):
            known = {n: v for n, v in zip(each.told.head, row, strict=True) if n in common}
            if each.target.fits(known):
                found.append(_Choice(each.target, known))
    return found


def how_many(setting: Setting, facts: Instance) -> int:
    """How many values the descriptions of sources leave unknown."""
    return sum(len(choice.unknown) for choice in _choices(setting.descriptions, facts))


def certain(setting: Setting, facts: Instance, values: Sequence[int | None]) -> set[Row]:
    """The answers in all instances, over these values."""
    answers: set[Row] | None = None
    for instance in _instances(setting, facts, values):
        found = set().union(*(query.rows(instance) for query in setting.query))
        answers = found if answers is None else answers & found
        if not answers:
            return set()
    assert answers is not None, "nothing is consistent with what the sources have"
    return answers


def _instances(
    setting: Setting, facts: Instance, values: Sequence[int | None]
) -> Iterator[Instance]:
    choices = _choices(setting.descriptions, facts)
    for parts in product(*(list(choice.instances(values)) for choice in choices)):
        yield from _completed(frozenset().union(*parts), setting.inner, values)


def _completed(
    instance: Instance, inner: Sequence[Told], values: Sequence[int | None]
) -> Iterator[Instance]:
    if not inner:
        yield instance
        return
    choices = [
        choice
        for choice in _choices(inner[:1], instance)
        if not any(part <= instance for part in choice.instances(values))
    ]
    for parts in product(*(list(choice.instances(values)) for choice in choices)):
        yield from _completed(instance.union(*parts), inner[1:], values)


# All instances, whatever they are


def in_every_instance(setting: Setting, facts: Instance, values: Sequence[int | None]) -> set[Row]:
    """The answers in all instances over these values: each set of rows is one, a bit for each."""
    rows = [
        (n, row) for n, width in setting.tables.items() for row in product(values, repeat=width)
    ]
    number = np.arange(1 << len(rows), dtype=np.int64)
    there = {fact: (number >> at & 1).astype(bool) for at, fact in enumerate(rows)}
    consistent = np.ones(len(number), dtype=bool)
    for choice in _choices(setting.descriptions, facts):
        consistent &= _some(choice.target, choice.known, there, values, len(number))
    for each in setting.inner:
        shared = [name for name in each.told.head if name in each.target.variables]
        for chosen in product(values, repeat=len(shared)):
            known = dict(zip(shared, chosen, strict=True))
            if each.target.fits(known):
                told = _some(each.told, known, there, values, len(number))
                consistent &= ~told | _some(each.target, known, there, values, len(number))
    answers = set()
    for row in product(values, repeat=len(setting.query[0].head)):
        found = np.zeros(len(number), dtype=bool)
        for query in setting.query:
            if all(row[query.head.index(n)] == v for n, v in zip(query.head, row, strict=True)):
                known = dict(zip(query.head, row, strict=True))
                found |= _some(query, known, there, values, len(number))
        if bool(found[consistent].all()):
            answers.add(row)
    return answers


def _some(
    query: Query,
    known: Mapping[str, int | None],
    there: Mapping[Fact, np.ndarray],
    values: Sequence[int | None],
    number: int,
) -> np.ndarray:
    """In which instances a query has a row with these values."""
    left = [name for name in query.variables if name not in known]
    found = np.zeros(number, dtype=bool)
    for chosen in product(values, repeat=len(left)):
        every = {**known, **dict(zip(left, chosen, strict=True))}
        if query.fits(every):
            all_there = np.ones(number, dtype=bool)
            for name, terms in query.atoms:
                all_there &= there[
                    name, tuple(every[t] if isinstance(t, str) else t for t in terms)
                ]
            found |= all_there
    return found
