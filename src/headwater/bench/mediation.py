"""How long it takes to rewrite queries over a mediated schema, by how many relations they join.

The mediated relations are a chain, each of which joins the next. A source tells one of them, or a
join of two or three neighbours of which it does not show what they join by; so there are many ways
to answer a query, and most of them end at a value that nobody tells.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import tables_of
from headwater.algebra.values import INT, TEXT
from headwater.errors import InputError
from headwater.mediation.binding import bind
from headwater.mediation.schema import MediatedSchema
from headwater.mediation.statements import read_statement, read_statements

_FILE = "schema.sql"


@dataclass(frozen=True)
class Rewritten:
    """What the rewriting of queries of one size took of a processor: medians."""

    relations: int
    descriptions: int
    joined: int
    """How many mediated relations a query joins."""
    joins: float
    """How many joins over sources the answer is."""
    ended: float
    """How many ways were tried that ended."""
    read_ms: float
    """To read the schema's files."""
    bind_ms: float
    """To make rules of the descriptions."""
    rewrite_ms: float
    """To rewrite the query, write it and check what is written."""

    @property
    def total_ms(self) -> float:
        return self.read_ms + self.bind_ms + self.rewrite_ms


def measured(
    relations: int, descriptions: int, joined: int, rounds: int, seed: int = 0
) -> Rewritten:
    """Queries that join so many neighbours, at several places of the chain."""
    random = Random(seed)
    statements = list(_statements(relations, descriptions, random))
    sources = [_source(at) for at in range(descriptions)]
    times: list[tuple[float, float, float]] = []
    sizes: list[tuple[int, int]] = []
    for _ in range(rounds):
        query = _query(random.randrange(relations - joined + 1), joined)
        tables_of.cache_clear()
        began = time.thread_time()
        schema = _schema(";\n".join(statements))
        read = time.thread_time()
        bound = bind(schema, schema.read_in(query), sources)
        made = time.thread_time()
        try:
            found = bound.answer(query).rewriting
            sizes.append((len(found.clauses), sum(found.dead.values())))
        except InputError:
            sizes.append((0, 0))
        ended = time.thread_time()
        times.append((read - began, made - read, ended - made))
    read_ms, bind_ms, rewrite_ms = (median(each) * 1000 for each in zip(*times, strict=True))
    joins, dead = (median(each) for each in zip(*sizes, strict=True))
    return Rewritten(relations, descriptions, joined, joins, dead, read_ms, bind_ms, rewrite_ms)


def _schema(text: str) -> MediatedSchema:
    read = (read_statement(each, _FILE) for each in read_statements(text, _FILE))
    schema, mistakes = MediatedSchema.of(read)
    for mistake in mistakes:
        raise mistake
    return schema


def _source(at: int) -> Relation:
    columns = Schema.of([("first", INT), ("last", INT), ("told", TEXT)])
    return Relation(f"s{at % 5}.t{at}", f"s{at % 5}", columns, ("first",))


def _statements(relations: int, descriptions: int, random: Random) -> Iterator[str]:
    for at in range(relations):
        yield f"CREATE TABLE r{at} (a BIGINT, b BIGINT, c STRING)"
    for at in range(descriptions):
        width = random.choice([1, 1, 2, 3])
        places = _places(at % (relations - width + 1), width)
        tables = _joined(places)
        last = places[-1]
        yield (
            f"CREATE SOURCE VIEW s{at % 5}.t{at} (first, last, told) AS "
            f"SELECT r{places[0]}.a, r{last}.b, r{last}.c FROM {tables}"
        )


def _places(first: int, number: int) -> Sequence[int]:
    return range(first, first + number)


def _joined(places: Sequence[int]) -> str:
    first, *others = places
    joins = (f" JOIN r{at} ON r{at}.a = r{at - 1}.b" for at in others)
    return f"r{first}{''.join(joins)}"


def _query(first: int, joined: int) -> str:
    places = _places(first, joined)
    last = places[-1]
    return f"SELECT r{first}.a, r{last}.b, r{last}.c FROM {_joined(places)}"
