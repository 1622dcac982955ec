"""A source is what captures a database and what answers about it, put together."""

from __future__ import annotations

from typing import get_args

import pytest

from headwater.sources.kinds import KINDS
from headwater.sources.postgres.settings import PostgresSettings
from headwater.sources.postgres.source import CAPTURES, PostgresSource
from headwater.sources.sqlite.source import SqliteSource
from tests.sources.sqlite_harness import SqliteHarness


def test_every_kind_is_listed_under_the_name_that_its_settings_ask_for() -> None:
    for name, model in KINDS.items():
        assert get_args(model.model_fields["kind"].annotation) == (name,)


def test_settings_may_name_every_way_to_capture_postgresql_and_no_other() -> None:
    assert get_args(PostgresSettings.model_fields["changes"].annotation) == tuple(CAPTURES)


@pytest.mark.parametrize("changes", CAPTURES)
def test_a_way_to_capture_says_what_it_cannot_promise(changes: str) -> None:
    source = PostgresSource("pg", "", ["a"], changes=changes)
    assert source.limits == CAPTURES[changes].limits
    assert bool(source.limits) == (changes == "triggers")


def test_a_narrowed_source_is_another_with_the_same_name() -> None:
    harness = SqliteHarness()
    harness.writer().execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c TEXT)")
    source = harness.source(["t"])
    narrow = source.narrowed({"t": {"b"}})
    assert isinstance(narrow, SqliteSource)
    assert narrow.name == source.name
    assert narrow.relations()["t"].schema.names == ("a", "b")
    assert source.relations()["t"].without_texts().schema.names == ("a", "b", "c")
    harness.close()
