from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.algebra.rows import Rows
from headwater.algebra.sql.view import parse_view
from headwater.algebra.terms import bind_delta, query_of
from headwater.errors import SourceError
from headwater.sources import fetch as fetch_module
from tests.sources.postgres_harness import PostgresHarness
from tests.sources.postgres_tools import LINES, answered


@pytest.fixture
def harness() -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    yield harness
    harness.close()


@pytest.mark.parametrize("many", [False, True])
def test_a_row_that_two_parts_of_a_question_find_counts_once(
    harness: PostgresHarness, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module.cut, "__defaults__", (1_500 if many else 1,))
    writer = harness.writer()
    writer.execute("CREATE TABLE padded (c char(4), n int)")
    writer.execute("CREATE TABLE asked (c text, n int)")
    writer.execute("INSERT INTO padded VALUES ('a', 1), ('b', 2)")
    source = harness.source(["padded", "asked"])
    source.setup()
    relations = source.relations()
    query = query_of(
        parse_view("SELECT p.c, p.n FROM padded p JOIN asked q ON p.c = q.c", relations)
    )
    # In order, so that the parts end behind "a".
    before, behind = ([f"{n:04}" for n in range(1_499)], [f"b{n}" for n in range(3_000)])
    keys = [*before, "a", "a ", *behind] if many else ["a", "a ", "a  "]
    asked = Rows.of(relations["asked"].schema, [(key, 0) for key in keys])
    (found,) = answered(source, (bind_delta(query[0], 1, asked),))
    assert found == {("a", 1): 1}


def test_a_declared_key_that_the_database_does_not_keep_is_refused(
    harness: PostgresHarness,
) -> None:
    harness.create_table("a", LINES)
    source = harness.source(["a"], keys={"a": ["id"]})
    with pytest.raises(SourceError, match="rows may share it, or have NULL in it") as caught:
        source.relations()
    writer = harness.writer()
    writer.execute("CREATE UNIQUE INDEX ON a (id) WHERE id > 3; CREATE UNIQUE INDEX ON a (id)")
    with pytest.raises(SourceError, match="rows may share it"):
        source.relations()
    writer.execute(caught.value.hint.partition("run: ")[2])
    assert source.relations()["a"].key == ("id",)


def test_a_collation_that_takes_different_texts_for_equal_is_told(
    harness: PostgresHarness,
) -> None:
    writer = harness.writer()
    # Such a collation comes from ICU, which not every server has; here one is only called so.
    writer.execute("CREATE COLLATION loose (provider = libc, locale = 'C')")
    writer.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'loose'")
    writer.execute("CREATE DOMAIN called AS text COLLATE loose")
    writer.execute(
        "CREATE TABLE t (a text COLLATE loose, b text[] COLLATE loose, c called, d text)"
    )
    schema = harness.source(["t"]).relations()["t"].schema
    told = [column.name for column in schema.columns if "its collation" in column.equality]
    assert told == ["a", "b", "c"]
