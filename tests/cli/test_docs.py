"""The pages say what is so: the SQL in docs/sql.md, the commands in README.md."""

import json
import re
import shlex
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import parse_type, show
from headwater.check.levels import PROPERTIES, Level
from headwater.errors import ExpressionError, SqlError
from headwater.lab.scenario import scenario_from_json
from tests.cli.commands import quick

ROOT = Path(__file__).parents[2]
SQL = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    every = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for written, block in every if written == language]


def table(text: str, *columns: str) -> Iterator[list[str]]:
    """The rows of the tables with this head."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith(f"| {' | '.join(columns)}"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            yield [cell.strip("`") for cell in cells[: len(columns)]]


# docs/sql.md


def relations() -> list[Relation]:
    listed = re.findall(r"^(\w+)\.(\w+)\((.*)\)$", blocks(SQL, "")[0], re.MULTILINE)
    found = []
    for source, name, columns in listed:
        pairs = [column.split(" ", 1) for column in re.split(r", (?=\w+ )", columns)]
        schema = Schema.of((column, parse_type(kind)) for column, kind in pairs)
        found.append(Relation(name, source, schema))
    return found


ORDERS, CUSTOMERS = relations()
STATE = {
    "orders": Rows.of(ORDERS.schema, [[1, 7, date(2024, 2, 29), Decimal("10.00"), 2.5, None]]),
    "customers": Rows.of(CUSTOMERS.schema, [[7, "Ann", True]]),
}
EXAMPLES = blocks(SQL, "sql")
VALUES = list(table(SQL, "expression", "value", "why"))
FAILURES = list(table(SQL, "expression", "fails with"))
REFUSALS = list(table(SQL, "query", "refused with", "instead"))


def value_of(expression: str) -> str:
    sql = f"SELECT {expression} AS v FROM orders, customers"
    (row,) = evaluate_view(parse_view(sql, [ORDERS, CUSTOMERS], total=False), STATE)
    return show(row[0])


def test_the_page_has_examples_of_everything() -> None:
    assert (len(EXAMPLES), len(VALUES), len(FAILURES), len(REFUSALS)) == (10, 34, 5, 27)


@pytest.mark.parametrize("sql", EXAMPLES)
def test_an_example_is_a_view(sql: str) -> None:
    assert parse_view(sql, [ORDERS, CUSTOMERS]).schema.columns


@pytest.mark.parametrize(("expression", "value"), [row[:2] for row in VALUES])
def test_an_expression_has_the_value_that_is_said(expression: str, value: str) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(("expression", "reason"), FAILURES)
def test_an_expression_fails_as_is_said(expression: str, reason: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(reason)):
        value_of(expression)


@pytest.mark.parametrize(("sql", "reason"), [row[:2] for row in REFUSALS])
def test_a_query_is_refused_as_is_said(sql: str, reason: str) -> None:
    with pytest.raises(SqlError, match=re.escape(reason)):
        parse_view(sql, [ORDERS, CUSTOMERS])


@pytest.mark.parametrize("names", list(table(SQL, "type", "also written")))
def test_a_type_has_the_names_that_are_said(names: list[str]) -> None:
    first, *others = (name for cell in names for name in cell.split(", ") if name)
    if first != "decimal(p,s)" and "<" not in first:  # those stand for many
        assert {parse_type(name) for name in others} <= {parse_type(first)}


@pytest.mark.parametrize(
    ("kind", "constant"),
    [
        ("bool", "true"),
        ("int", "7"),
        ("decimal(3,2)", "1.50"),
        ("float", "1.5e0"),
        ("text", "'it''s'"),
        ("bytes", "X'00ff'"),
        ("date", "DATE '2024-02-29'"),
        ("timestamp", "TIMESTAMP_NTZ '2024-02-29 12:30:00'"),
        ("timestamp_tz", "TIMESTAMP '2024-02-29 12:30:00+00:00'"),
    ],
)
def test_a_constant_of_the_page_has_its_type(kind: str, constant: str) -> None:
    assert f"`{constant}`" in SQL
    view = parse_view(f"SELECT {constant} AS v FROM orders", [ORDERS])
    assert str(view.schema.types[0]) == kind


# README.md and the other pages


def commands() -> list[tuple[str, str]]:
    """Each command of the README that shows its output, with that output."""
    found = []
    for block in blocks(README, ""):
        if block.startswith("$ headwater "):
            command, _, output = block.partition("\n")
            found.append((command.removeprefix("$ headwater "), output))
    return found


def unwrapped(text: str) -> list[str]:
    """Lines, with those put together that the page breaks after four spaces."""
    return re.sub(r"\n {4}", " ", text).rstrip().splitlines()


@pytest.mark.parametrize(("command", "output"), commands())
def test_a_command_of_the_readme_prints_what_is_shown(command: str, output: str) -> None:
    found = quick(*shlex.split(command))
    assert found.code == 0
    assert unwrapped(found.out) == unwrapped(output)


def test_the_readme_shows_commands() -> None:
    assert len(commands()) >= 2


@pytest.mark.parametrize("command", re.findall(r"^\| `headwater ([^`]*)`", README, re.MULTILINE))
def test_a_command_that_the_readme_lists_exists(command: str) -> None:
    words = [word for word in shlex.split(command) if re.fullmatch("[a-z]+", word)]
    assert quick(*words, "--help").code == 0


PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_the_page_on_consistency_names_every_level_and_property() -> None:
    text = (ROOT / "docs" / "consistency.md").read_text(encoding="utf-8")
    assert [row[0] for row in table(text, "level")] == [str(level) for level in Level]
    assert [row[0] for row in table(text, "property", "meaning")] == [p.name for p in PROPERTIES]


def test_the_scenario_of_the_lab_page_is_valid() -> None:
    (text,) = blocks((ROOT / "docs" / "lab.md").read_text(encoding="utf-8"), "json")
    assert len(scenario_from_json(json.loads(text)).transactions) == 2
