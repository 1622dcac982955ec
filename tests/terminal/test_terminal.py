"""Foreign text on a terminal: shown as it is, and never obeyed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.algebra.schema import Schema
from headwater.algebra.values import TEXT
from headwater.lab.library import example
from headwater.pipeline.verify import Verification
from headwater.terminal.output import visible
from headwater.terminal.verification import print_verification
from tests.cli.commands import Result, failing, quick

SETTINGS = """
[spark]
master = "local[2]"
[sources.shop]
kind = "sqlite"
path = "shop.db"
relations = ["orders"]
"""
VIEW = 'CREATE MATERIALIZED VIEW noted AS SELECT id, "[note]" FROM shop.orders'
MARKUP = "[/b] [draft] order :smile: [bold]x[/bold] \\["
ESCAPES = "a\x1b[31mred\x07\x9b2J\r\nb\tc\u202edcba\u2028\x7f"
ESCAPED = r"a\x1b[31mred\x07\x9b2J\r\nb\tc\u202edcba\u2028\x7f"
STEERING = set("\x1b\x07\x9b\r\t\u202e\u2028\x7f")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """A project with one view, whose rows would steer a terminal."""
    folder = tmp_path_factory.mktemp("terminal")
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute('CREATE TABLE orders (id INTEGER PRIMARY KEY, "[note]" TEXT)')
    connection.executemany("INSERT INTO orders VALUES (?, ?)", [(1, MARKUP), (2, ESCAPES)])
    connection.commit()
    connection.close()
    (folder / "headwater.toml").write_text(SETTINGS, encoding="utf-8")
    (folder / "views").mkdir()
    (folder / "views" / "noted.sql").write_text(VIEW, encoding="utf-8")
    for command in (["setup", "shop"], ["run", "--once"]):
        assert quick(*command, "-p", str(folder)).code == 0
    return folder


def is_harmless(found: Result) -> bool:
    return not STEERING & set(found.out + found.err)


def test_values_of_a_query_are_shown_as_they_are(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    found = quick("sql", "SELECT * FROM noted ORDER BY id", "-p", str(project))
    assert is_harmless(found)
    assert "[note]" in found.out
    assert MARKUP in found.out
    assert ESCAPED in found.out


def test_values_for_machines_are_exact_and_harmless_too(project: Path) -> None:
    found = quick("sql", "SELECT * FROM noted ORDER BY id", "--json", "-p", str(project))
    assert is_harmless(found)
    assert [json.loads(line)["[note]"] for line in found.out.splitlines()] == [MARKUP, ESCAPES]


def test_columns_of_one_name_are_told_apart_for_machines(project: Path) -> None:
    query = (
        'SELECT id, 2 * id AS id_1, id + 7 AS id, "[note]", id + 8 AS id FROM noted WHERE id = 1'
    )
    found = quick("sql", query, "--json", "-p", str(project))
    expected = {"id": 1, "id_1": 2, "id_2": 8, "[note]": MARKUP, "id_3": 9}
    assert json.loads(found.out) == expected


def test_rows_that_differ_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    rows = Rows(Schema.of([("note", TEXT)]), {(ESCAPES,): 1, (MARKUP,): 2})
    print_verification(Verification("noted", 1, {}, 3, rows, rows, 0.1, 0))
    shown = capsys.readouterr().out
    assert not STEERING & set(shown)
    assert shown.count(MARKUP) == 2


def test_the_message_of_a_mistake_is_one_harmless_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    query = f'SELECT "[/b]{ESCAPES}" FROM noted'
    found = failing(monkeypatch, capsys, "sql", query, "-p", str(project))
    assert found.code == 2
    assert is_harmless(found)
    assert r"a\x1b[31mred" in found.err
    assert "[/b]" in found.err
    assert found.err.count("\n") == 1


def test_what_check_says_of_names_at_a_source_is_harmless(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute(f'CREATE TABLE "{ESCAPES}[/x]" (id INTEGER PRIMARY KEY)')
    connection.execute(f'CREATE TABLE orders ("{ESCAPES}[/x]" INTEGER PRIMARY KEY)')
    connection.close()
    (tmp_path / "views").mkdir()
    view = "CREATE MATERIALIZED VIEW v AS SELECT nothing FROM orders"
    (tmp_path / "views" / "v.sql").write_text(view, encoding="utf-8")
    for relation in ("orders", "nothing"):
        settings = SETTINGS.replace("orders", relation)
        (tmp_path / "headwater.toml").write_text(settings, encoding="utf-8")
        found = quick("check", "-p", str(tmp_path))
        assert found.code == 2
        assert is_harmless(found)
        assert r"a\x1b[31mred" in found.err
        shown = quick("check", "--json", "-p", str(tmp_path))
        assert is_harmless(shown)


def test_the_lab_shows_a_scenario_as_it_is(tmp_path: Path) -> None:
    data = json.loads(json.dumps(example("eca-2").data))
    data["name"] = ESCAPES + MARKUP
    (tmp_path / "mine.json").write_text(json.dumps(data), encoding="utf-8")
    for command in (["run"], ["explore"], ["replay"]):
        options = [] if command == ["replay"] else ["-a", "sweep"]
        found = quick("lab", *command, str(tmp_path / "mine.json"), *options)
        assert is_harmless(found)


@pytest.mark.parametrize(
    "arguments",
    [
        [ESCAPES],
        ["check", f"--{ESCAPES}"],
        ["check", "-p", ".", ESCAPES],
        ["lab", ESCAPES],
        ["share", "list", f"--{ESCAPES}"],
    ],
)
def test_a_wrong_use_of_a_command_is_told_harmlessly(arguments: list[str]) -> None:
    found = quick(*arguments)
    assert found.code == 2
    assert is_harmless(found)
    assert r"a\x1b[31mred" in found.err


def test_letters_of_every_language_stay_as_they_are() -> None:
    text = "größe 数 مرحبا नमस्ते 👩\u200d👧 é"
    assert visible(text) == text


@pytest.mark.parametrize("character", ["\ud800", "\U000e0041", "\u2066", "\x00", "\ufeff", "\x85"])
def test_every_character_that_steers_is_shown_as_an_escape(character: str) -> None:
    assert visible(character).isascii()
    assert visible(character).startswith("\\")
