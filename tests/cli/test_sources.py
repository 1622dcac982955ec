"""`headwater setup` and `teardown`, and mistakes in headwater.toml."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.sources import print_statements
from headwater.errors import InputError

SQLITE = '[sources.crm]\nkind = "sqlite"\npath = "crm.db"\nrelations = ["customers"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "crm.db") as connection:
        connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    connection.close()
    (tmp_path / "headwater.toml").write_text(SQLITE)
    return tmp_path


def objects_in(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        found = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    return found


def made_in(path: Path) -> set[tuple[str, str | None]]:
    with sqlite3.connect(path) as connection:
        found = set(connection.execute("SELECT name, sql FROM sqlite_master"))
    connection.close()
    return found


def test_setup_and_teardown_leave_the_source_as_it_was(project: Path) -> None:
    before = objects_in(project / "crm.db")
    done = CliRunner().invoke(app, ["setup", "crm", "-p", str(project)])
    assert done.exit_code == 0, done.output
    assert "crm is set up for customers" in done.output
    assert objects_in(project / "crm.db") > before
    assert CliRunner().invoke(app, ["teardown", "crm", "-p", str(project)]).exit_code == 0
    assert objects_in(project / "crm.db") == before


def test_printing_the_setup_changes_nothing(project: Path) -> None:
    before = objects_in(project / "crm.db")
    done = CliRunner().invoke(app, ["setup", "crm", "-p", str(project), "--print"])
    assert "CREATE TABLE" in done.output
    assert objects_in(project / "crm.db") == before


@pytest.mark.parametrize("steering", ["\x0b", "\x1b[31m", "\x85", "\u2028", "\u202e"])
def test_what_is_printed_to_be_run_makes_what_setup_makes_whatever_names_hold(
    project: Path, steering: str
) -> None:
    name = f"a{steering}b"
    with sqlite3.connect(project / "crm.db") as connection:
        connection.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, "{name}" TEXT)')
    connection.close()
    listed = json.dumps(["customers", name])
    (project / "headwater.toml").write_text(SQLITE.replace('["customers"]', listed))
    printed = CliRunner().invoke(app, ["setup", "crm", "-p", str(project), "--print"])
    assert printed.exit_code == 0, printed.output
    shutil.copy(project / "crm.db", project / "copy.db")
    with sqlite3.connect(project / "copy.db") as connection:
        connection.executescript(printed.stdout)
    connection.close()
    assert CliRunner().invoke(app, ["setup", "crm", "-p", str(project)]).exit_code == 0
    assert made_in(project / "copy.db") == made_in(project / "crm.db")


def test_what_is_printed_on_a_terminal_does_not_steer_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_statements(['CREATE TABLE "a\x1b[31mb\u2028" (\n  id INTEGER)'])
    assert capsys.readouterr().out == 'CREATE TABLE "a\\x1b[31mb\\u2028" (\n  id INTEGER);\n'


def test_setup_for_machines(project: Path) -> None:
    done = CliRunner().invoke(app, ["setup", "crm", "-p", str(project), "--json"])
    said = json.loads(done.output)
    assert said["source"] == "crm"
    assert said["ran"] is True
    assert said["statements"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sources.crm\n", "is not valid TOML"),
        ("[sources.other]\nkind = 'sqlite'\n", "there is no source 'crm'"),
        (
            "[sources.crm]\nkind = 'oracle'\n",
            "The kinds are: sqlite, postgres, mariadb, mysql, files, delta.",
        ),
        ("[sources.crm]\nkind = 'sqlite'\n", "sources.crm.path: is missing."),
        (SQLITE + "colour = 'red'\n", "sources.crm.colour: there is no such setting."),
        ("[sources]\ncrm = 3\n", "must be a table"),
        (SQLITE.replace("crm.db", "${NOT_SET_AT_ALL}"), "NOT_SET_AT_ALL is not set"),
        (SQLITE.replace("crm.db", "nowhere.db"), "nowhere.db"),
        (SQLITE.replace("customers", "custmers"), "customers"),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(project: Path, text: str, message: str) -> None:
    (project / "headwater.toml").write_text(text)
    done = CliRunner().invoke(app, ["setup", "crm", "-p", str(project)])
    assert done.exception is not None
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)


def test_setup_needs_nothing_else_of_the_project(project: Path) -> None:
    broken = "[warehouse]\ncolour = 1\n[sources.shop]\nkind = 'postgres'\ndsn = '${NOT_SET}'\n"
    (project / "headwater.toml").write_text(broken + SQLITE)
    (project / "views").mkdir()
    (project / "views" / "a.sql").write_text("CREATE nothing")
    for command in ("setup", "teardown"):
        done = CliRunner().invoke(app, [command, "crm", "-p", str(project)])
        assert done.exit_code == 0, done.output


def test_secret_of_a_source_is_in_no_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", "postgresql://u:hush@127.0.0.1:1/d")
    (project / "headwater.toml").write_text(
        "[sources.shop]\nkind = 'postgres'\ndsn = '${SHOP_DSN}'\nrelations = ['a']\n"
    )
    done = CliRunner().invoke(app, ["setup", "shop", "-p", str(project)])
    assert done.exception is not None
    assert "hush" not in f"{done.exception!r}{done.exception}{done.output}"
    assert not isinstance(done.exception, InputError)
