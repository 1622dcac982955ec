"""The worked example of docs/types.md, and projects whose settings list no tables."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headwater.errors import SeveralError, SourceError
from tests.cli.commands import failing, headwater, quick
from tests.sources.postgres_harness import PostgresHarness

PAGE = (Path(__file__).parents[2] / "docs" / "types.md").read_text(encoding="utf-8")
SCHEMA, *VIEWS = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
AS_TEXT, SETTINGS = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILLED = """
INSERT INTO customers (id, email, plan, tags)
VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a@x.org', '30 days', '{x,"y z"}'),
       ('b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'b@x.org', '1 year', '{}');
INSERT INTO orders (customer_id, status, shipping, discount, placed_at)
SELECT id, 'paid', ROW('Main', NULL, '12345')::address, 1.50, '2024-05-01 00:00+00'
FROM customers ORDER BY email;
INSERT INTO sales."Order Lines"
VALUES (1, 1, 'abc', 9.990, 3, '{"b": 1, "a": 2.0}'), (2, 1, 'x', 100, 1, NULL);
INSERT INTO sales.orders VALUES (1, 'old'), (3, 'older');
INSERT INTO events
VALUES (1, '2024-03-01 00:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"k": 1}');
"""
CHANGED = """
UPDATE orders SET status = 'shipped', discount = 2 WHERE id = 1;
UPDATE customers SET plan = '720:00:00', tags = tags || '{new}' WHERE email = 'a@x.org';
UPDATE orders SET status = 'cancelled' WHERE id = 2;
UPDATE events SET at = '2025-07-01 00:00+00' WHERE id = 1;
INSERT INTO events VALUES
  (3, '2025-03-02 00:00+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL);
"""


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresHarness]:
    harness = PostgresHarness()
    monkeypatch.setenv("APP_DSN", harness.dsn)
    execute(harness, SCHEMA)
    yield harness
    harness.close()


def execute(harness: PostgresHarness, statements: str) -> None:
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        connection.execute(statements.encode())


def make_project(folder: Path, views: list[str], settings: str = SETTINGS) -> Path:
    (folder / "views").mkdir(parents=True)
    (folder / "headwater.toml").write_text(settings, encoding="utf-8")
    for at, view in enumerate(views):
        (folder / "views" / f"v{at}.sql").write_text(view, encoding="utf-8")
    return folder


def objects(*arguments: str) -> list[dict[str, object]]:
    done = quick(*arguments, "--json")
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def rows(project: Path, query: str) -> list[dict[str, object]]:
    return objects("sql", query, "-p", str(project))


def test_the_example_of_the_page_is_followed(database: PostgresHarness, tmp_path: Path) -> None:
    project = make_project(tmp_path / "p", VIEWS)
    execute(database, FILLED)
    for command in (["check"], ["setup", "app"], ["run", "--once"]):
        done = headwater(*command, "-p", str(project))
        assert done.code == 0, done.err
    execute(database, CHANGED)
    assert headwater("run", "--once", "-p", str(project)).code == 0
    for view in ("order_lines", "customer_events"):
        done = headwater("verify", view, "-p", str(project))
        assert done.code == 0, done.err
    (found,) = rows(project, "SELECT * FROM order_lines")
    assert list(map(str, found.values()))[-4:] == [
        "a@x.org",
        "abc",
        '{"a": 2.0, "b": 1}',
        "29.9700",
    ]
    assert (found["id"], found["status"]) == (1, "shipped")
    assert found["shipping"] == {"street": "Main", "city": None, "zip": "12345"}
    events = rows(project, "SELECT *, tags[1] AS second FROM customer_events ORDER BY id")
    assert [r["legacy"] for r in events] == ["old", "older"]
    assert [(r["tags"], r["second"]) for r in events] == [(["x", "y z", "new"], "y z")] * 2


MATRICES = """
CREATE TABLE measurements (id int PRIMARY KEY, matrix int[], until date, at int);
INSERT INTO measurements VALUES (1, '{1,2}', '2024-02-29', 1)
"""


def test_a_matrix_stops_its_view_until_its_column_is_read_as_text(
    database: PostgresHarness, tmp_path: Path
) -> None:
    view = "CREATE MATERIALIZED VIEW m AS SELECT m.id, m.matrix, m.until FROM app.measurements m"
    project = make_project(tmp_path / "p", [view])
    execute(database, MATRICES)
    for command in (["setup", "app"], ["run", "--once"]):
        assert headwater(*command, "-p", str(project)).code == 0
    execute(database, "INSERT INTO measurements VALUES (2, '{{1,2},{3,4}}', NULL, 2)")
    done = headwater("run", "--once", "-p", str(project))
    assert done.code != 0
    assert "column matrix: the value {{1,2},{3,4}} cannot be represented" in done.err
    assert 'as_text = { "measurements" = ["matrix"] }' in done.err
    (project / "headwater.toml").write_text(AS_TEXT, encoding="utf-8")
    for command in (["reload", "m"], ["run", "--once"]):
        done = headwater(*command, "-p", str(project))
        assert done.code == 0, done.err
    execute(database, "UPDATE measurements SET until = 'infinity' WHERE id = 2")
    for command in (["run", "--once"], ["verify"]):
        done = headwater(*command, "-p", str(project))
        assert done.code == 0, done.err
    assert rows(project, "SELECT matrix, until FROM m ORDER BY id") == [
        {"matrix": "{1,2}", "until": "2024-02-29"},
        {"matrix": "{{1,2},{3,4}}", "until": "infinity"},
    ]


def test_tables_shows_all_that_there_is_and_what_cannot_be_used(
    database: PostgresHarness, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "p", [])
    execute(database, "ALTER TABLE events ADD COLUMN documents jsonb[]")
    found = {str(table["table"]): table for table in objects("tables", "app", "-p", str(project))}
    assert set(found) == {
        "public.customers",
        "public.events",
        "public.orders",
        "public.paid",
        "public.sessions",
        'sales."Order Lines"',
        "sales.orders",
    }
    assert "is a view" in str(found["public.paid"]["problem"])
    assert "unlogged" in str(found["public.sessions"]["problem"])
    assert found["public.events"]["key"] == ["id", "at"]
    assert "each of its elements is JSON as a text" in str(found["public.events"]["columns"])
    customers = {c["name"]: c for c in found["public.customers"]["columns"]}  # type: ignore[attr-defined]
    assert (customers["id"]["declared"], customers["id"]["type"]) == ("uuid", "text")
    assert customers["search"]["type"] is None
    assert "to_tsvector" in customers["search"]["remark"]
    shown = quick("tables", "app", "-p", str(project))
    assert "public.customers: key (id)" in shown.out


def test_check_tells_what_is_compared_in_another_way(
    database: PostgresHarness, tmp_path: Path
) -> None:
    view = """CREATE MATERIALIZED VIEW v AS SELECT c.id FROM app.customers c
    WHERE c.profile = '{}' AND c.id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"""
    project = make_project(tmp_path / "p", [view])
    (found,) = [each for each in objects("check", "-p", str(project)) if "view" in each]
    told = str(found["cautions"])
    assert "View v compares c.profile (jsonb): numbers in it" in told
    assert "compares customers.id with 'A0EEBC99" in told
    assert "write 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'" in told


CONSTANTS = {
    "uuid": ("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "numeric": ("'1.50'", "1.5"),
    "interval": ("'30 days'", "1 mon"),
    "inet": ("'10.0.0.1/32'", "10.0.0.1"),
    "cidr": ("'10.0.0.0'", "10.0.0.0/32"),
    "macaddr": ("'08-00-2b-01-02-03'", "08:00:2b:01:02:03"),
    "time": ("'12:00'", "12:00:00"),
    "timetz": ("'12:00+02:00'", "12:00:00+02"),
    "jsonb": ('\'{"b":1, "a":2}\'', '{"a": 2, "b": 1}'),
    "json": ("'{not json}'", None),
    "bit varying": ("'2'", None),
    "int4range": ("'[1,3]'", "[1,4)"),
    "money": ("'5'", "$5.00"),
    "character(5)": ("'ab '", "ab"),
    "tsvector": ("'b a'", "'a' 'b'"),
    "order_status": ("'shiped'", None),
}


def test_check_tells_how_the_database_writes_the_constants_of_a_view(
    database: PostgresHarness, tmp_path: Path
) -> None:
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(CONSTANTS))
    execute(database, f"CREATE TABLE every ({columns}, same inet, email email)")
    tests = " OR ".join(f"c{at} = {text}" for at, (text, _) in enumerate(CONSTANTS.values()))
    view = f"""CREATE MATERIALIZED VIEW v AS SELECT c0 FROM app.every
    WHERE {tests} OR same = '10.0.0.1' OR email = 'no address'"""
    project = make_project(tmp_path / "p", [view])
    (found,) = [each for each in objects("check", "-p", str(project)) if "view" in each]
    told = [str(text) for text in found["cautions"]]  # type: ignore[attr-defined]
    for at, (kind, (_, text)) in enumerate(CONSTANTS.items()):
        (line,) = [each for each in told if f"compares every.c{at} with" in each]
        expected = "has no such value" if text is None else f"write '{text}'."
        assert expected in line, kind
    assert not [each for each in told if "every.same with" in each or "every.email with" in each]


def test_check_tells_that_spaces_count_between_character_and_character_varying(
    database: PostgresHarness, tmp_path: Path
) -> None:
    execute(database, "CREATE TABLE spaced (c char(5), v varchar(5), t text)")
    views = [
        "CREATE MATERIALIZED VIEW a AS SELECT c FROM app.spaced WHERE v = c",
        "CREATE MATERIALIZED VIEW b AS SELECT c FROM app.spaced WHERE t = c",
    ]
    project = make_project(tmp_path / "p", views)
    one, other = [each for each in objects("check", "-p", str(project)) if "view" in each]
    assert "spaces at the end of the latter count here and not there" in str(one["cautions"])
    assert not other["cautions"]


def test_check_tells_which_columns_a_star_leaves_out(
    database: PostgresHarness, tmp_path: Path
) -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM app.customers"
    project = make_project(tmp_path / "p", [view])
    (found,) = [each for each in objects("check", "-p", str(project)) if "view" in each]
    (told,) = map(str, found["cautions"])  # type: ignore[call-overload]
    assert told.startswith("View v leaves the column search of app.customers out of *: it is gen")


def test_order_and_arithmetic_of_what_is_a_text_only_here_are_refused_with_a_remedy(
    database: PostgresHarness, tmp_path: Path
) -> None:
    views = [
        "CREATE MATERIALIZED VIEW a AS SELECT id FROM app.customers WHERE plan > '1 day'",
        "CREATE MATERIALIZED VIEW b AS SELECT id FROM app.orders WHERE discount * 2 = 3",
        "CREATE MATERIALIZED VIEW c AS SELECT id FROM app.customers WHERE id BETWEEN 'a' AND 'b'",
        "CREATE MATERIALIZED VIEW d AS SELECT id FROM app.orders "
        "WHERE CAST(discount AS DECIMAL(9,2)) > 1 AND CAST(status AS STRING) < 'p'",
    ]
    done = quick("check", "-p", str(make_project(tmp_path / "p", views)))
    assert done.code == 2
    assert len(done.err.splitlines()) == 3
    for name, kind in (("plan", "interval"), ("discount", "numeric"), ("id", "uuid")):
        assert f"{name} is of type {kind} at its source and a text here" in done.err


def test_patterns_say_which_tables_views_may_name(
    database: PostgresHarness, tmp_path: Path
) -> None:
    settings = SETTINGS + 'relations = ["sales.*", "customers"]\n'
    views = [
        "CREATE MATERIALIZED VIEW a AS SELECT id FROM app.sales.orders",
        'CREATE MATERIALIZED VIEW b AS SELECT sku FROM app."Order Lines"',
    ]
    project = make_project(tmp_path / "p", views, settings)
    (found,) = [each for each in objects("check", "-p", str(project)) if "source" in each]
    assert set(found["relations"]) == {"orders", "Order Lines", "customers"}  # type: ignore[call-overload]
    outside = "CREATE MATERIALIZED VIEW c AS SELECT id FROM app.public.events"
    (project / "views" / "v2.sql").write_text(outside, encoding="utf-8")
    done = quick("check", "-p", str(project))
    assert done.code == 2
    assert "there is no relation app.public.events" in done.err


@pytest.mark.parametrize("table", ["select", "Order Lines", "group", "values"])
def test_the_first_view_of_a_project_is_sound_whatever_tables_and_columns_are_called(
    tmp_path: Path, table: str
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        columns = '"from" INTEGER PRIMARY KEY, "order" TEXT, "end" TEXT, "group" TEXT'
        connection.execute(f'CREATE TABLE "{table}" ({columns})')
    connection.close()
    project = tmp_path / "p"
    assert quick("init", str(project), "--from", str(tmp_path / "shop.db")).code == 0
    checked = quick("check", "-p", str(project))
    assert checked.code == 0, checked.err
    assert "everything is sound" in checked.out


def test_init_starts_a_project_from_a_database_without_its_password(
    database: PostgresHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made"
    dsn = f"{database.dsn} password=sesame"
    done = quick("init", str(folder), "--from", dsn, "--json")
    assert done.code == 0, done.err
    made = json.loads(done.out)
    for file in made["files"]:
        assert "sesame" not in (folder / file).read_text(encoding="utf-8")
    monkeypatch.setenv(made["variable"], dsn)
    done = quick("check", "-p", str(folder))
    assert done.code == 0, done.err


@pytest.mark.parametrize("password", ["ab/hunter2", "S3cr3t#pw/hunter2"])
def test_init_says_nothing_of_a_password_that_makes_a_connection_string_odd(
    tmp_path: Path, password: str
) -> None:
    dsn = f"postgresql://bob:{password}@db.example.org/shop"
    with pytest.raises(SourceError) as caught:
        quick("init", str(tmp_path / "made"), "--from", dsn)
    assert "hunter2" not in str(caught.value)


def test_init_starts_a_project_from_a_sqlite_file(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total DECIMAL(10,2))")
        connection.execute("CREATE VIEW v AS SELECT 1")
    done = quick("init", str(tmp_path / "p"), "--from", str(tmp_path / "shop.db"))
    assert done.code == 0, done.err
    assert quick("check", "-p", str(tmp_path / "p")).code == 0
    tables = objects("tables", "shop", "-p", str(tmp_path / "p"))
    assert [(t["table"], t["key"], bool(t["problem"])) for t in tables] == [
        ("orders", ["id"], False),
        ("v", [], True),
    ]


def test_setup_sets_up_what_can_be_used_and_tells_the_rest(
    database: PostgresHarness, tmp_path: Path
) -> None:
    settings = SETTINGS + 'relations = ["customers", "paid"]\n'
    project = make_project(tmp_path / "p", [], settings)
    done = quick("setup", "app", "-p", str(project))
    assert done.code == 0
    assert "is set up for customers" in done.out
    assert "warning: Source app: public.paid is a view" in done.err


def test_setup_tells_all_tables_that_views_cannot_use_and_sets_up_the_others(
    database: PostgresHarness, tmp_path: Path
) -> None:
    tables = ("paid", "sessions", "customers")
    views = [f"CREATE MATERIALIZED VIEW {t}_v AS SELECT t.id FROM app.{t} t" for t in tables]
    project = make_project(tmp_path / "p", views)
    with pytest.raises(SeveralError) as caught:
        quick("setup", "app", "-p", str(project))
    assert "public.paid is a view" in str(caught.value)
    assert "public.sessions is unlogged" in str(caught.value)
    assert "public.customers" not in str(caught.value)
    shown = "SELECT tablename FROM pg_publication_tables"
    assert database.writer().connection.execute(shown).fetchall() == [("customers",)]


def test_a_view_over_a_table_that_cannot_be_used_stops_and_others_of_the_source_run(
    database: PostgresHarness, tmp_path: Path
) -> None:
    tables = ("paid", "paid", "customers")
    views = [
        f"CREATE MATERIALIZED VIEW v{at} AS SELECT t.id FROM app.{table} t"
        for at, table in enumerate(tables)
    ]
    settings = SETTINGS + "setup = 'by run'\n"
    project = make_project(tmp_path / "p", views, settings)
    execute(database, FILLED)
    done = headwater("run", "--once", "--json", "-p", str(project))
    assert done.code == 1
    assert done.err.count("public.paid is a view") == 1
    stopped = json.loads(done.out.splitlines()[-1])["views"]
    assert [stopped[f"v{at}"]["state"] for at in range(3)] == ["stopped", "stopped", "running"]
    assert "public.paid is a view" in stopped["v0"]["message"]
    assert len(rows(project, "SELECT id FROM v2")) == 2


@pytest.mark.parametrize("command", [["check"], ["setup", "app"], ["run", "--once"]])
def test_where_no_table_can_be_used_all_are_told_and_each_once(
    database: PostgresHarness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    tables = ("paid", "sessions", "nowhere")
    views = [f"CREATE MATERIALIZED VIEW {t}_v AS SELECT t.id FROM app.{t} t" for t in tables]
    project = make_project(tmp_path / "p", views)
    done = failing(monkeypatch, capsys, *command, "-p", str(project))
    assert done.code != 0
    for told in ("public.paid is a view", "public.sessions is unlogged", "no table nowhere"):
        assert done.err.count(told) == 1


def test_check_tells_a_table_that_cannot_be_used_once(
    database: PostgresHarness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables = ("customers", "paid", "nowhere")
    views = [f"CREATE MATERIALIZED VIEW {t}_v AS SELECT t.id FROM app.{t} t" for t in tables]
    project = make_project(tmp_path / "p", views)
    done = failing(monkeypatch, capsys, "check", "-p", str(project))
    assert done.err.count("paid") == 1
    assert done.err.count("nowhere") == 1


def test_setup_says_that_no_view_names_a_table_yet(
    database: PostgresHarness, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="no view names a table of it"):
        quick("setup", "app", "-p", str(make_project(tmp_path / "p", [])))


def test_setup_without_a_name_is_for_all_sources_and_one_that_fails_leaves_no_other(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        connection = sqlite3.connect(tmp_path / f"{name}.db")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        connection.close()
    (tmp_path / "views").mkdir()
    (tmp_path / "headwater.toml").write_text(
        "".join(
            f"[sources.{name}]\nkind = 'sqlite'\npath = '{name}.db'\nrelations = ['t']\n"
            for name in ("a", "none", "b")
        )
    )
    with pytest.raises(SourceError, match=r"none\.db"):
        quick("setup", "-p", str(tmp_path))
    done = quick("setup", "a", "b", "-p", str(tmp_path))
    assert "a is set up for t" in done.out
    assert "b is set up for t" in done.out
    for name in ("a", "b"):
        printed = quick("setup", name, "--print", "-p", str(tmp_path)).out
        assert not printed.strip(), "nothing was left to do"
