"""What an operator does and meets: slow questions, dead sources, tampering, changed definitions."""

import contextlib
import json
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from headwater import Project
from headwater.embedded.postgres import PostgresServer
from headwater.errors import HeadwaterError
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from headwater.warehouse.changes import ChangeLog
from headwater.warehouse.lease import current_runner
from headwater.warehouse.view_table import ViewTable
from tests.cli.commands import failing, quick
from tests.pipeline.running import Running, is_asking, locked
from tests.pipeline.world import VIEWS, Oracle, Shop, Writer, start_writers

LIMIT_S = 600.0
STOCKED = """
    CREATE MATERIALIZED VIEW stocked AS
    SELECT o.id, o.amount, i.stock FROM shop.orders o JOIN stock.items i ON i.id = o.id
"""
BY_ITEM = "CREATE MATERIALIZED VIEW by_item AS SELECT l.item, l.price, l.qty FROM stock.lines l"


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    found = [PostgresServer(), PostgresServer()]
    yield found
    for server in found:
        server.stop()


@pytest.fixture
def make(tmp_path: Path, servers: list[PostgresServer]) -> Iterator[Callable[..., Shop]]:
    made: list[Shop] = []

    def make(views: Mapping[str, str] = VIEWS) -> Shop:
        made.append(Shop(tmp_path, servers, views=views))
        made[0].publish_every("1 hour")
        return made[0]

    yield make
    for shop in made:
        shop.teardown()


class Supervised:
    """A runner whose supervision goes on in a thread of its own, as in the command."""

    def __init__(self, shop: Shop, spark: SparkSession) -> None:
        self.runner = Runner(shop.project, lambda: spark)
        self.runner.start()
        self._stopping = threading.Event()
        self._failure: HeadwaterError | None = None
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def _supervise(self) -> None:
        try:
            while not self._stopping.wait(0.02):
                self.runner.supervise()
        except HeadwaterError as error:
            self._failure = error

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.runner.stop()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert self._failure is None, self._failure
            assert time.monotonic() < deadline, self.runner.describe()
            time.sleep(0.02)

    def wait_for_more_commits(self, views: Sequence[str], more: int = 10) -> None:
        enough = {name: self.commits(name) + more for name in views}
        self.wait_until(lambda: all(self.commits(n) >= count for n, count in enough.items()))

    def wait_for_the_end(self) -> None:
        targets = self.runner.targets()
        self.wait_until(lambda: self.runner.reach(targets))

    def commits(self, view: str) -> int:
        maintainer = self.runner.views[view].maintainer
        return maintainer.counters.commits if maintainer is not None else 0

    def message(self, view: str) -> str:
        return self.runner.views[view].message

    def state(self, view: str) -> str:
        return self.runner.views[view].state


@contextlib.contextmanager
def supervised(shop: Shop, spark: SparkSession) -> Iterator[Supervised]:
    found = Supervised(shop, spark)
    try:
        yield found
    finally:
        found.stop()


@contextlib.contextmanager
def writing(shop: Shop, *sources: str, pause_s: float = 0.15) -> Iterator[None]:
    """Writers change these sources, or all, meanwhile."""
    if sources:
        writers = [Writer(shop, source, at, pause_s) for at, source in enumerate(sources)]
        for writer in writers:
            writer.start()
    else:
        writers = start_writers(shop, pause_s)
    try:
        yield
    finally:
        for writer in writers:
            writer.stopping.set()
    for writer in writers:
        writer.stop()


def load(shop: Shop, spark: SparkSession) -> None:
    with supervised(shop, spark) as running:
        running.wait_for_the_end()


def check(shop: Shop) -> None:
    oracle = Oracle(shop)
    oracle.check_log()
    for name in shop.project.view_files:
        oracle.check_view(name)
        oracle.check_reached_the_end(name)


# Slow and dead sources


