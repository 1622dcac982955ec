"""What commands that run for long log: a line for every change of state."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.errors import HeadwaterError
from tests.cli.commands import headwater, quick
from tests.pipeline.small import AMOUNTS, NAMES, Small
from tests.sharing.far_peers import TOKEN, ServeCommand
from tests.sharing.genes import owners


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "project", {"amounts": AMOUNTS, "names": NAMES})


def logged(small: Small, *options: str) -> list[dict[str, Any]]:
    """What a run to where the sources are logs."""
    file = small.folder / "log"
    to = ("--log-file", str(file), "--log-format", "json", *options)
    file.unlink(missing_ok=True)
    with suppress(HeadwaterError):  # some views may stand still
        quick("run", "--once", *small.arguments, *to)
    return [json.loads(line) for line in file.read_text().splitlines()]


def of(found: Sequence[dict[str, Any]], about: str, **fields: Any) -> list[dict[str, Any]]:
    return [f for f in found if f["about"] == about and fields.items() <= f.items()]


def test_a_run_logs_the_life_of_each_view_with_numbers(small: Small, spark: SparkSession) -> None:
    found = logged(small)
    steps = of(found, "view", view="amounts")
    assert [(step["was"], step["state"]) for step in steps] == [
        ("waiting", "loading"),
        ("loading", "running"),
    ]
    assert steps[1]["version"] == small.warehouse.view("amounts").latest().number
    assert steps[1]["rows"] == 2
    assert steps[1]["seconds"] > 0
    states = [each["state"] for each in of(found, "runner")]
    assert states == ["started", "stopping", "stopped"]
    assert {each["source"] for each in of(found, "source", state="read")} == {"shop", "crm"}


def test_transactions_questions_and_commits_are_logged_in_detail(
    small: Small, spark: SparkSession
) -> None:
    small.view_file("pairs").write_text(
        "CREATE MATERIALIZED VIEW pairs USING eca AS SELECT a.id, b.amount "
        "FROM shop.orders a JOIN shop.orders b ON a.amount = b.amount"
    )
    logged(small)
    small.write("shop", "INSERT INTO orders VALUES (3, 30, 'c', 'new')")
    found = logged(small, "--log-level", "debug")
    [transaction] = of(found, "transaction", view="pairs")
    assert (transaction["source"], transaction["rows"]) == ("shop", 1)
    [question] = of(found, "question", view="pairs")
    [answer] = of(found, "answer", view="pairs", label=question["label"])
    assert answer["bytes"] > 0
    [commit] = of(found, "commit", view="pairs")
    assert commit["takes"] == {"shop": [[transaction["number"], transaction["number"]]]}


def test_a_view_that_stops_and_a_source_that_is_away_are_logged_with_why(
    small: Small, spark: SparkSession
) -> None:
    logged(small)
    (small.folder / "crm.db").rename(small.folder / "away")
    small.view_file("amounts").write_text(
        AMOUNTS.replace("id, amount", "id, 1 / (amount - 30) AS amount")
    )
    found = logged(small)
    [amounts] = of(found, "view", view="amounts")
    assert (amounts["level"], amounts["state"]) == ("error", "stopped")
    assert "headwater reload amounts" in amounts["because"]
    [names] = of(found, "view", view="names")
    assert (names["level"], names["state"]) == ("warning", "waiting")
    assert "Source crm: there is no file" in names["because"]
    [ended] = of(found, "runner", state="ended")
    assert amounts["because"] in ended["because"]


def test_a_log_on_standard_error_takes_the_place_of_what_is_shown(small: Small) -> None:
    done = headwater("run", "--once", *small.arguments, "--log-level", "info")
    assert "info view view=amounts state=running" in done.err
    assert "amounts: running" not in done.out


def test_what_is_not_asked_for_is_not_logged(small: Small) -> None:
    done = headwater("run", "--once", *small.arguments)
    assert done.err == ""


def test_a_served_node_logs_requests_without_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_SHARE_TOKEN", TOKEN)
    n1, *_ = owners(tmp_path)
    log = tmp_path / "log"
    server = ServeCommand(tmp_path / "N1", "--log-file", str(log), "--log-format", "json")
    try:
        quick("share", "exchange", server.url, "-c", str(tmp_path / "N9"), "--node", "N9")
        server.process.send_signal(signal.SIGTERM)
    finally:
        server.end()
    found = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["state"] for each in of(found, "node", node=n1.name)] == ["served", "stopped"]
    assert {each["status"] for each in of(found, "request")} == {200}
    assert TOKEN not in log.read_text()
