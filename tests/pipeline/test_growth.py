"""Logs grow at sources while the runner is away: that is shown, and has a limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.embedded.postgres import shared_server
from headwater.errors import HeadwaterError
from headwater.sources.sqlite import sizes
from tests.cli.commands import quick
from tests.pipeline.small import Small, running, wait_until

SETTINGS = """
[sources.shop]
kind = "postgres"
dsn = "{dsn}"
relations = ["items"]
changes = "{changes}"
retain = "1 MB"
"""
VIEW = "CREATE MATERIALIZED VIEW items AS SELECT id, note FROM shop.items"
MANY = "INSERT INTO items SELECT n, repeat('x', 1000) FROM generate_series({}, {}) n"


def limited(small: Small, rows: int | str) -> None:
    path = small.folder / "headwater.toml"
    text = path.read_text()
    path.write_text(text.replace("path = 'shop.db'", f"path = 'shop.db'\nretain = {rows!r}"))


def add(small: Small, first: int, last: int) -> None:
    for number in range(first, last + 1):
        small.write("shop", f"INSERT INTO orders VALUES ({number}, {number}, 'n', 'new')")


def status(*arguments: str) -> tuple[int, dict[str, Any]]:
    found = quick("status", "--json", *arguments)
    return found.code, json.loads(found.out)


def kept(found: dict[str, Any]) -> dict[str, int]:
    retained = found["sources"]["shop"]["retained"]
    assert isinstance(retained, dict)
    return retained


def project(folder: Path, dsn: str, changes: str) -> tuple[str, str]:
    """A project over a table of PostgreSQL; the arguments that name it."""
    (folder / "headwater.toml").write_text(SETTINGS.format(dsn=dsn, changes=changes))
    (folder / "views").mkdir()
    (folder / "views" / "items.sql").write_text(VIEW)
    return "-p", str(folder)


def test_status_counts_the_rows_that_wait_at_a_source(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    small.run(spark)
    before = kept(status(*small.arguments)[1])["rows"]
    add(small, 10, 14)
    code, found = status(*small.arguments)
    assert kept(found)["rows"] == before + 5
    assert code == 3
    assert f"{before + 5} rows" in quick("status", *small.arguments).out.replace("\n", " ")


def test_more_than_the_limit_is_told_by_status_and_given_up_by_trim(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    limited(small, 100)
    add(small, 10, 60)
    assert "nothing was given up" in quick("trim", *small.arguments).out
    add(small, 61, 200)
    code, found = status(*small.arguments)
    assert code == 1
    (told,) = found["troubles"]
    assert "retain allows 100" in told
    assert "headwater trim" in told
    trimmed = json.loads(quick("trim", "--json", *small.arguments).out)
    assert list(trimmed["given_up"]) == ["shop"]
    assert kept(status(*small.arguments)[1])["rows"] == 0
    add(small, 201, 203)
    small.run(spark)
    assert quick("verify", *small.arguments).code == 0
    _, after = status(*small.arguments)
    assert after["troubles"] == []


@pytest.mark.parametrize("pages", [sizes._PAGES, "SELECT 1 FROM missing WHERE name = ?"])
def test_few_large_rows_in_a_sqlite_log_are_shown_and_limited_by_their_size(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, pages: str
) -> None:
    monkeypatch.setattr(sizes, "_PAGES", pages)
    small = Small(tmp_path)
    small.run(spark)
    limited(small, "4 MB")
    assert kept(status(*small.arguments)[1])["bytes"] < 100_000
    for letter in "abc":
        small.write("shop", f"UPDATE orders SET note = '{letter * 1_000_000}' WHERE id = 1")
    code, found = status(*small.arguments)
    assert code == 1
    assert 5_000_000 <= kept(found)["bytes"] < 7_000_000
    assert "retain allows 4,000,000" in found["troubles"][0]
    assert " bytes" in quick("status", *small.arguments).out.split("Sources")[1]
    assert list(json.loads(quick("trim", "--json", *small.arguments).out)["given_up"]) == ["shop"]
    assert kept(status(*small.arguments)[1])["bytes"] < 100_000
    small.run(spark)
    assert quick("verify", *small.arguments).code == 0


def test_views_of_other_sources_go_on_behind_a_log_that_was_given_up(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    before = {view: small.warehouse.view(view).latest().base for view in ("names", "amounts")}
    limited(small, 5)
    add(small, 10, 20)
    quick("trim", *small.arguments)
    small.run(spark)
    after = {view: small.warehouse.view(view).latest().base for view in before}
    assert after["names"] == before["names"]
    assert after["amounts"] != before["amounts"]  # it was loaded anew


def test_a_log_that_a_runner_reads_is_not_given_up(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    limited(small, 1)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        found = json.loads(quick("trim", "--json", *small.arguments).out)
        assert found == {"given_up": {}, "runner": True, "refused": {}}


@pytest.mark.parametrize("changes", ["replication", "triggers"])
def test_a_log_of_postgresql_is_shown_and_given_up(
    tmp_path: Path, spark: SparkSession, changes: str
) -> None:
    server = shared_server()
    name = f"growth_{changes}"
    server.execute(f"CREATE DATABASE {name}")
    server.execute("CREATE TABLE items (id int PRIMARY KEY, note text)", database=name)
    server.execute(MANY.format(1, 10), database=name)
    arguments = project(tmp_path, server.dsn(name), changes)
    quick("setup", "shop", *arguments)
    assert quick("run", "--once", *arguments).code == 0
    assert "unknown" not in quick("status", *arguments).out.split("Sources")[1]
    server.execute(MANY.format(11, 3000), database=name)
    code, found = status(*arguments)
    assert code == 1
    assert kept(found)["bytes"] > 2_000_000
    trimmed = json.loads(quick("trim", "--json", *arguments).out)
    assert list(trimmed["given_up"]) == ["shop"]
    code, found = status(*arguments)
    assert (code, found["troubles"]) == (3, [])
    server.execute("DELETE FROM items WHERE id = 5", database=name)
    assert quick("run", "--once", *arguments).code == 0
    assert "2,999 rows" in quick("verify", *arguments).out
    assert quick("teardown", "shop", *arguments).code == 0
    server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_source_that_is_down_is_unknown_and_not_waited_for(tmp_path: Path) -> None:
    dsn = "host=192.0.2.1 dbname=x"  # an address that nobody has
    code, found = status(*project(tmp_path, dsn, "replication"))
    assert code == 3
    assert found["sources"]["shop"]["retained"] is None


@pytest.mark.parametrize("written", ["10", "10 rows", "0 GB", 7])
def test_a_limit_that_is_no_size_is_refused(tmp_path: Path, written: object) -> None:
    text = SETTINGS.format(dsn="", changes="triggers").replace('"1 MB"', json.dumps(written))
    (tmp_path / "headwater.toml").write_text(text)
    with pytest.raises(HeadwaterError, match=r"retain: is not a size: .*'10 GB'"):
        quick("status", "-p", str(tmp_path))


def test_check_says_where_the_server_keeps_its_log_without_a_limit(tmp_path: Path) -> None:
    server = shared_server()
    server.execute("CREATE TABLE items (id int PRIMARY KEY, note text)")
    arguments = project(tmp_path, server.dsn(), "replication")
    assert "max_slot_wal_keep_size" in quick("check", *arguments).out.replace("\n", " ")
    server.execute("DROP TABLE items")


def test_a_table_that_no_view_uses_may_be_made_anew_without_triggers(
    tmp_path: Path, spark: SparkSession
) -> None:
    server = shared_server()
    server.execute("CREATE DATABASE unused_anew")
    made = "CREATE TABLE other (id int PRIMARY KEY, note text)"
    items = "CREATE TABLE items (id int PRIMARY KEY, note text)"
    server.execute(items, made, database="unused_anew")
    arguments = project(tmp_path, server.dsn("unused_anew"), "triggers")
    settings = tmp_path / "headwater.toml"
    settings.write_text(settings.read_text().replace('["items"]', '["items", "other"]'))
    quick("setup", "shop", *arguments)
    assert quick("run", "--once", *arguments).code == 0
    server.execute("DROP TABLE other", made, MANY.format(1, 2), database="unused_anew")
    assert quick("run", "--once", *arguments).code == 0
    assert "2 rows" in quick("verify", *arguments).out
    server.execute("DROP DATABASE unused_anew WITH (FORCE)")
