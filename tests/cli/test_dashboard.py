"""`headwater run --serve` and `headwater dashboard`, as people start them."""

from __future__ import annotations

import builtins
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.later import BARE, Later
from headwater.errors import InputError
from tests.cli.commands import quick
from tests.dashboard.commands import Serving
from tests.dashboard.http import get
from tests.pipeline.small import AMOUNTS, Small, wait_until


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "project", {"amounts": AMOUNTS})


def test_an_address_that_others_reach_needs_a_token(small: Small) -> None:
    for command in (["run", "--serve", "0.0.0.0:0"], ["dashboard", "--listen", "0.0.0.0:0"]):
        with pytest.raises(InputError, match=r"others reach this address.*HEADWATER_SERVE_TOKEN"):
            quick(*command, *small.arguments)


def test_serve_may_stand_without_an_address() -> None:
    command = Later("cli.running:run", "").load("run")
    for words in (["--serve"], ["--serve", "--once"], ["--once", "--serve"]):
        assert command.make_context("run", words).params["serve"] == BARE["--serve"]
    words = ["--serve", "127.0.0.1:1", "--once"]
    assert command.make_context("run", words).params["serve"] == "127.0.0.1:1"


def test_what_is_not_installed_is_named(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "headwater.dashboard.server":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"needs uvicorn.*pip install 'headwater\[serve\]'"):
        quick("dashboard", *small.arguments)


def test_a_run_serves_until_it_is_told_to_stop(small: Small) -> None:
    with Serving("run", "--serve", "127.0.0.1:0", *small.arguments) as running:
        wait_until(lambda: get(running.address, "/readyz").status == 200)
        assert "headwater_running 1" in get(running.address, "/metrics").text
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait() == 0
        last = json.loads(running.rest.splitlines()[-1])
    assert last["event"] == "stopped"


def test_a_dashboard_serves_a_warehouse_without_a_runner(small: Small) -> None:
    with Serving("dashboard", "--listen", "127.0.0.1:0", *small.arguments) as running:
        assert get(running.address, "/healthz").status == 200
        told = get(running.address, "/readyz")
        assert (told.status, told.text) == (503, "No runner is at work.\n")
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait() == 0
