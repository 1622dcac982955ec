"""What is answered over HTTP, about a project that stands in a folder and one that runs."""

from __future__ import annotations

import base64
import threading
import time
from pathlib import Path
from typing import NoReturn

import pytest

from headwater.dashboard.board import Board
from headwater.pipeline.api import keep_running
from headwater.pipeline.runner import Runner
from tests.dashboard.http import events, get, served
from tests.pipeline.small import AMOUNTS, NAMES, Small, supervised, wait_until

TOKEN = "a-token-of-these-tests"


def no_spark() -> NoReturn:
    raise AssertionError("Spark was started")


def run(small: Small) -> None:
    keep_running(Runner(small.project, no_spark), once=True, stop=threading.Event())


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "project", {"amounts": AMOUNTS, "names": NAMES})


def test_a_page_is_answered_with_a_strict_policy(small: Small) -> None:
    with served(Board(small.folder)) as address:
        found = get(address, "/")
    assert found.status == 200
    assert found.headers["content-type"].startswith("text/html")
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"


def test_only_who_knows_the_token_is_answered(small: Small) -> None:
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    with served(Board(small.folder), TOKEN) as address:
        for path in ("/", "/metrics", "/api/state", "/events", "/api/views/amounts/rows"):
            found = get(address, path)
            assert found.status == 401
            assert found.headers["www-authenticate"].startswith("Basic")
        wrong = {"Authorization": "Bearer another-token-of-these"}
        assert get(address, "/metrics", wrong).status == 401
        assert get(address, "/metrics", {"Authorization": f"Bearer {TOKEN}"}).status == 200
        assert get(address, "/metrics", {"Authorization": f"Basic {basic}"}).status == 200
        assert get(address, "/healthz").status == 200
        told = get(address, "/readyz")
    assert (told.status, told.text) == (503, "not ready\n")


def test_a_page_from_elsewhere_cannot_have_its_own_name_point_here(small: Small) -> None:
    with served(Board(small.folder)) as address:
        assert get(address, "/api/state", {"Host": "evil.example:7460"}).status == 403
        assert get(address, "/api/state", {"Host": "localhost:7460"}).status == 200


def test_nothing_can_be_sent(small: Small) -> None:
    with served(Board(small.folder)) as address:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            assert get(address, "/api/state", method=method).status == 405


def test_a_runner_is_followed_from_its_start_to_its_views(small: Small) -> None:
    runner = Runner(small.project, no_spark)
    board = Board(small.folder, runs=True, recent=runner.recent)
    with served(board) as address:
        assert get(address, "/healthz").status == 503  # it has not said anything yet
        with supervised(runner):
            wait_until(lambda: {v.state for v in runner.views.values()} == {"running"})
            board.tell(runner.describe())
            assert get(address, "/healthz").text == "ok\n"
            wait_until(lambda: get(address, "/readyz").text == "ok\n")
            small.write("shop", "INSERT INTO orders VALUES (3, 30, 'c', 'new')")
            wait_until(lambda: (3, 30) in small.rows("amounts"))
            board.tell(runner.describe())
            metrics = get(address, "/metrics").text
            assert 'headwater_view_commits_total{view="amounts"} 1\n' in metrics
            assert 'headwater_view_lag_transactions{view="amounts",source="shop"} 0\n' in metrics
            wait_until(lambda: 'retained_rows{source="shop"}' in get(address, "/metrics").text)
            steps = get(address, "/api/views/amounts/recent").json
    kinds = [step["kind"] for step in steps]
    assert kinds == ["transaction", "commit"]
    assert steps[1]["takes"] == [["shop", steps[0]["number"], steps[0]["number"]]]


def test_a_page_is_sent_what_has_changed(small: Small) -> None:
    board = Board(small.folder)
    with served(board) as address, events(address) as said:
        assert next(said)[0] == "history"
        name, found = next(said)
        assert name == "state"
        assert next(said)[1]["now"] > found["now"]


def test_an_open_page_does_not_keep_a_server_from_stopping(small: Small) -> None:
    with served(Board(small.folder)) as address, events(address) as said:
        next(said)
        began = time.monotonic()
    assert time.monotonic() - began < 600
    with pytest.raises(OSError, match="refused"):
        get(address, "/healthz")


def test_what_a_view_is_has_and_did_is_told_without_a_runner(small: Small) -> None:
    run(small)
    small.write("shop", "INSERT INTO orders VALUES (3, 30, '<b>c</b>', 'new')")
    run(small)
    with served(Board(small.folder)) as address:
        definition = get(address, "/api/views/amounts/definition").json
        assert definition["files"] == [{"name": "amounts.sql", "text": AMOUNTS}]
        assert definition["explanation"]["algorithm"] == "sweep"
        [table] = get(address, "/api/views/amounts/rows").json["tables"]
        assert table["columns"] == ["id", "amount"]
        assert sorted(table["rows"])[-1] == ["3", "30"]
        versions = get(address, "/api/views/amounts/versions").json["versions"]
        change = next(each for each in versions if each["kind"] == "change")
        assert (change["rows"], change["takes"][0][0]) == (1, "shop")
        changed = get(address, f"/api/views/amounts/changes/{change['number']}").json
        assert changed["rows"] == [[1, "3", "30"]]
        assert get(address, "/api/views/nothing/rows").status == 404
        found = get(address, "/api/views/names/recent").json
    assert found == []
