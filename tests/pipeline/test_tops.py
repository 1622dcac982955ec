"""Views with a top through the running pipeline: loaded, maintained, folded, verified, told of."""

import json
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.sql import SparkSession

from headwater.algebra.rows import Rows
from headwater.errors import HeadwaterError
from headwater.pipeline import api
from headwater.pipeline.runner import Runner
from headwater.pipeline.verify import verify_view
from tests.cli.commands import quick
from tests.pipeline.small import Small, running, wait_until

VIEWS = {
    "by_state": "WITH CHANGES PUBLISH EVERY '0.1 seconds' AS SELECT o.state, count(*) AS n, "
    "sum(o.amount) AS total, min(o.note) AS note FROM shop.orders o GROUP BY o.state",
    "everyone": "WITH COMPLETE CONSISTENCY AS SELECT c.name, o.amount FROM crm.customers c "
    "LEFT JOIN shop.orders o ON o.id = c.id",
    "greatest": "AS SELECT o.id, o.amount FROM shop.orders o ORDER BY o.amount DESC LIMIT 2",
    "shares": "AS SELECT o.state, sum(o.amount) / min(o.amount) AS share FROM shop.orders o "
    "GROUP BY o.state",
}
CHANGES = {
    "shop": [
        "INSERT INTO orders VALUES (3, 5, 'c', 'new'), (4, 7, NULL, NULL)",
        "UPDATE orders SET state = 'old' WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    ],
    "crm": [
        "INSERT INTO customers VALUES (3, 'Cy'), (9, NULL)",
        "DELETE FROM customers WHERE id=1",
    ],
}
LOADED = {
    "by_state": {("new", 2, 30, "a")},
    "everyone": {("Ada", 10)},
    "greatest": {(1, 10), (2, 20)},
    "shares": {("new", 3)},
}
CHANGED = {
    "by_state": {("new", 1, 5, "c"), ("old", 1, 10, "a"), (None, 1, 7, None)},
    "everyone": {("Cy", 5), (None, None)},
    "greatest": {(1, 10), (4, 7)},
    "shares": {("new", 1), ("old", 1), (None, 1)},
}


def no_spark() -> NoReturn:
    raise AssertionError("this is to be done without Spark")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    texts = {name: f"CREATE MATERIALIZED VIEW {name} {text}" for name, text in VIEWS.items()}
    return Small(tmp_path / "project", texts)


def run_once(small: Small, spark: Any) -> dict[str, set[tuple[object, ...]]]:
    api.keep_running(Runner(small.project, spark), once=True, stop=threading.Event())
    return {name: small.rows(name) for name in VIEWS}


def change(small: Small) -> None:
    for database, statements in CHANGES.items():
        for statement in statements:
            small.write(database, statement)


def told_of(small: Small, view: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(quick("status", "--json", *small.arguments).out)
    views = found["views"]
    assert isinstance(views, dict)
    return dict(views[view])


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_a_view_with_a_top_is_loaded_maintained_folded_and_verified(
    small: Small, spark: SparkSession, engine: str
) -> None:
    if engine == "spark":
        settings = small.folder / "headwater.toml"
        settings.write_text(settings.read_text().replace("[spark]", "[spark]\nengine = 'spark'"))
    session: Any = no_spark if engine == "auto" else lambda: spark
    assert run_once(small, session) == LOADED
    change(small)
    assert run_once(small, session) == CHANGED
    given = no_spark if engine == "auto" else spark
    for name in VIEWS:
        assert verify_view(small.project, name, given).holds
        table = small.warehouse.view(name)
        table.fold(given, "f")
        assert set(table.at().plain_rows()) == CHANGED[name]
        assert {tuple(row) for row in table.dataframe(spark).collect()} == CHANGED[name]


def test_verification_finds_what_is_wrong_in_what_is_stored(small: Small) -> None:
    run_once(small, no_spark)
    table = small.warehouse.view("greatest")
    with table.writer("intruder") as writer:
        low = Rows.of(table.schema, [(7, 1)])
        writer.commit(low, table.latest().vector)
    assert small.rows("greatest") == LOADED["greatest"]
    found = verify_view(small.project, "greatest", no_spark)
    assert (found.holds, found.place) == (False, "what is stored")
    assert dict(found.extra.items()) == {(7, 1): 1}


def test_a_row_on_which_the_top_fails_is_named_and_correcting_it_heals(small: Small) -> None:
    run_once(small, no_spark)
    small.write("shop", "INSERT INTO orders VALUES (8, 0, 'z', 'bad')")
    small.write("shop", "INSERT INTO orders VALUES (9, 4, 'y', 'good')")
    with pytest.raises(HeadwaterError, match="shares: Readers keep the last state before this"):
        run_once(small, no_spark)
    assert small.rows("shares") == LOADED["shares"]
    assert "division by zero" in str(told_of(small, "shares")["message"])
    verified = quick("verify", "shares", "greatest", "--json", *small.arguments)
    assert verified.code == 1
    told = [json.loads(line) for line in verified.out.splitlines()]
    assert "division by zero" in told[0]["error"]
    assert (told[0]["view"], told[1]["view"], told[1]["holds"]) == ("shares", "greatest", True)
    small.write("shop", "UPDATE orders SET amount = 3 WHERE id = 8")
    assert run_once(small, no_spark)["shares"] == {("new", 3), ("bad", 1), ("good", 1)}
    assert (
        "message"
        not in json.loads(quick("status", "--json", *small.arguments).out)["views"]["shares"]
    )


def test_a_view_that_cannot_be_verified_does_not_keep_others_from_it(small: Small) -> None:
    run_once(small, no_spark)
    small.write("crm", "ALTER TABLE customers RENAME TO clients")
    verified = quick("verify", "everyone", "greatest", "--json", *small.arguments)
    told = [json.loads(line) for line in verified.out.splitlines()]
    assert (verified.code, [one["holds"] for one in told]) == (1, [False, True])
    assert "customers" in told[0]["error"]


def test_changes_are_told_between_versions_and_by_a_table_that_follows(
    small: Small, spark: SparkSession
) -> None:
    run_once(small, no_spark)
    first = small.project.view("by_state").version
    small.write("shop", "UPDATE orders SET state = 'old' WHERE id = 1")
    run_once(small, no_spark)
    out = quick("changes", "by_state", str(first), "--json", *small.arguments).out
    told = [json.loads(line) for line in out.splitlines()]
    assert {(row["state"], row["n"], row["_change"]) for row in told} == {
        ("new", 2, -1),
        ("new", 1, 1),
        ("old", 1, 1),
    }
    found = small.project.view("by_state").changes(spark, first)
    assert {(row.state, row.n, row._change) for row in found.collect()} == {
        ("new", 2, -1),
        ("new", 1, 1),
        ("old", 1, 1),
    }
    with running(small, spark):
        folder = small.folder / "warehouse" / "by_state_changes"
        wait_until(lambda: (folder / "_delta_log").exists())


def test_check_and_status_say_what_is_stored_and_how_large(small: Small) -> None:
    told = quick("check", "--json", *small.arguments)
    parts = {
        found["view"]: found["stored"]
        for found in map(json.loads, told.out.splitlines())
        if "view" in found
    }
    assert parts["by_state"] == [
        {
            "columns": ["o.state", "o.amount", "o.note"],
            "relations": ["shop.orders"],
            "copy": True,
            "keyed_by": ["o.state"],
            "sums": None,
        }
    ]
    assert ["c.id" in part["keyed_by"] for part in parts["everyone"]] == [True, True]
    text = quick("check", *small.arguments).out
    sentences = " ".join(text.split())
    assert "greatest stores o.id, o.amount of every row of shop.orders" in sentences
    assert "what is shown is evaluated whole whenever it is folded or read" in sentences
    run_once(small, no_spark)
    stored, shown = (told_of(small, "by_state")[name] for name in ("stored", "shown"))
    assert isinstance(stored, dict)
    assert isinstance(shown, dict)
    assert (stored["rows"], shown["rows"]) == (2, 1)
    assert "are stored for 1 that are shown" in " ".join(
        quick("status", *small.arguments).out.split()
    )