@pytest.mark.parametrize(
    "hold_s", [0.0, pytest.param(65.0, marks=pytest.mark.stress)], ids=["shortly", "long"]
)
def test_a_question_that_is_not_answered_holds_up_no_other_view(
    make: Callable[..., Shop], spark: SparkSession, hold_s: float
) -> None:
    """`stocked` asks the same two sources as `prices`, whose question waits for a lock."""
    shop = make({name: VIEWS[name] for name in ("prices", "large_orders")} | {"stocked": STOCKED})
    with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
        stock.execute("INSERT INTO items SELECT id, id FROM generate_series(0, 29) id")
    with supervised(shop, spark) as running, writing(shop, "shop", "crm"):
        running.wait_until(lambda: all(running.commits(n) for n in ("stocked", "large_orders")))
        with locked(shop.dsns["stock"], "lines"):
            running.wait_until(lambda: is_asking(shop.dsns["stock"]))
            running.wait_for_more_commits(["stocked", "large_orders"])
            stuck = running.commits("prices")  # what was ready before is in by now
            released = time.monotonic() + hold_s
            while True:
                running.wait_for_more_commits(["stocked", "large_orders"])
                if time.monotonic() > released:
                    break
            assert is_asking(shop.dsns["stock"])
            assert running.commits("prices") == stuck
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("INSERT INTO lines SELECT id, 98, 2, 7.5 FROM generate_series(0, 29) id")
        running.wait_for_more_commits(["prices"], 1)
        assert running.state("prices") == "running"
    load(shop, spark)
    check(shop)


def test_a_source_that_dies_stops_only_the_views_that_need_it(
    make: Callable[..., Shop], spark: SparkSession, servers: list[PostgresServer]
) -> None:
    shop = make()
    with supervised(shop, spark) as running, writing(shop, "shop", "crm"):
        running.wait_for_more_commits(["large_orders"], 1)
        servers[1].halt()
        try:
            running.wait_until(lambda: bool(trouble(running, "stock")))
            running.wait_for_more_commits(["large_orders"])
            assert trouble(running, "stock")
            assert not trouble(running, "shop")
        finally:
            servers[1].start()
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("INSERT INTO lines SELECT id, 97, 2, 7.5 FROM generate_series(0, 29) id")
        running.wait_for_the_end()
        assert not trouble(running, "stock")
        assert {name: running.message(name) for name in VIEWS} == dict.fromkeys(VIEWS, "")
        assert [running.state(name) for name in VIEWS] == ["running"] * len(VIEWS)
    load(shop, spark)
    check(shop)


def trouble(running: Supervised, source: str) -> str | None:
    found: str | None = running.runner.describe()["sources"][source]["trouble"]
    return found


def test_a_source_that_is_down_at_the_start_is_waited_for_by_its_views_only(
    make: Callable[..., Shop], spark: SparkSession, servers: list[PostgresServer]
) -> None:
    shop = make()
    servers[1].halt()
    try:
        with supervised(shop, spark) as running, writing(shop, "shop", "crm"):
            running.wait_for_more_commits(["large_orders"], 3)
            for name in ("order_lines", "prices"):
                assert running.state(name) == "waiting"
                assert "Source stock: cannot connect" in running.runner.views[name].message
            servers[1].start()
            running.wait_until(lambda: all(running.state(name) == "running" for name in VIEWS))
            running.wait_for_the_end()
    finally:
        with contextlib.suppress(RuntimeError):  # it runs already
            servers[1].start()
    load(shop, spark)
    for name in VIEWS:  # the log has no columns of views that could not be loaded yet
        assert verify_view(shop.project, name, spark).holds


# Verification


