"""Loads that begin at the same time: what they have in common is read once, and only that."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError, LostConnectionError
from headwater.frames import small as small_rows
from headwater.pipeline import reading_together
from headwater.pipeline.load import _Attempt
from headwater.pipeline.verify import verify_view
from headwater.sources.contract import Load
from headwater.sources.postgres.load import PostgresLoad
from headwater.sources.sqlite.load import SqliteLoad
from headwater.warehouse.vectors import VersionVector
from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import quick
from tests.pipeline.running import Running
from tests.pipeline.small import AMOUNTS, LIMIT_S, NAMES, NOTES, Small, running, wait_until
from tests.pipeline.world import VIEWS as SHOP_VIEWS
from tests.pipeline.world import Oracle, Shop, Writer, start_writers

SPENT = """
    CREATE MATERIALIZED VIEW spent AS
    SELECT c.name, SUM(o.amount) AS spent FROM crm.customers c JOIN shop.orders o ON o.id = c.id
    GROUP BY c.name
"""
MANY = "CREATE MATERIALIZED VIEW many AS SELECT COUNT(*) AS number FROM shop.orders"
VIEWS = {"amounts": AMOUNTS, "notes": NOTES, "spent": SPENT, "many": MANY}
ENGINES = pytest.mark.parametrize("engine", ["auto", "spark"])


def made(folder: Path, engine: str, views: Mapping[str, str] = VIEWS) -> Small:
    small = Small(folder, views)
    settings = folder / "headwater.toml"
    settings.write_text(settings.read_text().replace("[spark]", f"[spark]\nengine = '{engine}'"))
    return small


class Reads:
    """What is read of sources: which snapshots, and how often which relation."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.snapshots: Counter[tuple[str, ...]] = Counter()
        self.relations: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda relation: None
        self._watch(SqliteLoad, patch)
        self._watch(PostgresLoad, patch)

    def _watch(self, kind: type[Load], patch: pytest.MonkeyPatch) -> None:
        opened, parts = kind.__init__, kind.parts

        def init(load: Load, *arguments: object) -> None:
            opened(load, *arguments)
            self.snapshots[tuple(sorted(load._tables))] += 1  # type: ignore[attr-defined]

        def begun(load: Load, relation: str) -> int:
            self.relations[relation] += 1
            self.before(relation)
            return parts(load, relation)

        patch.setattr(kind, "__init__", init)
        patch.setattr(kind, "parts", begun)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def right(small: Small, spark: SparkSession) -> bool:
    project = small.project
    return all(verify_view(project, name, lambda: spark).holds for name in project.units)


def begun(warehouse: Warehouse, view: str) -> VersionVector:
    """The vector at which a view was loaded."""
    return list(warehouse.view(view).commits())[-1].vector


def left_over(small: Small) -> list[Path]:
    return list((small.warehouse.internal / "scratch").glob("together-*"))


# Once


@ENGINES
def test_what_several_views_read_is_read_once(
    tmp_path: Path, spark: SparkSession, reads: Reads, engine: str
) -> None:
    small = made(tmp_path, engine)
    small.run(spark)
    assert reads.snapshots[("orders",)] == reads.snapshots[("customers",)] == 1
    assert small.rows("amounts") == {(1, 10), (2, 20)}
    assert small.rows("notes") == {(1, "a"), (2, "b")}
    assert small.rows("spent") == {("Ada", 10)}
    assert small.rows("many") == {(2,)}
    assert not left_over(small)
    assert right(small, spark)


def test_a_view_that_shares_nothing_reads_for_itself(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_together.SharedReading, "open", None)
    small = made(tmp_path, "auto", {"amounts": AMOUNTS, "names": NAMES})
    small.run(spark)
    assert small.rows("names") == {(1, "Ada")}


def test_views_that_are_reloaded_with_one_command_read_together(
    tmp_path: Path, spark: SparkSession, reads: Reads
) -> None:
    small = made(tmp_path, "auto")
    with running(small, spark) as runner:
        wait_until(lambda: all(view.state == "running" for view in runner.views.values()))
        before = reads.snapshots.copy()
        assert quick("reload", "amounts", "notes", "many", *small.arguments).code == 0
        assert reads.snapshots - before == {("orders",): 1}
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"))
    assert right(small, spark)


