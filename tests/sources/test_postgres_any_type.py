"""Every type of a PostgreSQL server, listed from its catalog: load, log, triggers, and questions.

The oracle is the database itself: the text that it prints under plain settings, and its own `=`.
The server's defaults are odd ones, so that a session that relies on them is found out.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import psycopg
import pytest
from psycopg import sql

from headwater.algebra.evaluate import evaluate
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.algebra.values import TEXT, Row
from headwater.embedded.postgres import PostgresServer
from headwater.sources.postgres.source import PostgresSource
from headwater.testing.harness import local
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import answered, loaded, read_at_least, whole
from tests.sources.postgres_types import MADE, ListedType, columns, listed_types, value_of
from tests.sources.postgres_versions import OTHER_VERSIONS, install_of

ODD = {
    "datestyle": "'German, DMY'",
    "intervalstyle": "'sql_standard'",
    "timezone": "'Asia/Kolkata'",
    "bytea_output": "'escape'",
    "extra_float_digits": "-10",
    "xmloption": "'document'",
    "quote_all_identifiers": "on",
    "array_nulls": "off",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
}
PLAIN = """
SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET TimeZone = 'UTC'; SET lc_monetary = 'C';
SET bytea_output = 'hex'; SET extra_float_digits = 3; SET xmloption = 'content';
SET array_nulls = on; SET standard_conforming_strings = on; SET transform_null_equals = off
"""
CANONICAL = {
    "numeric": "trim_scale({})::text",
    "interval": "justify_interval({})::text",
    "bpchar": "{}::text",
}
"""How the database itself brings equal values to one text, by the base type's name."""
PRINTED = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%%s', {0}) END"
"""By the type's output function; some types have a cast to text that differs from it."""
ROWS = 400 if os.environ.get("HEADWATER_STRESS") == "1" else 25


@cache
def odd_server(major: int) -> PostgresServer:
    return PostgresServer(major, settings=ODD, install=install_of(major))


@dataclass
class World:
    """A table with a column of each type, filled with random values."""

    harness: PostgresHarness
    types: Mapping[int, ListedType]
    of: Sequence[ListedType]
    chance: random.Random

    def insert(self, first: int, count: int) -> None:
        with psycopg.connect(self.harness.dsn) as connection:
            connection.execute(PLAIN.encode())
            statement = sql.SQL("INSERT INTO every VALUES (%s, {})").format(
                sql.SQL(", ").join(sql.SQL(f"%s::{each.shown}") for each in self.of)
            )
            for at in range(first, first + count):
                connection.execute(statement, [at, *map(self._value, self.of)])

    def update(self, first: int, count: int) -> None:
        with psycopg.connect(self.harness.dsn) as connection:
            connection.execute(PLAIN.encode())
            sets = (sql.SQL(f"c{at} = %s::{each.shown}") for at, each in enumerate(self.of))
            statement = sql.SQL("UPDATE every SET {} WHERE id = %s").format(
                sql.SQL(", ").join(sets)
            )
            for at in range(first, first + count):
                connection.execute(statement, [*map(self._value, self.of), at])

    def delete(self, upto: int) -> None:
        with psycopg.connect(self.harness.dsn) as connection:
            connection.execute("DELETE FROM every WHERE id < %s", [upto])

    def _value(self, of: ListedType) -> str | None:
        return None if self.chance.random() < 0.1 else value_of(of, self.types, self.chance)