def test_verify_holds_while_everything_goes_on_and_finds_exactly_the_row_that_was_tampered_with(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({"prices": VIEWS["prices"]})
    project = ("--project", str(shop.folder))
    with supervised(shop, spark) as running:
        running.wait_for_the_end()
        with writing(shop, pause_s=0.05):
            running.wait_for_more_commits(["prices"])
            beside = verify_view(shop.project, "prices", spark)
            assert beside.holds, beside
    alone = verify_view(shop.project, "prices", spark)
    assert alone.holds, alone
    assert quick("verify", "prices", *project).code == 0
    _append(shop, "prices", item=1234, price=Decimal("6.66"))
    found = quick("verify", "prices", "--json", *project)
    assert found.code == 1
    told = json.loads(found.out)
    assert (told["holds"], told["missing"]) == (False, [])
    assert told["extra"] == [[[1234, "6.66"], 1]]
    assert current_runner(shop.warehouse.internal) is None


def _append(shop: Shop, view: str, **row: object) -> None:
    """Write a row into a view's plain table behind Headwater's back."""
    fields = [("item", pyarrow.int64()), ("price", pyarrow.decimal128(10, 2))]
    table = pyarrow.Table.from_pylist([row], pyarrow.schema(fields))
    write_deltalake(str(shop.warehouse.path / view), table, mode="append")


# Commands


def test_commands_of_an_operator_without_a_runner(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({name: VIEWS[name] for name in ("prices", "large_orders")})
    project = ("--project", str(shop.folder))
    load(shop, spark)
    first = shop.warehouse.view("prices").latest().number
    with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
        stock.execute("INSERT INTO lines VALUES (1, 77, 2, 9.25)")
    load(shop, spark)

    status = json.loads(quick("status", "--json", *project).out)
    assert status["runner"] is None
    assert status["views"]["prices"]["state"] == "not running"
    assert status["views"]["prices"]["lag"] == {"shop": None, "stock": None}  # not known
    assert status["sources"]["stock"]["end"] == 1
    assert "prices" in quick("status", *project).out

    question = "SELECT price FROM prices {} WHERE item = 77"
    newest = quick("sql", question.format(""), "--json", *project)
    assert [json.loads(line) for line in newest.out.splitlines()] == [{"price": "9.25"}]
    assert quick("sql", question.format(f"VERSION AS OF {first}"), "--json", *project).out == ""

    tail = json.loads(quick("status", "--json", *project).out)["views"]["prices"]["tail"]
    assert tail["rows"] == 1
    assert json.loads(quick("fold", "prices", "--json", *project).out)["folded"]
    assert not json.loads(quick("fold", "prices", "--json", *project).out)["folded"]
    check(shop)

    assert json.loads(quick("drop", "prices", "--json", *project).out)["dropped"]
    assert shop.warehouse.view_names() == ["large_orders"]
    assert quick("reload", "prices", "--json", *project).code == 0
    assert shop.warehouse.view_names() == ["large_orders", "prices"]
    assert quick("reload", "prices", *project).code == 0
    load(shop, spark)
    check(shop)


def test_a_runner_drops_and_reloads_a_view_while_others_go_on(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make()
    shop.publish_every("1 second")
    project = ("--project", str(shop.folder))
    with supervised(shop, spark) as running, writing(shop):
        running.wait_for_more_commits(list(VIEWS), 3)
        assert quick("drop", "prices", *project).code == 0
        assert "prices" not in shop.warehouse.view_names()
        assert running.state("prices") == "stopped"
        running.wait_for_more_commits(["large_orders", "order_lines"], 3)
        assert quick("reload", "prices", *project).code == 0
        running.wait_for_more_commits(list(VIEWS), 3)
        assert quick("reload", "order_lines", *project).code == 0
        running.wait_for_more_commits(list(VIEWS), 3)
    load(shop, spark)
    check(shop)


def test_a_plain_table_that_cannot_be_renewed_is_told_and_the_view_goes_on(
    make: Callable[..., Shop], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make({"by_item": BY_ITEM})
    load(shop, spark)
    shop.publish_every("1 second")
    shop.project = Project.open(shop.folder)

    def fail(*_: object) -> None:
        raise RuntimeError("no memory\nat some place")

    with monkeypatch.context() as broken, supervised(shop, spark) as running:
        broken.setattr(ViewTable, "fold", fail)
        with writing(shop, "stock"):
            running.wait_until(
                lambda: bool(running.runner.describe()["views"]["by_item"]["message"])
            )
            running.wait_for_more_commits(["by_item"], 2)
        found = running.runner.describe()["views"]["by_item"]
        assert found["message"] == "The plain table could not be renewed: no memory"
        assert found["state"] == "running"
    load(shop, spark)
    check(shop)


# Definitions that have changed


def test_a_changed_select_is_refused_until_the_view_is_loaded_again(
    make: Callable[..., Shop],
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = make({"prices": VIEWS["prices"]})
    load(shop, spark)
    before = contents_of(shop.warehouse.path)
    file = shop.folder / "views" / "prices.sql"
    file.write_text(file.read_text().replace("l.item, l.price", "l.item, l.price, l.qty"))
    refused = failing(monkeypatch, capsys, "run", "--project", str(shop.folder))
    assert refused.code == 2
    assert refused.err == (
        "headwater: The SELECT of view prices has changed since it was loaded. "
        "Run headwater reload prices.\n"
    )
    assert contents_of(shop.warehouse.path) == before
    assert quick("reload", "prices", "--project", str(shop.folder)).code == 0
    assert "qty" in shop.warehouse.view("prices").schema.names
    assert quick("run", "--once", "--project", str(shop.folder)).code == 0


def test_a_column_that_no_view_uses_may_be_added_between_runs(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({"prices": VIEWS["prices"], "by_item": BY_ITEM})
    load(shop, spark)
    with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
        stock.execute("ALTER TABLE lines ADD COLUMN note TEXT")
        stock.execute("INSERT INTO lines VALUES (1, 55, 2, 9.75, 'new')")
    load(shop, spark)
    for name in ("by_item", "prices"):
        assert 55 in {row[0] for row in shop.warehouse.view(name).rows()}
        assert verify_view(shop.project, name, spark).holds


def test_a_table_that_changes_under_a_runner_concerns_only_the_views_that_use_what_changed(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({"by_item": BY_ITEM, "large_orders": VIEWS["large_orders"]})
    with supervised(shop, spark) as running:
        running.wait_for_the_end()
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("ALTER TABLE lines ADD COLUMN note TEXT")
            stock.execute("INSERT INTO lines VALUES (1, 55, 2, 9.75, 'new')")
        running.wait_for_more_commits(["by_item"], 1)
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("ALTER TABLE lines RENAME COLUMN qty TO pieces")
        running.wait_until(lambda: running.state("by_item") == "stopped")
        with writing(shop, "shop", "crm"):
            running.wait_for_more_commits(["large_orders"], 1)
    assert 55 in {row[0] for row in shop.warehouse.view("by_item").rows()}


OTHERWISE = "CREATE TABLE lines (price BIGINT, qty TEXT, item BIGINT, order_id BIGINT)"


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE lines DROP COLUMN price", "ALTER TABLE lines ADD COLUMN price BIGINT"],
        ["ALTER TABLE lines ALTER COLUMN price TYPE TEXT"],
        ["DROP TABLE lines", OTHERWISE],
    ],
    ids=["dropped and added", "altered", "made again"],
)
def test_a_view_goes_on_beside_a_runner_when_its_columns_have_other_types(
    make: Callable[..., Shop], spark: SparkSession, statements: Sequence[str]
) -> None:
    shop = make({"by_item": BY_ITEM})
    with supervised(shop, spark) as running:
        running.wait_for_the_end()
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            for statement in statements:
                stock.execute(statement.encode())
            stock.execute("INSERT INTO lines (order_id, item, qty, price) VALUES (1, 55, '2', '9')")
        if "DROP TABLE" in statements[0]:
            assert quick("repair", "stock", "--project", str(shop.folder)).code == 0
        running.wait_until(lambda: 55 in {row[0] for row in shop.warehouse.view("by_item").rows()})
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("INSERT INTO lines (order_id, item, qty, price) VALUES (1, 56, '2', '9')")
        running.wait_until(lambda: 56 in {row[0] for row in shop.warehouse.view("by_item").rows()})
        running.wait_until(lambda: running.state("by_item") == "running")
    assert verify_view(shop.project, "by_item", spark).holds


def test_a_source_that_was_set_up_anew_is_followed_once_it_is_repaired(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({"by_item": BY_ITEM})
    project = ("--project", str(shop.folder))
    load(shop, spark)
    with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
        for number in (1, 2):
            stock.execute(f"INSERT INTO lines VALUES (1, {number}, 2, 9.75)".encode())
    assert quick("teardown", "stock", *project).code == 0
    assert quick("setup", "stock", *project).code == 0
    with pytest.raises(HeadwaterError, match="headwater repair stock"):
        quick("run", "--once", *project)
    assert quick("repair", "stock", *project).code == 0
    assert verify_view(shop.project, "by_item", spark).holds


def contents_of(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, to see that nothing was written."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# No room


def test_a_change_log_without_room_is_told_and_nothing_of_it_counts(
    make: Callable[..., Shop], spark: SparkSession
) -> None:
    shop = make({"by_item": BY_ITEM})
    load(shop, spark)
    running = Running(shop, before=_allow_small_files_only)
    try:
        running.wait_until(lambda: running.state("by_item") == "running")
        with psycopg.connect(shop.dsns["stock"], autocommit=True) as stock:
            stock.execute("INSERT INTO lines VALUES (1, 56, 2, 9.75)")
            stock.execute(
                "INSERT INTO lines SELECT id % 30, id, 2, 1.5 FROM generate_series(1, 9999) id"
            )
        assert running.wait() == 1
    finally:
        running.kill()
    assert running.errors == (
        "headwater: The change log of stock cannot be written: File too large. "
        "Look at the disk of the warehouse; nothing that was committed is lost.\n"
    )
    assert [change.number for change in ChangeLog(shop.warehouse.changes, "stock").read()] == [1]
    load(shop, spark)
    check(shop)


def _allow_small_files_only() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))


def test_a_warehouse_that_cannot_be_written_is_told(
    make: Callable[..., Shop],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shop = make({"by_item": BY_ITEM})
    shutil.rmtree(shop.folder / "warehouse")
    (shop.folder / "warehouse").write_text("a file in the way")
    refused = failing(monkeypatch, capsys, "run", "--project", str(shop.folder))
    assert refused.code == 1
    assert refused.err.startswith("headwater: The warehouse cannot be written: ")
    assert len(refused.err.splitlines()) == 1