def test_what_is_too_much_for_memory_is_read_once_for_spark(
    tmp_path: Path, spark: SparkSession, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_rows, "ROWS", 1)
    small = made(tmp_path, "auto", {"amounts": AMOUNTS, "notes": NOTES, "names": NAMES})
    small.run(spark)
    assert reads.snapshots[("orders",)] == 2  # one found that it is too much
    assert small.rows("notes") == {(1, "a"), (2, "b")}
    assert right(small, spark)


@pytest.mark.parametrize("limit", ["all", "one"])
def test_what_is_small_for_each_view_and_much_for_all_is_read_by_each(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "all":
        monkeypatch.setattr(reading_together, "_MOST_BYTES", 0)
    else:
        monkeypatch.setattr(small_rows, "is_small", lambda rows, size: size < 20)
    small = made(tmp_path, "auto", {"amounts": AMOUNTS, "many": MANY, "names": NAMES})
    small.run(spark)
    assert small.rows("amounts") == {(1, 10), (2, 20)}
    assert small.rows("many") == {(2,)}


# Each for itself


@ENGINES
def test_a_value_that_one_view_cannot_have_is_no_concern_of_the_others(
    tmp_path: Path, spark: SparkSession, engine: str
) -> None:
    small = made(tmp_path, engine, {"amounts": AMOUNTS, "notes": NOTES, "many": MANY})
    small.write("shop", "INSERT INTO orders VALUES (3, 'not a number', 'c', 'new')")
    with pytest.raises(HeadwaterError, match="does not fit"):
        small.run(spark)
    assert small.rows("notes") == {(1, "a"), (2, "b"), (3, "c")}
    assert small.rows("many") == {(3,)}
    assert not small.warehouse.has_view("amounts")
    assert not left_over(small)


@ENGINES
def test_a_view_that_is_slow_holds_no_other_up(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    small = made(tmp_path, engine)
    go_on, put = threading.Event(), _Attempt._put

    def slow(self: _Attempt, *arguments: object) -> object:
        if self.plan.view.name == "notes":
            go_on.wait(LIMIT_S)
        return put(self, *arguments)  # type: ignore[arg-type] # as they are

    monkeypatch.setattr(_Attempt, "_put", slow)
    with running(small, spark) as runner:
        others = [view for name, view in runner.views.items() if name != "notes"]
        wait_until(lambda: all(view.state == "running" for view in others))
        small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"))
        assert runner.views["notes"].state == "loading"
        go_on.set()
        wait_until(lambda: runner.views["notes"].state == "running")
        assert begun(small.warehouse, "notes") == begun(small.warehouse, "many")
        wait_until(lambda: (1, "later") in small.rows("notes"))
    assert right(small, spark)


def test_a_view_that_is_dropped_while_it_waits_ends_alone(
    tmp_path: Path, spark: SparkSession, reads: Reads
) -> None:
    small = made(tmp_path, "spark", {"amounts": AMOUNTS, "notes": NOTES, "many": MANY})
    begun, go_on = threading.Event(), threading.Event()

    def wait(relation: str) -> None:
        begun.set()
        go_on.wait(LIMIT_S)

    reads.before = wait
    with running(small, spark) as runner:
        assert begun.wait(LIMIT_S)
        small.view_file("amounts").unlink()
        wait_until(lambda: "amounts" not in runner.views)
        go_on.set()
        wait_until(lambda: all(view.state == "running" for view in runner.views.values()))
    assert small.rows("notes") == {(1, "a"), (2, "b")}
    assert not small.warehouse.has_view("amounts")
    assert not left_over(small)


# Sources that are lost


@ENGINES
def test_what_was_read_is_not_read_again_when_another_source_is_lost(
    tmp_path: Path, spark: SparkSession, reads: Reads, engine: str
) -> None:
    small = made(tmp_path, engine)
    failures = [LostConnectionError("Source crm: it is gone.")]

    def lose(relation: str) -> None:
        if relation == "customers" and failures:
            raise failures.pop()

    reads.before = lose
    small.run(spark)
    assert reads.snapshots[("orders",)] == 1
    assert reads.snapshots[("customers",)] == 2
    assert small.rows("spent") == {("Ada", 10)}
    assert right(small, spark)


@ENGINES
def test_a_view_by_itself_reads_by_parts_once_a_try_was_cut_off(
    tmp_path: Path, spark: SparkSession, reads: Reads, engine: str
) -> None:
    small = made(tmp_path, engine, {"spent": SPENT})
    failures = [LostConnectionError("Source crm: it is gone.")] * 3

    def lose(relation: str) -> None:
        if relation == "customers" and failures:
            raise failures.pop()

    reads.before = lose
    small.run(spark)
    assert reads.snapshots[("customers",)] == 4
    assert reads.snapshots[("orders",)] == 2
    assert small.rows("spent") == {("Ada", 10)}
    assert right(small, spark)
    assert not left_over(small)


def test_a_view_that_is_dropped_while_it_reads_by_parts_ends_soon(
    tmp_path: Path, spark: SparkSession, reads: Reads
) -> None:
    small = made(tmp_path, "spark", {"spent": SPENT})
    begun, go_on = threading.Event(), threading.Event()

    def lose_then_wait(relation: str) -> None:
        if reads.relations["customers"] == 1:
            raise LostConnectionError("Source crm: it is gone.")
        begun.set()
        go_on.wait(LIMIT_S)

    reads.before = lose_then_wait
    with running(small, spark) as runner:
        assert begun.wait(LIMIT_S)
        small.view_file("spent").unlink()
        wait_until(lambda: "spent" not in runner.views)
        go_on.set()
    assert not small.warehouse.has_view("spent")
    assert not left_over(small)


# PostgreSQL, writers and kills


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


def scans(shop: Shop) -> int:
    with psycopg.connect(shop.dsns["stock"]) as connection:
        found = connection.execute(
            "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'lines'"
        ).fetchone()
    return int(found[0]) if found else 0


def check(shop: Shop, *views: str) -> None:
    oracle = Oracle(shop)
    oracle.check_log()
    for name in views:
        oracle.check_view(name)
        oracle.check_reached_the_end(name)


@ENGINES
def test_views_that_are_loaded_together_beside_writers_begin_at_one_vector(
    tmp_path: Path, spark: SparkSession, servers: list[PostgresServer], reads: Reads, engine: str
) -> None:
    shop = Shop(tmp_path, servers, engine)
    shop.publish_every("1 hour")
    most, pause_s = (100, 0.01) if engine == "auto" else (15, 0.2)
    writers = [Writer(shop, s, at, pause_s, most) for at, s in enumerate(("crm", "shop", "stock"))]
    for writer in writers:
        writer.start()
    shop.project.run(once=True, spark=spark)
    for writer in writers:
        writer.stop()
    assert reads.snapshots == {("customers",): 1, ("orders",): 1, ("lines",): 1}
    lines, prices = (begun(shop.warehouse, name) for name in ("order_lines", "prices"))
    assert prices == {source: lines[source] for source in prices}
    shop.project.run(once=True, spark=spark)
    check(shop, *SHOP_VIEWS)
    shop.teardown()


@ENGINES
def test_a_table_is_scanned_once_for_all_views(
    tmp_path: Path, spark: SparkSession, servers: list[PostgresServer], engine: str
) -> None:
    shop = Shop(tmp_path, servers, engine)
    before = scans(shop)
    shop.project.run(once=True, spark=spark)
    assert scans(shop) == before + 1
    shop.teardown()


def test_a_runner_that_is_killed_between_loads_that_go_together_loses_nothing(
    tmp_path: Path, servers: list[PostgresServer]
) -> None:
    shop = Shop(tmp_path, servers)
    shop.publish_every("1 hour")
    writers = start_writers(shop, 0.01)
    killed = Running(shop)
    try:
        killed.wait_until(lambda: bool(shop.warehouse.view_names()))
    finally:
        killed.kill()
    for writer in writers:
        writer.stop()
    again = Running(shop, "--once", name="again")
    try:
        assert again.wait() == 0, again.errors
    finally:
        again.kill()
    check(shop, *SHOP_VIEWS)
    shop.teardown()
