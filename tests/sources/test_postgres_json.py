"""A real server's `->`, `->>`, `#>` and `#>>`, beside ours on the text that it prints."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Column, Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, TEXT
from headwater.embedded.postgres import shared_server
from tests.json_texts import KEYS, any_json

_RANDOM = Random(11)
_DOCUMENTS = ["null", '"x"', "7", "[]", "{}", *(any_json(_RANDOM) for _ in range(600))]
_KEYS = [f"'{key}'" for key in (key.replace("\\", "\\\\") for key in KEYS) if key != "$.a"]
_PATHS = [
    *("'{}'", "'{a,0}'", "'{\"\",b,-1}'", "'{ a , b }'", "'{a.b,+1}'", "'{NULL}'", "'{\"null\"}'"),
    *("ARRAY['x y', '0']", "'{0,a,1,b}'::text[]"),
]
EXPRESSIONS = [
    *(f"d {operator} {key}" for operator in ("->", "->>") for key in (*_KEYS, "0", "-1", "2")),
    *(f"d {operator} {path}" for operator in ("#>", "#>>") for path in _PATHS),
    *("d -> 'a' -> 0 ->> -1", "d -> 'a'::text ->> 'b'::text", "d ->> 'a' = 'x'", "d->0->'a'->>0"),
]


@pytest.mark.parametrize("kind", ["jsonb", "json"])
def test_parts_of_json_are_those_of_the_server(kind: str) -> None:
    listed = ", ".join(f"({e.replace(chr(92) * 2, chr(92))})::text" for e in EXPRESSIONS)
    with psycopg.connect(shared_server().dsn()) as connection:
        found = connection.execute(
            f"SELECT d::text, {listed} FROM unnest(%s::{kind}[]) AS x(d)".encode(),
            [list(_DOCUMENTS)],
        ).fetchall()
    docs = Relation("docs", "x", Schema((Column("id", INT), Column("d", TEXT, printed=kind))))
    shown = ", ".join(f"CAST({e} AS STRING) AS v{at}" for at, e in enumerate(EXPRESSIONS))
    view = parse_view(f"SELECT id, {shown} FROM docs", [docs])
    state = Rows.of(docs.schema, [(at, row[0]) for at, row in enumerate(found)])
    ours = {row[0]: row[1:] for row in view.shown(evaluate_view(view, {"docs": state}))}
    wrong = [
        f"{expression} of {row[0]} is {here!r} here and {there!r} there"
        for at, row in enumerate(found)
        for expression, here, there in zip(EXPRESSIONS, ours[at], row[1:], strict=True)
        if here != there
    ]
    assert not wrong, "\n".join(wrong[:20])
    assert sum(value is not None for row in found for value in row) > 2500
