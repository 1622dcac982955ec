"""Statements of a mediated schema: anything may stand in a file."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.schema import Relation, Schema
from headwater.algebra.values import INT, TEXT, decimal_type
from headwater.errors import HeadwaterError, InputError
from headwater.mediation.binding import bind
from headwater.mediation.schema import MediatedSchema
from headwater.mediation.statements import read_statement, read_statements

SOURCES = [
    Relation(
        "a.t", "a", Schema.of([("id", INT), ("x", TEXT), ("d", decimal_type(10, 2))]), ("id",)
    ),
    Relation("b.t", "b", Schema.of([("id", INT), ("x", TEXT)])),
]
TEXT_OF_SCHEMA = """
CREATE TABLE m (id BIGINT, x STRING NOT NULL, d DECIMAL(10,2), PRIMARY KEY (id),
                FOREIGN KEY (x) REFERENCES n (k));
CREATE TABLE n (k STRING, v BIGINT);
CREATE SOURCE VIEW a.t AS SELECT id, x, d FROM m WHERE d > 3 AND x <> 'q';
CREATE SOURCE VIEW q (i, k) FROM
(SELECT t.id AS i, UPPER(t.x) AS k FROM b.t AS t JOIN a.t AS u USING (id))
AS SELECT m.id, n.k FROM m JOIN n ON m.x = n.k;
CREATE VIEW w AS SELECT m.id, n.k AS x FROM m, n UNION SELECT id, x FROM b.t WHERE id IN (1, 2)
"""
QUERIES = [
    "SELECT m.id, n.k FROM m JOIN n ON m.x = n.k WHERE m.d > 2",
    "SELECT * FROM w",
    "SELECT id FROM m WHERE x LIKE 'a%' AND x IN (SELECT k FROM n)",
    "SELECT w.id FROM w, m WHERE w.id = m.id AND m.x <=> w.x UNION SELECT id FROM w",
]
SIGNS = list("();,'\"`.*=<>-/\x00é$")


def answered(schema: str, query: str) -> str:
    read = [read_statement(each, "f.sql") for each in read_statements(schema, "f.sql")]
    found, mistakes = MediatedSchema.of(read)
    for mistake in mistakes:
        raise mistake
    return bind(found, found.read_in(query), SOURCES).answer(query).sql


def spoilt(text: str, random: Random) -> str:
    at = random.randrange(len(text))
    words = text.split(" ")
    here, there = random.randrange(len(words)), random.randrange(len(words))
    match random.randrange(4):
        case 0:
            return text[:at] + text[at + random.randint(1, 9) :]
        case 1:
            return text[:at] + random.choice(SIGNS) + text[at:]
        case 2:
            words[here] = words[there]
        case _:
            words[here], words[there] = words[there], words[here]
    return " ".join(words)


@pytest.mark.parametrize("query", QUERIES)
def test_the_text_by_itself_is_answered(query: str) -> None:
    assert answered(TEXT_OF_SCHEMA, query).startswith("SELECT")


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=max(1, settings().max_examples))
def test_whatever_stands_in_a_file_is_read_or_refused_in_words(seed: int) -> None:
    random = Random(seed)
    schema, query = TEXT_OF_SCHEMA, random.choice(QUERIES)
    for _ in range(random.randint(1, 2)):
        if random.random() < 0.3:
            query = spoilt(query, random)
        else:
            schema = spoilt(schema, random)
    with suppress(HeadwaterError):
        answered(schema, query)


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("CREATE TABLE m (id BIGINT, x STRING ) NOT NULL", r"f\.sql:1:39: syntax error at 'NOT'"),
        ("CREATE TABLE n x STRING", r"f\.sql:1:16: syntax error at 'x'"),
        ("CREATE TABLE m (id DECIMAL(a))", "column id: DECIMAL takes numbers of digits"),
        ("CREATE TABLE m AS SELECT 1 AS a", "is no CREATE TABLE with columns"),
        ("CREATE VIEW a.b AS SELECT 1 AS a", r"a\.b has too many parts"),
        ("CREATE SOURCE VIEW a.t (x AS SELECT 1", "list of columns is not closed"),
        ("CREATE SOURCE VIEW d FROM (SELECT 1", "a parenthesis is never closed"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", r"kept stand in views/\*\.sql"),
    ],
)
def test_a_statement_that_says_nothing_is_refused_with_its_place(statement: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_statement(statement, "f.sql")
