"""The plain evaluator against SQLite, on random views in what both mean alike."""

import re
import sqlite3
from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.evaluate import evaluate_shown
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, Row
from headwater.algebra.views import View
from headwater.errors import SqlError
from tests.queries import random_query, random_relations
from tests.strategies import Case, cases, random_bag

WORDS = ("NOT", "AND", "IS", "NULL", "-", "+", "*", "(", ")", ",", "1", "k", "IN", "AS", "DISTINCT")
MORE = settings(max_examples=10 * settings().max_examples)


def sqlite_answer(case: Case) -> Counter[Row]:
    """SQLite's answer, its columns in the view's order: with USING it orders `*` otherwise."""
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        for relation in case.view.relations:
            columns = ", ".join(
                f"{c.name} {'INTEGER' if c.type == INT else 'TEXT'}"
                for c in relation.schema.columns
            )
            database.execute(f"CREATE TABLE {relation.name} ({columns})")
            marks = ", ".join("?" * len(relation.schema))
            rows = [row for row, count in case.old[relation.name].items() for _ in range(count)]
            database.executemany(f"INSERT INTO {relation.name} VALUES ({marks})", rows)
        cursor = database.execute(case.view.sql)
        names = [column[0] for column in cursor.description]
        order = [names.index(name) for name in case.view.shown_schema.names]
        return Counter(tuple(row[at] for at in order) for row in cursor)
    finally:
        database.close()


def plain_answer(view: View, case: Case) -> Counter[Row]:
    """A boolean counts as 0 or 1, as SQLite shows it; Python takes them for equal."""
    return Counter(dict(evaluate_shown(view, case.old).items()))


@given(cases())
@MORE
def test_a_view_has_the_rows_that_sqlite_finds(case: Case) -> None:
    assert plain_answer(case.view, case) == sqlite_answer(case)


@given(cases(self_joins=True))
@MORE
def test_a_view_that_uses_a_relation_twice_has_the_rows_that_sqlite_finds(case: Case) -> None:
    assert plain_answer(case.view, case) == sqlite_answer(case)


@given(cases(self_joins=True, unions=True))
def test_a_union_of_views_has_the_rows_that_sqlite_finds(case: Case) -> None:
    assert plain_answer(case.view, case) == sqlite_answer(case)


def test_most_of_the_random_unions_have_several_parts() -> None:
    parts: list[int] = []

    @settings(max_examples=100, derandomize=True, database=None)
    @given(cases(self_joins=True, unions=True))
    def collect(case: Case) -> None:
        parts.append(len(case.view.joins))

    collect()
    assert sum(count == 3 for count in parts) >= 0.5 * len(parts)


@given(st.integers(0, 2**32 - 1))
@MORE
def test_a_damaged_query_is_refused_or_means_what_sqlite_takes_it_for(seed: int) -> None:
    random = Random(seed)
    known = random_relations(random)
    sql = damaged(random_query(random, known), random)
    try:
        view = parse_view(sql, known)
    except SqlError:
        return
    state = {relation.name: random_bag(random, relation.schema) for relation in view.relations}
    case = Case(view, (), (state,))
    try:
        expected = sqlite_answer(case)
    except (sqlite3.Error, ValueError):  # SQLite does not read it, or names columns otherwise
        return
    assert plain_answer(view, case) == expected


def damaged(sql: str, random: Random) -> str:
    """The query with one word removed, added or replaced."""
    words = re.findall(r"\w+|\S|\s+", sql)
    at = random.randrange(len(words))
    words[at : at + random.randint(0, 1)] = random.choice([[], [" ", random.choice(WORDS), " "]])
    return "".join(words)


def test_many_of_the_random_joins_are_not_empty() -> None:
    joins: list[bool] = []

    @settings(max_examples=200, derandomize=True, database=None)
    @given(cases())
    def collect(case: Case) -> None:
        if len(case.view.joins[0].occurrences) > 1:
            joins.append(bool(evaluate_shown(case.view, case.old)))

    collect()
    assert len(joins) >= 80
    assert sum(joins) >= 0.4 * len(joins)


def test_the_random_queries_use_every_way_to_join() -> None:
    seen: set[str] = set()
    ways = (", r", "JOIN", "CROSS JOIN", "NATURAL JOIN", "USING", " ON ", "SELECT *", ".* FROM")

    @settings(max_examples=200, derandomize=True, database=None)
    @given(cases())
    def collect(case: Case) -> None:
        seen.update(way for way in ways if way in case.view.sql)

    collect()
    assert seen == set(ways)
