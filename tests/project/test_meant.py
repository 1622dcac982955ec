"""Which tables of a source are meant, where its settings leave that to the views."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from headwater.algebra.sql.view import normalised, tables_of
from headwater.project.meant import meant
from headwater.sources.postgres.settings import PostgresSettings
from headwater.storage.location import Location


def listed(select: str, *relations: str) -> list[str]:
    settings = PostgresSettings(
        kind="postgres", dsn=SecretStr("dbname=x"), relations=list(relations)
    )
    return meant({"app": settings}, tables_of(select), Location.of(Path("nowhere")))["app"].listed


@pytest.mark.parametrize(
    ("table", "meaning"),
    [
        ('app."Sales"."Order Lines"', '"Sales"."Order Lines"'),
        ('app."Sales".orders', '"Sales".orders'),
        ('"Sales".orders', '"Sales".orders'),
        ("app.Sales.Orders", "sales.orders"),
        ('app."*"', '"*"'),
        ('app."a\tb\nc"', '"a\tb\nc"'),
    ],
)
def test_a_table_means_the_same_when_it_is_read_back_from_a_loaded_view(
    table: str, meaning: str
) -> None:
    select = f"SELECT id FROM {table}"
    assert listed(select) == listed(normalised(select)) == [meaning]


@pytest.mark.parametrize(
    ("pattern", "table", "meaning"),
    [
        ('"Odd Schema".*', 'app."Odd Schema".t', ['"Odd Schema".t']),
        ('"Odd Schema".*', "app.t", ['"Odd Schema".t']),
        ('"Odd Schema".*', 'app."odd schema".t', []),
        ('"a.b".t*', 'app."a.b".t1', ['"a.b".t1']),
        ('"sales".*', "app.Sales.t", ["sales.t"]),
        ('*."T 1"', 'app.sales."T 1"', ['sales."T 1"']),
        ("public.*", 'app.public."a\nb"', ['public."a\nb"']),
    ],
)
def test_a_pattern_may_have_names_in_double_quotes(
    pattern: str, table: str, meaning: list[str]
) -> None:
    assert listed(f"SELECT id FROM {table}", pattern) == meaning


def test_a_star_in_double_quotes_is_a_name_and_no_pattern() -> None:
    settings = PostgresSettings(kind="postgres", dsn=SecretStr("dbname=x"), relations=['"*"'])
    assert not settings.is_open
    assert settings.names == ("*",)