@pytest.fixture(
    scope="module",
    params=[
        (16, "replication"),
        (16, "triggers"),
        *(
            pytest.param((major, changes), marks=pytest.mark.stress)
            for major in OTHER_VERSIONS
            for changes in ("replication", "triggers")
        ),
    ],
    ids=lambda way: f"{way[1]} {way[0]}",
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    major, changes = request.param
    harness = PostgresHarness(odd_server(major), changes=changes)
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        connection.execute(MADE.encode())
        types = listed_types(connection)
        of = list(columns(types))
        listed = ", ".join(f"c{at} {each.shown}" for at, each in enumerate(of))
        connection.execute(f"CREATE TABLE every (id integer PRIMARY KEY, {listed})".encode())
    yield World(harness, types, of, random.Random(changes))
    harness.close()


@pytest.fixture(scope="module")
def source(world: World) -> PostgresSource:
    """With rows that were inserted, changed and deleted since it was set up."""
    source = world.harness.source(["every"])
    source.setup()
    world.insert(0, ROWS)
    return source


def relation_of(source: PostgresSource) -> Relation:
    return source.relations()["every"]


def load_all(source: PostgresSource) -> Counter[Row]:
    load = source.open_load(["every"], 2)
    try:
        return loaded(load, "every", relation_of(source).schema)
    finally:
        load.close()


def printed(world: World, source: PostgresSource) -> dict[int, tuple[str | None, ...]]:
    """The rows as the database prints them itself, one text for equal values where it has one."""
    names = [base_name(each, world.types) for each in world.of]
    shown = (
        sql.SQL(CANONICAL.get(name, PRINTED)).format(sql.Identifier(f"c{at}"))
        for at, name in enumerate(names)
    )
    with psycopg.connect(world.harness.dsn) as connection:
        connection.execute(PLAIN.encode())
        statement = sql.SQL("SELECT id, {} FROM every").format(sql.SQL(", ").join(shown))
        return {row[0]: row[1:] for row in connection.execute(statement, [])}


def base_name(of: ListedType, types: Mapping[int, ListedType]) -> str:
    return of.name if of.kind != "d" else base_name(types[of.below], types)


def test_every_column_can_be_used(world: World, source: PostgresSource) -> None:
    assert len(relation_of(source).schema) == len(world.of) + 1
    assert len(world.of) > 100


def test_a_load_has_what_the_database_prints(world: World, source: PostgresSource) -> None:
    expected = printed(world, source)
    schema = relation_of(source).schema
    differing = [
        (world.of[at].shown, row[0], value, expected[row[0]][at])  # type: ignore[index]
        for row in load_all(source)
        for at, (column, value) in enumerate(zip(schema.columns[1:], row[1:], strict=True))
        if column.type == TEXT and value != expected[row[0]][at]  # type: ignore[index]
    ]
    assert differing == []


def test_a_question_reads_what_a_load_does(source: PostgresSource) -> None:
    (found,) = answered(source, whole(source.relations(), "every"))
    assert differences(source, dict(load_all(source)), found) == []


def test_changes_lead_to_what_a_load_reads(world: World, source: PostgresSource) -> None:
    monitor = source.open_monitor(None)
    world.insert(100_000, ROWS)
    world.update(100_000, ROWS)
    world.delete(ROWS // 2)
    world.update(ROWS // 2, ROWS)
    state: Counter[Row] = Counter()
    try:
        for item in read_at_least(monitor, 5):
            for row, count in local(item.transaction)["every"].items():
                state[row] += count
    finally:
        monitor.close()
    assert min(state.values()) >= 0
    assert differences(source, dict(+state), dict(load_all(source))) == []


def differences(
    source: PostgresSource, a: Mapping[Row, int], b: Mapping[Row, int]
) -> list[tuple[str, object, object]]:
    """The values in which two states of the table differ, by the name of their column."""
    schema, there = relation_of(source).schema, {row[0]: row for row in b}
    assert {row[0] for row in a} == set(there)
    return [
        (column.printed or column.name, value, other)
        for row in a
        for column, value, other in zip(schema.columns, row, there[row[0]], strict=True)
        if value != other and not (value != value and other != other)
    ]


def test_a_question_by_value_finds_what_our_equality_does(
    world: World, source: PostgresSource
) -> None:
    relation = relation_of(source)
    stored = Rows(relation.schema, load_all(source))
    wrapper = source.open_wrapper()
    try:
        for column in relation.schema.columns[1:]:
            view = parse_view(
                f"SELECT a.id AS a, b.id AS b FROM every a JOIN every b ON a.{column.name} "
                f"= b.{column.name}",
                [relation],
            )
            (term,) = query_of(view)
            (joined,) = wrapper.ask([(term,)]).results
            query = (bind_delta(term, 1, stored),)
            (found,) = wrapper.ask([query]).results
            expected = evaluate(query, {relation.name: stored})
            assert found == expected, column
            assert joined == expected, column
            assert expected, column
    finally:
        wrapper.close()


def test_values_of_one_type_are_looked_up_by_any_text(world: World, source: PostgresSource) -> None:
    """What is no value of the type equals nothing, and is no error."""
    relation = relation_of(source)
    stored = Rows(relation.schema, load_all(source))
    texts = [column.name for column in relation.schema.columns if column.type == TEXT]
    pairs = zip(world.chance.sample(texts, 40), world.chance.sample(texts, 40), strict=True)
    wrapper = source.open_wrapper()
    try:
        for a, b in pairs:
            view = parse_view(
                f"SELECT a.id AS a, b.id AS b FROM every a JOIN every b ON a.{a} = b.{b}",
                [relation],
            )
            (term,) = query_of(view)
            query = (bind_delta(term, 1, stored),)
            expected = evaluate(query, {relation.name: stored})
            for asked in (query, (term,)):
                (found,) = wrapper.ask([asked]).results
                assert found == expected, (a, b)
    finally:
        wrapper.close()


def test_equality_differs_from_the_databases_only_where_the_table_of_types_says_so(
    world: World, source: PostgresSource
) -> None:
    schema = relation_of(source).schema
    rows = {row[0]: row for row in load_all(source)}
    unsaid = []
    with psycopg.connect(world.harness.dsn, autocommit=True) as connection:
        for at, column in enumerate(schema.columns[1:], 1):
            equal = equal_there(connection, column)
            ours = {
                (a, b)
                for a in rows
                for b in rows
                if rows[a][at] is not None and rows[a][at : at + 1] == rows[b][at : at + 1]
            }
            if equal != ours and not column.equality:
                unsaid.append((world.of[at - 1].shown, equal))
    assert unsaid == []


def equal_there(connection: psycopg.Connection, column: Column) -> set[tuple[int, int]] | None:
    """The pairs of rows that the database takes for equal; None if it cannot compare."""
    statement = f"SELECT a.id, b.id FROM every a, every b WHERE a.{column.name} = b.{column.name}"
    try:
        return {(a, b) for a, b in connection.execute(statement.encode())}
    except psycopg.errors.UndefinedFunction:
        return None
