"""Gaps in a source's log: who may not pass them is loaded anew or stops, all others go on."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.errors import BrokenLogError, HeadwaterError, SourceError
from headwater.pipeline.feed import Feed
from headwater.pipeline.followed import FollowedSources
from headwater.pipeline.kept_views import KeptViews
from headwater.sources.contract import Broken, Logged, Monitor, Position, Reader
from headwater.sources.sqlite.source import SqliteSource
from headwater.warehouse.warehouse import Warehouse
from tests.cli.commands import quick
from tests.pipeline.small import AMOUNTS, NOTES, Small, running, wait_until

COMPLETE = AMOUNTS.replace("amounts AS", "amounts WITH COMPLETE CONSISTENCY AS")


class Gapped:
    """A monitor that reports a gap before what comes next, as for a TRUNCATE."""

    def __init__(self, monitor: Monitor, columns: dict[str, frozenset[str] | None]) -> None:
        self._monitor = monitor
        self._gap: Broken | None = None
        self._columns = columns

    def read(self, timeout_s: float) -> Sequence[Logged]:
        logged = self._monitor.read(timeout_s)
        found = [item for item in logged if not isinstance(item, Broken)]
        position = next((i.position for i in found if hasattr(i, "position")), None)
        if position is None or self._gap is not None:
            return logged
        columns = None if "everything" in self._columns else self._columns
        self._gap = Broken(columns, "orders was emptied", position)
        return [self._gap, *logged]

    def acknowledge(self, position: Position) -> None:
        self._monitor.acknowledge(position)

    def close(self) -> None:
        self._monitor.close()


@pytest.fixture
def gap(monkeypatch: pytest.MonkeyPatch) -> dict[str, frozenset[str] | None]:
    """The next thing that the source `shop` reports is a gap in these columns."""
    columns: dict[str, frozenset[str] | None] = {}
    opened = SqliteSource.open_monitor

    def open_monitor(
        self: SqliteSource, after: Position | None, reader: Reader | None = None
    ) -> Monitor:
        monitor = opened(self, after, reader)
        return Gapped(monitor, columns) if self.name == "shop" and columns else monitor

    monkeypatch.setattr(SqliteSource, "open_monitor", open_monitor)
    return columns


def test_a_view_is_loaded_anew_behind_a_gap_and_others_pass_it(
    tmp_path: Path, spark: SparkSession, gap: dict[str, frozenset[str] | None]
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    loaded = {name: small.warehouse.view(name).latest().number for name in ("amounts", "notes")}
    gap["shop.orders"] = frozenset({"amount"})
    with running(small, spark) as runner:
        small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
        wait_until(lambda: (1, 11) in small.rows("amounts"), runner.describe)
        wait_until(lambda: (1, "later") in small.rows("notes"), runner.describe)
        wait_until(lambda: "orders was emptied" in runner.views["amounts"].note)
        assert not runner.describe()["views"]["notes"]["note"]
    kinds = {
        name: [c.kind for c in small.warehouse.view(name).commits() if c.number > loaded[name]]
        for name in loaded
    }
    assert "load" in kinds["amounts"]
    assert "load" not in kinds["notes"]


def test_run_once_and_status_tell_why_a_view_was_loaded_anew(
    tmp_path: Path, gap: dict[str, frozenset[str] | None]
) -> None:
    small = Small(tmp_path)
    assert quick("run", "--once", *small.arguments).code == 0
    gap["shop.orders"] = frozenset({"amount"})
    small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
    done = quick("run", "--once", *small.arguments)
    assert done.code == 0
    told = " ".join(done.out.split())
    for text in (told, " ".join(quick("status", *small.arguments).out.split())):
        assert re.search(r"amounts: It was loaded anew at \S+ \S+: orders was emptied\.", text)
        assert "notes: It was" not in text


def test_status_tells_why_and_since_when_a_view_has_stopped_also_when_nothing_runs(
    tmp_path: Path, gap: dict[str, frozenset[str] | None]
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS, "notes": NOTES}, "gaps = 'stop'")
    assert quick("run", "--once", *small.arguments).code == 0
    gap["shop.orders"] = None
    small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
    with pytest.raises(HeadwaterError):
        quick("run", "--once", *small.arguments)
    gap.clear()
    assert quick("reload", "notes", *small.arguments).code == 0
    done = quick("status", "--json", *small.arguments)
    assert done.code == 1
    found = json.loads(done.out)
    states = {name: view["state"] for name, view in found["views"].items()}
    assert states == {"amounts": "stopped", "notes": "not running"}
    (trouble,) = found["troubles"]
    assert re.match(r"amounts \(since \S+ \S+\): .* headwater reload amounts", trouble)


@pytest.mark.parametrize("where", ["shop.orders", "everything"])
@pytest.mark.parametrize(
    ("view", "setting"), [(AMOUNTS, "gaps = 'stop'"), (COMPLETE, "")], ids=["as told", "complete"]
)
def test_a_view_stops_at_a_gap_until_it_is_loaded_anew(
    tmp_path: Path,
    spark: SparkSession,
    gap: dict[str, frozenset[str] | None],
    view: str,
    setting: str,
    where: str,
) -> None:
    others = {"notes": NOTES} if where == "shop.orders" else {}
    small = Small(tmp_path, {"amounts": view, **others}, setting)
    small.run(spark)
    gap[where] = frozenset({"amount"})
    small.write("shop", "UPDATE orders SET note = 'later', amount = 11 WHERE id = 1")
    with pytest.raises(HeadwaterError, match=r"orders was emptied. Load it anew: headwater reload"):
        small.run(spark)
    assert small.rows("amounts") == {(1, 10), (2, 20)}
    if others:
        assert small.rows("notes") == {(1, "later"), (2, "b")}
    gap.clear()
    with pytest.raises(HeadwaterError, match="orders was emptied"):  # it is in the change log
        small.run(spark)
    assert quick("reload", "amounts", *small.arguments).code == 0
    small.run(spark)
    assert small.rows("amounts") == {(1, 11), (2, 20)}


def test_a_value_that_does_not_fit_stops_only_views_that_use_it_until_it_is_corrected(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        small.write("shop", "UPDATE orders SET amount = 'oops', note = 'odd' WHERE id = 1")
        wait_until(lambda: runner.views["amounts"].state == "stopped", runner.describe)
        assert "'oops' does not fit" in runner.views["amounts"].message
        assert quick("reload", "notes", *small.arguments).code == 0
        small.write("shop", "UPDATE orders SET amount = 11, note = 'even' WHERE id = 1")
        wait_until(lambda: (1, "even") in small.rows("notes"), runner.describe)
        assert runner.views["notes"].state == "running"
        assert quick("reload", "amounts", *small.arguments).code == 0
        assert small.rows("amounts") == {(1, 11), (2, 20)}
        small.write("shop", "UPDATE orders SET amount = 12 WHERE id = 1")
        wait_until(lambda: small.rows("amounts") == {(1, 12), (2, 20)}, runner.describe)


def test_a_value_that_does_not_fit_is_a_text_where_the_view_casts_it(
    tmp_path: Path, spark: SparkSession
) -> None:
    cast = AMOUNTS.replace("amounts", "texts").replace("amount FROM", "CAST(amount AS STRING) FROM")
    small = Small(tmp_path, {"texts": cast.replace(") FROM", ") AS amount FROM"), "notes": NOTES})
    small.write("shop", "UPDATE orders SET amount = 'oops' WHERE id = 1")
    small.run(spark)
    small.write("shop", "UPDATE orders SET amount = x'00ff' WHERE id = 2")
    small.run(spark)
    assert small.rows("texts") == {(1, "oops"), (2, "X'00FF'")}
    assert quick("verify", "texts", *small.arguments).code == 0


def test_a_load_that_fails_behind_a_gap_is_not_said_to_have_been_made(
    tmp_path: Path, spark: SparkSession, gap: dict[str, frozenset[str] | None]
) -> None:
    small = Small(tmp_path, {"amounts": AMOUNTS})
    small.run(spark)
    gap["shop.orders"] = frozenset({"amount"})
    small.write("shop", "INSERT INTO orders VALUES (3, 'oops', '', '')")
    with running(small, spark) as runner:
        wait_until(lambda: runner.views["amounts"].state == "stopped", runner.describe)
        assert runner.views["amounts"].note == ""


# Repair


def test_a_repair_sets_the_source_up_again_and_loads_its_views_in_place(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    small.run(spark)
    source = small.project.sources["shop"]
    source.teardown()
    source.setup()
    small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
    with pytest.raises(BrokenLogError, match="headwater repair shop"):
        small.run(spark)
    assert small.rows("amounts") == {(1, 10), (2, 20)}
    before = {name: small.warehouse.view(name).latest().number for name in small.project.view_files}
    assert quick("repair", "shop", *small.arguments).code == 0
    assert small.rows("amounts") == {(1, 11), (2, 20)}
    assert small.warehouse.view("amounts").latest().number > before["amounts"]
    assert small.warehouse.view("names").latest().number == before["names"]
    small.write("shop", "UPDATE orders SET amount = 12 WHERE id = 1")
    small.run(spark)
    assert small.rows("amounts") == {(1, 12), (2, 20)}


def test_a_file_that_lacks_a_table_is_repaired_for_the_views_of_its_other_tables(
    tmp_path: Path,
) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "headwater.toml").write_text("[sources.crm]\nkind = 'sqlite'\npath = 'crm.db'\n")
    for table in ("kept", "gone"):
        view = f"CREATE MATERIALIZED VIEW {table} AS SELECT id FROM crm.{table}"
        (tmp_path / "views" / f"{table}.sql").write_text(view)
    create = "CREATE TABLE {0} (id INTEGER PRIMARY KEY); INSERT INTO {0} VALUES ({1});"

    def execute(file: str, *tables: tuple[str, int]) -> None:
        with contextlib.closing(sqlite3.connect(tmp_path / file)) as connection:
            connection.executescript("".join(create.format(*table) for table in tables))

    def rows(view: str) -> set[tuple[object, ...]]:
        return set(Warehouse(tmp_path / "warehouse").view(view).rows())

    execute("crm.db", ("kept", 1), ("gone", 2))
    arguments = ("-p", str(tmp_path))
    assert quick("setup", "crm", *arguments).code == 0
    assert quick("run", "--once", *arguments).code == 0
    execute("other.db", ("kept", 3))
    (tmp_path / "other.db").replace(tmp_path / "crm.db")
    with pytest.raises(HeadwaterError, match="headwater repair crm"):
        quick("run", "--once", *arguments)
    says = "crm is set up again, but not every view .* there is no table gone"
    with pytest.raises(HeadwaterError, match=says):
        quick("repair", "crm", *arguments)
    assert (rows("kept"), rows("gone")) == ({(3,)}, {(2,)})
    execute("crm.db", ("gone", 4))
    assert quick("setup", "crm", *arguments).code == 0
    assert quick("reload", "gone", *arguments).code == 0
    assert rows("gone") == {(4,)}


def test_a_runner_repairs_a_source_while_the_views_of_others_go_on(
    tmp_path: Path, spark: SparkSession
) -> None:
    small = Small(tmp_path)
    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        source = small.project.sources["shop"]
        source.teardown()
        source.setup()
        wait_until(lambda: runner.views["amounts"].state == "stopped", runner.describe)
        small.write("crm", "UPDATE customers SET name = 'Eve' WHERE id = 1")
        wait_until(lambda: small.rows("names") == {(1, "Eve")})
        assert quick("repair", "shop", *small.arguments).code == 0
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: small.rows("amounts") == {(1, 11), (2, 20)})
        assert runner.views["names"].state == "running"


def test_a_repair_tells_that_it_was_made_although_another_source_keeps_a_view_back(
    tmp_path: Path, spark: SparkSession
) -> None:
    both = (
        "CREATE MATERIALIZED VIEW both AS "
        "SELECT o.id, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.id"
    )
    small = Small(tmp_path, {"both": both})
    small.run(spark)
    for source in small.project.sources.values():
        source.set_up_again()
    says = "shop is set up again, but not every view of it could be loaded: .*headwater repair crm"
    with pytest.raises(HeadwaterError, match=says):
        quick("repair", "shop", *small.arguments)
    assert quick("repair", "crm", *small.arguments).code == 0
    assert small.rows("both") == {(1, "Ada")}


def test_views_go_on_after_a_repair_that_a_runner_could_not_do(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path)

    def refused(*_: object) -> None:
        raise SourceError("Source shop: it is read-only.")

    with running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        monkeypatch.setattr(FollowedSources, "set_up_again", refused)
        with pytest.raises(HeadwaterError, match="it is read-only"):
            quick("repair", "shop", *small.arguments)
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: small.rows("amounts") == {(1, 11), (2, 20)}, runner.describe)


def test_views_go_on_by_themselves_after_a_repair_that_was_cut_short(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path)
    small.run(spark)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(KeptViews, "_bring_up", killed)
        assert quick("repair", "shop", *small.arguments).code != 0
    small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
    small.run(spark)
    assert small.rows("amounts") == {(1, 11), (2, 20)}


def test_a_damaged_change_log_is_repaired(tmp_path: Path, spark: SparkSession) -> None:
    small = Small(tmp_path)
    small.run(spark)
    for amount in (11, 12, 13):
        small.write("shop", f"UPDATE orders SET amount = {amount} WHERE id = 1")
        small.run(spark)
    segment = sorted((small.warehouse.changes.local / "shop").glob("*.log"))[1]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    small.write("shop", "UPDATE orders SET amount = 14 WHERE id = 1")
    assert quick("repair", "shop", *small.arguments).code == 0
    assert small.rows("amounts") == {(1, 14), (2, 20)}
    small.write("shop", "UPDATE orders SET amount = 15 WHERE id = 1")
    small.run(spark)
    assert small.rows("amounts") == {(1, 15), (2, 20)}


def test_an_end_of_a_thread_reaches_the_views(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path)
    small.run(spark)

    def fail(self: Feed, *_: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as broken, running(small, spark) as runner:
        wait_until(lambda: all(s.state == "running" for s in runner.views.values()))
        broken.setattr(Feed, "record", fail)
        small.write("shop", "UPDATE orders SET amount = 11 WHERE id = 1")
        wait_until(lambda: runner.views["amounts"].state == "stopped", runner.describe)
        assert "MemoryError: no room" in runner.views["amounts"].message
        wait_until(lambda: quick("status", *small.arguments).code == 1)
        assert "no room" in quick("status", *small.arguments).out
    small.run(spark)
    assert small.rows("amounts") == {(1, 11), (2, 20)}
